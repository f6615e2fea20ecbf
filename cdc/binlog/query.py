"""QUERY: a statement, with the session variables that it ran under.

Status variables are (code, value) pairs whose lengths depend on the code. A code that we do not
know ends the reading, and what is left is kept as bytes: its length cannot be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from cdc.binlog.cursor import Cursor
from cdc.binlog.gtid import MariadbGtidExtra

_TOO_MANY_DATABASES = 254


class StatusCode(IntEnum):
    """Codes of status variables; those from 128 on are MariaDB's."""

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    MASTER_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    COMMIT_TS = 14
    COMMIT_TS2 = 15
    EXPLICIT_DEFAULTS_TS = 16
    DDL_XID = 17
    DEFAULT_COLLATION_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    MARIADB_HRNOW = 128
    MARIADB_XID = 129
    MARIADB_GTID_FLAGS3 = 130
    MARIADB_CHARACTER_SET_COLLATIONS = 131


@dataclass(frozen=True, slots=True)
class StatusVariables:
    """``None`` (or ``()``) where the event has none. Charsets are collation ids.

    ``charset`` is (client, connection, server). ``updated_databases`` is ``None`` also where there
    were too many to list. ``microseconds`` is the fraction of the header's timestamp. ``xid`` is
    that of a DDL, ``start_alter`` the START ALTER that a two-phase ALTER completes.
    """

    flags2: int | None = None
    sql_mode: int | None = None
    catalog: str | None = None
    auto_increment: tuple[int, int] | None = None
    charset: tuple[int, int, int] | None = None
    time_zone: str | None = None
    lc_time_names: int | None = None
    charset_database: int | None = None
    table_map_for_update: int | None = None
    master_data_written: int | None = None
    invoker: tuple[str, str] | None = None
    updated_databases: tuple[str, ...] | None = None
    microseconds: int | None = None
    explicit_defaults_ts: int | None = None
    xid: int | None = None
    default_collation_utf8mb4: int | None = None
    sql_require_primary_key: int | None = None
    default_table_encryption: int | None = None
    gtid_extra: MariadbGtidExtra | None = None
    start_alter: int | None = None
    charset_collations: tuple[tuple[int, int], ...] = ()
    unknown: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> StatusVariables:
        """From the block; :class:`EventMalformed` where a known value does not fit."""
        cursor = Cursor(data, "QUERY status variables")
        state = cls()
        while cursor.left():
            start = cursor.at
            read = _READERS.get(cursor.uint(1, "code"))
            if read is None:
                return replace(state, unknown=data[start:])
            state = read(state, cursor)
        return state


