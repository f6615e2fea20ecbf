"""Destinations by column values, and rows grouped by destination.

The hash is TiCDC's: the XOR of CRC-32 (IEEE) sums, one of schema and table names and one of each
(column name, value text); NULLs take no part. UPDATE counts with its new values. Or, for a table
with T_BLOCK, the block that its integer key lies in, multiplied (Knuth, TAOCP 3, 6.4).
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.cell import little_endian, put_value_called
from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES, crc32
from cdc.kernels.rows import MATRIX, next_value, null_bytes

I64 = types.int64
VECTOR = types.int64[::1]
OUT = types.Array(types.uint8, 1, "C")
TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)

# 2 ** 64 divided by the golden ratio: blocks one after the other lie far apart.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@rare
def _hash(buf, ref, tables, columns, starts, offsets, texts, scratch):  # type: ignore[no-untyped-def]
    """``(hash, 0, 0)`` or ``(needed room or 0, error, offset)``."""
    plan = ref[L.R_PLAN]
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    p, end, bitmap = ref[L.R_AFTER], ref[L.R_END], ref[L.R_BITMAP_AFTER]
    if p < 0:
        p, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    total = tables[plan, L.T_HASH]
    k = 0
    for c in range(count):
        at = tables[plan, L.T_COLUMN] + c
        k, start, n, p, ok = next_value(
            buf, k, bitmap, partial, c, nulls, p, end, columns[at, L.C_WIDTH]
        )
        if not ok:
            return 0, L.ERR_IMAGE, nulls
        if start < 0:
            continue
        flags = columns[at, L.C_FLAGS]
        if flags & L.COLUMN_DISPATCH == 0:
            continue
        seed = columns[at, L.C_HASH]
        if flags & L.COLUMN_NUMBER_HASH == 0:
            total ^= crc32(buf, start, start + n, seed)
            continue
        need = 12 * n + columns[at, L.C_ROOM] + 64
        if need > scratch.size:
            return need, L.ERR_ROOM, start
        o, error = put_value_called(buf, start, n, at, columns, starts, offsets, texts, scratch, 0)
        if error != 0:
            return 0, error, start
        total ^= crc32(scratch, 0, o, seed)
    return total, L.OK, 0


@rare
def _block(buf, ref, tables, columns):  # type: ignore[no-untyped-def]
    """``(hash, error, offset)``: neighbours of the dispatch column's integer have the same hash."""
    plan = ref[L.R_PLAN]
    p, end, bitmap = ref[L.R_AFTER], ref[L.R_END], ref[L.R_BITMAP_AFTER]
    if p < 0:
        p, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    k = 0
    for c in range(count):
        at = tables[plan, L.T_COLUMN] + c
        k, start, n, p, ok = next_value(
            buf, k, bitmap, partial, c, nulls, p, end, columns[at, L.C_WIDTH]
        )
        if not ok:
            break
        if columns[at, L.C_FLAGS] & L.COLUMN_DISPATCH == 0:
            continue
        value = little_endian(buf, start, n if start >= 0 else 0)
        value = (value >> np.uint64(tables[plan, L.T_BLOCK])) * _MULTIPLIER
        return np.int64(value >> np.uint64(33)), L.OK, 0
    return 0, L.ERR_IMAGE, nulls


@kernel(
    types.UniTuple(I64, 4)(
        BYTES, MATRIX, I64, I64, MATRIX, MATRIX, TABLE64, TABLE64, TABLE16, OUT
    )
)  # fmt: skip
def destinations(  # type: ignore[no-untyped-def]
    buf, refs, lo, hi, tables, columns, starts, offsets, texts, scratch
):
    """Fill in R_DESTINATION of ``refs[lo:hi]`` whose tables have MODE_COLUMNS.

    ``scratch`` takes the text of one value. Returns ``(next, error, offset in buf, room)``: after
    ERR_ROOM go on at ``next`` with a scratch of ``room`` bytes.
    """
    for i in range(lo, hi):
        plan = refs[i, L.R_PLAN]
        if tables[plan, L.T_MODE] != L.MODE_COLUMNS:
            continue
        if tables[plan, L.T_BLOCK] > 0:
            value, error, at = _block(buf, refs[i], tables, columns)
        else:
            value, error, at = _hash(buf, refs[i], tables, columns, starts, offsets, texts, scratch)
        if error != 0:
            return i, error, at, value
        refs[i, L.R_DESTINATION] = tables[plan, L.T_BASE] + value % tables[plan, L.T_PARTITIONS]
    return hi, L.OK, -1, 0


@kernel(I64(MATRIX, I64, VECTOR, VECTOR, VECTOR))
def group(refs, n, slots, bounds, order):  # type: ignore[no-untyped-def]
    """Sort ``refs[:n]`` by destination, keeping their order within each; counting sort.

    ``slots`` maps a destination to a group number, or -1 where it is not wanted; ``bounds`` has one
    entry more than there are groups and is filled in: group ``g`` is
    ``order[bounds[g]:bounds[g + 1]]``. Returns the number of rows kept; -1 if a destination has no
    slot at all.
    """
    for g in range(bounds.size):
        bounds[g] = 0
    for i in range(n):
        d = refs[i, L.R_DESTINATION]
        if d < 0 or d >= slots.size or slots[d] >= bounds.size - 1:
            return -1
        if slots[d] >= 0:
            bounds[slots[d] + 1] += 1
    for g in range(1, bounds.size):
        bounds[g] += bounds[g - 1]
    kept = bounds[bounds.size - 1]
    if kept > order.size:
        return -1
    for i in range(n):
        g = slots[refs[i, L.R_DESTINATION]]
        if g >= 0:
            order[bounds[g]] = i
            bounds[g] += 1
    for g in range(bounds.size - 1, 0, -1):
        bounds[g] = bounds[g - 1]
    bounds[0] = 0
    return kept


@kernel(
    types.UniTuple(I64, 2)(
        BYTES, MATRIX, I64, I64, MATRIX, MATRIX, TABLE64, TABLE64, TABLE16, OUT
    )
)  # fmt: skip
def value_text(  # type: ignore[no-untyped-def]
    buf, refs, row, ordinal, tables, columns, starts, offsets, texts, scratch
):
    """Text of one column of one row (the new values, or those of a DELETE) in ``scratch``.

    Returns ``(bytes, 0)``, ``(-1, 0)`` for NULL or absent, or ``(0, error)``.
    """
    ref = refs[row]
    plan = ref[L.R_PLAN]
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    p, end, bitmap = ref[L.R_AFTER], ref[L.R_END], ref[L.R_BITMAP_AFTER]
    if p < 0:
        p, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    nulls = p
    p += null_bytes(buf, bitmap, partial, tables[plan, L.T_COLUMNS])
    k = 0
    for c in range(ordinal + 1):
        at = tables[plan, L.T_COLUMN] + c
        k, start, n, p, ok = next_value(
            buf, k, bitmap, partial, c, nulls, p, end, columns[at, L.C_WIDTH]
        )
        if not ok:
            return 0, L.ERR_IMAGE
        if c < ordinal:
            continue
        if start < 0:
            return -1, L.OK
        if 12 * n + columns[at, L.C_ROOM] + 64 > scratch.size:
            return 0, L.ERR_ROOM
        o, error = put_value_called(buf, start, n, at, columns, starts, offsets, texts, scratch, 0)
        return (o, L.OK) if error == 0 else (0, error)
    return -1, L.OK
