"""Copying ranges of one buffer to given places of another."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import copy

I64 = types.int64
VECTOR = types.int64[::1]


@kernel(I64(BYTES, VECTOR, VECTOR, types.uint8[::1], VECTOR))
def gather(source, offsets, lengths, target, places):  # type: ignore[no-untyped-def]
    """Copy ``source[offsets[i]:][:lengths[i]]`` to ``target[places[i]:]``; -1, or a bad ``i``."""
    for i in range(offsets.size):
        s, n, d = offsets[i], lengths[i], places[i]
        if s < 0 or n < 0 or d < 0 or s + n > source.size or d + n > target.size:
            return np.int64(i)
        copy(source, s, target, d, n)
    return np.int64(-1)
