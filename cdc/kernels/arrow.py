"""Row images to columns: numbers, times, bytes and UTF-8 text as the arrays that Arrow is made of.

First ``spans`` finds every value of the rows of one table; then one kernel a column reads them.
Text goes through the same kernels as messages do, and its JSON escapes are undone.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.cell import integer, little_endian, put_value_called
from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8, store8
from cdc.kernels.rows import MATRIX, next_value, null_bytes
from cdc.kernels.unescape import unescape

I64 = types.int64
VECTOR = types.int64[::1]
OUT = types.Array(types.uint8, 1, "C")
TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)

AFTER, BEFORE = 0, 1
# States of a value in ``micros``: it has none (NULL), it has one, it is no day of the calendar.
NO_VALUE, VALUE, NO_DAY = 0, 1, 2

_DAY = 86_400
_MILLION = 1_000_000
_BACKSLASH = 92


@kernel(types.UniTuple(I64, 2)(BYTES, MATRIX, VECTOR, I64, I64, MATRIX, MATRIX, MATRIX, MATRIX))
def spans(buf, refs, order, plan, image, tables, columns, starts, lengths):  # type: ignore[no-untyped-def]
    """Offset and length of each value: ``starts[c, i]`` for column c of row ``refs[order[i]]``.

    ``image`` is AFTER (the new values, or those of a DELETE) or BEFORE. -1 stands for NULL, for an
    absent column and for an image that the change does not have. Both outputs are int64 with a row
    for each column of the plan. Returns ``(error, offset in buf)``.
    """
    if plan < 0 or plan >= tables.shape[0] or starts.shape != lengths.shape:
        return L.ERR_RUN, 0
    count = tables[plan, L.T_COLUMNS]
    first = tables[plan, L.T_COLUMN]
    if starts.shape[0] < count or starts.shape[1] < order.size:
        return L.ERR_ROOM, 0
    for i in range(order.size):
        r = order[i]
        if r < 0 or r >= refs.shape[0] or refs[r, L.R_PLAN] != plan:
            return L.ERR_RUN, 0
        partial = refs[r, L.R_KIND] & L.PARTIAL != 0
        p, bitmap = refs[r, L.R_AFTER], refs[r, L.R_BITMAP_AFTER]
        if image == BEFORE or p < 0:
            p, bitmap = refs[r, L.R_BEFORE], refs[r, L.R_BITMAP]
        if p < 0:
            for c in range(count):
                starts[c, i] = -1
                lengths[c, i] = 0
            continue
        end = refs[r, L.R_END]
        nulls = p
        p += null_bytes(buf, bitmap, partial, count)
        k = 0
        for c in range(count):
            k, start, n, p, ok = next_value(
                buf, k, bitmap, partial, c, nulls, p, end, columns[first + c, L.C_WIDTH]
            )
            if not ok:
                return L.ERR_IMAGE, nulls
            starts[c, i] = start
            lengths[c, i] = n if start >= 0 else 0
    return L.OK, -1


@kernel(I64(BYTES, VECTOR, VECTOR, I64, VECTOR))
def integers(buf, starts, lengths, op, out):  # type: ignore[no-untyped-def]
    """Integers, YEAR, BIT, ENUM and SET as int64, UINT64 and floats as their bits; NULL is 0.

    Returns the index of a value whose length is impossible, else -1.
    """
    for i in range(starts.size):
        p, n = starts[i], lengths[i]
        v = np.int64(0)
        if p >= 0:
            if n > 8:
                return i
            if op <= L.OP_UINT64:
                v = np.int64(integer(buf, p, op))
            elif op == L.OP_YEAR:
                v = np.int64(load8(buf, p))
                v += 1900 if v > 0 else 0
            elif op == L.OP_BIT:
                for j in range(n):
                    v = v << 8 | np.int64(load8(buf, p + j))
            else:
                v = np.int64(little_endian(buf, p, n))
        out[i] = v
    return np.int64(-1)


@kernel(I64(BYTES, VECTOR, VECTOR, VECTOR, OUT))
def blobs(buf, starts, lengths, offsets, out):  # type: ignore[no-untyped-def]
    """Copy bytes to ``out[offsets[i]:offsets[i + 1]]``; a shorter value (BINARY) gets zeros.

    Returns -1, or the index of the first value that does not fit.
    """
    for i in range(starts.size):
        low, high = offsets[i], offsets[i + 1]
        if starts[i] < 0:
            continue
        if low < 0 or high > out.size or lengths[i] > high - low:
            return i
        for j in range(lengths[i]):
            store8(out, low + j, load8(buf, starts[i] + j))
        for j in range(low + lengths[i], high):
            store8(out, j, 0)
    return np.int64(-1)


@kernel(
    types.UniTuple(I64, 4)(
        BYTES, VECTOR, VECTOR, I64, I64, I64, MATRIX, TABLE64, TABLE64, TABLE16, OUT, VECTOR, OUT
    )
)  # fmt: skip
def texts(  # type: ignore[no-untyped-def]
    buf, starts, lengths, column, lo, o, columns, zone_starts, zone_offsets, tables, scratch,
    offsets, out,
):  # fmt: skip
    """UTF-8 text of values from index ``lo`` on, to ``out`` from ``o`` on.

    ``column`` is a row of ``columns``. ``offsets[i + 1]`` is filled in for every value done.
    Returns ``(next index, error, room or offset in buf, new o)``: after ERR_ROOM go on with
    ``scratch`` and ``out - o`` of at least ``room`` bytes.
    """
    for i in range(lo, starts.size):
        p, n = starts[i], lengths[i]
        if p >= 0:
            need = 12 * n + columns[column, L.C_ROOM] + 64
            if need > scratch.size or o + need > out.size:
                return i, L.ERR_ROOM, need, o
            m, error = put_value_called(
                buf, p, n, column, columns, zone_starts, zone_offsets, tables, scratch, 0
            )
            if error != 0:
                return i, error, m, o
            o = unescape(scratch, m, out, o)
        offsets[i + 1] = o
    return starts.size, L.OK, np.int64(-1), o


@rare
def _number(text, p, n):  # type: ignore[no-untyped-def]
    v = np.int64(0)
    for i in range(n):
        v = v * 10 + np.int64(load8(text, p + i)) - 48
    return v


@rare
def _fraction(text, p, n):  # type: ignore[no-untyped-def]
    # ".123" at p as microseconds; 0 where the text ends.
    if p >= n:
        return np.int64(0)
    v = _number(text, p + 1, n - p - 1)
    for _ in range(6 - (n - p - 1)):
        v *= 10
    return v


@rare
def _day(text, p):  # type: ignore[no-untyped-def]
    # Days since 1970-01-01 of "YYYY-MM-DD" at p, and whether the calendar has that day.
    # H. Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
    year, month, day = _number(text, p, 4), _number(text, p + 5, 2), _number(text, p + 8, 2)
    last = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    elif month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        last = 29 if leap else 28
    if month < 1 or day < 1 or day > last:
        return np.int64(0), False
    y = year - 1 if month <= 2 else year
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468, True


@kernel(types.void(VECTOR, OUT, types.boolean, VECTOR, OUT))
def micros(offsets, text, is_time, out, states):  # type: ignore[no-untyped-def]
    """Text of ``texts`` as microseconds: dates and instants since 1970-01-01, TIME as it is.

    ``states[i]`` is VALUE, NO_DAY (zero dates and such, which no calendar has) or, for an empty
    text, NO_VALUE.
    """
    for i in range(out.size):
        lo, hi = offsets[i], offsets[i + 1]
        out[i] = 0
        states[i] = NO_VALUE
        if lo < 0 or hi > text.size or hi - lo < (8 if is_time else 10):
            continue
        states[i] = VALUE
        days = np.int64(0)
        negative = False
        digits = 2
        if is_time:
            negative = load8(text, lo) == 45
            lo += 1 if negative else 0
            if load8(text, lo + 2) != 58:
                digits = 3
        else:
            days, ok = _day(text, lo)
            if not ok:
                states[i] = NO_DAY
            lo += 11
        seconds = np.int64(0)
        part = np.int64(0)
        if hi > lo + 7:
            seconds = _number(text, lo, digits) * 3600
            lo += digits + 1
            seconds += _number(text, lo, 2) * 60 + _number(text, lo + 3, 2)
            part = _fraction(text, lo + 5, hi)
        v = (days * _DAY + seconds) * _MILLION + part
        out[i] = -v if negative else v
