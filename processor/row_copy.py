"""Reading the rows of tables at whatever moments, and bringing them to one ts.

Each table is read in chunks by Spark's tasks; what the log says of the rows since then brings all
of them to one ts (``cdc.snapshot.settle``). A table whose definition changes meanwhile is read
again, and no other. Where that ts may lie is the business of who copies.
"""

from __future__ import annotations

import logging
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError, TransientError
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.header import MAGIC
from cdc.binlog.writer import build_event, format_description
from cdc.changelog.reader import ChangeLog
from cdc.changelog.remote.served import chunk_name
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import SnapshotProgress
from cdc.logical.errors import PartsChanging
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk
from cdc.snapshot.definitions import Definitions
from cdc.snapshot.servers import SourceServers
from cdc.snapshot.settle import SettledRows, StagedTable, TableToSettle, settle
from cdc.snapshot.staged import StagedFile
from cdc.snapshot.table_map import table_map
from cdc.source.pulled import PulledLogs
from filter.copied import CopiedTables
from processor.catalog import delivered_tables
from processor.chunk_reading import ChunkTask, staged_file
from processor.chunks_at_once import WHOLE_TABLE_S, ChunksAtOnce
from processor.copy_limits import CopyLimits, check_room
from processor.copy_progress import CopyProgress
from processor.jobs import JobRunner
from processor.keyless import read_still
from processor.settings import ProcessorSettings
from processor.table_parts import TableParts, guesses, parts_of
from processor.tables_reading import TablesReading

_log = logging.getLogger("processor")
# Reading tables again because they change: so often before the owner is told that it fails.
_ROUNDS = 10
# A change that goes from part to part has come to its mark by then, or nobody waits for it.
_CHANGING_S = 3600.0
_POLL_S = 0.05
# So often it is looked whether such a change has come to its mark.
_LOOK_S = 1.0


class TablesKeepChanging(TransientError):
    """Definitions of tables changed during each attempt to copy their rows."""

    code = "TG:ErrSnapshotTablesChange"


