"""Integers, YEAR and BIT as decimal text."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import function
from cdc.kernels.values.errors import BIT_LENGTH
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT, U64
from cdc.kernels.values.words import load16, load32, load64, store16

PAIRS = np.frombuffer("".join(f"{i:02d}" for i in range(100)).encode(), dtype="<u2").copy()

_U100 = np.uint64(100)
_U10 = np.uint64(10)


@function(U64(U64))
def digit_count(v):  # type: ignore[no-untyped-def]
    """Number of decimal digits of ``v``; 1 for 0."""
    if v < np.uint64(10000):
        if v < _U100:
            return np.uint64(1) if v < _U10 else np.uint64(2)
        return np.uint64(3) if v < np.uint64(1000) else np.uint64(4)
    n = np.uint64(5)
    v = v // np.uint64(100000)
    while v >= _U100:
        v = v // _U100
        n += np.uint64(2)
    if v >= _U10:
        return n + np.uint64(2)
    return n + np.uint64(1) if v > np.uint64(0) else n


@function(types.void(U64, OUT, I64, I64))
def fixed(v, out, o, n):  # type: ignore[no-untyped-def]
    """Write ``v`` as exactly ``n`` digits to ``out[o:o+n]``, with leading zeros."""
    i = o + n
    while i >= o + 2:
        q = v // _U100
        i -= 2
        store16(out, i, PAIRS[np.intp(v - q * _U100)])
        v = q
    if i > o:
        out[o] = np.uint8(np.uint64(48) + v % _U10)


@function(I64(U64, OUT, I64))
def unsigned(v, out, o):  # type: ignore[no-untyped-def]
    """Decimal text of a uint64; at most 20 bytes."""
    n = np.int64(digit_count(v))
    fixed(v, out, o, n)
    return o + n


@function(I64(I64, OUT, I64))
def signed(v, out, o):  # type: ignore[no-untyped-def]
    """Decimal text of an int64; at most 20 bytes."""
    if v < 0:
        out[o] = np.uint8(45)
        return unsigned(~np.uint64(v) + np.uint64(1), out, o + 1)
    return unsigned(np.uint64(v), out, o)


@function(I64(BUF, I64, OUT, I64))
def int8(buf, p, out, o):  # type: ignore[no-untyped-def]
    """TINYINT, 1 byte."""
    return signed(np.int64(np.int8(buf[p])), out, o)


@function(I64(BUF, I64, OUT, I64))
def uint8(buf, p, out, o):  # type: ignore[no-untyped-def]
    """TINYINT UNSIGNED, 1 byte."""
    return unsigned(np.uint64(buf[p]), out, o)


@function(I64(BUF, I64, OUT, I64))
def int16(buf, p, out, o):  # type: ignore[no-untyped-def]
    """SMALLINT, 2 bytes."""
    return signed(np.int64(np.int16(load16(buf, p))), out, o)


@function(I64(BUF, I64, OUT, I64))
def uint16(buf, p, out, o):  # type: ignore[no-untyped-def]
    """SMALLINT UNSIGNED, 2 bytes."""
    return unsigned(np.uint64(load16(buf, p)), out, o)


@function(I64(BUF, I64, OUT, I64))
def int24(buf, p, out, o):  # type: ignore[no-untyped-def]
    """MEDIUMINT, 3 bytes."""
    v = np.int64(buf[p]) | np.int64(buf[p + 1]) << 8 | np.int64(np.int8(buf[p + 2])) << 16
    return signed(v, out, o)


@function(I64(BUF, I64, OUT, I64))
def uint24(buf, p, out, o):  # type: ignore[no-untyped-def]
    """MEDIUMINT UNSIGNED, 3 bytes."""
    v = np.int64(buf[p]) | np.int64(buf[p + 1]) << 8 | np.int64(buf[p + 2]) << 16
    return unsigned(np.uint64(v), out, o)


@function(I64(BUF, I64, OUT, I64))
def int32(buf, p, out, o):  # type: ignore[no-untyped-def]
    """INT, 4 bytes."""
    return signed(np.int64(np.int32(load32(buf, p))), out, o)


@function(I64(BUF, I64, OUT, I64))
def uint32(buf, p, out, o):  # type: ignore[no-untyped-def]
    """INT UNSIGNED, 4 bytes."""
    return unsigned(np.uint64(load32(buf, p)), out, o)


@function(I64(BUF, I64, OUT, I64))
def int64(buf, p, out, o):  # type: ignore[no-untyped-def]
    """BIGINT, 8 bytes."""
    return signed(np.int64(load64(buf, p)), out, o)


@function(I64(BUF, I64, OUT, I64))
def uint64(buf, p, out, o):  # type: ignore[no-untyped-def]
    """BIGINT UNSIGNED, 8 bytes."""
    return unsigned(load64(buf, p), out, o)


@function(I64(BUF, I64, OUT, I64))
def year(buf, p, out, o):  # type: ignore[no-untyped-def]
    """YEAR, 1 byte: ``0000`` or 1901 to 2155, four digits."""
    v = np.uint64(buf[p])
    fixed(np.uint64(0) if v == np.uint64(0) else v + np.uint64(1900), out, o, 4)
    return o + 4


@function(CHECKED(BUF, I64, I64, OUT, I64))
def bit(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """BIT(m), ``n`` = ceil(m / 8) bytes, big-endian: the unsigned integer."""
    if n < 1 or n > 8:
        return p, BIT_LENGTH
    v = np.uint64(0)
    for i in range(n):
        v = v << np.uint64(8) | np.uint64(buf[p + i])
    return unsigned(v, out, o), 0