def status_parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The variables of a block, each by its code, with the bytes that it takes, the code included.

    What a code that we do not know begins comes as one part, of code -1, and is the last.
    """
    cursor, state = Cursor(data, "QUERY status variables"), StatusVariables()
    while cursor.left():
        start = cursor.at
        code = cursor.uint(1, "code")
        read = _READERS.get(code)
        if read is None:
            yield -1, data[start:]
            return
        read(state, cursor)
        yield code, data[start : cursor.at]


_Reader = Callable[[StatusVariables, Cursor], StatusVariables]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _number(name: str, size: int) -> _Reader:
    def read(state: StatusVariables, cursor: Cursor) -> StatusVariables:
        value: dict[str, Any] = {name: cursor.uint(size, name)}
        return replace(state, **value)

    return read


def _catalog(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    raw = cursor.short_bytes("catalog")
    cursor.take(1, "end of catalog")
    return replace(state, catalog=_text(raw))


def _catalog_nz(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    return replace(state, catalog=_text(cursor.short_bytes("catalog")))


def _auto_increment(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    return replace(state, auto_increment=(cursor.uint(2, "increment"), cursor.uint(2, "offset")))


def _charset(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    client, connection = cursor.uint(2, "client"), cursor.uint(2, "connection")
    return replace(state, charset=(client, connection, cursor.uint(2, "server")))


def _time_zone(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    return replace(state, time_zone=_text(cursor.short_bytes("time zone")))


def _invoker(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    user, host = cursor.short_bytes("user"), cursor.short_bytes("host")
    return replace(state, invoker=(_text(user), _text(host)))


def _databases(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    count = cursor.uint(1, "number of databases")
    if count == _TOO_MANY_DATABASES:
        return state
    names = tuple(_text(cursor.nul_terminated("database")) for _ in range(count))
    return replace(state, updated_databases=names)


def _gtid_flags3(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    extra = MariadbGtidExtra(cursor.uint(1, "extra GTID flags"))
    if not extra & (MariadbGtidExtra.COMMIT_ALTER | MariadbGtidExtra.ROLLBACK_ALTER):
        return replace(state, gtid_extra=extra)
    return replace(state, gtid_extra=extra, start_alter=cursor.uint(8, "start alter"))


def _collations(state: StatusVariables, cursor: Cursor) -> StatusVariables:
    count = cursor.uint(1, "number of collations")
    pairs = tuple((cursor.uint(2, "charset"), cursor.uint(2, "collation")) for _ in range(count))
    return replace(state, charset_collations=pairs)


_S = StatusCode
_READERS: dict[int, _Reader] = {
    _S.FLAGS2: _number("flags2", 4),
    _S.SQL_MODE: _number("sql_mode", 8),
    _S.CATALOG: _catalog,
    _S.AUTO_INCREMENT: _auto_increment,
    _S.CHARSET: _charset,
    _S.TIME_ZONE: _time_zone,
    _S.CATALOG_NZ: _catalog_nz,
    _S.LC_TIME_NAMES: _number("lc_time_names", 2),
    _S.CHARSET_DATABASE: _number("charset_database", 2),
    _S.TABLE_MAP_FOR_UPDATE: _number("table_map_for_update", 8),
    _S.MASTER_DATA_WRITTEN: _number("master_data_written", 4),
    _S.INVOKER: _invoker,
    _S.UPDATED_DB_NAMES: _databases,
    _S.MICROSECONDS: _number("microseconds", 3),
    _S.EXPLICIT_DEFAULTS_TS: _number("explicit_defaults_ts", 1),
    _S.DDL_XID: _number("xid", 8),
    _S.DEFAULT_COLLATION_UTF8MB4: _number("default_collation_utf8mb4", 2),
    _S.SQL_REQUIRE_PRIMARY_KEY: _number("sql_require_primary_key", 1),
    _S.DEFAULT_TABLE_ENCRYPTION: _number("default_table_encryption", 1),
    _S.MARIADB_HRNOW: _number("microseconds", 3),
    _S.MARIADB_XID: _number("xid", 8),
    _S.MARIADB_GTID_FLAGS3: _gtid_flags3,
    _S.MARIADB_CHARACTER_SET_COLLATIONS: _collations,
}


@dataclass(frozen=True, slots=True)
class Query:
    """A statement. ``raw_sql`` is in the client's charset; ``sql`` is it as text.

    ``schema`` is the session's default database, ``""`` if none.
    """

    thread_id: int
    execution_time: int
    error_code: int
    schema: str
    raw_sql: bytes
    raw_status: bytes = b""

    @classmethod
    def parse(cls, body: bytes) -> Query:
        """``body``: everything behind the header, without the checksum."""
        cursor = Cursor(body, "QUERY")
        thread_id = cursor.uint(4, "thread id")
        execution_time = cursor.uint(4, "execution time")
        schema_length = cursor.uint(1, "schema length")
        error_code = cursor.uint(2, "error code")
        status_length = cursor.uint(2, "status length")
        status = cursor.take(status_length, "status variables")
        schema = cursor.take(schema_length, "schema")
        cursor.take(1, "end of schema")
        return cls(thread_id, execution_time, error_code, _text(schema), cursor.rest(), status)

    def status(self) -> StatusVariables:
        """The status variables, parsed on demand: most readers need only the text."""
        return StatusVariables.parse(self.raw_status)

    @property
    def sql(self) -> str:
        """The text; bytes that are not UTF-8 come out as replacement characters."""
        return self.raw_sql.decode("utf-8", "replace")

    def encode(self) -> bytes:
        """The body."""
        schema = self.schema.encode()
        return b"".join(
            (
                self.thread_id.to_bytes(4, "little"),
                self.execution_time.to_bytes(4, "little"),
                bytes([len(schema)]),
                self.error_code.to_bytes(2, "little"),
                len(self.raw_status).to_bytes(2, "little"),
                self.raw_status,
                schema + b"\0",
                self.raw_sql,
            )
        )
