"""Where the rows of rows events lie: events are walked, images are stepped over, none is decoded.

Rows event format: https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT
from cdc.kernels.memory import load8, load16, load32, load64

I64 = types.int64
MATRIX = types.int64[:, ::1]

# Type codes of rows events.
WRITE_V1, UPDATE_V1, DELETE_V1 = 23, 24, 25
WRITE_V2, UPDATE_V2, DELETE_V2 = 30, 31, 32
PARTIAL_UPDATE = 39
# MariaDB's compressed ones, v1 and v2.
COMPRESSED_FIRST, COMPRESSED_LAST = 166, 171

_MAX_COLUMNS = 4096


@rare
def packed_integer(buf, p, end):  # type: ignore[no-untyped-def]
    """MySQL's length-encoded integer: ``(value, next p)``; ``(-1, p)`` if it does not fit."""
    if p >= end:
        return np.int64(-1), p
    first = load8(buf, p)
    if first < 251:
        return first, p + 1
    if first == 252 and p + 3 <= end:
        return load16(buf, p + 1), p + 3
    if first == 253 and p + 4 <= end:
        return load16(buf, p + 1) | load8(buf, p + 3) << 16, p + 4
    return np.int64(-1), p


@small
def prefix(buf, p, n):  # type: ignore[no-untyped-def]
    """Little-endian integer of 1 to 4 bytes."""
    if n == 1:
        return load8(buf, p)
    if n == 2:
        return load16(buf, p)
    if n == 3:
        return load16(buf, p) | load8(buf, p + 2) << 16
    return load32(buf, p)


@small
def value_span(buf, p, end, width):  # type: ignore[no-untyped-def]
    """``(start, length)`` of a value at ``p``; start is -1 if it does not end by ``end``."""
    if width >= 0:
        if p + width > end:
            return np.int64(-1), 0
        return p, width
    if p - width > end:
        return np.int64(-1), 0
    n = prefix(buf, p, -width)
    if p - width + n > end:
        return np.int64(-1), 0
    return p - width, n


@rare
def next_value(buf, k, bitmap, partial, c, nulls, p, end, width):  # type: ignore[no-untyped-def]
    """Column ``c`` of an image: ``(k, start, length, p, ok)``; start is -1 for NULL or absent."""
    if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
        return k, np.int64(-1), np.int64(0), p, True
    if load8(buf, nulls + (k >> 3)) >> (k & 7) & 1:
        return k + 1, np.int64(-1), np.int64(0), p, True
    start, n = value_span(buf, p, end, width)
    return k + 1, start, n, start + n, start >= 0


@rare
def value_of(buf, c, k, wanted, bitmap, partial, nulls, p, end, first, columns):  # type: ignore[no-untyped-def]
    """Column ``wanted``, from ``c`` on: ``(c, k, start, length, p, ok)``, as of ``next_value``."""
    start, n, ok = np.int64(-1), np.int64(0), True
    while c <= wanted and ok:
        width = columns[first + c, L.C_WIDTH]
        k, start, n, p, ok = next_value(buf, k, bitmap, partial, c, nulls, p, end, width)
        c += 1
    return c, k, start, n, p, ok


@rare
def null_bytes(buf, bitmap, partial, count):  # type: ignore[no-untyped-def]
    """Bytes of the NULL bitmap of an image: only columns that are present have a bit."""
    present = count
    if partial:
        present = 0
        for c in range(count):
            present += load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1
    return (present + 7) >> 3


@rare
def same_bytes(buf, a, b, n):  # type: ignore[no-untyped-def]
    """Whether ``buf[a:a+n]`` and ``buf[b:b+n]`` are equal."""
    i = 0
    while i + 8 <= n:
        if load64(buf, a + i) != load64(buf, b + i):
            return False
        i += 8
    while i < n:
        if load8(buf, a + i) != load8(buf, b + i):
            return False
        i += 1
    return True


@rare
def _slow_image_end(buf, p, end, bitmap, first, count, columns):  # type: ignore[no-untyped-def]
    # Any image: absent columns have no bit among the NULL bits, NULL ones have no value.
    present = 0
    for c in range(count):
        present += load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1
    nulls = p
    p += (present + 7) >> 3
    if p > end:
        return np.int64(-1)
    k = 0
    for c in range(count):
        if load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
            continue
        is_null = load8(buf, nulls + (k >> 3)) >> (k & 7) & 1
        k += 1
        if is_null:
            continue
        start, n = value_span(buf, p, end, columns[first + c, L.C_WIDTH])
        if start < 0:
            return np.int64(-1)
        p = start + n
    return p


