"""Decimal digits eight at a time, by multiplications inside one word.

After P. Khuong, "How to print integers really fast" (2017).
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import small
from cdc.kernels.memory import store8, store64
from cdc.kernels.values.words import trailing_zeros

_E4 = np.uint64(10**4)
_E8 = np.uint64(10**8)
_E5 = np.uint64(10**5)
_E16 = np.uint64(10**16)
_ASCII = np.uint64(0x3030303030303030)
_SHIFT32, _SHIFT20, _SHIFT16 = np.uint64(32), np.uint64(20), np.uint64(16)
_SHIFT10, _SHIFT8, _SHIFT3 = np.uint64(10), np.uint64(8), np.uint64(3)
_M100, _M10 = np.uint64(10486), np.uint64(103)
_100, _10 = np.uint64(100), np.uint64(10)
_MASK100 = np.uint64(0x0000007F0000007F)
_MASK10 = np.uint64(0x000F000F000F000F)


@small
def eight(v):  # type: ignore[no-untyped-def]
    """The 8 digits of a uint64 below 10**8 as byte values 0..9, the first in the lowest byte."""
    top = v // _E4
    x = top | (v - top * _E4) << _SHIFT32
    q = (x * _M100) >> _SHIFT20 & _MASK100
    x = q | (x - q * _100) << _SHIFT16
    q = (x * _M10) >> _SHIFT10 & _MASK10
    return q | (x - q * _10) << _SHIFT8


@small
def _leading(v, out, o):  # type: ignore[no-untyped-def]
    # v < 10**8 without leading zeros.
    if v < _10:
        store8(out, o, np.int64(v) + 48)
        return o + 1
    x = eight(v)
    skip = trailing_zeros(x) >> 3
    store64(out, o, np.int64((x | _ASCII) >> (np.uint64(skip) << _SHIFT3)))
    return o + 8 - skip


@small
def put_unsigned(v, out, o):  # type: ignore[no-untyped-def]
    """Decimal text of a uint64 at ``out[o:]`` (up to 28 bytes are touched); the new offset."""
    if v < _E8:
        return _leading(v, out, o)
    if v < _E16:
        high = v // _E8
        o = _leading(high, out, o)
        store64(out, o, np.int64(eight(v - high * _E8) | _ASCII))
        return o + 8
    high = v // _E16
    v -= high * _E16
    o = _leading(high, out, o)
    high = v // _E8
    store64(out, o, np.int64(eight(high) | _ASCII))
    store64(out, o + 8, np.int64(eight(v - high * _E8) | _ASCII))
    return o + 16


@small
def put_signed(v, out, o):  # type: ignore[no-untyped-def]
    """Decimal text of an int64."""
    if v < 0:
        store8(out, o, 45)
        return put_unsigned(~np.uint64(v) + np.uint64(1), out, o + 1)
    return put_unsigned(np.uint64(v), out, o)


@small
def thirteen(v):  # type: ignore[no-untyped-def]
    """Two words that hold the 13 digits of a uint64: for offset 0 and, overlapping, offset 5."""
    return np.int64(eight(v // _E5) | _ASCII), np.int64(eight(v % _E8) | _ASCII)
