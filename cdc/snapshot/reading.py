"""The server that rows are read from, as a copy of them needs it."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pymysql

from cdc.base.nodes import plain
from cdc.coord.messages import UpstreamInfo
from cdc.coord.snapshot_config import SnapshotConfig
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from cdc.snapshot.chunks import Chunk, ChunkPlan, ChunkPlanner, check_where
from cdc.snapshot.handle import SESSION, handle_of
from cdc.snapshot.pace import ChunkPace
from cdc.snapshot.visibility import end_of_seen, wait_until_visible
from cdc.source.connection import open_connection, query_error, rows, try_rows
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings

_ROW_COUNTS = (
    "SELECT table_name AS n, table_rows AS r FROM information_schema.tables WHERE table_schema = %s"
)
# Smaller chunks cost more for being asked for than for being read.
_LEAST_ROWS = 500


class SourceServer:
    """One connection that asks where the server stands and how tables may be cut.

    Rows are read by others, each over a connection of its own. ``stop`` ends what waits. Raises
    UpstreamGone, UpstreamNotReady or LoginInsecure.
    """

    def __init__(self, info: UpstreamInfo, settings: SourceSettings, stop: threading.Event) -> None:
        self.info = info
        self._stop = stop
        self.settings = settings
        self._connection = open_connection(info, settings)
        try:
            with self._connection.cursor() as cursor:
                for statement in SESSION:
                    cursor.execute(statement)
        except pymysql.err.MySQLError as error:
            self._connection.close()
            raise query_error(error, f"upstream {info.name}") from None

    @property
    def kind(self) -> str:
        """``mysql`` or ``mariadb``."""
        return self.info.server_kind

    @property
    def tells_moments(self) -> bool:
        """Whether it says what a snapshot of it sees (``cdc.snapshot.moment``)."""
        return True

    @property
    def version(self) -> str:
        """The server's version, as it was registered."""
        return self.info.server_version

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def wait_until_visible(self, position: UpstreamPosition) -> None:
        """Return when a new SELECT sees all that lies before a position.

        Raises as :func:`cdc.snapshot.visibility.wait_until_visible`.
        """
        wait_until_visible(self._connection, self.info, position, stop=self._stop)

    def end(self) -> UpstreamPosition:
        """The end of its binlog now: all that any SELECT before has seen lies below."""
        try:
            return end_of_seen(self._connection, self.kind)
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self.info.name}") from None

    def row_guesses(self, tables: Sequence[Table], where: str) -> dict[str, int]:
        """By ``schema.table`` the server's guess of the rows that a SELECT would give; none counts.

        A table of which it has none, or that has gone, is left out.
        """
        try:
            if where:
                return {t.full_name: g for t in tables if (g := self._guess(t, where)) is not None}
            # MySQL 8 would say what was true a day ago; others know no such thing.
            try_rows(self._connection, "SET SESSION information_schema_stats_expiry = 0")
            found: dict[tuple[str, str], int] = {}
            for schema in {plain(t.schema) for t in tables}:
                for row in rows(self._connection, _ROW_COUNTS, schema):
                    found[schema.lower(), str(row["n"]).lower()] = int(row["r"] or 0)
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self.info.name}") from None
        keys = {t.full_name: (plain(t.schema).lower(), t.name.lower()) for t in tables}
        return {name: found[key] for name, key in keys.items() if key in found}

    def _guess(self, table: Table, where: str) -> int | None:
        """Of rows that a condition is true for, by how the server would look for them."""
        source = quoted(plain(table.schema), table.name)
        how = "EXTENDED" if self.kind == "mariadb" else "FORMAT=TRADITIONAL"
        sql = f"EXPLAIN {how} SELECT 1 FROM {source} WHERE ({where}\n)"
        found = try_rows(self._connection, sql)
        if not found:
            # What is wrong with the table or the condition is told where its rows are read.
            return None
        share = found[0].get("filtered")
        count = float(found[0].get("rows") or 0) * float(100 if share is None else share) / 100
        return round(count)

    def threads_running(self) -> int:
        """How many sessions of the server do something now, this one among them."""
        try:
            found = rows(self._connection, "SHOW GLOBAL STATUS LIKE 'Threads_running'")
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self.info.name}") from None
        return int(found[0]["value"])

    def replica_lag_s(self) -> float:
        """Seconds that it is behind where it is a replica, of all its channels the most; else 0.

        Infinite where replication has stopped. Raises UpstreamNotReady without the right to know.
        """
        try:
            channels = try_rows(self._connection, "SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS")
            if channels is None:
                # Its error is the answer: what is not known must not pass for no lag.
                channels = rows(self._connection, "SHOW SLAVE STATUS")
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self.info.name}") from None
        return max((_lag_s(channel) for channel in channels), default=0.0)

    def chunks(self, table: Table, config: SnapshotConfig) -> TableChunks:
        """The chunks of a table. Raises SnapshotWhereInvalid for a condition that does not fit."""
        own = replace(table, schema=plain(table.schema))
        if config.where:
            source = quoted(own.schema, own.name)
            check_where(self._connection, own.schema, own.name, source, config.where)
        return TableChunks(self._connection, own, config)


class TableChunks:
    """The chunks of one table, planned when they are asked for.

    Raises SnapshotTableChanged, UpstreamGone or UpstreamNotReady.
    """

    def __init__(self, connection: Any, table: Table, config: SnapshotConfig) -> None:
        self._handle = handle_of(table)
        self._where = config.where
        self._planner = ChunkPlanner(connection, table.schema, table.name, self._handle)
        self._plan: ChunkPlan | None = None
        most = config.chunk_rows
        if config.max_rows_per_second:
            # So that they come evenly, and not in bursts with long rests between them.
            share = config.max_rows_per_second * config.chunk_seconds / config.max_connections
            most = min(most, max(1, int(share)))
        self._pace = ChunkPace(most, config.chunk_seconds, min(_LEAST_ROWS, most), most)

    def next(self) -> Chunk | None:
        """The next one; None if there is none any more."""
        plan = self._planner.begin() if self._plan is None else self._plan
        chunk, self._plan = self._planner.next(plan, self._pace.rows)
        return chunk

    def condition(self, chunk: Chunk) -> str:
        """SQL that is true for its rows, of those that are copied."""
        return chunk.condition(self._handle, self._where)

    def measured(self, chunk: Chunk, seconds: float) -> None:
        """Say how long it took to read one, for the size of those to come."""
        self._pace = self._pace.measured(chunk.rows, seconds)


def _lag_s(channel: Mapping[str, Any]) -> float:
    for name in ("seconds_behind_source", "seconds_behind_master"):
        if channel.get(name) is not None:
            return float(channel[name])
    return math.inf