@small
def image_end(buf, p, end, bitmap, full, plan, tables, columns, hops):  # type: ignore[no-untyped-def]
    """End of the row image at ``p`` (its NULL bitmap), or -1 if it goes on behind ``end``.

    ``bitmap`` is the offset of the columns-present bitmap, ``full`` whether all its bits are set.
    """
    count = tables[plan, L.T_COLUMNS]
    if full:
        size = (count + 7) >> 3
        if p + size > end:
            return np.int64(-1)
        null = 0
        for i in range(size - 1):
            null |= load8(buf, p + i)
        # Unused bits of the last byte are set by the server.
        null |= load8(buf, p + size - 1) & ((1 << (((count - 1) & 7) + 1)) - 1)
        if null == 0:
            p += size
            h = tables[plan, L.T_HOP]
            for i in range(h, h + tables[plan, L.T_HOPS]):
                p += hops[i, L.H_FIXED]
                n = hops[i, L.H_PREFIX]
                if n > 0:
                    if p + n > end:
                        return np.int64(-1)
                    p += n + prefix(buf, p, n)
            return p if p <= end else np.int64(-1)
    return _slow_image_end(buf, p, end, bitmap, tables[plan, L.T_COLUMN], count, columns)


@rare
def _is_full(buf, bitmap, count):  # type: ignore[no-untyped-def]
    for i in range(count >> 3):
        if load8(buf, bitmap + i) != 255:
            return False
    rest = (1 << (count & 7)) - 1
    return rest == 0 or load8(buf, bitmap + (count >> 3)) & rest == rest


@rare
def _has_needed(buf, bitmap, kind, plan, tables, columns):  # type: ignore[no-untyped-def]
    # Whether an image that is not full holds every column that will be written.
    first = tables[plan, L.T_COLUMN]
    keys_only = kind == L.KIND_DELETE and tables[plan, L.T_OPTIONS] & L.OPTION_DELETE_KEYS != 0
    for c in range(tables[plan, L.T_COLUMNS]):
        flags = columns[first + c, L.C_FLAGS]
        if flags & L.COLUMN_HIDDEN:
            continue
        if keys_only and flags & (L.COLUMN_HANDLE | L.COLUMN_DISPATCH) == 0:
            continue
        if load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
            return False
    return True


@rare
def _open_event(buf, at, length, plan, tables, columns):  # type: ignore[no-untyped-def]
    # Post-header of a rows event: (body, kind with PARTIAL, bitmap, bitmap after, error).
    code = load8(buf, at + 4)
    end = at + length - CHECKSUM
    kind = (code - WRITE_V1) if code < WRITE_V2 else (code - WRITE_V2)
    p = at + HEADER + 8
    if code >= WRITE_V2:
        if p + 2 > end:
            return p, kind, p, p, L.ERR_EVENT
        p += load16(buf, p)
    count, p = packed_integer(buf, p, end)
    if count < 0 or p > end:
        return p, kind, p, p, L.ERR_EVENT
    if count != tables[plan, L.T_COLUMNS] or count > _MAX_COLUMNS:
        return p, kind, p, p, L.ERR_COLUMNS
    size = (count + 7) >> 3
    images = 2 if kind == L.KIND_UPDATE else 1
    if p + size * images > end:
        return p, kind, p, p, L.ERR_EVENT
    bitmap, after = p, p + size * (images - 1)
    p += size * images
    full = _is_full(buf, bitmap, count)
    full_after = _is_full(buf, after, count)
    if not full or not full_after:
        if not _has_needed(buf, bitmap, kind, plan, tables, columns):
            return at, kind, bitmap, after, L.ERR_NOT_FULL
        if not _has_needed(buf, after, kind, plan, tables, columns):
            return at, kind, bitmap, after, L.ERR_NOT_FULL
        kind |= L.PARTIAL
    return p, kind, bitmap, after, L.OK


@small
def event_kind(code):  # type: ignore[no-untyped-def]
    """1 for a rows event, 0 for an event without rows, or an error."""
    if WRITE_V1 <= code <= DELETE_V1 or WRITE_V2 <= code <= DELETE_V2:
        return 1
    if code == PARTIAL_UPDATE:
        return L.ERR_PARTIAL_JSON
    if COMPRESSED_FIRST <= code <= COMPRESSED_LAST:
        return L.ERR_COMPRESSED
    return 0


@small
def _destination(plan, ts, tables):  # type: ignore[no-untyped-def]
    if tables[plan, L.T_MODE] == L.MODE_TS:
        return tables[plan, L.T_BASE] + ts % tables[plan, L.T_PARTITIONS]
    return tables[plan, L.T_BASE] + tables[plan, L.T_PARTITION]


@rare
def _key_changed(  # type: ignore[no-untyped-def]
    buf, a, b, end, bits_a, bits_b, partial, plan, tables, columns
):
    # Whether an UPDATE changes a column that identifies or places the row.
    middle, nulls_a, nulls_b = b, a, b
    count = tables[plan, L.T_COLUMNS]
    a += null_bytes(buf, bits_a, partial, count)
    b += null_bytes(buf, bits_b, partial, count)
    ka = kb = 0
    for c in range(count):
        at = tables[plan, L.T_COLUMN] + c
        width = columns[at, L.C_WIDTH]
        ka, sa, na, a, ok = next_value(buf, ka, bits_a, partial, c, nulls_a, a, middle, width)
        kb, sb, nb, b, fine = next_value(buf, kb, bits_b, partial, c, nulls_b, b, end, width)
        if not ok or not fine:
            return False
        if columns[at, L.C_FLAGS] & (L.COLUMN_HANDLE | L.COLUMN_DISPATCH) == 0:
            continue
        if (sa < 0) != (sb < 0) or (sa >= 0 and (na != nb or not same_bytes(buf, sa, sb, na))):
            return True
    return False


