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
from collections.abc import Callable, Mapping
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import InternalError, TidegateError, TransientError, from_dict
from cdc.base.parts import Parts
from cdc.base.position import Position, TransactionName
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.writer import build_event, format_description
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import Assignment, ErrorInfo, FeedInfo, Report, SnapshotProgress
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk
from cdc.snapshot.definitions import Definitions
from cdc.snapshot.limits import RowRate
from cdc.snapshot.log import SnapshotRows
from cdc.snapshot.reading import SourceServer, TableChunks
from cdc.snapshot.settle import SettledRows, StagedFile, StagedTable, room, settle
from cdc.snapshot.table_map import table_map
from filter.copied import CopiedTables
from processor.catalog import delivered_tables
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import JobRunner
from processor.reporter import Reporter
from processor.settings import ProcessorSettings
from processor.standing import Standing
from processor.transaction_names import TransactionNames

_log = logging.getLogger("processor")

# Reading tables again because they change: so often before the owner is told that it fails.
_ROUNDS = 10
_POLL_S = 0.05
# So often the upstream is asked whether it is less busy.
_LOOK_S = 1.0


class TablesKeepChanging(TransientError):
    """Definitions of tables changed during each attempt to copy their rows."""

    code = "TG:ErrSnapshotTablesChange"


class SnapshotLost(InternalError):
    """The copied rows of a changefeed are not there any more, and not all are delivered."""

    code = "TG:ErrSnapshotLost"


class _Stopped(Exception):
    """The changefeed is stopped."""


def rows_folder(log_folder: Path, info: FeedInfo) -> Path:
    """Where the copied rows of a changefeed lie."""
    return log_folder / "snapshot" / info.id / str(info.incarnation)


def remove_rows(log_folder: Path, exists: Callable[[str], bool]) -> None:
    """Remove what was copied for changefeeds that are not there any more.

    ``exists`` is asked for each name that has something here.
    """
    folder = log_folder / "snapshot"
    if folder.is_dir():
        for one in folder.iterdir():
            if not exists(one.name):
                shutil.rmtree(one, ignore_errors=True)


