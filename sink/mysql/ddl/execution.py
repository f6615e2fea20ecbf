"""The session of one statement: variables as upstream, no time limit, and a watch over it."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pymysql
from pymysql.constants import COMMAND

from cdc.schema.charsets import charset_of_collation
from cdc.schema.events import session_of_event
from cdc.schema.session import Session
from cdc.schema.sql_mode import mode_names
from cdc.schema.tokens import quoted
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl.server import TargetServer
from sink.mysql.errors import MysqlAccessDenied, is_lost, number_of
from sink.mysql.settings import Checks, MysqlSettings
from sink.schema_change import SchemaChange

_POLL_S = 0.5
_ASK_S = 5.0
# A statement behind which readers queue up gives way, and is tried again.
_LOCK_WAIT_S = 120
NO_FOREIGN_KEYS = 1 << 26
"""Of ``flags2``: the statement's session checked no foreign keys."""
_NO_UNIQUE = 1 << 27


def sql_mode(bits: int, *, source: Session, server: TargetServer) -> str:
    """The upstream's sql_mode in the target's words; what the target does not know is left out."""
    ours = mode_names(bits, mariadb=source.mariadb, version=source.version)
    known = mode_names(-1, mariadb=server.mariadb, version=server.version)
    return ",".join(name for name in ours if name in known)


