"""Rows events of one definition of a table written anew as another definition of it has them.

Columns are copied, left out, filled with a constant, or stored with another width. Everything else
of an event stays: time, table number, flags, kind.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT, crc32
from cdc.kernels.memory import copy, load8, load16, load32, store8, store32
from cdc.kernels.rows import UPDATE_V1, UPDATE_V2, WRITE_V2, event_kind, packed_integer, value_span
from cdc.kernels.text_values import little_endian

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- columns as they become, one row each ------------------------------------------------------
S_OP: Final = 0
S_FROM: Final = 1  # ordinal among the columns as they are
S_WIDTH: Final = 2  # INTEGER: bytes; PREFIX: bytes of the length
# INTEGER: the least value that is taken; PREFIX: most characters of UTF-8, 0: any; FILL: offset
# of the constant.
S_LOW: Final = 3
S_HIGH: Final = 4  # the largest value, or length, that is taken; FILL: length of the constant
S_SIGNED: Final = 5  # INTEGER: whether it is read with its sign
S_SIZE: Final = 6

COPY: Final = 0
NULL: Final = 1
FILL: Final = 2
INTEGER: Final = 3
PREFIX: Final = 4

# --- results beside those of ``layout`` --------------------------------------------------------
ROOM: Final = 1000  # ``out`` is too small
VALUE: Final = 1001  # a value has no place in the column as it becomes

_MAX_COLUMNS: Final = 4096


@rare
def _integer(buf, p, n, signed):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for i in range(n):
        value |= np.int64(load8(buf, p + i)) << (8 * i)
    if signed and n < 8 and value >> (8 * n - 1):
        value -= np.int64(1) << (8 * n)
    return value


@rare
def _letters(buf, p, n):  # type: ignore[no-untyped-def]
    # Of UTF-8.
    found = 0
    for i in range(n):
        found += load8(buf, p + i) & 0xC0 != 0x80
    return found


@rare
def _value(buf, start, length, width, columns, c, fills, out, o):  # type: ignore[no-untyped-def]
    """Write the value of a column as it becomes at ``o``: (behind it, error)."""
    op = columns[c, S_OP]
    if op == FILL:
        n = columns[c, S_HIGH]
        if o + n > out.size:
            return o, np.int64(ROOM)
        copy(fills, columns[c, S_LOW], out, o, n)
        return o + n, np.int64(L.OK)
    if op == INTEGER:
        n = columns[c, S_WIDTH]
        if o + n > out.size:
            return o, np.int64(ROOM)
        value = _integer(buf, start, length, columns[c, S_SIGNED])
        if value < columns[c, S_LOW] or value > columns[c, S_HIGH]:
            return o, np.int64(VALUE)
        return little_endian(value, n, out, o), np.int64(L.OK)
    n = -width if width < 0 else 0
    if op == PREFIX:
        n = columns[c, S_WIDTH]
        most = columns[c, S_LOW]
        if length > columns[c, S_HIGH] or (most > 0 and _letters(buf, start, length) > most):
            return o, np.int64(VALUE)
    if o + n + length > out.size:
        return o, np.int64(ROOM)
    o = little_endian(length, n, out, o)
    copy(buf, start, out, o, length)
    return o + length, np.int64(L.OK)


@rare
def _image(buf, p, end, widths, starts, columns, fills, out, o):  # type: ignore[no-untyped-def]
    """One row image: (behind it, behind what was written, error)."""
    nulls = p
    count, after = widths.size, columns.shape[0]
    p += (count + 7) >> 3
    if p > end:
        return p, o, np.int64(L.ERR_IMAGE)
    for i in range(count):
        starts[i, 0] = -1
        if load8(buf, nulls + (i >> 3)) >> (i & 7) & 1:
            continue
        start, n = value_span(buf, p, end, widths[i])
        if start < 0:
            return p, o, np.int64(L.ERR_IMAGE)
        starts[i, 0], starts[i, 1] = start, n
        p = start + n
    size = (after + 7) >> 3
    if o + size > out.size:
        return p, o, np.int64(ROOM)
    bits = o
    for i in range(size):
        store8(out, o + i, 0)
    o += size
    for c in range(after):
        op, source = columns[c, S_OP], columns[c, S_FROM]
        start, n, width = np.int64(0), np.int64(0), np.int64(0)
        if op != FILL and op != NULL:
            start, n, width = starts[source, 0], starts[source, 1], widths[source]
        if op == NULL or start < 0:
            at = bits + (c >> 3)
            store8(out, at, load8(out, at) | 1 << (c & 7))
            continue
        o, error = _value(buf, start, n, width, columns, c, fills, out, o)
        if error != L.OK:
            return p, o, error
    return p, o, np.int64(L.OK)


@rare
def _full(buf, at, count):  # type: ignore[no-untyped-def]
    present = 0
    for i in range(count):
        present += load8(buf, at + (i >> 3)) >> (i & 7) & 1
    return present == count


@rare
def _bitmap(out, o, count):  # type: ignore[no-untyped-def]
    for i in range((count + 7) >> 3):
        left = count - 8 * i
        store8(out, o + i, 255 if left >= 8 else (1 << left) - 1)
    return o + ((count + 7) >> 3)


@kernel(types.UniTuple(I64, 2)(
    BYTES, I64, I64, VECTOR, MATRIX, MATRIX, BYTES, types.uint8[::1]
))  # fmt: skip
def shape(buf, at, stop, widths, starts, columns, fills, out):  # type: ignore[no-untyped-def]
    """Write the rows events of ``buf[at:stop]`` to ``out``, each column as ``columns`` says.

    ``widths`` int64[:] are the widths of columns as they are (``layout.C_WIDTH``), ``starts``
    int64[len(widths), 2] is scratch, ``columns`` int64[:, S_SIZE] are those that they become,
    ``fills`` uint8[:] constants, each with its length before it where the column has one.
    Other events are left out. Returns (error, bytes written), or where the error is.
    """
    o = np.int64(0)
    count, after = widths.size, columns.shape[0]
    if at < 0 or stop < at or stop > buf.size or after > _MAX_COLUMNS or count > _MAX_COLUMNS:
        return np.int64(L.ERR_RUN), at
    if starts.shape[0] < count:
        return np.int64(L.ERR_RUN), at
    while at < stop:
        if at + HEADER + CHECKSUM > stop:
            return np.int64(L.ERR_EVENT), at
        length = load32(buf, at + LENGTH_AT)
        if length < HEADER + CHECKSUM or at + length > stop:
            return np.int64(L.ERR_EVENT), at
        code = load8(buf, at + 4)
        what = event_kind(code)
        if what > 1:
            return np.int64(what), at
        if what == 1:
            end = at + length - CHECKSUM
            p = at + HEADER + 8
            if code >= WRITE_V2:
                if p + 2 > end:
                    return np.int64(L.ERR_EVENT), at
                p += load16(buf, p)
            head = p - at
            n, p = packed_integer(buf, p, end)
            update = code in (UPDATE_V1, UPDATE_V2)
            size = ((count + 7) >> 3) * (2 if update else 1)
            if n < 0 or p + size > end:
                return np.int64(L.ERR_EVENT), at
            if n != count:
                return np.int64(L.ERR_COLUMNS), at
            if not _full(buf, p, count) or not _full(buf, p + size - ((count + 7) >> 3), count):
                return np.int64(L.ERR_NOT_FULL), at
            p += size
            begin = o
            if o + head + 3 + 2 * ((after + 7) >> 3) > out.size:
                return np.int64(ROOM), at
            copy(buf, at, out, o, head)
            o += head
            if after < 251:
                store8(out, o, after)
                o += 1
            else:
                store8(out, o, 252)
                o = little_endian(after, 2, out, o + 1)
            o = _bitmap(out, o, after)
            if update:
                o = _bitmap(out, o, after)
            while p < end:
                start = p
                p, o, error = _image(buf, p, end, widths, starts, columns, fills, out, o)
                if error != L.OK:
                    return error, start
                if p <= start:
                    return np.int64(L.ERR_IMAGE), start
            if o + CHECKSUM > out.size:
                return np.int64(ROOM), at
            store32(out, begin + LENGTH_AT, o - begin + CHECKSUM)
            store32(out, o, np.int64(crc32(out, begin, o, np.uint32(0))))
            o += CHECKSUM
        at += length
    return np.int64(L.OK), o
