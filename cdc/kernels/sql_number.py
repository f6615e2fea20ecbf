"""FLOAT and DOUBLE as literals that read back the same: digits, ``e``, exponent.

A FLOAT is written as the double that it is. So it is stored as itself, and is found by ``=``,
which compares a FLOAT column as doubles and would not find ``1.1``.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import rare
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.memory import load32, load64, store8
from cdc.kernels.values.errors import NOT_FINITE
from cdc.kernels.values.floats import double_digits

_FRACTION = np.uint64((1 << 52) - 1)


@rare
def put_double(bits, p, out, o):  # type: ignore[no-untyped-def]
    """The double with these bits (uint64), at most 48 bytes: ``(new o, 0)`` or ``(p, code)``."""
    fraction = bits & _FRACTION
    exponent = np.int64(bits >> np.uint64(52) & np.uint64(2047))
    if exponent == 2047:
        return p, NOT_FINITE
    if bits >> np.uint64(63) != np.uint64(0):
        store8(out, o, 45)
        o += 1
    d, k = np.uint64(0), np.int64(0)
    if exponent != 0 or fraction != np.uint64(0):
        d, k = double_digits(fraction, exponent)
    o = put_unsigned(d, out, o)
    store8(out, o, 101)
    return put_signed(k, out, o + 1), 0


@rare
def widened(word):  # type: ignore[no-untyped-def]
    """Bits of the double that equals the float with these 32 bits (int64)."""
    sign = np.uint64(word >> 31 & 1) << np.uint64(63)
    exponent = word >> 23 & 255
    fraction = word & ((1 << 23) - 1)
    if exponent == 255:
        return sign | np.uint64(2047) << np.uint64(52) | np.uint64(fraction) << np.uint64(29)
    if exponent == 0:
        if fraction == 0:
            return sign
        exponent = 1
        while fraction < 1 << 23:
            fraction <<= 1
            exponent -= 1
        fraction &= (1 << 23) - 1
    return (
        sign
        | np.uint64(exponent - 127 + 1023) << np.uint64(52)
        | np.uint64(fraction) << np.uint64(29)
    )


@rare
def double(buf, p, out, o):  # type: ignore[no-untyped-def]
    """DOUBLE, 8 bytes."""
    return put_double(np.uint64(load64(buf, p)), p, out, o)


@rare
def float32(buf, p, out, o):  # type: ignore[no-untyped-def]
    """FLOAT, 4 bytes."""
    return put_double(widened(load32(buf, p)), p, out, o)
