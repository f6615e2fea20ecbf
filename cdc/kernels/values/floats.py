"""FLOAT and DOUBLE: the shortest text that reads back the same.

Digits by Schubfach (R. Giulietti), which is exact: among the shortest decimals inside the rounding
interval, the one closest to the value. Layout as Go's ``strconv.FormatFloat(v, 'f', -1, bits)``:
never an exponent, no point in whole numbers.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import function
from cdc.kernels.values.integers import digit_count, fixed
from cdc.kernels.values.pow10 import MIN_K, POW10_128
from cdc.kernels.values.signature import BUF, I64, OUT, U64
from cdc.kernels.values.words import load32, load64, multiply_wide, store64

MAX_DOUBLE_BYTES = 352
MAX_FLOAT_BYTES = 72

_0 = np.uint64(0)
_1 = np.uint64(1)
_2 = np.uint64(2)
_4 = np.uint64(4)
_ZEROS = np.uint64(0x3030303030303030)


@function(U64(U64, U64, U64))
def _round_to_odd(high, low, c):  # type: ignore[no-untyped-def]
    x1, _ = multiply_wide(low, c)
    y1, y0 = multiply_wide(high, c)
    y0 = y0 + x1
    if y0 < x1:
        y1 = y1 + _1
    return y1 | (_1 if y0 > _1 else _0)


@function(types.Tuple((U64, I64))(U64, I64, types.boolean))
def shortest(c, q, closer):  # type: ignore[no-untyped-def]
    """Digits ``d`` and exponent ``k`` with ``d * 10**k`` the shortest decimal for ``c * 2**q``.

    ``closer``: the lower neighbour is half as far away (c is a power of two). ``d`` may end in
    zeros.
    """
    odd = c & _1
    cb = c * _4
    cbl = cb - (_1 if closer else _2)
    cbr = cb + _2
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    h = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    high = POW10_128[-k - MIN_K, 0]
    low = POW10_128[-k - MIN_K, 1]
    lower = _round_to_odd(high, low, cbl << h) + odd
    vb = _round_to_odd(high, low, cb << h)
    upper = _round_to_odd(high, low, cbr << h) - odd
    s = vb // _4
    if s >= np.uint64(10):
        tens = s // np.uint64(10)
        forty = tens * np.uint64(40)
        down = lower <= forty
        up = forty + np.uint64(40) <= upper
        if down != up:
            return tens + (_1 if up else _0), k + 1
    down = lower <= s * _4
    up = s * _4 + _4 <= upper
    if down != up:
        return s + (_1 if up else _0), k
    middle = s * _4 + _2
    if vb > middle or (vb == middle and (s & _1) != _0):
        s = s + _1
    return s, k


@function(types.Tuple((U64, I64))(U64, I64))
def strip_zeros(d, k):  # type: ignore[no-untyped-def]
    """The same decimal ``d * 10**k`` with a ``d`` that does not end in 0; ``d`` > 0."""
    t = d // np.uint64(100000000)
    if t * np.uint64(100000000) == d:
        d = t
        k += 8
    t = d // np.uint64(10000)
    if t * np.uint64(10000) == d:
        d = t
        k += 4
    t = d // np.uint64(100)
    if t * np.uint64(100) == d:
        d = t
        k += 2
    t = d // np.uint64(10)
    while t * np.uint64(10) == d:
        d = t
        k += 1
        t = d // np.uint64(10)
    return d, k


@function(I64(OUT, I64, I64))
def zeros(out, o, n):  # type: ignore[no-untyped-def]
    """Write ``n`` times ``0``; may overwrite up to 7 bytes after them."""
    i = 0
    while i < n:
        store64(out, o + i, _ZEROS)
        i += 8
    return o + n


@function(I64(U64, I64, OUT, I64))
def plain(d, k, out, o):  # type: ignore[no-untyped-def]
    """Write ``d * 10**k`` without exponent; ``d`` > 0 and not ending in 0 where k < 0."""
    n = np.int64(digit_count(d))
    if k >= 0:
        fixed(d, out, o, n)
        return zeros(out, o + n, k)
    point = n + k
    if point > 0:
        fixed(d, out, o + 1, n)
        for i in range(point):
            out[o + i] = out[o + i + 1]
        out[o + point] = np.uint8(46)
        return o + n + 1
    zeros(out, o, 2 - point)
    out[o + 1] = np.uint8(46)
    fixed(d, out, o + 2 - point, n)
    return o + 2 - point + n


@function(I64(OUT, I64, types.boolean, types.boolean))
def _not_finite(out, o, negative, nan):  # type: ignore[no-untyped-def]
    out[o] = np.uint8(45) if negative else np.uint8(43)
    text = (78, 97, 78) if nan else (73, 110, 102)
    o = o if nan else o + 1
    for i in range(3):
        out[o + i] = np.uint8(text[i])
    return o + 3


@function(types.Tuple((U64, I64))(U64, I64))
def double_digits(fraction, exponent):  # type: ignore[no-untyped-def]
    """Shortest ``d, k`` of a double not 0: its fraction, its biased exponent (below 2047)."""
    c = fraction
    q = -1074
    if exponent != 0:
        c = fraction | np.uint64(1 << 52)
        q = exponent - 1075
        if q <= 0 and q > -53 and c & ((_1 << np.uint64(-q)) - _1) == _0:
            return c >> np.uint64(-q), 0
    d, k = shortest(c, q, fraction == _0 and exponent > 1)
    return strip_zeros(d, k)


@function(I64(U64, OUT, I64))
def double_text(bits, out, o):  # type: ignore[no-untyped-def]
    """The double with these 64 bits; at most ``MAX_DOUBLE_BYTES``. No server stores inf or nan."""
    fraction = bits & np.uint64((1 << 52) - 1)
    exponent = np.int64(bits >> np.uint64(52) & np.uint64(2047))
    negative = bits >> np.uint64(63) != _0
    if exponent == 2047:
        return _not_finite(out, o, negative, fraction != _0)
    if negative:
        out[o] = np.uint8(45)
        o += 1
    if exponent == 0 and fraction == _0:
        out[o] = np.uint8(48)
        return o + 1
    d, k = double_digits(fraction, exponent)
    return plain(d, k, out, o)


@function(types.Tuple((U64, I64))(U64, I64))
def float32_digits(fraction, exponent):  # type: ignore[no-untyped-def]
    """Shortest ``d, k`` of the 23-bit fraction and biased exponent (below 255) of a float not 0."""
    c = fraction
    q = -149
    if exponent != 0:
        c = fraction | np.uint64(1 << 23)
        q = exponent - 150
        if q <= 0 and q > -24 and c & ((_1 << np.uint64(-q)) - _1) == _0:
            return c >> np.uint64(-q), 0
    d, k = shortest(c, q, fraction == _0 and exponent > 1)
    return strip_zeros(d, k)


@function(I64(types.uint32, OUT, I64))
def float32_text(word, out, o):  # type: ignore[no-untyped-def]
    """The float with these 32 bits; at most ``MAX_FLOAT_BYTES``."""
    bits = np.uint64(word)
    fraction = bits & np.uint64((1 << 23) - 1)
    exponent = np.int64(bits >> np.uint64(23) & np.uint64(255))
    negative = bits >> np.uint64(31) != _0
    if exponent == 255:
        return _not_finite(out, o, negative, fraction != _0)
    if negative:
        out[o] = np.uint8(45)
        o += 1
    if exponent == 0 and fraction == _0:
        out[o] = np.uint8(48)
        return o + 1
    d, k = float32_digits(fraction, exponent)
    return plain(d, k, out, o)


@function(I64(BUF, I64, OUT, I64))
def double(buf, p, out, o):  # type: ignore[no-untyped-def]
    """DOUBLE, 8 bytes little-endian; needs ``MAX_DOUBLE_BYTES`` in ``out``."""
    return double_text(load64(buf, p), out, o)


@function(I64(BUF, I64, OUT, I64))
def float32(buf, p, out, o):  # type: ignore[no-untyped-def]
    """FLOAT, 4 bytes little-endian; needs ``MAX_FLOAT_BYTES`` in ``out``."""
    return float32_text(load32(buf, p), out, o)