def copied_rows(log_folder: Path, info: FeedInfo, lowest: Ts) -> SnapshotRows | None:
    """The copied rows, if one that stands at ``lowest`` has still some of them before it.

    Those of a changefeed that has all are removed. Raises SnapshotLost.
    """
    folder = rows_folder(log_folder, info)
    if lowest >= info.snapshot_ts:
        shutil.rmtree(folder.parent, ignore_errors=True)
        return None
    if not (folder / "rows").is_dir():
        raise SnapshotLost(
            "the rows that were copied for it are gone, and not all of them are delivered",
            object=f"changefeed {info.id}",
            position=f"ts {lowest}",
            hint="remove the changefeed and create it anew; it then copies all rows again",
        )
    return SnapshotRows(str(folder / "rows"), info.snapshot_ts)


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
        server: Callable[[threading.Event], SourceServer],
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
        self._open_server = server
        self._clock = clock
        self._config = FeedConfig.model_validate(info.config)
        self._copied = CopiedTables(self._config)
        self._rate = RowRate(self._config.snapshot.max_rows_per_second)
        self._progress = SnapshotProgress(began_ms=clock.now_ms())
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
            settled = self._copy()
            done = {"base_ts": settled.base_ts, "ts": settled.ts, "rows": settled.rows}
            self._progress = self._progress.model_copy(
                update={**done, "ended_ms": self._clock.now_ms()}
            )
            self._report()
        except _Stopped:
            pass
        except TidegateError as e:
            if self._stopping.is_set():
                return False
            _log.warning("changefeed %s: its copy of rows has failed: %s", self._info.id, e)
            self._report(e)
        except Exception as e:
            _log.exception("changefeed %s: its copy of rows has failed", self._info.id)
            text = f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"[:300]
            self._report(InternalError(text, object=f"changefeed {self._info.id}"))
        return False

    def _copy(self) -> SettledRows:
        # Of older incarnations, too.
        shutil.rmtree(self._folder.parent, ignore_errors=True)
        chunks = self._folder / "chunks"
        chunks.mkdir(mode=0o700, parents=True)
        staged: dict[str, StagedTable] = {}
        server = self._open_server(self._stopping)
        try:
            low_ts = self._visible(server)
            # Of all rounds: it goes on where it has read the log's statements.
            definitions = Definitions(self._log, low_ts)
            for _ in range(_ROUNDS):
                tables = self._tables(definitions, low_ts)
                missing = [t for t in tables if t.full_name not in staged]
                self._note(tables=len(tables), tables_done=len(staged))
                failed: dict[str, TidegateError] = {}
                for number, table in enumerate(missing, len(staged) + 1):
                    try:
                        staged[table.full_name] = self._stage(server, table, low_ts, number)
                    except TidegateError as e:
                        # A statement of the log may explain it: then it is read again.
                        failed[table.full_name] = e
                    self._note(tables_done=len(staged))
                ts = self._caught_up(server)
                kept = _unchanged(definitions, staged, ts)
                for name in staged.keys() - kept.keys():
                    _remove(staged[name].files)
                names = {t.full_name for t in self._tables(definitions, ts)}
                staged = {name: kept[name] for name in kept.keys() & names}
                if names == staged.keys():
                    return self._settle(server, definitions, staged, ts)
                for name, error in failed.items():
                    if name in names and definitions.same(name, low_ts, ts):
                        raise error
                low_ts = self._visible(server)
        finally:
            server.close()
        raise TablesKeepChanging(
            f"tables changed during each of {_ROUNDS} attempts to copy their rows",
            object=f"changefeed {self._info.id}",
            hint="leave tables as they are until their rows are copied",
        )

    def _visible(self, server: SourceServer) -> Ts:
        """A ts of which all at or below is seen by whoever reads from now on."""
        state = self._log.refresh()
        server.wait_until_visible(state.position)
        return state.resolved_ts

    def _caught_up(self, server: SourceServer) -> Ts:
        """A ts at or above all that was seen by whoever has read."""
        end = server.end()
        while not server.covers(self._log.refresh().position, end):
            self._pause()
        return self._log.state.resolved_ts

    def _pause(self) -> None:
        if self._stopping.wait(_POLL_S):
            raise _Stopped

    def _tables(self, definitions: Definitions, ts: Ts) -> list[Table]:
        tables = delivered_tables(definitions.at(ts), self._config)
        return [t for t in tables if (t.schema, t.name) in self._copied]

    def _stage(self, server: SourceServer, table: Table, low_ts: Ts, number: int) -> StagedTable:
        """Read a table's rows, some chunks at a time."""
        stored = table_map(table, number, server.kind)
        chunks = server.chunks(table, self._config.snapshot)
        files: list[StagedFile] = []
        while some := self._some(chunks):
            self._hold_back(server)
            began_s = self._clock.monotonic()
            tasks = [
                self._task(server, table, chunks.condition(c), low_ts, number, c) for c in some
            ]
            what = f"{self._info.id}: {len(tasks)} chunks of {table.full_name}"[:200]
            done = self._jobs.read(tasks, what, self._settings.job_timeout_s)
            for chunk, task, read in zip(some, tasks, done, strict=True):
                if read.error is not None:
                    raise from_dict(read.error)
                chunks.measured(chunk, read.seconds)
                files.append(StagedFile(Path(task.path), read.rows, read.events))
                self._rate = self._rate.read(read.rows, began_s)
                self._add(read)
        return StagedTable(table, stored, low_ts, tuple(files))

    def _hold_back(self, server: SourceServer) -> None:
        """Wait as long as the operator's limits say."""
        most = self._config.snapshot.max_threads_running
        lag_s = self._config.snapshot.max_replica_lag
        while True:
            wait_s = self._rate.wait_s(self._clock.monotonic())
            if not wait_s and most and server.threads_running() > most:
                wait_s = _LOOK_S
            if not wait_s and lag_s and server.replica_lag_s() > lag_s:
                wait_s = _LOOK_S
            if not wait_s:
                return
            if self._stopping.wait(min(wait_s, _LOOK_S)):
                raise _Stopped

    def _some(self, chunks: TableChunks) -> list[Chunk]:
        """As many chunks as are read at once, or those that are left."""
        some: list[Chunk] = []
        while len(some) < self._config.snapshot.max_connections:
            if self._stopping.is_set():
                raise _Stopped
            chunk = chunks.next()
            if chunk is None:
                break
            some.append(chunk)
        return some

    def _task(
        self,
        server: SourceServer,
        table: Table,
        condition: str,
        low_ts: Ts,
        number: int,
        chunk: Chunk,
    ) -> ChunkTask:
        path = self._folder / "chunks" / f"{number}-{low_ts}-{chunk.number}"
        return ChunkTask(server.info, server.settings, table, condition, number, str(path))

    def _settle(
        self,
        server: SourceServer,
        definitions: Definitions,
        staged: Mapping[str, StagedTable],
        ts: Ts,
    ) -> SettledRows:
        tables = list(staged.values())
        found, base_ts = room(self._log, tables, ts)
        # No statement may lie among the rows: they have the schema of their end.
        while len(self._log.ddls(base_ts, ts)) or base_ts < self._log.state.first_ts:
            self._pause()
            ts = self._log.refresh().resolved_ts
            if len(_unchanged(definitions, staged, ts)) < len(tables):
                raise TablesKeepChanging("a table changed at last", object=self._info.id)
            found, base_ts = room(self._log, tables, ts)
        head = build_event(
            EventType.FORMAT_DESCRIPTION, format_description(server.version).encode()
        )
        rows = self._folder / "rows"
        settled = settle(
            self._log, found, base_ts, ts, rows, head, self._clock, rows_v2=server.kind != "mariadb"
        )
        shutil.rmtree(self._folder / "chunks")
        return settled

    def _note(self, **changes: int) -> None:
        self._progress = self._progress.model_copy(update=changes)
        if self._reporter.rest_s <= 0:
            self._report()

    def _add(self, read: ChunkRead) -> None:
        rows, size = self._progress.rows + read.rows, self._progress.bytes + read.bytes
        self._note(rows=rows, bytes=size)

    def _report(self, error: TidegateError | None = None) -> None:
        said = ErrorInfo(**error.to_dict(), time_ms=self._clock.now_ms()) if error else None
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
                transactions={t: list(n) for t, n in names.items()},
                snapshot=self._progress,
            )
        )


def _unchanged(
    definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
) -> dict[str, StagedTable]:
    """Those of which no statement says anything since they were read."""
    return {n: t for n, t in staged.items() if definitions.same(n, t.low_ts, ts)}


def _remove(files: tuple[StagedFile, ...]) -> None:
    for file in files:
        file.path.unlink(missing_ok=True)
