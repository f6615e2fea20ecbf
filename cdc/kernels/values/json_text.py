"""Scalars of MySQL's JSON text, escaped once more as they stand inside of a JSON string."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import function
from cdc.kernels.values.errors import OK, TEXT_INVALID
from cdc.kernels.values.escape import copy_plain, escape_ascii, utf8_length
from cdc.kernels.values.floats import double_digits, plain
from cdc.kernels.values.integers import digit_count, fixed, signed
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, U64

_BASE64 = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_PREFIX = np.frombuffer(b"base64:type", dtype=np.uint8)
_BACKSLASH = np.uint8(92)


@function(I64(OUT, I64))
def quote(out, o):  # type: ignore[no-untyped-def]
    """The quote of a JSON text inside of a JSON string: ``\\"``."""
    out[o] = _BACKSLASH
    out[o + 1] = np.uint8(34)
    return o + 2


@function(I64(I64, OUT, I64))
def _escape_twice(c, out, o):  # type: ignore[no-untyped-def]
    if c == 34:
        out[o] = out[o + 1] = out[o + 2] = _BACKSLASH
        out[o + 3] = np.uint8(34)
        return o + 4
    if c == 92:
        out[o] = out[o + 1] = out[o + 2] = out[o + 3] = _BACKSLASH
        return o + 4
    if c < 32:
        out[o] = _BACKSLASH
        o += 1
    return escape_ascii(c, out, o)


@function(CHECKED(BUF, I64, I64, OUT, I64))
def string(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """A JSON string of ``n`` bytes of UTF-8, with its quotes; touches ``7 * n + 20`` bytes."""
    end = p + n
    o = quote(out, o)
    while p < end:
        if p + 8 <= end:
            p, o = copy_plain(buf, p, end, out, o)
            if p >= end:
                break
        b = np.int64(buf[p])
        if b < 128:
            o = _escape_twice(b, out, o)
            p += 1
            continue
        length = utf8_length(buf, p, end)
        if length == 0:
            return p, TEXT_INVALID
        for i in range(length):
            out[o + i] = buf[p + i]
        p += length
        o += length
    return quote(out, o), OK


@function(types.Tuple((I64, types.boolean))(U64, I64, OUT, I64))
def scientific(d, k, out, o):  # type: ignore[no-untyped-def]
    """Write ``d * 10**k`` as the servers lay out numbers; whether it is whole and has no exponent.

    An exponent is used where the point would stand more than 15 places away from the first digit.
    """
    while d % np.uint64(10) == np.uint64(0):
        d = d // np.uint64(10)
        k += 1
    n = np.int64(digit_count(d))
    point = n + k
    if point < -14 or (point > 15 and n <= point):
        fixed(d, out, o + 1, n)
        out[o] = out[o + 1]
        if n > 1:
            out[o + 1] = np.uint8(46)
            o += n + 1
        else:
            o += 1
        out[o] = np.uint8(101)
        return signed(point - 1, out, o + 1), False
    return plain(d, k, out, o), k >= 0


@function(I64(U64, OUT, I64))
def double(bits, out, o):  # type: ignore[no-untyped-def]
    """A double as MySQL's JSON prints it: ``1.0``, ``0.00001``, ``1e15``, ``-1.5e-100``.

    At most 40 bytes. Whole numbers without an exponent end in ``.0``. Never inf or nan.
    """
    exponent = np.int64(bits >> np.uint64(52) & np.uint64(2047))
    fraction = bits & np.uint64((1 << 52) - 1)
    if bits >> np.uint64(63) != np.uint64(0):
        out[o] = np.uint8(45)
        o += 1
    if exponent == 0 and fraction == np.uint64(0):
        out[o] = out[o + 2] = np.uint8(48)
        out[o + 1] = np.uint8(46)
        return o + 3
    d, k = double_digits(fraction, exponent)
    o, whole = scientific(d, k, out, o)
    if whole:
        out[o] = np.uint8(46)
        out[o + 1] = np.uint8(48)
        o += 2
    return o


@function(I64(BUF, I64, I64, I64, OUT, I64))
def base64(buf, p, n, kind, out, o):  # type: ignore[no-untyped-def]
    """``"base64:type<kind>:…"`` of ``n`` bytes, with the server's line break after 76 characters.

    At most ``2 * n + 32`` bytes.
    """
    o = quote(out, o)
    for i in range(_PREFIX.size):
        out[o + i] = _PREFIX[i]
    o = signed(kind, out, o + _PREFIX.size)
    out[o] = np.uint8(58)
    o += 1
    for i in range(0, n, 3):
        if i > 0 and i % 57 == 0:
            out[o] = out[o + 1] = _BACKSLASH
            out[o + 2] = np.uint8(110)
            o += 3
        w = np.int64(buf[p + i]) << 16
        if i + 1 < n:
            w |= np.int64(buf[p + i + 1]) << 8
        if i + 2 < n:
            w |= np.int64(buf[p + i + 2])
        out[o] = _BASE64[w >> 18]
        out[o + 1] = _BASE64[w >> 12 & 63]
        out[o + 2] = _BASE64[w >> 6 & 63] if i + 1 < n else np.uint8(61)
        out[o + 3] = _BASE64[w & 63] if i + 2 < n else np.uint8(61)
        o += 4
    return quote(out, o)
