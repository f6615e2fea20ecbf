"""The copy of rows of some tables for a changefeed that runs.

It goes on beside delivery, which it stops only at its end, and only of its tables: they are held
where no destination has more of them, then all of the log up to the rows' place is delivered, and
the owner begins an epoch whose log has the rows there (``cdc.snapshot.log``).
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, InternalError, TidegateError, text_of_foreign
from cdc.base.parts import Parts
from cdc.base.position import Stand
from cdc.base.ts import Ts
from cdc.changelog.errors import LogCollected
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    CopiedRows,
    CopyOrder,
    CopyReport,
    ErrorInfo,
    FeedInfo,
    RowsPiece,
    SnapshotProgress,
)
from cdc.schema.table import Table
from cdc.snapshot.definitions import Definitions
from cdc.snapshot.log import SnapshotRows
from cdc.snapshot.place import free_place
from cdc.snapshot.servers import SourceServers
from cdc.snapshot.settle import StagedTable, TableToSettle, room
from cdc.snapshot.target_only import TargetOnly
from processor.chunks_at_once import CopyStopped
from processor.jobs import JobRunner
from processor.row_copy import RowCopy, TablesKeepChanging, unchanged
from processor.settings import ProcessorSettings
from processor.standing import Standing

_log = logging.getLogger("processor")

# While a place is looked for, rows of the log may touch more keys; each may need a ts.
_SPARE = 1000


def piece_rows(log_folder: Path, info: FeedInfo, piece: RowsPiece) -> SnapshotRows | None:
    """The rows of a piece; None if they are gone. What other orders have left is removed."""
    folder = _folder(log_folder, info, piece.id)
    for other in folder.parent.glob("*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    rows = folder / "rows"
    return SnapshotRows(str(rows), piece.ts, piece.base_ts) if rows.is_dir() else None


def remove_pieces(log_folder: Path, info: FeedInfo) -> None:
    """Remove all that was copied by orders for a changefeed."""
    shutil.rmtree(_folder(log_folder, info, "").parent, ignore_errors=True)


def _folder(log_folder: Path, info: FeedInfo, order: str) -> Path:
    return log_folder / "copied" / info.id / f"{info.incarnation}-{order}"


class TablesLeftOut:
    """Tables that had all of their rows when those of others were lost.

    One that a statement has been about since counts no more: it may be another one by now.
    """

    def __init__(self, log: ChangeLog, info: FeedInfo, copied: CopiedRows | None) -> None:
        self._names: frozenset[str] = frozenset()
        self._since_ts: Ts = 0
        self._definitions: Definitions | None = None
        if info.again is None or copied is None or copied.ts != info.snapshot_ts:
            return
        self._names = copied.delivered(info.again.main_ts, info.again.tables)
        self._since_ts = copied.ts
        try:
            self._definitions = Definitions(log, copied.ts)
        except LogCollected:
            # What was said of them is not known any more.
            self._names = frozenset()

    def __call__(self, name: str, ts: Ts) -> bool:
        """Whether ``schema.table`` is left out of what is read as of ``ts``."""
        known = self._definitions
        return name in self._names and known is not None and known.same(name, self._since_ts, ts)


class TableCopying:
    """Carries out one order in one epoch of a changefeed.

    ``copied`` says which tables had all their rows when those of a first copy were lost.
    ``caps``, ``copied`` and ``answer`` are for the changefeed's thread, which ``poke`` wakes.
    """

    def __init__(
        self,
        order: CopyOrder,
        info: FeedInfo,
        log_folder: Path,
        jobs: JobRunner,
        settings: ProcessorSettings,
        server: Callable[[threading.Event], SourceServers],
        clock: Clock,
        parts: Parts,
        poke: Callable[[], None],
        copied: Callable[[], CopiedRows | None] = lambda: None,
    ) -> None:
        self.order = order
        self._copied_rows = copied
        self._info = info
        self._log_folder = log_folder
        self._jobs = jobs
        self._settings = settings
        self._server = server
        self._clock = clock
        self._poke = poke
        self._copied = CopyReport(id=order.id)
        self._asked: frozenset[str] | None = None
        self._caps: Mapping[str, Ts] = {}
        self._held_ts: Ts = 0
        self._held = threading.Event()
        self._go_on_reading = threading.Event()
        self._go_on_reading.set()
        self._backoff = Backoff(settings.retry_first_s, max_s=settings.retry_max_s)
        self._stopping = threading.Event()
        self._parts = parts
        name = f"changefeed {info.id} copies {order.id}"
        self._part = parts.make(name, self._go_on, self._stopping)

    @property
    def copied(self) -> CopyReport:
        """How far it is."""
        return self._copied

    @property
    def caps(self) -> Mapping[str, Ts]:
        """Tables of which nothing above a ts may be delivered."""
        return self._caps

    @property
    def paused(self) -> bool:
        """Whether nothing more is read."""
        return not self._go_on_reading.is_set()

    def start(self) -> None:
        """Begin to copy."""
        self._part.start()

    def pause(self, paused: bool) -> None:
        """Read nothing more, or go on; what was read is kept. Tables are not held meanwhile."""
        (self._go_on_reading.clear if paused else self._go_on_reading.set)()

    def stop(self, timeout_s: float) -> None:
        """End after the chunks that are being read."""
        self._stopping.set()
        self._held.set()
        self._part.join(timeout_s)
        self._parts.forget(self._part)

    def answer(
        self, standing: Standing, ahead: Iterable[Stand], ties: Iterable[tuple[str, str]]
    ) -> None:
        """Hold the tables if that is asked for, and those that keys of the target tie to them.

        ``ahead``: what destinations have that are ahead of where tables stand.
        """
        asked = self._asked
        if asked is None or self._caps:
            return
        names = _closed(asked, ties)
        here = [standing.of(name).ts for name in names]
        self._held_ts = max([*here, *(at.of(name).ts for at in ahead for name in names)])
        self._caps = dict.fromkeys(names, self._held_ts)
        self._held.set()

    def _go_on(self) -> bool:
        folder = _folder(self._log_folder, self._info, self.order.id)
        try:
            # Of older orders, too: none of them is delivered any more.
            remove_pieces(self._log_folder, self._info)
            log = ChangeLog.open(self._log_folder)
            try:
                copy = self._copy(log, folder)
                copy.run()
            finally:
                log.close()
        except CopyStopped:
            return False
        except TidegateError as e:
            return self._failed(e)
        except Exception as e:
            _log.exception("changefeed %s: a copy of rows has failed", self._info.id)
            text = text_of_foreign(e)
            return self._failed(InternalError(text, object=f"changefeed {self._info.id}"))
        self._copied = self._copied.model_copy(
            update={"progress": copy.progress, "tables": sorted(self._asked or ()), "error": None}
        )
        self._poke()
        return False

    def _copy(self, log: ChangeLog, folder: Path) -> RowCopy:
        config = FeedConfig.model_validate(self._info.config)
        ours = {"tables": self.order.tables, "where": self.order.where}
        config = config.model_copy(update={"snapshot": config.snapshot.model_copy(update=ours)})
        known = self._copied_rows() if self.order.again else None
        return _Between(
            self._info.id, config, log, folder, self._jobs, self._settings, self._server,
            self._note, self._clock, self._stopping, self._go_on_reading, self._hold, self._raise,
            TablesLeftOut(log, self._info, known),
            TargetOnly(self.order.key, self.order.target_only),
        )  # fmt: skip

    def _failed(self, error: TidegateError) -> bool:
        """Show it; whether it is tried again."""
        if self._stopping.is_set():
            return False
        _log.warning("changefeed %s: a copy of rows has failed: %s", self._info.id, error)
        said = ErrorInfo.of(error, self._clock.now_ms())
        self._asked, self._caps = None, {}
        self._held.clear()
        self._copied = self._copied.model_copy(update={"error": said})
        self._poke()
        if error.kind is not ErrorKind.TRANSIENT:
            return False
        self._backoff = self._backoff.failed()
        return not self._stopping.wait(self._backoff.delay_s())

    def _note(self, progress: SnapshotProgress) -> None:
        self._copied = self._copied.model_copy(update={"progress": progress})
        self._poke()

    def _hold(self, tables: frozenset[str]) -> Ts:
        """A ts that no destination is above with one of the tables, nor will be."""
        self._asked = tables
        self._poke()
        self._held.wait()
        if self._stopping.is_set():
            raise CopyStopped
        return self._held_ts

    def _raise(self, ts: Ts) -> None:
        """Let the tables go on up to ``ts``."""
        self._caps = dict.fromkeys(self._caps, ts)
        self._poke()


class _Between(RowCopy):
    """A copy whose rows come between changes."""

    def __init__(
        self,
        feed: str,
        config: FeedConfig,
        log: ChangeLog,
        folder: Path,
        jobs: JobRunner,
        settings: ProcessorSettings,
        open_servers: Callable[[threading.Event], SourceServers],
        note: Callable[[SnapshotProgress], None],
        clock: Clock,
        stopping: threading.Event,
        go_on: threading.Event,
        hold: Callable[[frozenset[str]], Ts],
        let: Callable[[Ts], None],
        left_out: TablesLeftOut,
        target_only: TargetOnly,
    ) -> None:
        super().__init__(
            feed, config, log, folder, jobs, settings, open_servers, note, clock, stopping, go_on
        )
        self._hold = hold
        self._let = let
        self._left_out = left_out
        self._target_only = target_only

    def _with_target_only(self, staged: StagedTable, servers: SourceServers) -> StagedTable:
        if not self._target_only.keys:
            return staged
        number = staged.stored.table_id
        path = self._folder / "chunks" / f"{number}-{staged.low_ts}-target-only"
        gone = self._target_only.write(staged.table, servers.kind, number, path)
        return replace(staged, target_only=gone)

    def _tables(self, definitions: Definitions, ts: Ts) -> list[Table]:
        found = super()._tables(definitions, ts)
        return [table for table in found if not self._left_out(table.full_name, ts)]

    def _place(
        self, definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
    ) -> tuple[Sequence[TableToSettle], Ts, Ts]:
        tables = list(staged.values())
        held_ts = self._hold(frozenset(name.lower() for name in staged))
        _, base_ts = room(self._log, tables, ts)
        length = ts - base_ts + _SPARE
        while True:
            self._log.refresh()
            found_ts = free_place(self._log, held_ts, ts, length)
            if found_ts is not None:
                found, base_ts = room(self._log, tables, found_ts)
                if len(unchanged(definitions, staged, found_ts)) < len(tables):
                    raise TablesKeepChanging("a table changed at last", object=self._feed)
                if base_ts >= found_ts - 1 - length:
                    self._let(base_ts)
                    return found, base_ts, found_ts
                length = found_ts - base_ts + _SPARE
            self._pause()


def _closed(tables: Iterable[str], ties: Iterable[tuple[str, str]]) -> frozenset[str]:
    """With all that is tied to them."""
    found, pairs = set(tables), list(ties)
    while True:
        more = {b for a, b in pairs if a in found} | {a for a, b in pairs if b in found}
        if more <= found:
            return frozenset(found)
        found |= more