@small
def _put_ref(  # type: ignore[no-untyped-def]
    refs, n, before, after, end, kind, plan, ts, row, destination, bitmap, bitmap_after
):
    refs[n, L.R_BEFORE] = before
    refs[n, L.R_AFTER] = after
    refs[n, L.R_END] = end
    refs[n, L.R_KIND] = kind
    refs[n, L.R_PLAN] = plan
    refs[n, L.R_TS] = ts
    refs[n, L.R_ROW] = row
    refs[n, L.R_DESTINATION] = destination
    refs[n, L.R_BITMAP] = bitmap
    refs[n, L.R_BITMAP_AFTER] = bitmap_after


@kernel(types.UniTuple(I64, 3)(BYTES, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX))
def locate(buf, runs, tables, columns, hops, refs):  # type: ignore[no-untyped-def]
    """Write a reference for every row of ``runs``; see ``layout`` for the columns of each matrix.

    ``buf`` uint8[:], ``runs`` int64[:, RUN_SIZE] in delivery order, ``refs`` int64[:, R_SIZE],
    filled in that order. Where a table has OPTION_SPLIT, an UPDATE that changes its key becomes two
    references, a DELETE and an INSERT with the same R_ROW.
    Returns ``(rows, error, offset)``: an error of ``layout`` and where.
    Tables with MODE_COLUMNS get destination -1, which ``dispatch.destinations`` fills in.
    """
    n = 0
    for r in range(runs.shape[0]):
        at = runs[r, L.RUN_OFFSET]
        stop = at + runs[r, L.RUN_LENGTH]
        plan = runs[r, L.RUN_PLAN]
        if at < 0 or stop < at or stop > buf.size or plan < 0 or plan >= tables.shape[0]:
            return n, L.ERR_RUN, at
        ts = runs[r, L.RUN_TS]
        destination = np.int64(-1)
        if tables[plan, L.T_MODE] != L.MODE_COLUMNS:
            destination = _destination(plan, ts, tables)
        split = tables[plan, L.T_OPTIONS] & L.OPTION_SPLIT != 0
        row = 0
        low = runs[r, L.RUN_SKIP]
        high = low + runs[r, L.RUN_TAKE]
        while at < stop and row < high:
            if at + HEADER + CHECKSUM > stop:
                return n, L.ERR_EVENT, at
            length = load32(buf, at + LENGTH_AT)
            if length < HEADER + CHECKSUM or at + length > stop:
                return n, L.ERR_EVENT, at
            what = event_kind(load8(buf, at + 4))
            if what > 1:
                return n, what, at
            if what == 1:
                p, kind, bitmap, after, error = _open_event(buf, at, length, plan, tables, columns)
                if error != 0:
                    return n, error, p
                end = at + length - CHECKSUM
                full = kind & L.PARTIAL == 0
                what = kind & L.KIND_MASK
                while p < end and row < high:
                    start = p
                    p = image_end(buf, p, end, bitmap, full, plan, tables, columns, hops)
                    if p <= start:
                        return n, L.ERR_IMAGE, start
                    second = p
                    if what == L.KIND_UPDATE:
                        p = image_end(buf, p, end, after, full, plan, tables, columns, hops)
                        if p <= second:
                            return n, L.ERR_IMAGE, second
                    row += 1
                    if row <= low:
                        continue
                    if n >= refs.shape[0]:
                        return n, L.ERR_REFERENCES, start
                    number = runs[r, L.RUN_FIRST_ROW] + row - 1
                    before = start if what != L.KIND_INSERT else -1
                    shown = kind
                    current = start if what == L.KIND_INSERT else -1
                    if what == L.KIND_UPDATE:
                        current = second
                    if (
                        what == L.KIND_UPDATE
                        and split
                        and _key_changed(
                            buf, start, second, p, bitmap, after, not full, plan, tables, columns
                        )
                    ):
                        if n + 1 >= refs.shape[0]:
                            return n, L.ERR_REFERENCES, start
                        flags = kind & L.PARTIAL
                        _put_ref(
                            refs, n, before, -1, second, L.KIND_DELETE | flags,
                            plan, ts, number, destination, bitmap, bitmap,
                        )  # fmt: skip
                        n += 1
                        before, shown = -1, L.KIND_INSERT | flags
                    _put_ref(
                        refs, n, before, current, p, shown,
                        plan, ts, number, destination, bitmap, after,
                    )  # fmt: skip
                    n += 1
            at += length
    return n, L.OK, np.int64(-1)
