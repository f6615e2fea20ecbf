"""Row images of the log cut into new rows events for a target's ``BINLOG`` statement.

Events are built anew (header, post-header, TABLE_MAP of the target's names, lengths, CRC-32), row
images are copied as bytes. All TABLE_MAPs of a statement stand before its first rows event, and
only its last rows event has STMT_END: a server opens the mapped tables once a statement, and
passes over rows of a table that is mapped later without a word.
Rows events v2: https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Rows__event.html
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT, crc32
from cdc.kernels.memory import (
    copy16,
    load8,
    load16,
    load32,
    load64,
    store8,
    store16,
    store32,
    store64,
)
from cdc.kernels.rows import WRITE_V2, event_kind, same_bytes

# --- columns of the matrix of target tables, one row a plan -------------------------------------
M_START: Final = 0  # offset of its TABLE_MAP event in the constant bytes
M_LENGTH: Final = 1
M_COLUMNS: Final = 2
M_ID: Final = 3  # table id in that event
M_APART: Final = 4  # 1: UPDATEs of two source events never share one
M_SIZE: Final = 5

FLAG_STATEMENT_END: Final = 1
FLAG_NO_FOREIGN_KEY_CHECKS: Final = 2
FLAG_NO_UNIQUE_CHECKS: Final = 4
_SESSION_FLAGS: Final = FLAG_NO_FOREIGN_KEY_CHECKS | FLAG_NO_UNIQUE_CHECKS

_I64 = types.int64
_MATRIX = types.int64[:, ::1]
_VECTOR = types.int64[::1]
_FLAGS_AT = HEADER + 6
# Table id, flags, length of (no) extra data.
_FIXED = 10
_PACKED_TWO = 251


@small
def _row_start(refs, r):  # type: ignore[no-untyped-def]
    before = refs[r, L.R_BEFORE]
    return before if before >= 0 else refs[r, L.R_AFTER]


@kernel(types.UniTuple(_I64, 2)(BYTES, _MATRIX, _MATRIX, _VECTOR))
def row_flags(buf, runs, refs, out):  # type: ignore[no-untyped-def]
    """Write the flags of each reference's source event to ``out`` (int64[len(refs)]).

    ``runs`` are those that ``rows.locate`` made ``refs`` of. Returns ``(error, offset)``.
    """
    k = 0
    n = refs.shape[0]
    if out.size < n:
        return L.ERR_REFERENCES, np.int64(0)
    for r in range(runs.shape[0]):
        at = runs[r, L.RUN_OFFSET]
        stop = at + runs[r, L.RUN_LENGTH]
        if at < 0 or stop < at or stop > buf.size:
            return L.ERR_RUN, at
        while at < stop and k < n:
            if at + HEADER + _FIXED > stop:
                break
            length = load32(buf, at + LENGTH_AT)
            if length < HEADER + CHECKSUM or at + length > stop:
                return L.ERR_EVENT, at
            if event_kind(load8(buf, at + 4)) == 1:
                flags = load16(buf, at + _FLAGS_AT)
                while k < n and at < _row_start(refs, k) < at + length:
                    out[k] = flags
                    k += 1
            at += length
    if k < n:
        return L.ERR_EVENT, _row_start(refs, k)
    return L.OK, np.int64(-1)


@small
def _copy(source, s, target, d, n):  # type: ignore[no-untyped-def]
    # Exact at both ends: the source may be a map that ends at a page.
    i = np.int64(0)
    while i + 16 <= n:
        copy16(source, s + i, target, d + i)
        i += 16
    if i + 8 <= n:
        store64(target, d + i, load64(source, s + i))
        i += 8
    while i < n:
        store8(target, d + i, load8(source, s + i))
        i += 1
    return d + n


@small
def _bitmap_of(refs, r):  # type: ignore[no-untyped-def]
    # An INSERT that was split off an UPDATE has the bitmap of the after image.
    if refs[r, L.R_BEFORE] < 0:
        return refs[r, L.R_BITMAP_AFTER]
    return refs[r, L.R_BITMAP]


@rare
def _is_sound(buf, refs, r, flags, maps, constants):  # type: ignore[no-untyped-def]
    if r < 0 or r >= refs.shape[0] or r >= flags.size:
        return False
    plan = refs[r, L.R_PLAN]
    if plan < 0 or plan >= maps.shape[0] or refs[r, L.R_KIND] & L.KIND_MASK > L.KIND_DELETE:
        return False
    start, end = _row_start(refs, r), refs[r, L.R_END]
    if start < 0 or end < start or end > buf.size:
        return False
    size = (maps[plan, M_COLUMNS] + 7) >> 3
    for bitmap in (_bitmap_of(refs, r), refs[r, L.R_BITMAP_AFTER]):
        if bitmap < 0 or bitmap + size > buf.size:
            return False
    at, length = maps[plan, M_START], maps[plan, M_LENGTH]
    return at >= 0 and length >= 0 and at + length <= constants.size


@rare
def _joins(buf, refs, a, b, flags, maps):  # type: ignore[no-untyped-def]
    # Whether row b may stand in the same event as row a.
    plan = refs[a, L.R_PLAN]
    if (
        refs[b, L.R_PLAN] != plan
        or refs[a, L.R_KIND] & L.KIND_MASK != refs[b, L.R_KIND] & L.KIND_MASK
        or flags[a] != flags[b]
    ):
        return False
    size = (maps[plan, M_COLUMNS] + 7) >> 3
    x, y = _bitmap_of(refs, a), _bitmap_of(refs, b)
    # Rows of one source event share its bitmaps.
    if x != y and maps[plan, M_APART] and refs[a, L.R_KIND] & L.KIND_MASK == L.KIND_UPDATE:
        return False
    if x != y and not same_bytes(buf, x, y, size):
        return False
    x, y = refs[a, L.R_BITMAP_AFTER], refs[b, L.R_BITMAP_AFTER]
    return x == y or same_bytes(buf, x, y, size)


@small
def _head_length(refs, r, maps):  # type: ignore[no-untyped-def]
    columns = maps[refs[r, L.R_PLAN], M_COLUMNS]
    size = (columns + 7) >> 3
    images = 2 if refs[r, L.R_KIND] & L.KIND_MASK == L.KIND_UPDATE else 1
    return HEADER + _FIXED + (1 if columns < _PACKED_TWO else 3) + size * images


@rare
def _open_event(buf, refs, r, flags, maps, server_id, out, d):  # type: ignore[no-untyped-def]
    # Everything before the images; the event's length is filled in by _close_event.
    plan = refs[r, L.R_PLAN]
    kind = refs[r, L.R_KIND] & L.KIND_MASK
    columns = maps[plan, M_COLUMNS]
    store32(out, d, (refs[r, L.R_TS] >> 18) // 1000)
    store8(out, d + 4, WRITE_V2 + kind)
    store32(out, d + 5, server_id)
    store32(out, d + 9, 0)
    store32(out, d + 13, 0)
    store16(out, d + 17, 0)
    d += HEADER
    store32(out, d, maps[plan, M_ID])
    store16(out, d + 4, maps[plan, M_ID] >> 32)
    store16(out, d + 6, flags[r] & ~FLAG_STATEMENT_END)
    store16(out, d + 8, 2)
    d += _FIXED
    if columns < _PACKED_TWO:
        store8(out, d, columns)
        d += 1
    else:
        store8(out, d, 252)
        store16(out, d + 1, columns)
        d += 3
    size = (columns + 7) >> 3
    d = _copy(buf, _bitmap_of(refs, r), out, d, size)
    if kind == L.KIND_UPDATE:
        d = _copy(buf, refs[r, L.R_BITMAP_AFTER], out, d, size)
    return d


@rare
def _close_event(out, start, d, last):  # type: ignore[no-untyped-def]
    store32(out, start + LENGTH_AT, d - start + CHECKSUM)
    if last:
        store16(out, start + _FLAGS_AT, load16(out, start + _FLAGS_AT) | FLAG_STATEMENT_END)
    store32(out, d, np.int64(crc32(out, start, d, np.uint32(0))))
    return d + CHECKSUM


@kernel(
    types.UniTuple(_I64, 5)(
        BYTES, _MATRIX, _VECTOR, _I64, _I64, _VECTOR, _MATRIX, BYTES, _VECTOR, _I64, _I64, _I64,
        _I64, types.uint8[::1],
    )
)  # fmt: skip
def cut(  # type: ignore[no-untyped-def]
    buf, refs, order, i, n, flags, maps, constants, seen, turn, server_id, event_limit, limit, out
):
    """Write one statement's events for ``refs[order[i:n]]`` to ``out``, at most ``limit`` bytes.

    ``flags`` int64[len(refs)] as ``row_flags`` writes them; ``maps`` int64[:, M_SIZE] and
    ``constants`` hold the TABLE_MAP event of each plan; ``seen`` int64[len(maps)] is scratch, and
    ``turn`` even and larger in each call with it. An event is closed once it has
    ``event_limit`` bytes. Rows whose flags ask for other checks of keys begin another statement.

    Returns ``(next, size, detail, error, offset)``: ``refs[order[i:next]]`` are in ``out[:size]``.
    ``ERR_TOO_LARGE``: a statement of the first row alone takes ``detail`` bytes, over ``limit``.
    ``ERR_ROOM``: ``out`` must have ``detail`` bytes.
    """
    if i < 0 or n > order.size or seen.size < maps.shape[0]:
        return i, np.int64(0), np.int64(0), L.ERR_REFERENCES, np.int64(-1)
    total = np.int64(0)
    event = np.int64(0)
    stop = i
    while stop < n:
        r = order[stop]
        if not _is_sound(buf, refs, r, flags, maps, constants):
            return i, np.int64(0), np.int64(0), L.ERR_REFERENCES, r
        plan = refs[r, L.R_PLAN]
        add = refs[r, L.R_END] - _row_start(refs, r)
        if stop > i:
            if (flags[r] ^ flags[order[i]]) & _SESSION_FLAGS != 0:
                break
            if event >= event_limit or not _joins(buf, refs, order[stop - 1], r, flags, maps):
                event = np.int64(0)
        if event == 0:
            add += _head_length(refs, r, maps) + CHECKSUM
        fresh = seen[plan] != turn
        if fresh:
            total += maps[plan, M_LENGTH]
        if total + add > limit:
            if stop == i:
                return i, np.int64(0), total + add, L.ERR_TOO_LARGE, _row_start(refs, r)
            if fresh:
                total -= maps[plan, M_LENGTH]
            break
        seen[plan] = turn
        total += add
        event += add
        stop += 1
    if total > out.size:
        return i, np.int64(0), total, L.ERR_ROOM, np.int64(-1)
    d = np.int64(0)
    for k in range(i, stop):
        plan = refs[order[k], L.R_PLAN]
        if seen[plan] == turn:
            d = _copy(constants, maps[plan, M_START], out, d, maps[plan, M_LENGTH])
            seen[plan] = turn + 1
    start = np.int64(-1)
    for k in range(i, stop):
        r = order[k]
        if start >= 0 and (
            d + CHECKSUM - start >= event_limit
            or not _joins(buf, refs, order[k - 1], r, flags, maps)
        ):
            d = _close_event(out, start, d, False)
            start = np.int64(-1)
        if start < 0:
            start = d
            d = _open_event(buf, refs, r, flags, maps, server_id, out, d)
        first = _row_start(refs, r)
        d = _copy(buf, first, out, d, refs[r, L.R_END] - first)
    if start >= 0:
        d = _close_event(out, start, d, True)
    return stop, d, np.int64(0), L.OK, np.int64(-1)
