"""UTF-8 → JSON-escaped UTF-8, checked: what stands between the quotes of a JSON string.

Escaped are ``"``, ``\\`` and the characters below space (``\\b \\f \\n \\r \\t``, others as
``\\u00XX``). ``<``, ``>`` and ``&`` stay as they are: Go escapes them, and both are the same JSON.
"""

from __future__ import annotations

import json

import numpy as np
from numba import njit, types

from cdc.kernels.compile import function
from cdc.kernels.values.errors import TEXT_INVALID
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT
from cdc.kernels.values.words import load64, store64, trailing_zeros

_HIGH = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_QUOTES = np.uint64(0x2222222222222222)
_SLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_0 = np.uint64(0)

_SHORT = np.zeros(128, dtype=np.uint8)
for _code, _letter in ((8, "b"), (9, "t"), (10, "n"), (12, "f"), (13, "r"), (34, '"'), (92, "\\")):
    _SHORT[_code] = ord(_letter)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def escape_text(text: str) -> bytes:
    """The same for constants (names, keys), in Python: the inside of a JSON string as UTF-8."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


@njit(nogil=True, inline="always")
def special(w):  # type: ignore[no-untyped-def]
    """High bit of each byte of ``w`` that is not plain: above 127, below space, ``"`` or ``\\``.

    The lowest set bit is exact; higher ones may be wrong where a lower one is set.
    """
    q = w ^ _QUOTES
    s = w ^ _SLASHES
    return (w | (w - _SPACES) | (q - _ONES) | (s - _ONES)) & _HIGH


@function(I64(types.int64, OUT, I64))
def escape_ascii(c, out, o):  # type: ignore[no-untyped-def]
    """Write one character below 128, escaped where it must be; at most 6 bytes."""
    if c >= 32 and c != 34 and c != 92:
        out[o] = np.uint8(c)
        return o + 1
    out[o] = np.uint8(92)
    if _SHORT[c] != 0:
        out[o + 1] = _SHORT[c]
        return o + 2
    out[o + 1] = np.uint8(117)
    out[o + 2] = np.uint8(48)
    out[o + 3] = np.uint8(48)
    out[o + 4] = _HEX[c >> 4]
    out[o + 5] = _HEX[c & 15]
    return o + 6


@function(I64(types.int64, OUT, I64))
def put_code_point(c, out, o):  # type: ignore[no-untyped-def]
    """Write a code point (0..0x10FFFF, no surrogate) as UTF-8, escaped where it must be."""
    if c < 128:
        return escape_ascii(c, out, o)
    if c < 0x800:
        out[o] = np.uint8(0xC0 | c >> 6)
        out[o + 1] = np.uint8(0x80 | c & 63)
        return o + 2
    if c < 0x10000:
        out[o] = np.uint8(0xE0 | c >> 12)
        out[o + 1] = np.uint8(0x80 | c >> 6 & 63)
        out[o + 2] = np.uint8(0x80 | c & 63)
        return o + 3
    out[o] = np.uint8(0xF0 | c >> 18)
    out[o + 1] = np.uint8(0x80 | c >> 12 & 63)
    out[o + 2] = np.uint8(0x80 | c >> 6 & 63)
    out[o + 3] = np.uint8(0x80 | c & 63)
    return o + 4


@function(I64(BUF, I64, I64))
def utf8_length(buf, p, end):  # type: ignore[no-untyped-def]
    """Bytes of the well-formed UTF-8 character at ``p`` (its first byte is above 127), or 0."""
    b = np.int64(buf[p])
    if b < 0xC2 or b > 0xF4 or p + 1 >= end:
        return 0
    c = np.int64(buf[p + 1])
    if c & 0xC0 != 0x80:
        return 0
    if b < 0xE0:
        return 2
    if p + 2 >= end or buf[p + 2] & np.uint8(0xC0) != np.uint8(0x80):
        return 0
    if b < 0xF0:
        if (b == 0xE0 and c < 0xA0) or (b == 0xED and c > 0x9F):
            return 0
        return 3
    if p + 3 >= end or buf[p + 3] & np.uint8(0xC0) != np.uint8(0x80):
        return 0
    if (b == 0xF0 and c < 0x90) or (b == 0xF4 and c > 0x8F):
        return 0
    return 4


@function(I64(BUF, I64, I64))
def utf8_code_point(buf, p, n):  # type: ignore[no-untyped-def]
    """The character of the well-formed UTF-8 sequence of ``n`` = 2 to 4 bytes at ``p``."""
    c = np.int64(buf[p]) & (0x7F >> n)
    for i in range(1, n):
        c = c << 6 | np.int64(buf[p + i]) & 63
    return c


@function(types.UniTuple(I64, 2)(BUF, I64, I64, OUT, I64))
def copy_plain(buf, p, end, out, o):  # type: ignore[no-untyped-def]
    """Copy plain ASCII up to the first byte that is not plain, or ``end``: new ``p`` and ``o``.

    Stops early, with fewer than 8 bytes left, where the rest must go byte by byte.
    """
    while p + 16 <= end:
        w = load64(buf, p)
        v = load64(buf, p + 8)
        store64(out, o, w)
        store64(out, o + 8, v)
        m = special(w)
        if m != _0:
            n = trailing_zeros(m) >> 3
            return p + n, o + n
        m = special(v)
        if m != _0:
            n = 8 + (trailing_zeros(m) >> 3)
            return p + n, o + n
        p += 16
        o += 16
    if p + 8 <= end:
        w = load64(buf, p)
        store64(out, o, w)
        m = special(w)
        if m != _0:
            n = trailing_zeros(m) >> 3
            return p + n, o + n
        p += 8
        o += 8
    return p, o


@function(CHECKED(BUF, I64, I64, OUT, I64))
def utf8(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """utf8mb3 and utf8mb4 text of ``n`` bytes. Error: TEXT_INVALID at the malformed character."""
    end = p + n
    while p < end:
        if p + 8 <= end:
            p, o = copy_plain(buf, p, end, out, o)
            if p >= end:
                break
        b = buf[p]
        if b < np.uint8(128):
            o = escape_ascii(np.int64(b), out, o)
            p += 1
            continue
        length = utf8_length(buf, p, end)
        if length == 0:
            return p, TEXT_INVALID
        for i in range(length):
            out[o + i] = buf[p + i]
        p += length
        o += length
    return o, 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def ascii_text(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """ascii text of ``n`` bytes. Error: TEXT_INVALID at a byte above 127."""
    end = p + n
    while p < end:
        if p + 8 <= end:
            p, o = copy_plain(buf, p, end, out, o)
            if p >= end:
                break
        b = buf[p]
        if b >= np.uint8(128):
            return p, TEXT_INVALID
        o = escape_ascii(np.int64(b), out, o)
        p += 1
    return o, 0
