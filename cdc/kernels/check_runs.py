"""Checking the events of runs once: a bitmap remembers the runs that were found right."""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES, check_events

# An event is longer than 16 bytes, so a block of 16 holds the start of one run at most.
BLOCK_BITS = 4

_LONGS = types.Array(types.int64, 1, "C", readonly=True)


@kernel(types.int64(BYTES, _LONGS, _LONGS, types.uint8[::1]), counted=True)
def check_runs(
    buf: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    seen: NDArray[np.uint8],
) -> int:
    """Check length and CRC of the events in ``buf[offset:offset + length]`` of every run.

    Bit ``offset >> BLOCK_BITS`` of ``seen`` says that the run starting there is right; such runs
    are passed over, others are checked and noted. Returns -1 if all are right, else the offset
    of the first event that is not; a run out of bounds counts as wrong at its own offset.
    """
    for r in range(min(offsets.size, lengths.size)):
        lo = offsets[r]
        hi = lo + lengths[r]
        if lo < 0 or hi < lo or hi > buf.size:
            return int(lo)
        block = lo >> BLOCK_BITS
        byte = block >> 3
        bit = np.uint8(1 << (block & 7))
        if byte < seen.size and seen[byte] & bit:
            continue
        end, bad = check_events(buf, lo, hi)
        if bad >= 0 or end != hi:
            return int(end)
        if byte < seen.size:
            seen[byte] |= bit
    return -1
