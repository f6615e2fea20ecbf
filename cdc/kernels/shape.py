"""Rows events of one definition of a table written anew as another definition of it has them.

Columns are copied, left out, filled with a constant, or stored with another width, precision or
character set. Everything else of an event stays: time, table number, flags, kind.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import recode
from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT, crc32
from cdc.kernels.memory import copy, load8, load16, load32, store8, store32
from cdc.kernels.rows import UPDATE_V1, UPDATE_V2, WRITE_V2, event_kind, packed_integer, value_span
from cdc.kernels.text_values import little_endian
from cdc.kernels.values.signature import OUT, TABLE16

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- columns as they become, one row each ------------------------------------------------------
S_OP: Final = 0
S_FROM: Final = 1  # ordinal among the columns as they are
# INTEGER, INTEGER_OF_DECIMAL: bytes; PREFIX, TEXT: bytes of the length; CLOCK: bytes before the
# fraction
S_WIDTH: Final = 2
# INTEGER: the least value that is taken; PREFIX: most characters of UTF-8, TEXT: of any, 0: as many
# as there are; FILL: offset of the constant; DECIMAL, CLOCK, INTEGER_OF_DECIMAL, DATE_OF_DATETIME:
# digits as they are (``recode``).
S_LOW: Final = 3
# INTEGER, PREFIX, TEXT: the largest value, or length in bytes, that is taken; FILL: length of the
# constant; DECIMAL, CLOCK, DECIMAL_OF_INTEGER, DATETIME_OF_DATE: digits as they become.
S_HIGH: Final = 4
# INTEGER, CLOCK, DECIMAL_OF_INTEGER: whether it is read with its sign; INTEGER_OF_DECIMAL: whether
# it has one.
S_SIGNED: Final = 5
S_CODE: Final = 6  # TEXT: the character set as it is
S_INTO: Final = 7  # TEXT: the character set as it becomes
S_ENCODER: Final = 8  # TEXT: where that one's table begins
S_TRIMS: Final = 9  # TEXT: whether spaces at the end have no place, as in CHAR
S_SIZE: Final = 10

COPY: Final = 0
NULL: Final = 1
FILL: Final = 2
INTEGER: Final = 3
PREFIX: Final = 4
DECIMAL: Final = 5
CLOCK: Final = 6
TEXT: Final = 7
DECIMAL_OF_INTEGER: Final = 8
INTEGER_OF_DECIMAL: Final = 9
DOUBLE_OF_FLOAT: Final = 10
FLOAT_OF_DOUBLE: Final = 11
DATETIME_OF_DATE: Final = 12
DATE_OF_DATETIME: Final = 13

# --- results beside those of ``layout`` --------------------------------------------------------
ROOM: Final = 1000  # ``out`` is too small
# A value has no place in the column as it becomes; that column's ordinal is above COLUMN_AT.
VALUE: Final = 1001
COLUMN_AT: Final = 16

_MAX_COLUMNS: Final = 4096
_SPACE: Final = 32
# A decimal of 65 digits takes 30 bytes, and a kernel may write a word behind a value.
_LONGEST_NUMBER: Final = 64


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
def _number(buf, start, length, columns, c, spare, out, o):  # type: ignore[no-untyped-def]
    """Write a number or moment as another type has it: behind it, or -1."""
    op, low, high = columns[c, S_OP], columns[c, S_LOW], columns[c, S_HIGH]
    width, signed = columns[c, S_WIDTH], columns[c, S_SIGNED]
    if op == DECIMAL:
        return recode.decimal(buf, start, low, high, spare, out, o)
    if op == CLOCK:
        return recode.clock(buf, start, width, signed, low, high, out, o)
    if op == DECIMAL_OF_INTEGER:
        value = _integer(buf, start, length, signed)
        return recode.decimal_of_integer(value, signed, high, spare, out, o)
    if op == INTEGER_OF_DECIMAL:
        return recode.integer_of_decimal(buf, start, low, width, signed, spare, out, o)
    if op == DOUBLE_OF_FLOAT:
        return recode.double_of_float(buf, start, out, o)
    if op == FLOAT_OF_DOUBLE:
        return recode.float_of_double(buf, start, out, o)
    if op == DATETIME_OF_DATE:
        return recode.datetime_of_date(buf, start, high, out, o)
    return recode.date_of_datetime(buf, start, low, out, o)


@rare
def _recoded(  # type: ignore[no-untyped-def]
    buf, start, length, columns, c, tables, encoders, spare, out, o
):
    """The same of a value that is stored in another type, precision or character set."""
    op, low, high = columns[c, S_OP], columns[c, S_LOW], columns[c, S_HIGH]
    size = columns[c, S_WIDTH]
    if o + size + 4 * length + _LONGEST_NUMBER > out.size:
        return o, np.int64(ROOM)
    if op != TEXT:
        end = _number(buf, start, length, columns, c, spare, out, o)
    else:
        begin = o + size
        end, count, last = recode.text(
            buf, start, length, columns[c, S_CODE], columns[c, S_INTO], tables, encoders,
            columns[c, S_ENCODER], out, begin,
        )  # fmt: skip
        spaces = columns[c, S_TRIMS] and last == _SPACE
        if end - begin > high or (low > 0 and count > low) or spaces:
            end = np.int64(-1)
        if end >= 0:
            little_endian(end - begin, size, out, o)
    return (o, np.int64(VALUE)) if end < 0 else (end, np.int64(L.OK))


@rare
def _value(  # type: ignore[no-untyped-def]
    buf, start, length, width, columns, c, fills, tables, encoders, spare, out, o
):
    """Write the value of a column as it becomes at ``o``: (behind it, error)."""
    op = columns[c, S_OP]
    if op >= DECIMAL:
        return _recoded(buf, start, length, columns, c, tables, encoders, spare, out, o)
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
def _image(  # type: ignore[no-untyped-def]
    buf, p, end, widths, starts, columns, fills, tables, encoders, spare, out, o
):
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
        o, error = _value(buf, start, n, width, columns, c, fills, tables, encoders, spare, out, o)
        if error == VALUE:
            error |= c << COLUMN_AT
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
    BYTES, I64, I64, VECTOR, MATRIX, MATRIX, BYTES, TABLE16, recode.ENCODERS, OUT, OUT
))  # fmt: skip
def shape(  # type: ignore[no-untyped-def]
    buf, at, stop, widths, starts, columns, fills, tables, encoders, spare, out
):
    """Write the rows events of ``buf[at:stop]`` to ``out``, each column as ``columns`` says.

    ``widths`` int64[:] are the widths of columns as they are (``layout.C_WIDTH``), ``starts``
    int64[len(widths), 2] is scratch, ``columns`` int64[:, S_SIZE] are those that they become,
    ``fills`` uint8[:] constants, each with its length before it where the column has one.
    ``tables`` is ``charsets.tables()``, ``encoders`` uint32[:] are ``charsets.encoder`` of what
    columns become, ``spare`` uint8[recode.DIGITS] is scratch.
    Other events are left out. Returns (error, bytes written), or where the error is.
    """
    o = np.int64(0)
    count, after = widths.size, columns.shape[0]
    if at < 0 or stop < at or stop > buf.size or after > _MAX_COLUMNS or count > _MAX_COLUMNS:
        return np.int64(L.ERR_RUN), at
    if starts.shape[0] < count or spare.size < recode.DIGITS:
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
                p, o, error = _image(
                    buf, p, end, widths, starts, columns, fills, tables, encoders, spare, out, o
                )
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
