"""Connections to the two servers, with every setting that the comparison depends on."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

import pymysql
from pymysql.cursors import SSCursor

from cdc.base.nodes import node_of
from cdc.coord.messages import UpstreamInfo
from cdc.source.connection import open_connection, query_error
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import current_position
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.settings import MysqlSettings

Row = tuple[Any, ...]

# One statement may read a whole table.
_PATIENCE_S = 6 * 3600
_PORTION_ROWS = 1000
_PREPARE = (
    "SET SESSION sql_mode = ''",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # A limit that the server sets for everybody would cut results off without a word.
    "SET SESSION sql_select_limit = 18446744073709551615",
    "SET SESSION sql_safe_updates = 0, sql_big_selects = 1",
    "SET SESSION wait_timeout = 28800, net_write_timeout = 600",
)
# By family; the other one does not know them.
_PREPARE_IF_KNOWN = ("SET SESSION max_statement_time = 0", "SET SESSION max_execution_time = 0")


class View(Protocol):
    """One side, as it is at a time. Raises our errors only."""

    def snapshot(self) -> None:
        """Everything that follows sees the present rows, until this is called again."""

    def interrupt(self) -> None:
        """Make what another thread waits for here fail at once."""

    def close(self) -> None:
        """End it."""


class Sql(View, Protocol):
    """A side that is a server."""

    def rows(self, sql: str) -> list[Row]:
        """All rows of a query."""


class Streamed(Sql, Protocol):
    """A server whose rows may be more than memory takes."""

    def portions(self, sql: str) -> Iterator[Sequence[Row]]:
        """All rows of a query, some at a time; no other may be asked until the last."""


class UpstreamSession:
    """A connection to the upstream. Raises UpstreamGone, UpstreamNotReady."""

    def __init__(self, info: UpstreamInfo, settings: SourceSettings) -> None:
        self._info = info
        patient = settings.model_copy(update={"silence_s": float(_PATIENCE_S)})
        self._connection = open_connection(info, patient)
        try:
            _prepare(self)
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str) -> list[Row]:
        """All rows of a query."""
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self._info.name}") from None

    def portions(self, sql: str) -> Iterator[Sequence[Row]]:
        """All rows of a query, some at a time; no other may be asked until the last."""
        cursor = self._connection.cursor(SSCursor)
        try:
            cursor.execute(sql)
            while rows := cursor.fetchmany(_PORTION_ROWS):
                yield rows
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self._info.name}") from None
        finally:
            _ended(cursor)

    def snapshot(self) -> None:
        """Everything that follows sees the present rows, until this is called again."""
        _snapshot(self)

    def position(self) -> UpstreamPosition:
        """The end of the binlog now."""
        try:
            return current_position(self._connection, self._info.server_kind)
        except pymysql.err.MySQLError as error:
            raise query_error(error, f"upstream {self._info.name}") from None

    def interrupt(self) -> None:
        """Make what another thread waits for here fail at once."""
        _shut(self._connection._sock)

    def close(self) -> None:
        """End it."""
        with suppress(Exception):
            self._connection._force_close()


class UpstreamServers:
    """A connection to each server of the upstream. Raises UpstreamGone, UpstreamNotReady.

    The servers' snapshots are of different moments: a table is on one of them.
    """

    def __init__(self, info: UpstreamInfo, settings: SourceSettings) -> None:
        self._servers: dict[str, UpstreamSession] = {}
        try:
            for name, server in info.servers().items():
                self._servers[name] = UpstreamSession(server, settings)
        except BaseException:
            self.close()
            raise

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes; ``("",)`` where there is one server."""
        return tuple(self._servers)

    def server(self, schema: str) -> UpstreamSession:
        """The server that a database is on; ``schema`` says its node, if there are several."""
        return self._servers[node_of(schema)]

    def snapshot(self) -> None:
        """Everything that follows sees the present rows, until this is called again."""
        for server in self._servers.values():
            server.snapshot()

    def positions(self) -> dict[str, UpstreamPosition]:
        """The end of each binlog now, by node."""
        return {name: server.position() for name, server in self._servers.items()}

    def interrupt(self) -> None:
        """Make what another thread waits for here fail at once."""
        for server in self._servers.values():
            server.interrupt()

    def close(self) -> None:
        """End them."""
        for server in self._servers.values():
            server.close()


class TargetSession:
    """A connection to the target of a changefeed. Raises the errors of ``sink.mysql``."""

    def __init__(self, settings: MysqlSettings) -> None:
        patient = settings.model_copy(update={"read_timeout": float(_PATIENCE_S)})
        self._session = SinkSession(patient)
        try:
            _prepare(self)
        except BaseException:
            self.close()
            raise

    def rows(self, sql: str) -> list[Row]:
        """All rows of a query."""
        with mapped(self._session.settings.address):
            return [tuple(row.values()) for row in self._session.rows(sql)]

    def snapshot(self) -> None:
        """Everything that follows sees the present rows, until this is called again."""
        _snapshot(self)

    def interrupt(self) -> None:
        """Make what another thread waits for here fail at once."""
        _shut(self._session.socket)

    def close(self) -> None:
        """End it."""
        self._session.close()


def as_text(value: object) -> str:
    """A cell as text, in whatever form the driver gives it."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _shut(sock: Any) -> None:
    # To close it would not wake the thread that reads from it.
    with suppress(Exception):
        sock.shutdown(socket.SHUT_RDWR)


def _ended(cursor: SSCursor) -> None:
    """Read a result to its end, or leave it where there is no connection any more."""
    result = cursor._result
    with suppress(Exception):
        cursor.close()
    if result is not None:
        # Else the driver tries once more when it forgets the result.
        result.unbuffered_active = False


def _snapshot(session: Sql) -> None:
    session.rows("ROLLBACK")
    session.rows("START TRANSACTION WITH CONSISTENT SNAPSHOT")


def _prepare(session: Sql) -> None:
    for statement in _PREPARE:
        session.rows(statement)
    for statement in _PREPARE_IF_KNOWN:
        # As a comment that is run where it is known it would need a version of each.
        with suppress(Exception):
            session.rows(statement)