class RowCopy(ABC):
    """One copy of rows into ``folder``, for a changefeed of a configuration. Of one thread.

    ``open_servers`` opens the upstream, ``note`` is told how far it is, ``stopping`` ends it. While
    ``go_on`` is not set nothing more is read.
    """

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
        go_on: threading.Event | None = None,
    ) -> None:
        self._feed = feed
        self._config = config
        self._log = log
        self._folder = folder
        self._jobs = jobs
        self._settings = settings
        self._open_servers = open_servers
        self._clock = clock
        self._stopping = stopping
        self._copied = CopiedTables(config)
        self._limits = CopyLimits(config.snapshot, clock, stopping, go_on)
        self._counted = CopyProgress(clock, note)

    @property
    def progress(self) -> SnapshotProgress:
        """How far it is."""
        return self._counted.now

    @abstractmethod
    def _place(
        self, definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
    ) -> tuple[Sequence[TableToSettle], Ts, Ts]:
        """``(tables, base ts, ts)``: where the rows are to lie in the order.

        The ts is not below ``ts``, at which nothing has changed in definitions since tables were
        read. Between the two no statement lies in the log.
        """

    def run(self) -> SettledRows:
        """Copy all rows; they lie in ``folder``/rows then.

        Raises what ends it, TablesKeepChanging, or CopyStopped.
        """
        try:
            settled = self._copy()
        except BaseException:
            # What was read is of no use any more, and the log needs the room that it takes.
            shutil.rmtree(self._folder / "chunks", ignore_errors=True)
            raise
        done = {"base_ts": settled.base_ts, "ts": settled.ts, "rows": settled.rows}
        self._counted.now = self.progress.model_copy(
            update={**done, "ended_ms": self._clock.now_ms()}
        )
        return settled

    def _copy(self) -> SettledRows:
        chunks = self._folder / "chunks"
        chunks.mkdir(mode=0o700, parents=True)
        staged: dict[str, StagedTable] = {}
        servers = self._open_servers(self._stopping)
        pulled = PulledLogs(self._log, servers.kind)
        rounds, changing_s = 0, None
        try:
            parts = parts_of(servers, self._log, pulled)
            low_ts = self._begin(servers, pulled, parts)
            self._counted.note(low_ts=low_ts)
            # Of all rounds: it goes on where it has read the log's statements.
            definitions = Definitions(self._log, low_ts)
            while rounds < _ROUNDS:
                tables = self._tables(definitions, low_ts)
                missing = [t for t in tables if t.full_name not in staged]
                expected = guesses(servers, parts, tables, self._config.snapshot.where)
                self._counted.begin_round(staged, expected)
                # A statement of the log may explain what fails: then it is read again.
                failed = dict[str, TidegateError]()
                for table, found in self._read(servers, pulled, parts, missing, low_ts, staged):
                    if isinstance(found, TidegateError):
                        failed[table.full_name] = found
                    else:
                        staged[table.full_name] = found
                self._limits.await_go_on(servers)
                ts = self._caught_up(servers, pulled)
                kept = unchanged(definitions, staged, ts)
                kept = {name: one for name, one in kept.items() if parts.same(name)}
                for name in staged.keys() - kept.keys():
                    _remove(staged[name].files)
                names = {t.full_name for t in self._tables(definitions, ts)}
                staged = {name: kept[name] for name in kept.keys() & names}
                if names == staged.keys():
                    return self._settle(servers, definitions, staged, ts)
                changing = {n: e for n, e in failed.items() if isinstance(e, PartsChanging)}
                changing_s = self._await_mark(changing_s) if changing else None
                for name, error in failed.items():
                    same = name in names and definitions.same(name, low_ts, ts)
                    if same and (changing_s is None if name in changing else parts.same(name)):
                        raise error
                rounds += not changing
                low_ts = self._begin(servers, pulled, parts)
        finally:
            pulled.close()
            servers.close()
        raise TablesKeepChanging(
            f"tables changed during each of {_ROUNDS} attempts to copy their rows",
            object=f"changefeed {self._feed}",
            hint="leave tables as they are until their rows are copied",
        )

    def _begin(self, servers: SourceServers, pulled: PulledLogs, parts: TableParts) -> Ts:
        """As :meth:`_visible`; parts of tables are looked for as they are there."""
        low_ts = self._visible(servers, pulled)
        # No node's log was refreshed since it was asked for the position that is visible now.
        parts.begin({name: log.state.resolved_ts for name, log in pulled.nodes.items()})
        return low_ts

    def _await_mark(self, since_s: float | None) -> float | None:
        """Wait a little while a schema change goes over the parts of a table; since when it does.

        None: for so long that nobody waits any more.
        """
        now_s = self._clock.monotonic()
        if since_s is None:
            _log.info("changefeed %s: rows wait for a schema change of parts", self._feed)
        self._limits.wait(_LOOK_S)
        since_s = now_s if since_s is None else since_s
        return since_s if now_s - since_s < _CHANGING_S else None

    def _visible(self, servers: SourceServers, pulled: PulledLogs) -> Ts:
        """A ts of which all at or below is seen by whoever reads from now on."""
        resolved_ts = self._log.refresh().resolved_ts
        servers.wait_until_visible(pulled.positions())
        return resolved_ts

    def _caught_up(self, servers: SourceServers, pulled: PulledLogs) -> Ts:
        """A ts at or above all that was seen by whoever has read."""
        ends, upto = servers.ends(), dict[str, Ts]()
        while (ts := pulled.known(ends, upto)) is None:
            self._pause()
        return ts

    def _pause(self) -> None:
        self._limits.wait(_POLL_S)

    def _tables(self, definitions: Definitions, ts: Ts) -> list[Table]:
        tables = delivered_tables(definitions.at(ts), self._config)
        return [t for t in tables if (t.schema, t.name) in self._copied]

    def _read(
        self,
        servers: SourceServers,
        pulled: PulledLogs,
        parts: TableParts,
        tables: Sequence[Table],
        low_ts: Ts,
        staged: Collection[str],
    ) -> list[tuple[Table, StagedTable | TidegateError]]:
        """What was read of each of ``tables``, beside those that are ``staged`` already."""
        found = dict[int, StagedTable | TidegateError]()
        numbered = dict(enumerate(tables, len(staged) + 1))
        with ChunksAtOnce(
            self._feed,
            self._jobs,
            self._settings,
            self._clock,
            self._stopping,
            self._config.snapshot.max_connections,
            servers.access_of,
        ) as at_once:
            task = partial(self._task, servers, low_ts)
            reading = TablesReading(
                at_once,
                servers,
                self._config.snapshot,
                self._limits,
                self._counted,
                self._check_room,
                task,
            )
            for number, table in numbered.items():
                self._counted.begin(table.full_name)
                try:
                    own = parts.of(table)
                    if table.handle_key:
                        reading.begin(table, number, own)
                        continue
                    found[number] = self._stage_still(servers, pulled, table, low_ts, number)
                except TidegateError as e:
                    found[number] = e
                read = not isinstance(found[number], TidegateError)
                self._counted.end(table.full_name, read=read)
            reading.finish()
        for number, table in numbered.items():
            try:
                if number not in found:
                    stored, files = table_map(table, number, servers.kind), reading.files(number)
                    found[number] = StagedTable(table, stored, low_ts, files)
                if isinstance(one := found[number], StagedTable):
                    found[number] = self._with_target_only(one, servers)
            except TidegateError as e:
                found[number] = e
        return [(table, found[number]) for number, table in numbered.items()]

    def _with_target_only(self, staged: StagedTable, servers: SourceServers) -> StagedTable:
        """With the rows that only the target has, where these are to go."""
        return staged

    def _stage_still(
        self,
        servers: SourceServers,
        pulled: PulledLogs,
        table: Table,
        low_ts: Ts,
        number: int,
    ) -> StagedTable:
        """Read a table without a key, whole and as it is at one ts."""
        self._limits.hold_back(servers)
        self._check_room()
        began_s = self._clock.monotonic()
        server, where = servers.of(table), self._config.snapshot.where
        chunks = server.chunks(table, self._config.snapshot)
        # It is one chunk, as nothing cuts it.
        chunk = chunks.next()
        assert chunk is not None
        task = self._task(servers, low_ts, table, chunks.condition(chunk), number, chunk)
        still_ts, read = read_still(
            self._log,
            task,
            server.end if server.tells_moments else None,
            lambda: self._visible(servers, pulled),
            lambda: self._caught_up(servers, pulled),
        )
        self._limits.read(read.rows, began_s)
        self._counted.read(table.full_name, read.rows, read.bytes)
        stored = table_map(table, number, server.kind)
        files = (staged_file(task, read),)
        return StagedTable(table, stored, low_ts, files, still_ts, whole=not where)

    def _check_room(self) -> None:
        reserve_bytes = self._settings.copy_reserve_bytes or 0
        check_room(self._feed, self._folder, reserve_bytes, self.progress)

    def _task(
        self,
        servers: SourceServers,
        low_ts: Ts,
        table: Table,
        condition: str,
        number: int,
        chunk: Chunk,
        part: int = 0,
    ) -> ChunkTask:
        path = self._folder / "chunks" / chunk_name(number, low_ts, part, chunk.number)
        info, settings = servers.access_of(table), servers.of(table).settings
        if chunk.whole and self._config.snapshot.where:
            settings = settings.model_copy(update={"silence_s": WHOLE_TABLE_S})
        head = MAGIC + _format(servers)
        return ChunkTask(info, settings, table, condition, number, str(path), part=part, head=head)

    def _settle(
        self,
        servers: SourceServers,
        definitions: Definitions,
        staged: Mapping[str, StagedTable],
        ts: Ts,
    ) -> SettledRows:
        found, base_ts, ts = self._place(definitions, staged, ts)
        rows = self._folder / "rows"
        settled = settle(
            self._log,
            found,
            base_ts,
            ts,
            rows,
            _format(servers),
            self._clock,
            rows_v2=servers.kind != "mariadb",
        )
        shutil.rmtree(self._folder / "chunks")
        return settled


def unchanged(
    definitions: Definitions, staged: Mapping[str, StagedTable], ts: Ts
) -> dict[str, StagedTable]:
    """Those of which no statement says anything since they were read."""
    return {n: t for n, t in staged.items() if definitions.same(n, t.low_ts, ts)}


def _format(servers: SourceServers) -> bytes:
    """The FORMAT_DESCRIPTION event that rows of these servers come behind."""
    body = format_description(servers.version).encode()
    return build_event(EventType.FORMAT_DESCRIPTION, body)


def _remove(files: Iterable[StagedFile]) -> None:
    for file in files:
        file.path.unlink(missing_ok=True)
