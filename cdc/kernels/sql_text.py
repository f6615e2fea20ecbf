"""String literals that mean the same in every sql_mode: quoted, or hexadecimal.

Inside of quotes only ``'`` is written twice, which every mode reads alike. A value with a backslash
becomes hexadecimal, since NO_BACKSLASH_ESCAPES decides what one means.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import rare
from cdc.kernels.memory import copy_padded, load8, load32, load64, store8, store64
from cdc.kernels.values.words import trailing_zeros

_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_QUOTES = np.uint64(0x2727272727272727)
_SLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_ZEROS = np.uint64(0x3030303030303030)
_SIXES = np.uint64(0x0606060606060606)
_SEVEN = np.uint64(7)
_HALVES = np.uint64(0x0000FFFF0000FFFF)
_BYTES = np.uint64(0x00FF00FF00FF00FF)
_NIBBLES = np.uint64(0x000F000F000F000F)
_4, _8, _16 = np.uint64(4), np.uint64(8), np.uint64(16)
_0 = np.uint64(0)
_QUOTE, _SLASH = 39, 92


@rare
def put_quoted(buf, p, n, ascii_only, out, o):  # type: ignore[no-untyped-def]
    """``buf[p:p+n]`` in quotes: the new offset, or -1 if it must be hexadecimal.

    That is where it has a backslash, or with ``ascii_only`` a byte above 127. Touches at most
    ``2 * n + 16`` bytes.
    """
    end = p + n
    store8(out, o, _QUOTE)
    o += 1
    while p + 8 <= end:
        w = np.uint64(load64(buf, p))
        if ascii_only and w & _HIGH != _0:
            return np.int64(-1)
        q = w ^ _QUOTES
        s = w ^ _SLASHES
        # Exact in its lowest bit, which is all that is used.
        hit = ((q - _ONES) & ~q | (s - _ONES) & ~s) & _HIGH
        store64(out, o, np.int64(w))
        if hit == _0:
            p += 8
            o += 8
            continue
        k = trailing_zeros(hit) >> 3
        if load8(buf, p + k) == _SLASH:
            return np.int64(-1)
        p += k + 1
        o += k + 1
        store8(out, o, _QUOTE)
        o += 1
    while p < end:
        b = load8(buf, p)
        if b == _SLASH or (ascii_only and b > 127):
            return np.int64(-1)
        store8(out, o, b)
        o += 1
        if b == _QUOTE:
            store8(out, o, _QUOTE)
            o += 1
        p += 1
    store8(out, o, _QUOTE)
    return o + 1


@rare
def _digit(v, out, o):  # type: ignore[no-untyped-def]
    store8(out, o, v + 48 if v < 10 else v + 55)
    return o + 1


@rare
def put_hex(buf, p, n, zeros, out, o):  # type: ignore[no-untyped-def]
    """``x'…'`` of ``buf[p:p+n]`` and ``zeros`` bytes 0x00; touches ``2 * (n + zeros) + 16``."""
    end = p + n
    store8(out, o, 120)
    store8(out, o + 1, _QUOTE)
    o += 2
    while p + 4 <= end:
        # Four bytes spread over eight, then each half byte as a digit.
        x = np.uint64(load32(buf, p))
        x = (x | x << _16) & _HALVES
        x = (x | x << _8) & _BYTES
        x = (x >> _4 & _NIBBLES) | (x & _NIBBLES) << _8
        letters = (x + _SIXES) >> _4 & _ONES
        store64(out, o, np.int64(x + _ZEROS + letters * _SEVEN))
        p += 4
        o += 8
    while p < end:
        b = load8(buf, p)
        o = _digit(b >> 4, out, o)
        o = _digit(b & 15, out, o)
        p += 1
    for _ in range(2 * zeros):
        store8(out, o, 48)
        o += 1
    store8(out, o, _QUOTE)
    return o + 1


@rare
def put_string(buf, p, n, ascii_only, blob, introducer, length, out, o):  # type: ignore[no-untyped-def]
    """A string literal: quoted if that is safe, else introducer and hexadecimal.

    The introducer is ``blob[introducer:introducer + length]``. Touches at most
    ``2 * n + length + 64`` bytes.
    """
    end = put_quoted(buf, p, n, ascii_only, out, o)
    if end >= 0:
        return end
    o = copy_padded(blob, introducer, out, o, length)
    return put_hex(buf, p, n, 0, out, o)
