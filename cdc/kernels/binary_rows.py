"""Rows of the binary protocol as row images; the same images as ``text_rows`` makes of text.

A server spends half the time on them: it makes no text of numbers, which for DOUBLE is most of all
it does. Row: a zero byte, the NULL bitmap (from its third bit on), the values that are not NULL:
numbers as they are, all else behind its length.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.binary_values import date, datetime, plain, time, timestamp, whole, year
from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES
from cdc.kernels.json_binary import MORE_NODES, NODES
from cdc.kernels.memory import load8, load32, store8
from cdc.kernels.rows import MATRIX
from cdc.kernels.text_rows import (
    BAD_ROW,
    BAD_VALUE,
    OK,
    ROOM,
    ROOM_OF_NODES,
    length_of,
    put_rare,
)
from cdc.kernels.text_values import counted, decimal

I64 = types.int64


@small
def _put(buf, p, n, c, columns, nodes, out, o):  # type: ignore[no-untyped-def]
    op = columns[c, L.C_OP]
    width = columns[c, L.C_WIDTH]
    if op <= L.OP_UINT64:
        return whole(buf, p, n, width, op & 1 == 0, out, o)
    if op == L.OP_UTF8 or op == L.OP_TEXT or op == L.OP_BINARY or op == L.OP_VECTOR:
        return counted(buf, p, n, -width, out, o)
    if op == L.OP_DECIMAL:
        return decimal(buf, p, n, columns[c, L.C_A], columns[c, L.C_B], out, o)
    if op == L.OP_DATETIME2:
        return datetime(buf, p, n, columns[c, L.C_A], out, o)
    if op == L.OP_TIMESTAMP2:
        return timestamp(buf, p, n, columns[c, L.C_A], out, o)
    if op == L.OP_DOUBLE or op == L.OP_FLOAT:
        return plain(buf, p, n, width, out, o)
    if op == L.OP_DATE:
        return date(buf, p, n, out, o)
    if op == L.OP_TIME2:
        return time(buf, p, n, columns[c, L.C_A], out, o)
    if op == L.OP_YEAR:
        return year(buf, p, n, out, o)
    if op == L.OP_ENUM or op == L.OP_SET:
        return whole(buf, p, n, width, False, out, o)
    return put_rare(buf, p, n, op, columns[c, L.C_A], width, nodes, out, o)


@kernel(
    types.UniTuple(I64, 5)(
        BYTES, I64, types.int64[::1], MATRIX, I64, I64, I64, NODES, types.uint8[::1]
    )
)
def write_images(buf, at, wire, columns, unused, fixed, spread, nodes, out):  # type: ignore[no-untyped-def]
    """As :func:`cdc.kernels.text_rows.write_images`.

    ``wire`` int64[columns] is how many bytes a value of each has, 0 where its length is before it.
    """
    count = columns.shape[0]
    bitmap = (count + 7) >> 3
    nulls = (count + 9) >> 3
    rows = np.int64(0)
    o = np.int64(0)
    while at < buf.size:
        if at + 4 > buf.size:
            return at, o, rows, BAD_ROW, 0
        p = at + 4
        length = load32(buf, at)
        end = p + length
        if end > buf.size or length < 1 + nulls or load8(buf, p) != 0:
            return at, o, rows, BAD_ROW, 0
        room = bitmap + fixed + spread * length
        if o + room > out.size:
            return at, o, rows, ROOM, room
        begin = o
        for i in range(bitmap):
            store8(out, o + i, 0)
        store8(out, o + bitmap - 1, unused << (((count - 1) & 7) + 1))
        o += bitmap
        bits = p + 1
        p += 1 + nulls
        for c in range(count):
            if load8(buf, bits + ((c + 2) >> 3)) >> ((c + 2) & 7) & 1:
                where = begin + (c >> 3)
                store8(out, where, load8(out, where) | 1 << (c & 7))
                continue
            n = wire[c]
            if n == 0:
                n, p = length_of(buf, p, end)
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
