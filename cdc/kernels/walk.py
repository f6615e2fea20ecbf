"""Walking binlog event headers of a range: sanity and counts, without touching bodies."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from cdc.kernels.crc import BYTES, CHECKSUM, HEADER, LENGTH_AT

TYPE_AT = 4


@njit(types.int64(BYTES, types.int64, types.int64), nogil=True, cache=True)
def event_length(buf: NDArray[np.uint8], at: int, hi: int) -> int:
    """Length of the event at ``at``; -1 if its header does not lie in ``[at, hi)``.

    The length may be impossible or reach behind ``hi``: that is for the caller to judge.
    """
    if at < 0 or at + HEADER > min(hi, buf.size):
        return -1
    return int(
        np.uint32(buf[at + LENGTH_AT])
        | (np.uint32(buf[at + LENGTH_AT + 1]) << np.uint32(8))
        | (np.uint32(buf[at + LENGTH_AT + 2]) << np.uint32(16))
        | (np.uint32(buf[at + LENGTH_AT + 3]) << np.uint32(24))
    )


@njit(types.UniTuple(types.int64, 3)(BYTES, types.int64, types.int64), nogil=True, cache=True)
def walk_events(buf: NDArray[np.uint8], lo: int, hi: int) -> tuple[int, int, int]:
    """Count the events of ``buf[lo:hi]`` by their headers; ``lo`` starts an event.

    Returns ``(events, end, bad_offset)``: ``events`` whole ones lie in ``[lo, end)``.
    ``bad_offset`` is the offset of an event with an impossible length, else -1; an event that
    goes on behind ``hi`` just ends the walk.
    """
    lo = max(lo, 0)
    hi = min(hi, buf.size)
    i = lo
    events = 0
    while i < hi:
        length = event_length(buf, i, hi)
        if length < 0:
            break
        if length < HEADER + CHECKSUM:
            return events, i, i
        if i + length > hi:
            break
        events += 1
        i += length
    return events, i, -1


@njit(
    types.int64(BYTES, types.int64, types.int64, types.int64[::1], types.uint8[::1]),
    nogil=True,
    cache=True,
)
def list_events(
    buf: NDArray[np.uint8],
    lo: int,
    hi: int,
    offsets: NDArray[np.int64],
    codes: NDArray[np.uint8],
) -> int:
    """Write offset and type code of the events of ``buf[lo:hi]``; returns how many were written.

    Stops at the end of ``offsets`` or ``codes``, at a torn or impossible event, or at ``hi``; the
    caller goes on behind the last one.
    """
    lo = max(lo, 0)
    hi = min(hi, buf.size)
    room = min(offsets.size, codes.size)
    n = 0
    i = lo
    while i < hi and n < room:
        length = event_length(buf, i, hi)
        if length < HEADER + CHECKSUM or i + length > hi:
            break
        offsets[n] = i
        codes[n] = buf[i + TYPE_AT]
        n += 1
        i += length
    return n
