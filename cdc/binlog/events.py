"""Every event type of both families by number and name, and what we do with it.

Numbers below 100 are shared history; MySQL went on at 33, MariaDB at 160. A number of the other
family is not in a dialect's table, so it is an error and not a guess. MariaDB lists 36-41 only to
be able to name them; of those it writes XA_PREPARE alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum

from cdc.binlog.errors import EventRefused, EventUnknown


class EventType(IntEnum):
    """Type codes, as in byte 4 of an event's header."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171


class Dialect(StrEnum):
    """Which family wrote a file, judged from the server version in FORMAT_DESCRIPTION."""

    MYSQL = "mysql"
    MARIADB = "mariadb"

    @classmethod
    def of(cls, server_version: str) -> Dialect:
        """Dialect of ``8.0.33``, ``10.11.5-MariaDB-log`` …"""
        return cls.MARIADB if "mariadb" in server_version.lower() else cls.MYSQL


class Disposition(Enum):
    """What we do with an event type."""

    HANDLED = "handled"
    CARRIES_NOTHING = "carries nothing that we need"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class EventKind:
    """One row of a dialect's table; ``reason`` says why it carries nothing or is refused."""

    type: EventType
    name: str
    disposition: Disposition
    reason: str = ""
    hint: str = ""
    statement_dml: bool = False


_ROW_HINT = "SET GLOBAL binlog_format = 'ROW'"
_T = EventType


def _handled(*types: EventType) -> dict[int, EventKind]:
    return {int(t): EventKind(t, t.name, Disposition.HANDLED) for t in types}


def _nothing(reason: str, *types: EventType) -> dict[int, EventKind]:
    return {int(t): EventKind(t, t.name, Disposition.CARRIES_NOTHING, reason) for t in types}


def _refused(reason: str, hint: str, *types: EventType) -> dict[int, EventKind]:
    return {int(t): EventKind(t, t.name, Disposition.REFUSED, reason, hint) for t in types}


def _statement(reason: str, *types: EventType) -> dict[int, EventKind]:
    return {
        int(t): EventKind(t, t.name, Disposition.REFUSED, reason, _ROW_HINT, statement_dml=True)
        for t in types
    }


_COMMON = {
    **_handled(
        _T.QUERY,
        _T.STOP,
        _T.ROTATE,
        _T.FORMAT_DESCRIPTION,
        _T.XID,
        _T.TABLE_MAP,
        _T.WRITE_ROWS_V1,
        _T.UPDATE_ROWS_V1,
        _T.DELETE_ROWS_V1,
        _T.INCIDENT,
        _T.HEARTBEAT,
        _T.WRITE_ROWS,
        _T.UPDATE_ROWS,
        _T.DELETE_ROWS,
        _T.XA_PREPARE,
        _T.ROWS_QUERY,
    ),
    **_nothing("context of a statement, not data", _T.INTVAR, _T.RAND, _T.USER_VAR),
    **_nothing("its writer declares that readers may skip it", _T.IGNORABLE),
    **_statement(
        "LOAD DATA logged as a statement",
        _T.LOAD,
        _T.CREATE_FILE,
        _T.APPEND_BLOCK,
        _T.EXEC_LOAD,
        _T.DELETE_FILE,
        _T.NEW_LOAD,
        _T.BEGIN_LOAD_QUERY,
        _T.EXECUTE_LOAD_QUERY,
    ),
    **_refused(
        "written only by servers before 5.1",
        "upgrade the server that wrote this file",
        _T.UNKNOWN,
        _T.START_V3,
        _T.SLAVE,
        _T.PRE_GA_WRITE_ROWS,
        _T.PRE_GA_UPDATE_ROWS,
        _T.PRE_GA_DELETE_ROWS,
    ),
}

_MYSQL = {
    **_COMMON,
    **_handled(
        _T.GTID,
        _T.ANONYMOUS_GTID,
        _T.PREVIOUS_GTIDS,
        _T.TRANSACTION_PAYLOAD,
        _T.HEARTBEAT_V2,
        _T.GTID_TAGGED,
    ),
    **_nothing("bookkeeping of group replication", _T.TRANSACTION_CONTEXT, _T.VIEW_CHANGE),
    **_refused(
        "holds only the changed parts of JSON documents, not row images",
        "SET GLOBAL binlog_row_value_options = ''",
        _T.PARTIAL_UPDATE_ROWS,
    ),
}

_MARIADB = {
    **_COMMON,
    **_handled(
        _T.MARIADB_ANNOTATE_ROWS,
        _T.MARIADB_GTID,
        _T.MARIADB_GTID_LIST,
        _T.MARIADB_QUERY_COMPRESSED,
        _T.MARIADB_WRITE_ROWS_COMPRESSED_V1,
        _T.MARIADB_UPDATE_ROWS_COMPRESSED_V1,
        _T.MARIADB_DELETE_ROWS_COMPRESSED_V1,
        _T.MARIADB_WRITE_ROWS_COMPRESSED,
        _T.MARIADB_UPDATE_ROWS_COMPRESSED,
        _T.MARIADB_DELETE_ROWS_COMPRESSED,
    ),
    **_nothing("for the server's own crash recovery", _T.MARIADB_BINLOG_CHECKPOINT),
    # A server decrypts what it sends; in a file everything behind this event is unreadable.
    **_nothing("the stream of a server is decrypted", _T.MARIADB_START_ENCRYPTION),
    **_nothing("bookkeeping of group replication", _T.TRANSACTION_CONTEXT, _T.VIEW_CHANGE),
    **_refused(
        "an event of MySQL that MariaDB cannot apply either",
        "read the binlog of the MySQL server that wrote it",
        _T.GTID,
        _T.ANONYMOUS_GTID,
        _T.PREVIOUS_GTIDS,
        _T.PARTIAL_UPDATE_ROWS,
        _T.TRANSACTION_PAYLOAD,
        _T.HEARTBEAT_V2,
    ),
}

KINDS: dict[Dialect, dict[int, EventKind]] = {Dialect.MYSQL: _MYSQL, Dialect.MARIADB: _MARIADB}

ROWS_V1 = frozenset({_T.WRITE_ROWS_V1, _T.UPDATE_ROWS_V1, _T.DELETE_ROWS_V1})
ROWS_V2 = frozenset({_T.WRITE_ROWS, _T.UPDATE_ROWS, _T.DELETE_ROWS})
ROWS = ROWS_V1 | ROWS_V2
UPDATES = frozenset({_T.UPDATE_ROWS_V1, _T.UPDATE_ROWS, _T.PARTIAL_UPDATE_ROWS})


def kind_of(dialect: Dialect, code: int, *, position: str = "") -> EventKind:
    """The table row of a type code; :class:`EventUnknown` if the dialect has none."""
    found = KINDS[dialect].get(code)
    if found is None:
        raise EventUnknown(
            f"event type {code} is not known in {dialect} binlogs",
            position=position,
            hint="the server may be newer than this release, or the file damaged",
        )
    return found


def refuse(kind: EventKind, *, position: str = "") -> EventRefused:
    """The error for an event of a refused kind."""
    return EventRefused(
        f"refused: {kind.reason}", object=kind.name, position=position, hint=kind.hint
    )
