"""128-bit approximations of powers of ten, as Schubfach needs them.

R. Giulietti, "The Schubfach way to render doubles"; the layout follows the published algorithm.
Entry ``k - MIN_K`` is ``ceil(10**k * 2**(127 - floor(log2(10**k))))`` as two uint64 words, high
and low.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

MIN_K: Final = -292
MAX_K: Final = 324


def _entry(k: int) -> int:
    shift = 127 - ((k * 1741647) >> 19)
    numerator = 10 ** max(k, 0) << max(shift, 0)
    denominator = 10 ** max(-k, 0) << max(-shift, 0)
    return -(-numerator // denominator)


def _table() -> npt.NDArray[np.uint64]:
    rows = [_entry(k) for k in range(MIN_K, MAX_K + 1)]
    return np.array([[g >> 64, g & (1 << 64) - 1] for g in rows], dtype=np.uint64)


POW10_128: Final = _table()
POW10_64: Final = np.array([10**i for i in range(20)], dtype=np.uint64)
"""``10**i`` for i in 0..19."""
