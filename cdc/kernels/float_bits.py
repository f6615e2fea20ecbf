"""FLOAT as the DOUBLE of the same value, and back, by their bits (IEEE 754, binary32 and 64)."""

from __future__ import annotations

from typing import Final

import numpy as np

from cdc.kernels.compile import rare

_FRACTION: Final = (1 << 23) - 1
_WIDE_FRACTION: Final = (1 << 52) - 1
_NARROWER: Final = 29
_BIAS: Final = 127
_WIDE_BIAS: Final = 1023


@rare
def widened(word):  # type: ignore[no-untyped-def]
    """The bits of the double that has a float's value, and whether that is a number."""
    word = np.int64(word)
    fraction, exponent = word & _FRACTION, word >> 23 & 255
    if exponent == 0 and fraction != 0:
        exponent = np.int64(1)
        while fraction & (1 << 23) == 0:
            fraction <<= 1
            exponent -= 1
        fraction &= _FRACTION
        exponent += _WIDE_BIAS - _BIAS
    elif exponent != 0 and exponent != 255:
        exponent += _WIDE_BIAS - _BIAS
    bits = np.uint64(word >> 31 & 1) << np.uint64(63)
    bits |= np.uint64(exponent) << np.uint64(52) | np.uint64(fraction) << np.uint64(_NARROWER)
    return bits, exponent != 255


@rare
def narrowed(bits):  # type: ignore[no-untyped-def]
    """The bits of the float that has a double's value, and whether there is one."""
    bits = np.uint64(bits)
    word = np.int64(bits >> np.uint64(63)) << 31
    exponent = np.int64(bits >> np.uint64(52)) & 2047
    fraction = np.int64(bits & np.uint64(_WIDE_FRACTION))
    if exponent == 0:
        # The least doubles are no floats but 0.
        return word, fraction == 0
    power = exponent - _WIDE_BIAS
    # Below the least normal float, fewer bits of a fraction are left.
    lost = np.int64(_NARROWER + max(np.int64(0), 1 - _BIAS - power))
    if power > _BIAS or lost > 52:
        return word, False
    fraction |= np.int64(1) << 52
    exact = fraction & ((np.int64(1) << lost) - 1) == 0
    fraction >>= lost
    if power > -_BIAS:
        fraction = (power + _BIAS) << 23 | fraction & _FRACTION
    return word | fraction, exact
