"""JSON as text for expressions, read as MariaDB reads it: checked, and searched by a path.

MariaDB knowledge base, "JSON Functions" and "JSONPath Expressions". Its documents have 31 levels at
most; keys may occur more than once, and the first value that a path leads to counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_json import (
    CELL,
    INDEX,
    KEY,
    LEGS,
    MISSING,
    T_ARRAY,
    T_OBJECT,
    VECTOR,
)
from cdc.kernels.expr_json_tokens import escaped, scalar, space, string, utf8_byte
from cdc.kernels.memory import load8

INVALID: Final = -2  # no JSON, or a NULL
ODD: Final = -3  # JSON to JSON_VALID only: a key begins with white space

ANY: Final = 0  # the first value that the path names
SCALAR: Final = 1  # the first scalar that it names

MAX_DEPTH = 31
# Words of a stack frame: whether it is an array, legs that lead to it or -1, members before.
_LIST, _LEGS, _DONE, _FRAME = 0, 1, 2, 3
STACK = _FRAME * (MAX_DEPTH + 1)

_QUOTE, _BACKSLASH = 34, 92

I64 = types.int64


@rare
def _is_key(buf, p, end, keys, a, n, plain):  # type: ignore[no-untyped-def]
    # Whether the key whose characters are buf[p:end] is keys[a:a + n]; ``plain`` undoes no escapes.
    i = np.int64(0)
    while p < end:
        c = load8(buf, p)
        p += 1
        if c == _BACKSLASH and not plain:
            c, p = escaped(buf, p, end)
            if c < 0:
                continue
            size = 1 + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000)
            for j in range(size):
                if i >= n or load8(keys, a + i) != utf8_byte(c, size, j):
                    return False
                i += 1
            continue
        if i >= n or load8(keys, a + i) != c:
            return False
        i += 1
    return i == n


@rare
def _led(legs, m, kind, number):  # type: ignore[no-untyped-def]
    # Legs that lead to item ``number``, if m lead to its array.
    if 0 <= m < legs.shape[0] and legs[m, 0] == CELL and legs[m, 1] == number:
        return m + 1
    return np.int64(-1)


@rare
def search(buf, p, end, legs, keys, mode, plain, stack):  # type: ignore[no-untyped-def]
    """``(type, start, end)`` of the first value that the path names; MISSING; INVALID; or ODD.

    The document is read to its end, as nothing is known of it before.
    """
    depth = np.int64(0)
    m = np.int64(0)
    odd = False
    kind, found, stop, open_at = np.int64(MISSING), np.int64(0), np.int64(0), np.int64(-1)
    while True:
        p = space(buf, p, end)
        if p >= end:
            return np.int64(INVALID), p, p
        c = load8(buf, p)
        if c != 91:
            # What is no array is taken for an array of itself.
            while 0 <= m < legs.shape[0] and legs[m, 0] == CELL and legs[m, 1] == 0:
                m += 1
        hit = m == legs.shape[0] and kind == MISSING
        if c == 91 or c == 123:
            if depth >= MAX_DEPTH:
                return np.int64(INVALID), p, p
            if hit and mode == ANY:
                kind, found, open_at = np.int64(T_ARRAY if c == 91 else T_OBJECT), p, depth
            stack[_FRAME * depth + _LIST] = c == 91
            stack[_FRAME * depth + _LEGS] = m
            stack[_FRAME * depth + _DONE] = 0
            depth += 1
            p = space(buf, p + 1, end)
            closing = p < end and load8(buf, p) == c + 2
            fresh = True
        else:
            start = p
            p, own = scalar(buf, p, end)
            if p < 0:
                return np.int64(INVALID), p, p
            if hit:
                kind, found, stop = own, start, p
            closing, fresh = False, False
        while True:
            if not fresh:
                p = space(buf, p, end)
                if depth == 0:
                    if p < end:
                        return np.int64(INVALID), p, p
                    return np.int64(ODD) if odd else kind, found, stop
                if p >= end:
                    return np.int64(INVALID), p, p
                c = load8(buf, p)
                closing = c == (93 if stack[_FRAME * (depth - 1) + _LIST] else 125)
                if not closing and c != 44:
                    return np.int64(INVALID), p, p
            if not closing:
                break
            p += 1
            depth -= 1
            if depth == open_at:
                stop, open_at = p, np.int64(-1)
            fresh = False
        top = _FRAME * (depth - 1)
        if not fresh:
            p = space(buf, p + 1, end)
        m = stack[top + _LEGS]
        if stack[top + _LIST]:
            m = _led(legs, m, 0, stack[top + _DONE])
            stack[top + _DONE] += 1
            continue
        if p >= end or load8(buf, p) != _QUOTE:
            return np.int64(INVALID), p, p
        start = p + 1
        p = space(buf, start, end)
        odd |= p > start
        p = string(buf, p, end)
        if p < 0:
            return np.int64(INVALID), p, p
        if 0 <= m < legs.shape[0] and legs[m, 0] == KEY and _is_key(
            buf, start, p - 1, keys, legs[m, 1], legs[m, 2], plain
        ):  # fmt: skip
            m += 1
        else:
            m = np.int64(-1)
        p = space(buf, p, end)
        if p >= end or load8(buf, p) != 58:
            return np.int64(INVALID), p, p
        p += 1


@kernel(types.void(BYTES, INDEX, INDEX, LEGS, BYTES, I64, I64, VECTOR, VECTOR, VECTOR, VECTOR))
def find(  # type: ignore[no-untyped-def]
    buf, starts, lengths, legs, keys, mode, plain, stack, kinds, found, ends
):
    """Where the value lies that a path names: its type (``expr_json.T_``), start and end.

    ``mode`` is ANY or SCALAR; ``plain`` compares keys as they are written. ``stack`` has
    STACK words. The type is MISSING, or INVALID of a NULL and of what is no JSON.
    """
    for i in range(starts.size):
        kinds[i], found[i], ends[i] = INVALID, -1, -1
        p = starts[i]
        if p >= 0:
            kinds[i], found[i], ends[i] = search(
                buf, p, p + lengths[i], legs, keys, mode, plain != 0, stack
            )


@rare
def _members(buf, p, end):  # type: ignore[no-untyped-def]
    # Members of the valid container at p.
    count, depth, any_ = np.int64(1), np.int64(0), False
    while p < end:
        c = load8(buf, p)
        p += 1
        if c == _QUOTE:
            any_ = True
            p = string(buf, p, end)
        elif c == 91 or c == 123:
            any_ |= depth == 1
            depth += 1
        elif c == 93 or c == 125:
            depth -= 1
        elif c == 44:
            count += depth == 1
        elif c > 32:
            any_ = True
    return count if any_ else np.int64(0)


@kernel(types.void(BYTES, INDEX, INDEX, INDEX, VECTOR))
def sizes(buf, kinds, found, ends, out):  # type: ignore[no-untyped-def]
    """JSON_LENGTH of each value: members of an object or array, 1 of a scalar."""
    for i in range(kinds.size):
        out[i] = 1
        if kinds[i] == T_ARRAY or kinds[i] == T_OBJECT:
            out[i] = _members(buf, found[i], ends[i])
