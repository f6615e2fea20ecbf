"""The copy of rows that were there before a changefeed, which comes before its delivery.

Each table is read in chunks by Spark's tasks, at whatever moments; what the log says of the rows
since then brings all of them to one ts (``cdc.snapshot.settle``). The owner then begins delivery
there: a changefeed that copies delivers nothing, and one that delivers knows only a log that begins
with rows. A table whose definition changes meanwhile is read again, and no other.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import InternalError, TidegateError, text_of_foreign
from cdc.base.parts import Parts
from cdc.base.position import Position, TransactionName
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    Assignment,
    CopiedRows,
    CopiedTable,
    ErrorInfo,
    FeedInfo,
    Report,
    SnapshotProgress,
)
from cdc.coord.snapshot_config import OnExisting
from cdc.snapshot.definitions import Definitions
from cdc.snapshot.log import SnapshotLost, SnapshotRows
from cdc.snapshot.servers import SourceServers
from cdc.snapshot.settle import SettledRows, StagedTable, TableToSettle, room
from processor.chunks_at_once import CopyStopped
from processor.jobs import JobRunner
from processor.reporter import Reporter
from processor.row_copy import RowCopy, TablesKeepChanging, unchanged
from processor.settings import ProcessorSettings
from processor.standing import Standing
from processor.transaction_names import TransactionNames

_log = logging.getLogger("processor")
# Of more tables it is not kept which of them have all their rows.
_MOST_TABLES = 5000


class _First(RowCopy):
    """A copy that all of a changefeed begins with."""

    def _place(
        self, definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
    ) -> tuple[Sequence[TableToSettle], Ts, Ts]:
        tables = list(staged.values())
        found, base_ts = room(self._log, tables, ts)
        # No statement may lie among the rows: they have the schema of their end.
        while len(self._log.ddls(base_ts, ts)) or base_ts < self._log.state.first_ts:
            self._pause()
            ts = self._log.refresh().resolved_ts
            if len(unchanged(definitions, staged, ts)) < len(tables):
                raise TablesKeepChanging("a table changed at last", object=self._feed)
            found, base_ts = room(self._log, tables, ts)
        return found, base_ts, ts


def rows_folder(log_folder: Path, info: FeedInfo) -> Path:
    """Where the copied rows of a changefeed lie."""
    return log_folder / "snapshot" / info.id / str(info.incarnation)


def remove_rows(log_folder: Path, exists: Callable[[str], bool]) -> None:
    """Remove what was copied for changefeeds that are not there any more.

    ``exists`` is asked for each name that has something here.
    """
    for folder in (log_folder / "snapshot", log_folder / "copied"):
        for one in folder.glob("*"):
            if not exists(one.name):
                shutil.rmtree(one, ignore_errors=True)


def remove_delivered(log_folder: Path, feed: str) -> None:
    """Remove the rows that a changefeed began with: all of them are delivered."""
    shutil.rmtree(log_folder / "snapshot" / feed, ignore_errors=True)


def copied_rows(log_folder: Path, info: FeedInfo, lowest: Ts) -> SnapshotRows | None:
    """The copied rows, until the owner has stored that all are delivered; then they are removed.

    Raises SnapshotLost if they are not there, and one that stands at ``lowest`` has still some of
    them before it.
    """
    folder = rows_folder(log_folder, info)
    if info.rows_delivered:
        remove_delivered(log_folder, info.id)
        return None
    if not (folder / "rows").is_dir():
        if lowest >= info.snapshot_ts:
            return None
        raise SnapshotLost(
            "the rows that were copied for it are gone, and not all of them are delivered",
            object=f"changefeed {info.id}",
            position=f"ts {lowest}",
            hint="resume --copy-again delivers the changes since, and copies what tables lack anew:"
            " some rows come twice; or remove the changefeed and create it anew",
        )
    existing = FeedConfig.model_validate(info.config).snapshot.on_existing
    upsert = existing is OnExisting.UPSERT
    return SnapshotRows(str(folder / "rows"), info.snapshot_ts, upsert=upsert)


class Copying:
    """Copies rows for one changefeed in one epoch. ``update`` and ``stop`` come from others."""

    def __init__(
        self,
        info: FeedInfo,
        assignment: Assignment,
        log: ChangeLog,
        log_folder: Path,
        jobs: JobRunner,
        settings: ProcessorSettings,
        server: Callable[[threading.Event], SourceServers],
        publish: Callable[[Report], None],
        clock: Clock,
        parts: Parts,
    ) -> None:
        self._info = info
        self._assignment = assignment
        self._log = log
        self._folder = rows_folder(log_folder, info)
        self._jobs = jobs
        self._settings = settings
        self._open_servers = server
        self._clock = clock
        self._progress = SnapshotProgress(began_ms=clock.now_ms())
        self._copied_rows: CopiedRows | None = None
        self._stopping = threading.Event()
        self._parts = parts
        self._part = parts.make(
            f"changefeed {info.id}", self._go_on, self._stopping, changefeed=info.id
        )
        self._reporter = Reporter(publish, settings, clock, self._part, self._stopping)

    @property
    def epoch(self) -> int:
        """The epoch of its assignment."""
        return self._assignment.epoch

    def start(self) -> None:
        """Begin to copy."""
        self._part.start()

    def update(self, assignment: Assignment) -> None:
        """Nothing that the owner says of barriers concerns a copy."""
        self._assignment = assignment

    def wake(self) -> None:
        """The log has resolved more: it is asked when it matters."""

    def stop(self, timeout_s: float) -> None:
        """End after the chunks that are being read."""
        self._stopping.set()
        self._part.join(timeout_s)
        self._parts.forget(self._part)

    def _go_on(self) -> bool:
        """The whole copy; what ends it is told to the owner, which tries again or does not."""
        try:
            self._report()
            # Of older incarnations, too.
            shutil.rmtree(self._folder.parent, ignore_errors=True)
            config = FeedConfig.model_validate(self._info.config)
            copy = _First(
                self._info.id, config, self._log, self._folder, self._jobs, self._settings,
                self._open_servers, self._note, self._clock, self._stopping,
            )  # fmt: skip
            settled = copy.run()
            self._copied_rows = self._kept(settled)
            self._progress = copy.progress
            self._report()
        except CopyStopped:
            pass
        except TidegateError as e:
            if self._stopping.is_set():
                return False
            _log.warning("changefeed %s: its copy of rows has failed: %s", self._info.id, e)
            self._report(e)
        except Exception as e:
            _log.exception("changefeed %s: its copy of rows has failed", self._info.id)
            text = text_of_foreign(e)
            self._report(InternalError(text, object=f"changefeed {self._info.id}"))
        return False

    def _kept(self, settled: SettledRows) -> CopiedRows:
        """What must be known of the rows where they are lost, with the log that they lie in."""
        known = settled.tables if len(settled.tables) <= _MOST_TABLES else ()
        at = Standing(Position(settled.ts))
        return CopiedRows(
            base_ts=settled.base_ts,
            ts=settled.ts,
            rows=settled.rows,
            tables=[CopiedTable(name=n, last_ts=ts, rows=rows) for n, ts, rows in known],
            transactions={
                t: n.to_list() for t, n in TransactionNames(self._log, {}).names(at).items()
            },
        )

    def _note(self, progress: SnapshotProgress) -> None:
        self._progress = progress
        if self._reporter.rest_s <= 0:
            self._report()

    def _report(self, error: TidegateError | None = None) -> None:
        said = ErrorInfo.of(error, self._clock.now_ms()) if error else None
        names: Mapping[Ts, TransactionName] = {}
        if base_ts := self._progress.base_ts:
            names = TransactionNames(self._log, {}).names(Standing(Position(base_ts), {}))
        self._reporter.tell(
            Report(
                feed=self._info.id,
                epoch=self._assignment.epoch,
                checkpoint_ts=self._assignment.checkpoint_ts,
                resolved_ts=self._log.state.resolved_ts,
                error=said,
                running=error is None,
                transactions={t: n.to_list() for t, n in names.items()},
                snapshot=self._progress,
                copied_rows=self._copied_rows,
            )
        )
