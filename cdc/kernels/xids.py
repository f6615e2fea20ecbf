"""Xids of XA transactions out of events, and the table of those that are in use.

In the table an xid has one form, whatever its event wrote: format id (4 bytes), lengths of gtrid
and bqual (a byte each), and both. Entries are chained by hash, so that what has ended is taken out
and its place used again: the table is as large as what is prepared at one time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit, types

from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8, load32, load64

I64 = types.int64
VECTOR = types.int64[::1]
MATRIX = types.int64[:, ::1]

# --- state -------------------------------------------------------------------------------------
FREE: Final = 0  # first entry that is free, or -1
NEXT: Final = 1  # number of the next xid that is not known
LENGTH: Final = 2  # bytes of the xid in ``scratch``
FOUND: Final = 3  # number of the xid whose step ends a group
STATE_SIZE: Final = 4

# --- entries -----------------------------------------------------------------------------------
E_NEXT: Final = 0  # the next entry of its chain, or of those that are free; -1: none
E_NUMBER: Final = 1  # -1: free
E_LENGTH: Final = 2
E_SIZE: Final = 3

# Bytes of an xid, rounded up to words.
WIDTH: Final = 136
_PART = 64
_MIX = -7046029254386353131  # 2**64 / golden ratio, as int64

# --- statements --------------------------------------------------------------------------------
NONE: Final = 0  # no XA statement in the form in which the servers write them
START: Final = 1
END: Final = 2
COMMIT: Final = 3
ROLLBACK: Final = 4


@njit(nogil=True)
def _digit(c):  # type: ignore[no-untyped-def]
    if 48 <= c <= 57:
        return c - 48
    c |= 32
    return c - 87 if 97 <= c <= 102 else -1


@njit(nogil=True)
def from_binary(buf, p, end, wide, state, scratch):  # type: ignore[no-untyped-def]
    """Take the xid at ``p`` into ``scratch``: lengths of 1 byte (``wide`` 0) or of 4; whether."""
    step = 4 if wide else 1
    if p + 4 + 2 * step > end:
        return False
    if wide:
        a, b = load32(buf, p + 4), load32(buf, p + 8)
    else:
        a, b = load8(buf, p + 4), load8(buf, p + 5)
    at = p + 4 + 2 * step
    if a > _PART or b > _PART or at + a + b > end:
        return False
    for k in range(4):
        scratch[k] = load8(buf, p + k)
    scratch[4], scratch[5] = a, b
    for k in range(a + b):
        scratch[6 + k] = load8(buf, at + k)
    state[LENGTH] = 6 + a + b
    return True


@njit(nogil=True)
def from_text(buf, p, end, state, scratch):  # type: ignore[no-untyped-def]
    """Take ``X'6131',X'',1`` into ``scratch``; whether all of the text is that."""
    n = 6
    for part in range(2):
        if p + 2 > end or load8(buf, p) != 88 or load8(buf, p + 1) != 39:
            return False
        p += 2
        first = n
        while p < end and load8(buf, p) != 39:
            if p + 1 >= end or n - first >= _PART:
                return False
            high, low = _digit(load8(buf, p)), _digit(load8(buf, p + 1))
            if high < 0 or low < 0:
                return False
            scratch[n] = high << 4 | low
            n += 1
            p += 2
        scratch[4 + part] = n - first
        # The quote, and a comma.
        if p + 2 > end or load8(buf, p + 1) != 44:
            return False
        p += 2
    value, digits = np.int64(0), 0
    while p < end:
        c = load8(buf, p) - 48
        if c < 0 or c > 9 or digits >= 10:
            return False
        value = value * 10 + c
        digits += 1
        p += 1
    if digits == 0 or value >> 32:
        return False
    for k in range(4):
        scratch[k] = (value >> (8 * k)) & 255
    state[LENGTH] = n
    return True


@njit(nogil=True)
def statement(buf, p, end, state, scratch):  # type: ignore[no-untyped-def]
    """Which XA statement the text is; its xid is in ``scratch`` then."""
    if p + 9 > end or load32(buf, p) & 0xFFFFFF != 0x204158:
        return NONE
    p += 3
    kind, length = NONE, 0
    word = load64(buf, p) if p + 8 <= end else np.int64(0)
    if word & 0xFFFFFFFFFFFF == 0x205452415453:
        kind, length = START, 6
    elif word & 0xFFFFFFFF == 0x20444E45:
        kind, length = END, 4
    elif word & 0xFFFFFFFFFFFFFF == 0x2054494D4D4F43:
        kind, length = COMMIT, 7
    elif word == 0x4B4341424C4C4F52 and p + 9 <= end and load8(buf, p + 8) == 32:
        kind, length = ROLLBACK, 9
    if kind == NONE or not from_text(buf, p + length, end, state, scratch):
        return NONE
    return kind


@njit(nogil=True)
def _slot(heads, state, scratch):  # type: ignore[no-untyped-def]
    h = np.int64(state[LENGTH])
    for k in range(state[LENGTH]):
        h = (h ^ np.int64(scratch[k])) * np.int64(_MIX)
        h ^= np.int64(np.uint64(h) >> np.uint64(29))
    return h & (heads.size - 1)


@njit(nogil=True)
def _same(entries, contents, e, state, scratch):  # type: ignore[no-untyped-def]
    same = entries[e, E_LENGTH] == state[LENGTH]
    for k in range(state[LENGTH]):
        same &= contents[e, k] == scratch[k]
    return same


@njit(nogil=True)
def lookup(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """Number of the xid in ``scratch``, -1 if it is not in use."""
    e = heads[_slot(heads, state, scratch)]
    while e >= 0:
        if _same(entries, contents, e, state, scratch):
            return entries[e, E_NUMBER]
        e = entries[e, E_NEXT]
    return np.int64(-1)


@njit(nogil=True)
def put(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """Number of the xid in ``scratch``, the next if it was not in use; -1 if there is no room."""
    number = lookup(heads, entries, contents, state, scratch)
    if number >= 0:
        return number
    e = state[FREE]
    if e < 0:
        return np.int64(-1)
    state[FREE] = entries[e, E_NEXT]
    slot = _slot(heads, state, scratch)
    entries[e, E_NEXT] = heads[slot]
    heads[slot] = e
    entries[e, E_LENGTH] = state[LENGTH]
    for k in range(state[LENGTH]):
        contents[e, k] = scratch[k]
    entries[e, E_NUMBER] = state[NEXT]
    state[NEXT] += 1
    return entries[e, E_NUMBER]


@njit(nogil=True)
def remove(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """The xid in ``scratch`` has ended: it is another transaction from now on."""
    slot = _slot(heads, state, scratch)
    before, e = np.int64(-1), heads[slot]
    while e >= 0:
        after = entries[e, E_NEXT]
        if _same(entries, contents, e, state, scratch):
            if before < 0:
                heads[slot] = after
            else:
                entries[before, E_NEXT] = after
            entries[e, E_NUMBER] = -1
            entries[e, E_NEXT] = state[FREE]
            state[FREE] = e
            return
        before, e = e, after


_TABLE = (VECTOR, MATRIX, types.uint8[:, ::1], VECTOR, types.uint8[::1])


@kernel(I64(*_TABLE), counted=True)
def find_xid(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """:func:`lookup`, for callers outside."""
    return lookup(heads, entries, contents, state, scratch)


@kernel(I64(*_TABLE), counted=True)
def put_xid(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """:func:`put`, for callers outside."""
    return put(heads, entries, contents, state, scratch)


@kernel(types.void(*_TABLE), counted=True)
def remove_xid(heads, entries, contents, state, scratch):  # type: ignore[no-untyped-def]
    """:func:`remove`, for callers outside."""
    remove(heads, entries, contents, state, scratch)


@kernel(I64(BYTES, I64, I64, VECTOR, types.uint8[::1]), counted=True)
def read_statement(buf, p, end, state, scratch):  # type: ignore[no-untyped-def]
    """:func:`statement`, for callers outside."""
    return statement(buf, p, end, state, scratch)
