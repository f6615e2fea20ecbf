"""Strings, numbers and words of JSON text, read as MariaDB reads them.

What it takes was measured on its servers: a backslash may stand before any character, and a point
or an exponent may end a number. MariaDB knowledge base, "JSON Functions".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cdc.kernels.compile import rare, small
from cdc.kernels.expr_json import T_BOOLEAN, T_DOUBLE, T_INTEGER, T_NULL, T_STRING
from cdc.kernels.memory import load8

CUT: Final = 8  # a type beside ``expr_json.T_``: a number that lacks its digits, such as -

_QUOTE, _BACKSLASH = 34, 92

_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)
_NULL = np.frombuffer(b"null", np.uint8)


@small
def space(buf, p, end):  # type: ignore[no-untyped-def]
    """Behind the spaces at ``p``."""
    while p < end:
        c = load8(buf, p)
        if c != 32 and c != 10 and c != 13 and c != 9:
            break
        p += 1
    return p


@rare
def hex4(buf, p, end):  # type: ignore[no-untyped-def]
    """The value of four hexadecimal digits at ``p``, or -1."""
    if p + 4 > end:
        return np.int64(-1)
    v = np.int64(0)
    for i in range(4):
        c = load8(buf, p + i)
        if 48 <= c <= 57:
            v = v << 4 | (c - 48)
        elif 97 <= (c | 32) <= 102:
            v = v << 4 | ((c | 32) - 87)
        else:
            return np.int64(-1)
    return v


@rare
def string(buf, p, end):  # type: ignore[no-untyped-def]
    """Behind the string whose characters begin at ``p``, or -1."""
    while p < end:
        c = load8(buf, p)
        p += 1
        if c == _QUOTE:
            return p
        if c < 32:
            return np.int64(-1)
        if c != _BACKSLASH:
            continue
        if p >= end:
            return np.int64(-1)
        c = load8(buf, p)
        p += 1
        if c < 32:
            return np.int64(-1)
        if c != 117:
            continue
        v = hex4(buf, p, end)
        p += 4
        if v < 0 or 0xDC00 <= v < 0xE000:
            return np.int64(-1)
        if 0xD800 <= v < 0xDC00:
            if p + 6 > end or load8(buf, p) != _BACKSLASH or load8(buf, p + 1) != 117:
                return np.int64(-1)
            v = hex4(buf, p + 2, end)
            p += 6
            if not 0xDC00 <= v < 0xE000:
                return np.int64(-1)
    return np.int64(-1)


@small
def _digits(buf, p, end):  # type: ignore[no-untyped-def]
    while p < end and 48 <= load8(buf, p) <= 57:
        p += 1
    return p


@rare
def _number(buf, p, end):  # type: ignore[no-untyped-def]
    # (behind it or -1, type)
    kind = np.int64(T_INTEGER)
    if load8(buf, p) == 45:
        p += 1
    first = p
    p = _digits(buf, p, end)
    if p == first:
        # A sign alone is a number to MariaDB, and an exponent without digits, unless the text ends.
        return p if p < end else np.int64(-1), np.int64(CUT)
    if load8(buf, first) == 48 and p > first + 1:
        return np.int64(-1), kind
    if p < end and load8(buf, p) == 46:
        kind = np.int64(T_DOUBLE)
        p = _digits(buf, p + 1, end)
    if p < end and load8(buf, p) | 32 == 101:
        p += 1
        while p < end and (load8(buf, p) == 43 or load8(buf, p) == 45):
            p += 1
        first = p
        p = _digits(buf, p, end)
        if p == first:
            return p if p < end else np.int64(-1), np.int64(CUT)
    return p, kind


@rare
def _word(buf, p, end, word):  # type: ignore[no-untyped-def]
    if p + word.size > end:
        return np.int64(-1)
    for i in range(word.size):
        if load8(buf, p + i) != np.int64(word[i]):
            return np.int64(-1)
    return p + word.size


@rare
def scalar(buf, p, end):  # type: ignore[no-untyped-def]
    """``(behind it or -1, type)`` of the string, number or word at ``p``."""
    c = load8(buf, p)
    if c == _QUOTE:
        return string(buf, p + 1, end), np.int64(T_STRING)
    if c == 45 or 48 <= c <= 57:
        return _number(buf, p, end)
    if c == 116:
        return _word(buf, p, end, _TRUE), np.int64(T_BOOLEAN)
    if c == 102:
        return _word(buf, p, end, _FALSE), np.int64(T_BOOLEAN)
    return _word(buf, p, end, _NULL), np.int64(T_NULL)


@rare
def escaped(buf, p, end):  # type: ignore[no-untyped-def]
    """``(code point, behind it)`` of an escape of a valid string; ``p`` is behind the backslash.

    The code point is -1 where a character beyond ASCII follows, which stands for itself.
    """
    c = load8(buf, p)
    p += 1
    if c == 117:
        c = hex4(buf, p, end)
        p += 4
        if 0xD800 <= c < 0xDC00:
            c = 0x10000 + (c - 0xD800 << 10) + hex4(buf, p + 2, end) - 0xDC00
            p += 6
    elif c == 98:
        c = np.int64(8)
    elif c == 102:
        c = np.int64(12)
    elif c == 110:
        c = np.int64(10)
    elif c == 114:
        c = np.int64(13)
    elif c == 116:
        c = np.int64(9)
    elif c >= 0x80:
        return np.int64(-1), p - 1
    return c, p


@rare
def utf8_byte(c, size, j):  # type: ignore[no-untyped-def]
    """Byte ``j`` of the ``size`` bytes of a code point in UTF-8."""
    if size == 1:
        return c
    if j == 0:
        return (0xF00 >> size & 0xFF) | c >> 6 * (size - 1)
    return 0x80 | c >> 6 * (size - 1 - j) & 63
