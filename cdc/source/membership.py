"""Nodes that come to an upstream and leave it, as statements of the log of all nodes.

Whoever reads that log knows the schema by its statements. So a node comes by CREATE of all that it
has where its own log begins, and leaves by DROP of its databases. The latter name databases as they
are called inside of the log (:mod:`cdc.base.nodes`) and have no session of any node, as no
statement of a server has: the target keeps what they drop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from cdc.base.nodes import qualified
from cdc.base.ts import Ts, physical_ms
from cdc.binlog.events import EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.binlog.query import Query, StatusCode
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.schema.session import Session
from cdc.schema.shown_constraints import mended
from cdc.schema.snapshot import CreateText, Schema, session_of
from cdc.schema.tokens import quoted
from cdc.source.merged_rows import PlacedRows

# FLAGS2: foreign keys may name tables that come later; TIMESTAMP columns are as they are printed.
_NO_FOREIGN_KEY_CHECKS = 1 << 26
_EXPLICIT_DEFAULTS = 1 << 24


class Statement(NamedTuple):
    """A statement and the default database of its session, as the merged log calls it."""

    sql: str
    database: str = ""
    status: bytes = b""


def arrival(node: str, snapshot: Mapping[str, Any]) -> Iterator[Statement]:
    """What makes all that a node has by the snapshot that its log begins with.

    Where the target has it already, it stays.
    """
    status = status_of(session_of(snapshot["server"]))
    for database, options in snapshot["databases"].items():
        defaults = f"CHARACTER SET {options['charset']} COLLATE {options['collation']}"
        sql = f"CREATE DATABASE IF NOT EXISTS {quoted(database)} {defaults}"
        yield Statement(sql, qualified(node, database), status)
    for (database, _), source in Schema(snapshot).sources.items():
        # A snapshot that was read from the server has texts only.
        assert isinstance(source, CreateText)
        sql = mended(source.text).replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)
        yield Statement(sql, qualified(node, database), status)
    for database, name in snapshot.get("others", ()):
        # Of a view or a sequence nothing matters but that it has the name.
        sql = f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT 1"
        yield Statement(sql, qualified(node, database), status)


def coming_of(node: str) -> str:
    """Whose the statements are by which a node comes, as GTIDs have a source."""
    return f"{node}:joined"


def leaving_of(node: str) -> str:
    """The same of those by which it leaves."""
    return f"{node}:left"


def departure(node: str, databases: Iterable[str]) -> Iterator[Statement]:
    """What says that a node has left; ``databases`` as they are called in the merged log's terms
    without the node."""
    for database in databases:
        yield Statement(f"DROP DATABASE {quoted(qualified(node, database))}")


def placed_statements(statements: Iterable[Statement], ts: Ts, source: int) -> PlacedRows:
    """Statements as the merged log has them, one ts after the other from ``ts`` on.

    ``source`` and their number name each of them, as a GTID does a server's transaction: ledgers
    stand at them too.
    """
    time_s = physical_ms(ts) // 1000
    events = tuple(statement_event(time_s, statement) for statement in statements)
    lengths = np.array([len(event) for event in events], np.int64)
    runs = Runs.build(
        len(events),
        commit_ts=ts + np.arange(len(events)),
        kind=int(RunKind.DDL),
        flags=LAST_OF_TRANSACTION,
        gtid_source=source,
        gtid_seq=np.arange(1, len(events) + 1),
        offset=np.cumsum(lengths) - lengths,
        length=lengths,
    )
    return PlacedRows(runs, events)


def status_of(session: Session) -> bytes:
    """Status variables of a statement that no session of a server has executed."""
    explicit = session.explicit_defaults_for_timestamp
    flags = _NO_FOREIGN_KEY_CHECKS | (_EXPLICIT_DEFAULTS if explicit else 0)
    # The texts were printed under the default sql_mode.
    mode = bytes([StatusCode.SQL_MODE]) + bytes(8)
    return bytes([StatusCode.FLAGS2]) + flags.to_bytes(4, "little") + mode


def statement_event(time_s: int, statement: Statement) -> bytes:
    """A statement as a QUERY event of this time, in seconds."""
    query = Query(0, 0, 0, statement.database, statement.sql.encode(), statement.status)
    body = query.encode()
    length = HEADER_LENGTH + len(body) + CHECKSUM_LENGTH
    header = EventHeader(time_s, EventType.QUERY, 0, length, 0, 0)
    whole = header.encode() + body
    return whole + checksum(whole)
