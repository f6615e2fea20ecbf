"""VECTOR of MySQL 9 and MariaDB 11.7: little-endian floats.

The servers' own functions print six digits and so lose some; here each number is the shortest text
that reads back the same, in the layout that both servers' parsers take: ``[1,2.5,-1e20]``.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.errors import LENGTH, NOT_FINITE, OK
from cdc.kernels.values.floats import float32_digits
from cdc.kernels.values.json_text import scientific
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT
from cdc.kernels.values.words import load32


@function(CHECKED(BUF, I64, I64, OUT, I64))
def vector(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """VECTOR of ``n`` bytes. Errors: LENGTH (not whole floats), NOT_FINITE."""
    if n % 4 != 0:
        return p, LENGTH
    out[o] = np.uint8(91)
    o += 1
    for i in range(p, p + n, 4):
        if i > p:
            out[o] = np.uint8(44)
            o += 1
        bits = np.uint64(load32(buf, i))
        fraction = bits & np.uint64((1 << 23) - 1)
        exponent = np.int64(bits >> np.uint64(23) & np.uint64(255))
        if exponent == 255:
            return i, NOT_FINITE
        if bits >> np.uint64(31) != np.uint64(0):
            out[o] = np.uint8(45)
            o += 1
        if exponent == 0 and fraction == np.uint64(0):
            out[o] = np.uint8(48)
            o += 1
            continue
        d, k = float32_digits(fraction, exponent)
        o, _ = scientific(d, k, out, o)
    out[o] = np.uint8(93)
    return o + 1, OK
