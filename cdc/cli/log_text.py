"""The text form of events: one line each with offset, time, type and fields; rows below it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from cdc.binlog.column_types import ColumnType, real_type
from cdc.binlog.decode import Decoded
from cdc.binlog.query import Query
from cdc.binlog.reader import Event
from cdc.binlog.rows_header import RowsHeader
from cdc.binlog.table_map import TableMap
from cdc.cli.log_metadata import INTEGER_BITS, KnownTable, Unknown
from cdc.schema.table import Column

_BYTES = frozenset(
    "binary varbinary tinyblob blob mediumblob longblob geometry point linestring polygon"
    " multipoint multilinestring multipolygon geometrycollection".split()
)
NOTE = " " * 12
"""What stands before lines that belong to the event above them."""


def event_line(event: Event, decoded: Decoded) -> str:
    """``offset time type length server: fields``; what came out of a compressed event has ``+``."""
    header = event.header
    at = datetime.fromtimestamp(header.timestamp, UTC).strftime("%Y-%m-%d %H:%M:%S")
    place = f"{event.offset}+{event.inner}" if event.inner >= 0 else str(event.offset)
    line = f"{place:>10}  {at}  {event.kind.name}  {header.length} bytes  server {header.server_id}"
    fields = describe(decoded, event)
    return f"{line}  {fields}" if fields else line


def describe(decoded: Decoded, event: Event) -> str:
    """The fields of an event on one line."""
    if decoded is None:
        return f"({event.kind.reason})" if event.kind.reason else ""
    if isinstance(decoded, Query):
        return _query(decoded)
    if isinstance(decoded, TableMap):
        return _table_map(decoded, event)
    if isinstance(decoded, RowsHeader):
        text = f"table id {decoded.table_id}, {decoded.columns} columns"
        text += "" if decoded.full else f", present {decoded.present.hex()}"
        if decoded.present_after and not decoded.full:
            text += f" -> {decoded.present_after.hex()}"
        return text + (", end of statement" if decoded.statement_end else "")
    if dataclasses.is_dataclass(decoded) and not isinstance(decoded, type):
        return ", ".join(_fields(decoded))
    if isinstance(decoded, str):
        return one_line(decoded)
    return str(decoded)


def _fields(value: Any) -> Iterator[str]:
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if content is None or content in ((), b"", ""):
            continue
        if isinstance(content, bytes):
            content = content.hex()
        elif isinstance(content, Enum):
            content = content.name or content.value
        elif isinstance(content, tuple) and not hasattr(content, "_fields"):
            content = " ".join(str(item) for item in content)
        yield f"{field.name} {one_line(str(content))}"


def _query(query: Query) -> str:
    context = [f"schema {query.schema}"] if query.schema else []
    context += [f"thread {query.thread_id}", *_fields(query.status())]
    if query.error_code:
        context.append(f"error {query.error_code}")
    return f"{one_line(query.sql)}  [{', '.join(context)}]"


def _table_map(table: TableMap, event: Event) -> str:
    names = table.details(event.dialect).names or tuple(f"@{i + 1}" for i in range(table.columns))
    columns = ", ".join(
        f"{one_line(name)} {ColumnType(real_type(code, meta)).name}"
        + (f"({meta})" if meta else "")
        + ("" if nullable else " NOT NULL")
        for name, code, meta, nullable in zip(
            names, table.types, table.metadata, table.nullable, strict=True
        )
    )
    return f"{one_line(table.full_name)} id {table.table_id} ({columns})"


def row_lines(message: bytes, known: KnownTable) -> Iterator[str]:
    """The text form of one row out of its canal-json message.

    Bytes are hex; a number of unknown sign shows both readings where they differ; a column that
    one image lacks shows the other alone.
    """
    row = json.loads(message)
    yield f"{NOTE}{row['type']} {row['database']}.{row['table']}"
    old = (row.get("old") or [None])[0] or {}
    new = row["data"][0]
    for column, unknown in zip(known.table.columns, known.unknown, strict=True):
        name = column.name
        if name not in old and name not in new:
            continue
        shown = _shown(new[name], column, unknown) if name in new else "(not in this image)"
        before = _shown(old[name], column, unknown) if name in old else ""
        was = f"  (was {before})" if before and before != shown else ""
        yield f"{NOTE}  {one_line(name)} = {shown}{was}"


def _shown(value: str | None, column: Column, unknown: Unknown) -> str:
    if value is None:
        return "NULL"
    if column.data_type in _BYTES or column.charset == "binary" or unknown is Unknown.CHARSET:
        return f"x'{value.encode('latin-1').hex()}'"
    text = json.dumps(value, ensure_ascii=False)
    bits = INTEGER_BITS.get(column.data_type)
    if unknown is Unknown.SIGN and bits is not None and int(value) < 0:
        return f'{text} or "{int(value) + (1 << bits)}"'
    return text


def one_line(text: str) -> str:
    """Control characters written as escapes, so that data can never move the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
