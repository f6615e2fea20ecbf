"""Packed DECIMAL(p, s) → text as the server prints it: sign, at least one digit, all of the scale.

Format: groups of nine digits as big-endian 4-byte integers, a shorter group at either end in 1 to 4
bytes; the top bit of the first byte is set for values >= 0, all bits are inverted for negative
ones.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.errors import DECIMAL_DIGITS, DECIMAL_PRECISION
from cdc.kernels.values.integers import digit_count, fixed
from cdc.kernels.values.pow10 import POW10_64
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, U64

MAX_PRECISION = 65
MAX_DIGITS = 81
"""Of a value in MySQL's JSON, whose precision counts digits of whole groups."""

MAX_SCALE = 38
GROUP_BYTES = np.array([0, 1, 1, 2, 2, 3, 3, 4, 4, 4], dtype=np.int64)


@function(I64(I64, I64))
def decimal_bytes(precision, scale):  # type: ignore[no-untyped-def]
    """Stored length of a value of this precision and scale; -1 where no server stores one."""
    if precision < 1 or precision > MAX_DIGITS or scale < 0 or scale > min(precision, MAX_SCALE):
        return -1
    whole = precision - scale
    return (whole // 9 + scale // 9) * 4 + GROUP_BYTES[whole % 9] + GROUP_BYTES[scale % 9]


@function(U64(BUF, I64, I64, U64))
def _group(buf, p, n, invert):  # type: ignore[no-untyped-def]
    v = np.uint64(0)
    for i in range(n):
        v = v << np.uint64(8) | (np.uint64(buf[p + i]) ^ invert)
    return v


@function(CHECKED(BUF, I64, I64, I64, OUT, I64))
def decimal(buf, p, precision, scale, out, o):  # type: ignore[no-untyped-def]
    """DECIMAL(precision, scale), ``decimal_bytes(precision, scale)`` bytes.

    Errors: DECIMAL_PRECISION, DECIMAL_DIGITS (a group holds more than its digits).
    """
    if decimal_bytes(precision, scale) < 0:
        return p, DECIMAL_PRECISION
    whole = precision - scale
    invert = np.uint64(0)
    if buf[p] & np.uint8(128) == np.uint8(0):
        invert = np.uint64(255)
        out[o] = np.uint8(45)
        o += 1
    first = o
    # The sign bit is flipped in whichever group comes first.
    flip = True
    left = whole
    while left > 0:
        digits = left % 9 if left % 9 != 0 else 9
        n = GROUP_BYTES[digits]
        v = _group(buf, p, n, invert)
        if flip:
            v = v ^ (np.uint64(128) << np.uint64(8 * (n - 1)))
            flip = False
        if v >= POW10_64[digits]:
            return p, DECIMAL_DIGITS
        if o > first:
            fixed(v, out, o, digits)
            o += digits
        elif v != np.uint64(0):
            k = np.int64(digit_count(v))
            fixed(v, out, o, k)
            o += k
        p += n
        left -= digits
    if o == first:
        out[o] = np.uint8(48)
        o += 1
    if scale == 0:
        return o, 0
    out[o] = np.uint8(46)
    o += 1
    left = scale
    while left > 0:
        digits = min(left, 9)
        n = GROUP_BYTES[digits]
        v = _group(buf, p, n, invert)
        if flip:
            v = v ^ (np.uint64(128) << np.uint64(8 * (n - 1)))
            flip = False
        if v >= POW10_64[digits]:
            return p, DECIMAL_DIGITS
        fixed(v, out, o, digits)
        o += digits
        p += n
        left -= digits
    return o, 0
