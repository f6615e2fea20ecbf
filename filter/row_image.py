"""A row that somebody writes down, as the bytes that a server would log: for explanations."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from cdc.base.errors import InvalidError
from cdc.binlog.events import EventType
from cdc.binlog.writer import build_event
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.rows.plan import PlanBuilder, Planned
from cdc.rows.route import Route
from cdc.rows.storage import storage
from cdc.schema.table import Column, Table

_INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
_CODES = {"tinyint": 1, "smallint": 2, "mediumint": 9, "int": 3, "bigint": 8}
_TEXT_CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "latin1": "cp1252"}
_TEXT_CODECS |= {"ascii": "ascii", "ucs2": "utf-16-be", "utf16": "utf-16-be", "gbk": "gbk"}
_TEXT_CODECS |= {"utf32": "utf-32-be", "binary": "utf-8"}
_LONG = frozenset("tinytext text mediumtext longtext tinyblob blob mediumblob longblob".split())
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\Z")
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


class RowInvalid(InvalidError):
    """A row that does not fit its table, or holds a type that cannot be written down."""

    code = "TG:ErrRowInvalid"


def located_row(table: Table, old: Mapping[str, Any], new: Mapping[str, Any]) -> RowBatch:
    """An UPDATE of one row; columns that are not given are NULL. TIMESTAMPs are in UTC.

    Raises :class:`RowInvalid` naming the column.
    """
    columns, size = table.columns, len(table.columns)
    for name in (*old, *new):
        if name.lower() not in table.positions:
            raise RowInvalid(
                f"there is no column {name}", object=table.full_name, hint="correct --row"
            )
    before, after = (
        {table.positions[name.lower()]: value for name, value in row.items()} for row in (old, new)
    )
    kinds = [_kind(column, table, i in before or i in after) for i, column in enumerate(columns)]
    present = ((1 << size) - 1).to_bytes((size + 7) // 8, "little")
    body = bytes(6) + struct.pack("<HH", 1, 2) + _length(size) + present + present
    for row in (before, after):
        given = {i: value for i, value in row.items() if value is not None}
        nulls = sum(1 << i for i in range(size) if i not in given)
        body += nulls.to_bytes((size + 7) // 8, "little")
        body += b"".join(_encoded(columns[i], value, table) for i, value in sorted(given.items()))
    event = build_event(EventType.UPDATE_ROWS, body, server_id=1)
    builder = PlanBuilder()
    storages = tuple(storage(c, *kind) for c, kind in zip(columns, kinds, strict=True))
    builder.add(Planned(table, columns, storages, Route()))
    run = np.zeros((1, L.RUN_SIZE), np.int64)
    run[0, [L.RUN_LENGTH, L.RUN_TAKE, L.RUN_TS]] = len(event), 1, 1
    return RowBatch(np.frombuffer(event, np.uint8), run, 1, builder.build("UTC"), "--row")


def _length(size: int) -> bytes:
    return bytes([size]) if size < 251 else b"\xfc" + struct.pack("<H", size)


def _kind(column: Column, table: Table, used: bool) -> tuple[int, int]:
    """Type and metadata as a TABLE_MAP would have them, or any that holds the same values."""
    name, fsp = column.data_type, column.scale or 0
    if name in _CODES:
        return _CODES[name], 0
    fixed = {
        "float": (4, 4),
        "double": (5, 8),
        "decimal": (246, (column.length or 10) << 8 | fsp),
        "bit": (16, (column.length or 1) // 8 << 8 | (column.length or 1) % 8),
        "year": (13, 0),
        "date": (10, 0),
        "time": (19, fsp),
        "datetime": (18, fsp),
        "timestamp": (17, fsp),
        "enum": (247, 247 << 8 | _member_bytes(column)),
        "set": (248, 248 << 8 | _member_bytes(column)),
        "binary": (254, 254 << 8 | (column.length or 1)),
    }
    if name in fixed:
        return fixed[name]
    if name in ("char", "varchar", "varbinary"):
        return 15, 65535
    if name in _LONG or not used:
        return 252, 4
    raise RowInvalid(
        f"a value of type {column.column_type} cannot be written down",
        object=f"{table.full_name}.{column.name}",
        hint="leave the column out of --row",
    )


def _member_bytes(column: Column) -> int:
    count = len(column.members)
    if column.data_type == "enum":
        return 1 if count < 256 else 2
    return next(size for size in (1, 2, 3, 4, 8) if count <= 8 * size)


def _encoded(column: Column, value: Any, table: Table) -> bytes:
    try:
        return _bytes(column, value)
    except (ValueError, OverflowError, InvalidOperation, TypeError, LookupError, struct.error):
        raise RowInvalid(
            f"{value!r} is no value of {column.column_type}",
            object=f"{table.full_name}.{column.name}",
            hint="correct the value in --row",
        ) from None


def _bytes(column: Column, value: Any) -> bytes:
    name = column.data_type
    if name in _INTEGERS:
        return int(value).to_bytes(_INTEGERS[name], "little", signed=not column.unsigned)
    if name in ("float", "double"):
        return struct.pack("<f" if name == "float" else "<d", float(value))
    if name == "decimal":
        return _decimal(Decimal(str(value)), column.length or 10, column.scale or 0)
    if name == "bit":
        return int(value).to_bytes(((column.length or 1) + 7) // 8, "big")
    if name == "year":
        return bytes([int(value) - 1900 if int(value) else 0])
    if name == "enum":
        number = value if isinstance(value, int) else column.members.index(str(value)) + 1
        return number.to_bytes(_member_bytes(column), "little")
    if name == "set":
        names = [part for part in str(value).split(",") if part]
        bits = sum(1 << column.members.index(part) for part in names)
        return (value if isinstance(value, int) else bits).to_bytes(_member_bytes(column), "little")
    if name in ("date", "time", "datetime", "timestamp"):
        return _temporal(name, str(value), column.scale or 0)
    return _text(column, str(value))


def _text(column: Column, text: str) -> bytes:
    data = text.encode(_TEXT_CODECS[column.charset or "binary"])
    if column.data_type in _LONG:
        return struct.pack("<I", len(data)) + data
    if column.data_type == "binary":
        return bytes([len(data)]) + data
    return struct.pack("<H", len(data)) + data


def _decimal(value: Decimal, precision: int, scale: int) -> bytes:
    """The server's packed form: nine digits in four bytes, the first bit tells the sign."""
    whole = precision - scale
    digits = int(abs(value).scaleb(scale).to_integral_value())
    text = str(digits).rjust(precision, "0")
    if len(text) > precision:
        raise ValueError(text)
    left, right = text[:whole], text[whole:]
    head = whole % 9
    groups = [left[:head], *(left[i : i + 9] for i in range(head, whole, 9))]
    groups += [right[i : i + 9] for i in range(0, scale, 9)]
    data = bytearray(b"".join(int(g or "0").to_bytes(_DIGIT_BYTES[len(g)], "big") for g in groups))
    data[0] ^= 0x80
    return bytes(b ^ 0xFF for b in data) if value < 0 else bytes(data)


