"""One value of a row image as canal-json text: the choice of the kernel by the column's op."""

from __future__ import annotations

import numpy as np

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import rare, small
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.memory import load8, load16, load32, load64
from cdc.kernels.values.addresses import inet4, inet6, uuid
from cdc.kernels.values.binary import binary
from cdc.kernels.values.dates import date, datetime2, time2, timestamp2
from cdc.kernels.values.decimals import decimal
from cdc.kernels.values.errors import LENGTH
from cdc.kernels.values.escape import utf8
from cdc.kernels.values.floats import double, float32
from cdc.kernels.values.integers import bit, year
from cdc.kernels.values.mysql_json import mysql_json
from cdc.kernels.values.old_dates import datetime as old_datetime
from cdc.kernels.values.old_dates import time as old_time
from cdc.kernels.values.old_dates import timestamp as old_timestamp
from cdc.kernels.values.text import text
from cdc.kernels.values.vectors import vector


@rare
def little_endian(buf, p, n):  # type: ignore[no-untyped-def]
    """Unsigned integer of up to 8 bytes."""
    v = np.uint64(0)
    for i in range(n):
        v |= np.uint64(load8(buf, p + i)) << np.uint64(8 * i)
    return v


@small
def integer(buf, p, op):  # type: ignore[no-untyped-def]
    """Value of an integer op as int64 (OP_UINT64: its bits)."""
    if op == L.OP_INT64 or op == L.OP_UINT64:
        return load64(buf, p)
    if op == L.OP_INT32:
        return np.int64(np.int32(load32(buf, p)))
    if op == L.OP_UINT32:
        return load32(buf, p)
    if op == L.OP_INT8:
        return np.int64(np.int8(load8(buf, p)))
    if op == L.OP_UINT8:
        return load8(buf, p)
    if op == L.OP_INT16:
        return np.int64(np.int16(load16(buf, p)))
    if op == L.OP_UINT16:
        return load16(buf, p)
    v = load16(buf, p) | load8(buf, p + 2) << 16
    if op == L.OP_INT24 and v >= 1 << 23:
        v -= 1 << 24
    return v


@rare
def _rare(buf, p, n, op, a, starts, offsets, texts, out, o):  # type: ignore[no-untyped-def]
    if op == L.OP_DATE:
        return date(buf, p, out, o)
    if op == L.OP_TIME2:
        return time2(buf, p, a, out, o)
    if op == L.OP_YEAR:
        return year(buf, p, out, o), 0
    if op == L.OP_BIT:
        return bit(buf, p, n, out, o)
    if op == L.OP_BINARY:
        return binary(buf, p, n, 0, out, o), 0
    if op == L.OP_BINARY_PADDED:
        return binary(buf, p, n, a, out, o), 0
    if op == L.OP_ENUM or op == L.OP_SET:
        if n > 8:
            return p, LENGTH
        return put_unsigned(little_endian(buf, p, n), out, o), 0
    if op == L.OP_TEXT:
        return text(buf, p, n, a, texts, out, o)
    if op == L.OP_JSON:
        return mysql_json(buf, p, n, out, o)
    if op == L.OP_UUID:
        return uuid(buf, p, n, out, o)
    if op == L.OP_INET4:
        return inet4(buf, p, n, out, o)
    if op == L.OP_INET6:
        return inet6(buf, p, n, out, o)
    if op == L.OP_VECTOR:
        return vector(buf, p, n, out, o)
    if op == L.OP_OLD_TIME:
        return old_time(buf, p, a, out, o)
    if op == L.OP_OLD_DATETIME:
        return old_datetime(buf, p, a, out, o)
    if op == L.OP_OLD_TIMESTAMP:
        return old_timestamp(buf, p, a, starts, offsets, out, o)
    return p, LENGTH


@small
def put_value(buf, p, n, c, columns, starts, offsets, texts, out, o):  # type: ignore[no-untyped-def]
    """Text of the value ``buf[p:p+n]`` of column row ``c``: ``(new o, 0)`` or ``(offset, code)``.

    ``starts`` and ``offsets`` are the time zone (``values.zones``), ``texts`` the tables of
    ``charsets``.
    """
    op = columns[c, L.C_OP]
    if op <= L.OP_UINT64:
        v = integer(buf, p, op)
        if op == L.OP_UINT64:
            return put_unsigned(np.uint64(v), out, o), 0
        return put_signed(v, out, o), 0
    if op == L.OP_UTF8:
        return utf8(buf, p, n, out, o)
    if op == L.OP_DECIMAL:
        return decimal(buf, p, columns[c, L.C_A], columns[c, L.C_B], out, o)
    if op == L.OP_DOUBLE:
        return double(buf, p, out, o), 0
    if op == L.OP_DATETIME2:
        return datetime2(buf, p, columns[c, L.C_A], out, o)
    if op == L.OP_TIMESTAMP2:
        return timestamp2(buf, p, columns[c, L.C_A], starts, offsets, out, o)
    if op == L.OP_FLOAT:
        return float32(buf, p, out, o), 0
    return _rare(buf, p, n, op, columns[c, L.C_A], starts, offsets, texts, out, o)


@rare
def put_value_called(buf, p, n, c, columns, starts, offsets, texts, out, o):  # type: ignore[no-untyped-def]
    """``put_value`` as a call, for places where its size matters more than its speed."""
    return put_value(buf, p, n, c, columns, starts, offsets, texts, out, o)
