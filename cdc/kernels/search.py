"""Finding a row of a matrix by its ts."""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import small


@small
def row_at(rows, column, ts):  # type: ignore[no-untyped-def]
    """The row, int64, with ``ts`` in ``column``, or -1; ``rows`` int64[:, :] rise by ``column``."""
    lo, hi = np.int64(0), np.int64(rows.shape[0])
    while lo < hi:
        middle = (lo + hi) >> 1
        if rows[middle, column] < ts:
            lo = middle + 1
        else:
            hi = middle
    return lo if lo < rows.shape[0] and rows[lo, column] == ts else np.int64(-1)
