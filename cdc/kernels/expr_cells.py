"""Columns of row images as arrays, for expressions: where values lie, numbers, times.

Every output has one entry a row; a start of -1 is NULL and leaves its entry 0.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.cell import integer, little_endian
from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8, load32, load64
from cdc.kernels.rows import MATRIX, null_bytes, same_bytes, value_span
from cdc.kernels.values.civil import civil_date, local_second
from cdc.kernels.values.errors import DECIMAL_DIGITS, LENGTH, TEMPORAL_RANGE, ZONE_RANGE

I64 = types.int64
VECTOR = types.int64[::1]
INDEX = types.Array(types.int64, 1, "C", readonly=True)
STARTS = types.Array(types.int64, 1, "C", readonly=True)
CHECKED = types.UniTuple(types.int64, 2)

_BASE = 10**9


@small
def _image(refs, r, after):  # type: ignore[no-untyped-def]
    if after:
        return refs[r, L.R_AFTER], refs[r, L.R_BITMAP_AFTER]
    return refs[r, L.R_BEFORE], refs[r, L.R_BITMAP]


@small
def _step(buf, k, bitmap, partial, c, nulls, p, end, width):  # type: ignore[no-untyped-def]
    # rows.next_value, inlined: (k, start, length, p).
    if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
        return k, np.int64(-1), np.int64(0), p
    if load8(buf, nulls + (k >> 3)) >> (k & 7) & 1:
        return k + 1, np.int64(-1), np.int64(0), p
    start, n = value_span(buf, p, end, width)
    return k + 1, start, n, start + n


@small
def _any_null(buf, nulls, size):  # type: ignore[no-untyped-def]
    # Unused bits are set by the server, so a whole last byte may say so for nothing.
    found = np.int64(0)
    for i in range(size):
        found |= load8(buf, nulls + i)
    return found != 0


@kernel(I64(BYTES, MATRIX, INDEX, I64, INDEX, INDEX, INDEX, MATRIX, MATRIX))
def cells(  # type: ignore[no-untyped-def]
    buf, refs, rows, after, wanted, fixed, widths, starts, lengths
):
    """Where the columns ``wanted`` (ascending ordinals) of ``refs[rows]`` lie.

    ``rows`` are of one table and have the image that ``after`` (0 or 1) asks for. ``widths`` are
    C_WIDTH of all its columns; ``fixed`` the offset of each wanted column behind the NULL bits
    where no column up to it is NULL, -1 where one has no fixed width. ``starts``, ``lengths`` are
    int64[wanted, rows]. Returns -1, or the row whose image does not hold them.
    """
    last = wanted[wanted.size - 1]
    count = widths.size
    direct = fixed[wanted.size - 1] >= 0
    size = (last + 8) >> 3
    whole = (count + 7) >> 3
    for i in range(rows.size):
        r = rows[i]
        p, bitmap = _image(refs, r, after)
        if p < 0:
            return r
        end = refs[r, L.R_END]
        partial = refs[r, L.R_KIND] & L.PARTIAL != 0
        if direct and not partial and not _any_null(buf, p, size):
            for w in range(wanted.size):
                n = widths[wanted[w]]
                starts[w, i] = p + whole + fixed[w]
                lengths[w, i] = n
            if starts[wanted.size - 1, i] + widths[last] > end:
                return r
            continue
        nulls = p
        p += null_bytes(buf, bitmap, partial, count) if partial else whole
        k = np.int64(0)
        w = 0
        for c in range(last + 1):
            k, start, n, p2 = _step(buf, k, bitmap, partial, c, nulls, p, end, widths[c])
            if start < 0 and p2 != p:
                return r
            p = p2
            if c == wanted[w]:
                starts[w, i] = start
                lengths[w, i] = n
                w += 1
    return np.int64(-1)


@kernel(I64(MATRIX, I64, VECTOR, VECTOR))
def rows_of(refs, plan, rows, kinds):  # type: ignore[no-untyped-def]
    """Indices of the references of a plan, and their KIND_* ; returns how many there are."""
    n = 0
    for i in range(refs.shape[0]):
        if refs[i, L.R_PLAN] == plan:
            rows[n] = i
            kinds[n] = refs[i, L.R_KIND] & L.KIND_MASK
            n += 1
    return n


@kernel(I64(BYTES, MATRIX, INDEX, INDEX, MATRIX, MATRIX, types.boolean[::1]))
def only_changes(buf, refs, rows, allowed, tables, columns, out):  # type: ignore[no-untyped-def]
    """Whether each UPDATE changes a column, and none but those whose entry of ``allowed`` is 1.

    ``rows`` are UPDATEs of one table. Returns -1, or the row whose images are malformed.
    """
    for i in range(rows.size):
        r = rows[i]
        a, bits_a = refs[r, L.R_BEFORE], refs[r, L.R_BITMAP]
        b, bits_b = refs[r, L.R_AFTER], refs[r, L.R_BITMAP_AFTER]
        if a < 0 or b < 0:
            return r
        middle, end = b, refs[r, L.R_END]
        partial = refs[r, L.R_KIND] & L.PARTIAL != 0
        plan = refs[r, L.R_PLAN]
        count = tables[plan, L.T_COLUMNS]
        nulls_a, nulls_b = a, b
        a += null_bytes(buf, bits_a, partial, count)
        b += null_bytes(buf, bits_b, partial, count)
        ka = kb = np.int64(0)
        changed, other = False, False
        for c in range(count):
            width = columns[tables[plan, L.T_COLUMN] + c, L.C_WIDTH]
            ka, sa, na, pa = _step(buf, ka, bits_a, partial, c, nulls_a, a, middle, width)
            kb, sb, nb, pb = _step(buf, kb, bits_b, partial, c, nulls_b, b, end, width)
            if (sa < 0 and pa != a) or (sb < 0 and pb != b):
                return r
            a, b = pa, pb
            if (sa < 0) != (sb < 0) or (sa >= 0 and (na != nb or not same_bytes(buf, sa, sb, na))):
                changed = True
                other |= allowed[c] == 0
        out[i] = changed and not other
    return np.int64(-1)


@kernel(types.void(BYTES, STARTS, I64, VECTOR))
def integers(buf, starts, op, out):  # type: ignore[no-untyped-def]
    """Integer columns; ``op`` is OP_INT8 … OP_UINT64 (the latter's bits)."""
    for i in range(starts.size):
        out[i] = integer(buf, starts[i], op) if starts[i] >= 0 else 0


@kernel(types.void(BYTES, STARTS, I64, VECTOR))
def float_bits(buf, starts, op, out):  # type: ignore[no-untyped-def]
    """Bits of OP_DOUBLE, or of OP_FLOAT in the lower half."""
    for i in range(starts.size):
        if starts[i] < 0:
            out[i] = 0
        elif op == L.OP_DOUBLE:
            out[i] = load64(buf, starts[i])
        else:
            out[i] = load32(buf, starts[i])


@kernel(I64(BYTES, STARTS, INDEX, I64, VECTOR))
def small_numbers(buf, starts, lengths, op, out):  # type: ignore[no-untyped-def]
    """YEAR, BIT, ENUM and SET as numbers. Returns -1, or the entry that is too long."""
    for i in range(starts.size):
        p, n = starts[i], lengths[i]
        if p < 0:
            out[i] = 0
        elif n > 8:
            return i
        elif op == L.OP_YEAR:
            v = load8(buf, p)
            out[i] = v + 1900 if v else 0
        elif op == L.OP_BIT:
            v = np.int64(0)
            for j in range(n):
                v = v << 8 | load8(buf, p + j)
            out[i] = v
        else:
            out[i] = np.int64(little_endian(buf, p, n))
    return np.int64(-1)


@small
def _digits(buf, p, n, invert):  # type: ignore[no-untyped-def]
    v = np.int64(0)
    for i in range(n):
        v = v << 8 | (load8(buf, p + i) ^ invert)
    return v


@small
def _stored(digits):  # type: ignore[no-untyped-def]
    return (digits + 1) >> 1 if digits < 9 else 4


@kernel(CHECKED(BYTES, STARTS, I64, I64, MATRIX))
def decimals(buf, starts, precision, scale, out):  # type: ignore[no-untyped-def]
    """DECIMAL(precision, scale) as limbs of nine digits, least first (``filter.expr.decimals``).

    ``out`` is int64[limbs, rows] with as many limbs as whole and fraction digits need. Returns
    ``(-1, 0)``, or the entry and DECIMAL_DIGITS.
    """
    whole = precision - scale
    count = out.shape[0]
    for i in range(starts.size):
        p = starts[i]
        for j in range(count):
            out[j, i] = 0
        if p < 0:
            continue
        negative = load8(buf, p) & 128 == 0
        invert = 255 if negative else 0
        flip = True
        limb = count - 1
        left = whole
        if left == 0:
            limb = count - 2 if count > (scale + 8) // 9 else count - 1
        while left > 0:
            digits = left % 9 if left % 9 != 0 else 9
            n = _stored(digits)
            v = _digits(buf, p, n, invert)
            if flip:
                v ^= 128 << (8 * (n - 1))
                flip = False
            if v >= _BASE:
                return i, DECIMAL_DIGITS
            out[limb, i] = v
            limb -= 1
            p += n
            left -= digits
        left = scale
        while left > 0:
            digits = min(left, 9)
            n = _stored(digits)
            v = _digits(buf, p, n, invert)
            if flip:
                v ^= 128 << (8 * (n - 1))
                flip = False
            for _ in range(9 - digits):
                v *= 10
            if v >= _BASE:
                return i, DECIMAL_DIGITS
            out[limb, i] = v
            limb -= 1
            p += n
            left -= digits
        if negative:
            borrow = np.int64(0)
            for j in range(count):
                v = -out[j, i] - borrow
                borrow = np.int64(0)
                if v < 0 and j < count - 1:
                    v += _BASE
                    borrow = np.int64(1)
                out[j, i] = v
    return np.int64(-1), np.int64(0)


@small
def _big_endian(buf, p, n):  # type: ignore[no-untyped-def]
    v = np.int64(0)
    for i in range(n):
        v = v << 8 | load8(buf, p + i)
    return v


@small
def _micros(buf, p, fsp):  # type: ignore[no-untyped-def]
    n = (fsp + 1) >> 1
    v = _big_endian(buf, p, n)
    for _ in range(3 - n):
        v *= 100
    return v


@small
def _local(seconds, starts, offsets):  # type: ignore[no-untyped-def]
    # The packed local date and time of a UTC second; -1 outside of the zone's table.
    local, found = local_second(seconds, starts, offsets)
    if found == 0:
        return np.int64(-1)
    days = local // 86400
    rest = local - days * 86400
    year, month, day = civil_date(days)
    return ((year * 13 + month) << 5 | day) << 17 | (
        (rest // 3600) << 12 | (rest // 60 % 60) << 6 | rest % 60
    )


@kernel(CHECKED(BYTES, STARTS, I64, I64, STARTS, STARTS, VECTOR))
def datetimes(buf, starts, op, fsp, zone_starts, zone_offsets, out):  # type: ignore[no-untyped-def]
    """DATE, DATETIME and TIMESTAMP as the servers pack them: year·13+month, day, clock, micros.

    Returns ``(-1, 0)``, or the entry and an error of ``values.errors``.
    """
    for i in range(starts.size):
        p = starts[i]
        out[i] = 0
        if p < 0:
            continue
        if op == L.OP_DATE:
            v = load8(buf, p) | load8(buf, p + 1) << 8 | load8(buf, p + 2) << 16
            if v >> 5 & 15 > 12:
                return i, TEMPORAL_RANGE
            out[i] = (((v >> 9) * 13 + (v >> 5 & 15)) << 5 | v & 31) << 41
        elif op == L.OP_DATETIME2:
            v = _big_endian(buf, p, 5) - 0x8000000000
            if v < 0:
                return i, TEMPORAL_RANGE
            out[i] = v << 24 | _micros(buf, p + 5, fsp)
        elif op == L.OP_TIMESTAMP2:
            seconds = _big_endian(buf, p, 4)
            micros = _micros(buf, p + 4, fsp)
            if seconds != 0 or micros != 0:
                v = _local(seconds, zone_starts, zone_offsets)
                if v < 0:
                    return i, ZONE_RANGE
                out[i] = v << 24 | micros
        else:
            return i, LENGTH
    return np.int64(-1), np.int64(0)


@kernel(types.void(BYTES, STARTS, I64, VECTOR))
def times(buf, starts, fsp, out):  # type: ignore[no-untyped-def]
    """TIME(fsp): ±(hour << 12 | minute << 6 | second) << 24 | micros, the sign over all."""
    n = (fsp + 1) >> 1
    for i in range(starts.size):
        p = starts[i]
        if p < 0:
            out[i] = 0
            continue
        v = _big_endian(buf, p, 3 + n) - (0x800000 << (8 * n))
        negative = v < 0
        v = abs(v)
        fraction = v & ((1 << (8 * n)) - 1)
        for _ in range(3 - n):
            fraction *= 100
        v = (v >> (8 * n)) << 24 | fraction
        out[i] = -v if negative else v


@kernel(types.void(BYTES, STARTS, INDEX, I64, types.uint8[::1]))
def padded(buf, starts, lengths, width, out):  # type: ignore[no-untyped-def]
    """Copy each value to ``out[row * width:]``; ``out`` is zero where no byte comes."""
    for i in range(starts.size):
        for j in range(min(lengths[i], width) if starts[i] >= 0 else 0):
            out[i * width + j] = load8(buf, starts[i] + j)