class _Patient(SinkSession):
    """A session with a statement whose end may be far away."""

    def send(self, sql: str) -> None:
        """Send it; nothing of this connection has a time limit from now on."""
        self._connection._read_timeout = None
        self._connection._execute_command(COMMAND.COM_QUERY, sql)

    def keep_alive(self) -> None:
        """Notice within minutes that the target's host has vanished without a word."""
        options = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 8}
        with suppress(OSError, AttributeError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in options.items():
                self.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def finish(self) -> None:
        """Take what it gives."""
        self._connection._read_query_result()


class Execution:
    """A connection for one change. Not thread-safe."""

    def __init__(self, settings: MysqlSettings) -> None:
        self._session = _Patient(settings)
        self._session.keep_alive()
        with mapped(f"target {settings.address}"):
            self.id = int(self._session.rows("SELECT CONNECTION_ID() AS i")[0]["i"])

    def hold(self, lock: str, wait_s: int) -> bool:
        """Take the change's named lock, which stays until the connection ends."""
        found = self._session.rows("SELECT GET_LOCK(%s, %s) AS l", lock, wait_s)
        return bool(found[0]["l"])

    def prepare(self, change: SchemaChange, server: TargetServer, schema: str) -> None:
        """Set what decides the meaning of the statement. ``schema``: the default database.

        PyMySQL's errors pass.
        """
        if change.status.time_zone:
            # The one text among them that the upstream's server chooses freely.
            self._session.run("SET SESSION time_zone = %s", change.status.time_zone)
        for name, value in self._variables(change, server):
            self._session.run(f"SET SESSION {name} = {value}")
        for name, value in _wishes(change, server):
            with suppress(pymysql.err.OperationalError, pymysql.err.InternalError):
                # The user may lack the right, or the server the variable.
                self._session.run(f"SET SESSION {name} = {value}")
        self._check_timestamps(change)
        if schema:
            self._session.run(f"USE {quoted(schema)}")

    def _check_timestamps(self, change: SchemaChange) -> None:
        """Refuse to run a TIMESTAMP under another ``explicit_defaults_for_timestamp``."""
        if "timestamp" not in change.sql.lower():
            return
        found = self._session.rows("SELECT @@explicit_defaults_for_timestamp AS e")[0]["e"]
        if bool(int(found)) is not change.session.explicit_defaults_for_timestamp:
            raise MysqlAccessDenied(
                "the sink's user may not set explicit_defaults_for_timestamp as it was upstream,"
                " which decides what a TIMESTAMP is",
                hint="GRANT SESSION_VARIABLES_ADMIN ON *.* TO the sink's user, or set the global"
                " variable at the target as it is upstream",
            )

    def _variables(self, change: SchemaChange, server: TargetServer) -> Iterator[tuple[str, str]]:
        status = change.status
        bits = status.sql_mode or 0
        mode = sql_mode(bits, source=change.session, server=server)
        yield "sql_mode", f"'{mode}'"
        flags = status.flags2 or 0
        off = self._session.settings.foreign_key_checks is Checks.OFF
        yield "foreign_key_checks", "0" if off or flags & NO_FOREIGN_KEYS else "1"
        yield "unique_checks", "0" if flags & _NO_UNIQUE else "1"
        step, offset = status.auto_increment or (1, 1)
        yield "auto_increment_increment", str(step)
        yield "auto_increment_offset", str(offset)
        yield "timestamp", f"{change.time_s}.{status.microseconds or 0:06d}"
        yield "lock_wait_timeout", str(_LOCK_WAIT_S)
        collation = change.session.collation_server
        if collation is not None and collation in server.collations:
            yield "collation_server", server.collations[collation]
        client = _connection_collation(change, server)
        if client is not None:
            yield "collation_connection", client

    def run(self, sql: str, alive: Callable[[int], bool], stopped: Callable[[], bool]) -> None:
        """Execute a statement that may take hours.

        ``alive`` says whether the target still has the connection with this id; ``stopped``
        whether nobody waits any more. Then, or when the connection is gone, it raises PyMySQL's
        OperationalError for a lost connection; the statement is left to the server.
        """
        self._session.send(sql)
        poll = select.poll()
        poll.register(self._session.socket, select.POLLIN | select.POLLHUP | select.POLLERR)
        asked, gone = time.monotonic(), False
        while not poll.poll(_POLL_S * 1000):
            if stopped() or gone:
                self._session.close()
                raise pymysql.err.OperationalError(2013, "the connection was lost in a DDL")
            if time.monotonic() - asked >= _ASK_S:
                # What its end has sent may still be on its way: one more look.
                gone, asked = not alive(self.id), time.monotonic()
        self._session.finish()

    def close(self) -> None:
        """End the connection, and its lock with it."""
        self._session.close()


def _connection_collation(change: SchemaChange, server: TargetServer) -> str | None:
    """What literals of the statement have; the client speaks utf8mb4 as it may."""
    if change.status.charset is None:
        return None
    base = Session(mariadb=change.session.mariadb, version=change.session.version)
    numbers = (change.status.charset[1],) * 3
    read = session_of_event(base, "", replace(change.status, charset=numbers))
    name = read.collation_client
    if name is None or name not in server.collations or charset_of_collation(name) == "binary":
        return None
    return server.collations[name]


def _wishes(change: SchemaChange, server: TargetServer) -> Iterator[tuple[str, str]]:
    """Variables that need a right or a version."""
    session = change.session
    yield "explicit_defaults_for_timestamp", str(int(session.explicit_defaults_for_timestamp))
    yield "innodb_strict_mode", "0"
    yield "default_storage_engine", "InnoDB"
    if server.mariadb:
        yield "max_statement_time", "0"
        yield "system_versioning_alter_history", "KEEP"
        yield "old_mode", "'UTF8_IS_UTF8MB3'"
        if session.mariadb:
            pairs = [f"{a}={b}" for a, b in session.charset_collations]
            yield "character_set_collations", "'" + ",".join(pairs) + "'"
        return
    yield "sql_require_primary_key", "0"
    yield "sql_generate_invisible_primary_key", "0"
    default = session.default_collation_utf8mb4
    if not session.mariadb and default is not None:
        yield "default_collation_for_utf8mb4", default


def lost(error: BaseException) -> bool:
    """Whether the fate of the statement is not known: it is to be looked at."""
    return is_lost(error) or number_of(error) in (1317, 1053)
