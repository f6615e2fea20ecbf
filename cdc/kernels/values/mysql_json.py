"""MySQL's binary JSON → its text as the server prints it, escaped as a JSON string.

Format: the comment of sql-common/json_binary.h in MySQL's documentation of sources: a type byte,
then the value. Objects and arrays hold a count and a size, entries, then keys and values; their
integers and offsets have 2 bytes in the small form, 4 in the large one. Small scalars lie inside
of their entry.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import function
from cdc.kernels.values.errors import JSON_DEPTH, JSON_TRUNCATED, OK, OUT_FULL
from cdc.kernels.values.json_scalar import INT32, LITERAL, UINT16, UINT32, literal, scalar
from cdc.kernels.values.json_text import string
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT
from cdc.kernels.values.words import load16, load32

MAX_DEPTH = 100

# Columns of the stack: the container's start and end, members done, members in all, its type.
_BASE, _END, _DONE, _COUNT, _KIND = 0, 1, 2, 3, 4
_LAST_CONTAINER = 3
_ARRAY = 2


@function(I64(BUF, I64, I64))
def _word(buf, p, size):  # type: ignore[no-untyped-def]
    return np.int64(load32(buf, p)) if size == 4 else np.int64(load16(buf, p))


@function(CHECKED(BUF, I64, I64, I64))
def _open(buf, p, end, kind):  # type: ignore[no-untyped-def]
    """Count and end of the container at ``p``; count -1 if it does not fit before ``end``."""
    size = 4 if kind & 1 else 2
    if p + 2 * size > end:
        return -1, 0
    count = _word(buf, p, size)
    length = _word(buf, p + size, size)
    entries = 2 * size + count * (1 + size + (0 if kind >= _ARRAY else size + 2))
    if p + length > end or entries > length:
        return -1, 0
    return count, p + length


@function(CHECKED(BUF, I64, I64, I64, I64, OUT, I64, I64))
def _key(buf, base, end, kind, i, out, o, limit):  # type: ignore[no-untyped-def]
    """Key ``i`` of the object at ``base`` and ``: ``."""
    size = 4 if kind & 1 else 2
    entry = base + 2 * size + i * (size + 2)
    p = base + _word(buf, entry, size)
    n = np.int64(load16(buf, entry + size))
    if p + n > end:
        return entry, JSON_TRUNCATED
    if o + 7 * n + 24 > limit:
        return p, OUT_FULL
    o, error = string(buf, p, n, out, o)
    if error != OK:
        return o, error
    out[o] = np.uint8(58)
    out[o + 1] = np.uint8(32)
    return o + 2, OK


@function(CHECKED(BUF, I64, I64, I64, OUT, I64, I64))
def _container(buf, p, end, kind, out, o, limit):  # type: ignore[no-untyped-def]
    """The object or array at ``p``, walked with an explicit stack."""
    stack = np.empty((MAX_DEPTH, 5), dtype=np.int64)
    depth = -1
    opening = True
    while True:
        if opening:
            if depth + 1 >= MAX_DEPTH:
                return p, JSON_DEPTH
            count, stop = _open(buf, p, end, kind)
            if count < 0:
                return p, JSON_TRUNCATED
            depth += 1
            stack[depth, _BASE] = p
            stack[depth, _END] = stop
            stack[depth, _DONE] = 0
            stack[depth, _COUNT] = count
            stack[depth, _KIND] = kind
            out[o] = np.uint8(91 if kind >= _ARRAY else 123)
            o += 1
            opening = False
        if o + 16 > limit:
            return p, OUT_FULL
        kind = stack[depth, _KIND]
        i = stack[depth, _DONE]
        count = stack[depth, _COUNT]
        if i == count:
            out[o] = np.uint8(93 if kind >= _ARRAY else 125)
            o += 1
            depth -= 1
            if depth < 0:
                return o, OK
            continue
        stack[depth, _DONE] = i + 1
        base = stack[depth, _BASE]
        end = stack[depth, _END]
        if i > 0:
            out[o] = np.uint8(44)
            out[o + 1] = np.uint8(32)
            o += 2
        size = 4 if kind & 1 else 2
        entry = base + 2 * size + i * (1 + size)
        if kind < _ARRAY:
            entry += count * (size + 2)
            o, error = _key(buf, base, end, kind, i, out, o, limit)
            if error != OK:
                return o, error
        item = np.int64(buf[entry])
        if LITERAL <= item <= UINT16 or (size == 4 and (item in (INT32, UINT32))):
            p = entry + 1
            o, error = scalar(buf, p, entry + 1 + size, item, out, o, limit)
        else:
            p = base + _word(buf, entry + 1, size)
            if item <= _LAST_CONTAINER:
                kind = item
                opening = True
                if o + 16 > limit:
                    return p, OUT_FULL
                continue
            o, error = scalar(buf, p, end, item, out, o, limit)
        if error != OK:
            return o, error


@function(CHECKED(BUF, I64, I64, I64, OUT, I64, I64))
def json_part(buf, p, end, kind, out, o, limit):  # type: ignore[no-untyped-def]
    """The value of type ``kind`` at ``p``, behind its type byte: a document or a part of one."""
    if kind <= _LAST_CONTAINER:
        if o + 16 > limit:
            return p, OUT_FULL
        return _container(buf, p, end, kind, out, o, limit)
    return scalar(buf, p, end, kind, out, o, limit)


@function(CHECKED(BUF, I64, I64, OUT, I64))
def mysql_json(buf, p, n, out, o):  # type: ignore[no-untyped-def]
    """JSON column of MySQL, ``n`` bytes after its length; an empty value is ``null``.

    Never writes more than ``12 * n + 64`` bytes. Errors: JSON_*, TEXT_INVALID, TEMPORAL_RANGE,
    DECIMAL_*, and OUT_FULL for a document whose parts overlap so that it would be longer.
    """
    if n <= 0:
        return literal(0, out, o, p)
    limit = min(o + 12 * n + 64, out.size)
    return json_part(buf, p + 1, p + n, np.int64(buf[p]), out, o, limit)