def _temporal(name: str, text: str, fsp: int) -> bytes:
    if name == "time":
        return _time(text, fsp)
    found = _DATE.match(text)
    if found is None:
        raise ValueError(text)
    year, month, day = map(int, found.groups())
    if name == "date":
        return (day | month << 5 | year << 9).to_bytes(3, "little")
    clock = _TIME.match(text[found.end() :].lstrip(" T") or "0:0:0")
    if clock is None or clock[1]:
        raise ValueError(text)
    hour, minute, second = int(clock[2]), int(clock[3]), int(clock[4] or 0)
    fraction = _fraction(clock[5], fsp)
    if name == "timestamp":
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        return int(moment.timestamp()).to_bytes(4, "big") + fraction
    days = (year * 13 + month) << 5 | day
    packed = days << 17 | hour << 12 | minute << 6 | second
    return (packed + (1 << 39)).to_bytes(5, "big") + fraction


def _time(text: str, fsp: int) -> bytes:
    found = _TIME.match(text)
    if found is None:
        raise ValueError(text)
    packed = int(found[2]) << 12 | int(found[3]) << 6 | int(found[4] or 0)
    fraction = _fraction(found[5], fsp)
    bits = 8 * len(fraction)
    value = packed << bits | int.from_bytes(fraction, "big")
    value = (0x800000 << bits) + (-value if found[1] else value)
    return value.to_bytes(3 + len(fraction), "big")


def _fraction(digits: str | None, fsp: int) -> bytes:
    size = (fsp + 1) // 2
    kept = (digits or "").ljust(6, "0")[:fsp]
    return int(kept.ljust(2 * size, "0") or "0").to_bytes(size, "big")
