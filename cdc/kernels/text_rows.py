"""Rows of the text protocol as row images, as the server would log an INSERT of them."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.json_binary import MORE_NODES, NODES, binary_json
from cdc.kernels.memory import copy, load8, load16, load32, load64, store8
from cdc.kernels.rows import MATRIX
from cdc.kernels.text_values import (
    counted,
    date,
    datetime,
    decimal,
    double,
    float32,
    integer,
    time,
    timestamp,
    trimmed,
    year,
)

I64 = types.int64

OK: Final = 0
ROOM: Final = 1  # the next row needs more room in the output; how much is given
BAD_ROW: Final = 2  # a row's fields are not those of the table
BAD_VALUE: Final = 3  # a value is none of its column's type; the column is given
ROOM_OF_NODES: Final = 4  # a JSON document has more values than there are nodes

_NULL = 0xFB


@small
def length_of(buf, p, end):  # type: ignore[no-untyped-def]
    """``(length, start)`` of a length-encoded string; -2 for NULL, -1 if it goes on behind end."""
    if p >= end:
        return np.int64(-1), p
    n = load8(buf, p)
    p += 1
    if n < _NULL:
        return n, p
    if n == _NULL:
        return np.int64(-2), p
    size = 2 if n == 0xFC else 3 if n == 0xFD else 8
    if n == 0xFF or p + size > end:
        return np.int64(-1), p
    if size == 2:
        return load16(buf, p), p + 2
    if size == 3:
        return load16(buf, p) | load8(buf, p + 2) << 16, p + 3
    return load64(buf, p), p + 8


@rare
def put_rare(buf, p, n, op, a, width, nodes, out, o):  # type: ignore[no-untyped-def]
    """A value of one of the types that tables seldom have."""
    if op == L.OP_DATE:
        return date(buf, p, n, out, o)
    if op == L.OP_TIME2:
        return time(buf, p, n, a, out, o)
    if op == L.OP_YEAR:
        return year(buf, p, n, out, o)
    if op == L.OP_ENUM or op == L.OP_SET:
        return integer(buf, p, n, width, False, out, o)
    if op == L.OP_JSON:
        return binary_json(buf, p, n, -width, nodes, out, o)
    if op == L.OP_BIT:
        if n != width:
            return np.int64(-1)
        copy(buf, p, out, o, n)
        return o + n
    if op == L.OP_BINARY_PADDED:
        return trimmed(buf, p, n, a, -width, out, o)
    if op == L.OP_UUID or op == L.OP_INET6:
        return trimmed(buf, p, n, np.int64(16), -width, out, o)
    if op == L.OP_INET4:
        return trimmed(buf, p, n, np.int64(4), -width, out, o)
    return np.int64(-1)


@small
def _put(buf, p, n, c, columns, nodes, out, o):  # type: ignore[no-untyped-def]
    op = columns[c, L.C_OP]
    width = columns[c, L.C_WIDTH]
    if op <= L.OP_UINT64:
        return integer(buf, p, n, width, op & 1 == 0, out, o)
    if op == L.OP_UTF8 or op == L.OP_TEXT or op == L.OP_BINARY or op == L.OP_VECTOR:
        return counted(buf, p, n, -width, out, o)
    if op == L.OP_DECIMAL:
        return decimal(buf, p, n, columns[c, L.C_A], columns[c, L.C_B], out, o)
    if op == L.OP_DATETIME2:
        return datetime(buf, p, n, columns[c, L.C_A], out, o)
    if op == L.OP_TIMESTAMP2:
        return timestamp(buf, p, n, columns[c, L.C_A], out, o)
    if op == L.OP_DOUBLE:
        return double(buf, p, n, out, o)
    if op == L.OP_FLOAT:
        return float32(buf, p, n, out, o)
    return put_rare(buf, p, n, op, columns[c, L.C_A], width, nodes, out, o)


@kernel(types.UniTuple(I64, 5)(BYTES, I64, MATRIX, I64, I64, I64, NODES, types.uint8[::1]))
def write_images(buf, at, columns, unused, fixed, spread, nodes, out):  # type: ignore[no-untyped-def]
    """Write images of the rows from ``buf[at:]`` on (``row_packets``), as many as ``out`` takes.

    ``columns`` int64[:, C_SIZE] are all columns of the table in order; ``unused`` is 255 where the
    server sets the NULL bits behind the last column, else 0; ``fixed`` is the most bytes that an
    image takes beside ``spread`` for each of its row's. ``nodes`` is room for a JSON document's
    values (``json_binary``). Returns ``(next at, bytes written, rows, code, what)``; ``what`` is
    the room that the next row needs (ROOM), or the column (BAD_VALUE, ROOM_OF_NODES).
    """
    count = columns.shape[0]
    bitmap = (count + 7) >> 3
    rows = np.int64(0)
    o = np.int64(0)
    while at < buf.size:
        if at + 4 > buf.size:
            return at, o, rows, BAD_ROW, 0
        p = at + 4
        length = load32(buf, at)
        end = p + length
        if end > buf.size:
            return at, o, rows, BAD_ROW, 0
        room = bitmap + fixed + spread * length
        if o + room > out.size:
            return at, o, rows, ROOM, room
        begin = o
        for i in range(bitmap):
            store8(out, o + i, 0)
        store8(out, o + bitmap - 1, unused << (((count - 1) & 7) + 1))
        o += bitmap
        for c in range(count):
            n, p = length_of(buf, p, end)
            if n == -2:
                where = begin + (c >> 3)
                store8(out, where, load8(out, where) | 1 << (c & 7))
                continue
            if n < 0 or p + n > end:
                return at, begin, rows, BAD_ROW, 0
            o = _put(buf, p, n, c, columns, nodes, out, o)
            if o < 0:
                return at, begin, rows, ROOM_OF_NODES if o == MORE_NODES else BAD_VALUE, c
            p += n
        if p != end:
            return at, begin, rows, BAD_ROW, 0
        rows += 1
        at = end
    return at, o, rows, OK, 0
