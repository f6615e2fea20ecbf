"""Which bytes of a file a copy has: of each block, so many from its begin on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BLOCK = 64 << 10
# To ask once more costs about as much as to carry so many bytes that are there already.
_GAP = 128 << 10

Have = NDArray[np.uint32]
"""Bytes that are there of each block, by its number."""


def blocks(length: int) -> int:
    """How many blocks a file of so many bytes has."""
    return -(-length // BLOCK)


def lacking(
    have: Have, offsets: NDArray[np.int64], lengths: NDArray[np.int64], end: int
) -> list[tuple[int, int]]:
    """Ranges ``[lo, hi)`` to fetch, rising, for what these ranges need; ``end``: of the file.

    They reach to the ends of blocks, so that what comes next is there too.

    >>> lacking(np.zeros(3, np.uint32), np.array([10]), np.array([5]), 3 * BLOCK)
    [(0, 65536)]
    >>> lacking(np.array([7], np.uint32), np.array([10]), np.array([5]), 20)
    [(7, 20)]
    """
    some = lengths > 0
    if not some.any():
        return []
    first = offsets[some] // BLOCK
    last = (offsets[some] + lengths[some] - 1) // BLOCK
    covered = np.bincount(first, minlength=len(have) + 1)
    covered -= np.bincount(last + 1, minlength=len(have) + 1)
    begins = np.arange(len(have), dtype=np.int64) * BLOCK
    needed = np.where(np.cumsum(covered)[: len(have)] > 0, np.minimum(BLOCK, end - begins), 0)
    short = np.flatnonzero(needed > have)
    lo, hi = begins[short] + have[short], begins[short] + needed[short]
    cuts = np.flatnonzero(lo[1:] - hi[:-1] > _GAP) + 1
    parts = zip(np.split(lo, cuts), np.split(hi, cuts), strict=True)
    return [(int(a[0]), int(b[-1])) for a, b in parts if len(a)]


def filled(have: Have, lo: int, hi: int) -> None:
    """Note that ``[lo, hi)`` is there, of which ``lo`` is the begin of what was lacking."""
    for block in range(lo // BLOCK, blocks(hi)):
        begin = block * BLOCK
        if have[block] >= max(0, lo - begin):
            have[block] = max(int(have[block]), min(hi - begin, BLOCK))
