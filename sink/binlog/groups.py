"""Statements of schema changes as QUERY events."""

from __future__ import annotations

from dataclasses import replace

from cdc.base.nodes import plain
from cdc.base.vtso import VTso
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH
from cdc.binlog.query import Query, StatusCode, status_parts
from sink.codec.statement import statement_text
from sink.dispatch.target import TargetRouter
from sink.schema_change import Logged, SchemaChange

_UTF8MB4 = 45
"""Collation utf8mb4_general_ci, the same number in both families."""


def begin() -> bytes:
    """The body of the QUERY that begins rows: its session decides nothing about them."""
    return Query(0, 0, 0, "", b"BEGIN").encode()


def mark(vtso: VTso) -> bytes:
    """The body of the ROWS_QUERY that says where a cluster's transaction has its place."""
    text = f"# CTS::{vtso}".encode()
    return bytes([len(text)]) + text


def statement(change: SchemaChange, logged: Logged, names: TargetRouter) -> bytes:
    """The body of a change's QUERY: as the upstream has it where it has the same text.

    Its default database stays too, whether or not it is one that the statement changes: names
    without a database, and defaults, go by it.
    """
    query = Query.parse(logged.event[HEADER_LENGTH:-CHECKSUM_LENGTH])
    named = [name for name in change.tables if name in change.replicated]
    text = statement_text(change, named, names)
    same = text == logged.sql
    status = b"".join(_status(query.raw_status, same=same))
    if same:
        return replace(query, schema=plain(query.schema), raw_status=status).encode()
    schema = plain(change.session.default_schema or query.schema)
    return replace(query, schema=schema, raw_sql=text.encode(), raw_status=status).encode()


def _status(raw: bytes, *, same: bool) -> list[bytes]:
    """Status variables; the client's character set is ours where the text is."""
    kept = []
    for code, part in status_parts(raw):
        if code == StatusCode.MARIADB_GTID_FLAGS3:
            # It says that an ALTER was begun in an event of its own, which is not written.
            continue
        if code == StatusCode.CHARSET and not same:
            part = part[:1] + _UTF8MB4.to_bytes(2, "little") + part[3:]
        kept.append(part)
    return kept
