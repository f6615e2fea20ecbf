"""JSON text as MySQL prints it → its binary JSON, as the server itself would have stored it.

Format: ``values.mysql_json``, in the other direction. A container is small (words of 2 bytes) where
all of it fits, with all that is in it; a small one holds no large one.

What text does not tell: a DATETIME, or bytes, is a string here that reads the same; a DECIMAL a
number. One that no double of the same text can stand for stays a DECIMAL, so every text is the
same again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import rare, small
from cdc.kernels.expr_json_tokens import hex4, space
from cdc.kernels.memory import copy, load8, store8, store16, store32, store64
from cdc.kernels.text_floats import text_double
from cdc.kernels.text_values import TENTH, decimal
from cdc.kernels.values.decimals import decimal_bytes
from cdc.kernels.values.json_scalar import (
    DOUBLE,
    INT16,
    INT32,
    INT64,
    LITERAL,
    OPAQUE,
    STRING,
    UINT64,
)
from cdc.kernels.values.json_text import double as double_text

NODES = types.int64[:, ::1]

# Columns of a node: one value of the document, in the order of the text.
_KIND: Final = 0  # the type of the small form; INT64 for all integers below 2**32
_PARENT: Final = 1  # its container, or -1
_AT: Final = 2  # where its text begins (a string's: behind the quote)
_BYTES: Final = 3  # bytes of its text
_VALUE: Final = 4  # number, literal, bits of a double, or bytes of a string that is unescaped
_COUNT: Final = 5  # members
_END: Final = 6  # node behind the last one in it
_KEY: Final = 7  # the same three of its name in an object
_KEY_BYTES: Final = 8
_KEY_SIZE: Final = 9
_KEYS: Final = 10  # bytes of all names in it
_SMALL: Final = 11  # bytes in the small form, or -1
_LARGE: Final = 12  # bytes in the large form
_START: Final = 13  # where it begins in the output
_ENTRY: Final = 14  # where the entry of its next member lies
_WIDE: Final = 15  # 1 in the large form
NODE_SIZE: Final = 16

BAD: Final = -1  # no JSON text of a server
MORE_NODES: Final = -2  # the document has more values than there are nodes

_OBJECT, _ARRAY = 0, 2
_DEPTH = 100
_MOST16 = 0xFFFF
_MOST32 = 0xFFFFFFFF
_DECIMAL = 246
_ESCAPED = np.frombuffer(b'"\\/bfnrt', np.uint8)
_MEANT = np.frombuffer(b'"\\/\b\f\n\r\t', np.uint8)
_WORDS = np.frombuffer(b"null true false", np.uint8)
_WORD_AT = np.array([0, 5, 10], np.int64)
_WORD_BYTES = np.array([4, 4, 5], np.int64)


@rare
def _meant(c):  # type: ignore[no-untyped-def]
    # What a character behind a backslash means, or -1.
    for i in range(_ESCAPED.size):
        if np.int64(_ESCAPED[i]) == c:
            return np.int64(_MEANT[i])
    return np.int64(BAD)


@rare
def _string(buf, p, end):  # type: ignore[no-untyped-def]
    # (closing quote, bytes without escapes) of a string whose characters begin at p; or -1.
    size = np.int64(0)
    while p < end:
        c = load8(buf, p)
        if c == 34:
            return p, size
        p += 1
        size += 1
        if c != 92:
            continue
        c = load8(buf, p) if p < end else np.int64(0)
        p += 1
        if c == 117:
            # The server escapes control characters only.
            if not 0 <= hex4(buf, p, end) < 128:
                return np.int64(BAD), size
            p += 4
        elif _meant(c) < 0:
            return np.int64(BAD), size
    return np.int64(BAD), size


@rare
def _unescape(buf, p, n, size, out, o):  # type: ignore[no-untyped-def]
    if n == size:
        copy(buf, p, out, o, n)
        return
    end = p + n
    while p < end:
        c = load8(buf, p)
        p += 1
        if c == 92:
            c = load8(buf, p)
            p += 1
            if c == 117:
                c = hex4(buf, p, end)
                p += 4
            else:
                c = _meant(c)
        store8(out, o, c)
        o += 1


@rare
def _number(buf, p, end, nodes, i, out, o):  # type: ignore[no-untyped-def]
    # Reads a number into a node: its end, or -1. out[o:] is room for a text.
    start = p
    whole = True
    while p < end:
        c = load8(buf, p)
        if c == 46 or c == 101 or c == 69:
            whole = False
        elif not (48 <= c <= 57 or c == 45 or c == 43):
            break
        p += 1
    n = p - start
    nodes[i, _BYTES] = n
    negative = n > 0 and load8(buf, start) == 45
    first = start + 1 if negative else start
    digits = p - first
    if whole and 0 < digits < 21:
        v = np.uint64(0)
        fits = True
        for q in range(first, p):
            d = np.uint64(load8(buf, q)) - np.uint64(48)
            if d > np.uint64(9):
                return np.int64(BAD)
            if v > TENTH or (v == TENTH and d > np.uint64(5)):
                fits = False
            v = v * np.uint64(10) + d
        half = np.uint64(1) << np.uint64(63)
        # The server's parser makes an unsigned number of what is above 32 bits.
        if fits and (v <= np.uint64(_MOST32) or (negative and v <= half)):
            stored = np.int64(v)
            nodes[i, _KIND] = INT64
            nodes[i, _VALUE] = -stored if negative else stored
            return p
        if fits and not negative:
            nodes[i, _KIND] = UINT64
            nodes[i, _VALUE] = np.int64(v)
            return p
    bits, ok = text_double(buf, start, p)
    if ok:
        same = double_text(np.uint64(bits), out, o) - o == n
        for q in range(n):
            same = same and load8(out, o + q) == load8(buf, start + q)
        if same:
            nodes[i, _KIND] = DOUBLE
            nodes[i, _VALUE] = bits
            return p
    point = first
    while point < p and load8(buf, point) != 46:
        point += 1
    scale = p - point - 1 if point < p else np.int64(0)
    nodes[i, _KIND] = OPAQUE
    nodes[i, _VALUE] = scale
    nodes[i, _COUNT] = point - first + scale
    if decimal_bytes(nodes[i, _COUNT], scale) < 0:
        return np.int64(BAD)
    return p


@rare
def _scalar(buf, p, end, nodes, i, out, o):  # type: ignore[no-untyped-def]
    c = load8(buf, p)
    if c == 34:
        nodes[i, _KIND] = STRING
        nodes[i, _AT] = p + 1
        q, nodes[i, _VALUE] = _string(buf, p + 1, end)
        nodes[i, _BYTES] = q - p - 1
        return q + 1 if q >= 0 else q
    if c == 45 or 48 <= c <= 57:
        return _number(buf, p, end, nodes, i, out, o)
    for w in range(3):
        n = _WORD_BYTES[w]
        if p + n > end:
            continue
        same = True
        for q in range(n):
            same = same and load8(buf, p + q) == np.int64(_WORDS[_WORD_AT[w] + q])
        if same:
            nodes[i, _KIND] = LITERAL
            nodes[i, _VALUE] = w
            return p + n
    return np.int64(BAD)


@rare
def _parse(buf, p, end, nodes, out, o):  # type: ignore[no-untyped-def]
    # Number of nodes, BAD or MORE_NODES.
    n = depth = np.int64(0)
    parent = np.int64(-1)
    key = key_bytes = key_size = np.int64(0)
    named = False
    while True:
        p = space(buf, p, end)
        if named:
            if p >= end or load8(buf, p) != 34:
                return np.int64(BAD)
            key = p + 1
            p, key_size = _string(buf, key, end)
            if p < 0 or key_size > _MOST16:
                return np.int64(BAD)
            key_bytes = p - key
            p = space(buf, p + 1, end)
            if p >= end or load8(buf, p) != 58:
                return np.int64(BAD)
            p = space(buf, p + 1, end)
        if p >= end:
            return np.int64(BAD)
        if n >= nodes.shape[0]:
            return np.int64(MORE_NODES)
        nodes[n, _PARENT] = parent
        nodes[n, _AT] = p
        nodes[n, _KEY] = key
        nodes[n, _KEY_BYTES] = key_bytes
        nodes[n, _KEY_SIZE] = key_size
        if parent >= 0:
            nodes[parent, _COUNT] += 1
            nodes[parent, _KEYS] += key_size if named else np.int64(0)
        c = load8(buf, p)
        opened = c == 123 or c == 91
        if opened:
            depth += 1
            if depth > _DEPTH:
                return np.int64(BAD)
            nodes[n, _KIND] = _OBJECT if c == 123 else _ARRAY
            nodes[n, _COUNT] = 0
            nodes[n, _KEYS] = 0
            parent = n
            p += 1
        else:
            p = _scalar(buf, p, end, nodes, n, out, o)
            if p < 0:
                return np.int64(BAD)
        n += 1
        nodes[n - 1, _END] = n
        while True:
            p = space(buf, p, end)
            if parent < 0:
                return n if p == end else np.int64(BAD)
            if p >= end:
                return np.int64(BAD)
            named = nodes[parent, _KIND] == _OBJECT
            c = load8(buf, p)
            if c == (125 if named else 93):
                nodes[parent, _END] = n
                parent = nodes[parent, _PARENT]
                depth -= 1
                p += 1
                opened = False
            elif opened:
                break
            elif c == 44:
                p += 1
                break
            else:
                return np.int64(BAD)


@small
def _number_type(nodes, i):  # type: ignore[no-untyped-def]
    v = nodes[i, _VALUE]
    if nodes[i, _KIND] != INT64:
        return nodes[i, _KIND]
    if -0x8000 <= v < 0x8000:
        return np.int64(INT16)
    return np.int64(INT32 if -0x80000000 <= v < 0x80000000 else INT64)


@small
def _is_inside(nodes, i, wide):  # type: ignore[no-untyped-def]
    # Whether a value lies in its entry.
    kind = _number_type(nodes, i)
    return kind in (LITERAL, INT16) or (wide and kind == INT32)


@small
def _length_bytes(n):  # type: ignore[no-untyped-def]
    size = 1
    while n >= 128:
        n >>= 7
        size += 1
    return size


@small
def _scalar_size(nodes, i):  # type: ignore[no-untyped-def]
    kind = _number_type(nodes, i)
    if kind == STRING:
        return _length_bytes(nodes[i, _VALUE]) + nodes[i, _VALUE]
    if kind == OPAQUE:
        return 4 + decimal_bytes(nodes[i, _COUNT], nodes[i, _VALUE])
    return 1 if kind == LITERAL else 2 if kind == INT16 else 4 if kind == INT32 else 8


@rare
def _measure(nodes, n):  # type: ignore[no-untyped-def]
    # Bytes of every container in both forms, the innermost first.
    for i in range(n - 1, -1, -1):
        if nodes[i, _KIND] > _ARRAY:
            continue
        count = nodes[i, _COUNT]
        low = 4 + 3 * count
        high = 8 + 5 * count
        if nodes[i, _KIND] == _OBJECT:
            low += 4 * count + nodes[i, _KEYS]
            high += 6 * count + nodes[i, _KEYS]
        fits = count <= _MOST16
        j = i + 1
        while j < nodes[i, _END]:
            if nodes[j, _KIND] <= _ARRAY:
                fits = fits and nodes[j, _SMALL] >= 0
                low += nodes[j, _SMALL]
                high += nodes[j, _SMALL] if nodes[j, _SMALL] >= 0 else nodes[j, _LARGE]
            else:
                size = _scalar_size(nodes, j)
                low += 0 if _is_inside(nodes, j, False) else size
                high += 0 if _is_inside(nodes, j, True) else size
            j = nodes[j, _END]
        nodes[i, _SMALL] = low if fits and low <= _MOST16 else np.int64(-1)
        nodes[i, _LARGE] = high


@small
def _word(out, o, v, wide):  # type: ignore[no-untyped-def]
    if wide:
        store32(out, o, v)
    else:
        store16(out, o, v)


@rare
def _put_scalar(buf, nodes, i, out, o):  # type: ignore[no-untyped-def]
    kind = _number_type(nodes, i)
    v = nodes[i, _VALUE]
    if kind == STRING:
        n = v
        while n >= 128:
            store8(out, o, n & 127 | 128)
            n >>= 7
            o += 1
        store8(out, o, n)
        o += 1
        _unescape(buf, nodes[i, _AT], nodes[i, _BYTES], v, out, o)
        return o + v
    if kind == OPAQUE:
        precision = nodes[i, _COUNT]
        store8(out, o, _DECIMAL)
        store8(out, o + 1, 2 + decimal_bytes(precision, v))
        store8(out, o + 2, precision)
        store8(out, o + 3, v)
        return decimal(buf, nodes[i, _AT], nodes[i, _BYTES], precision, v, out, o + 4)
    if kind == LITERAL:
        store8(out, o, v)
        return o + 1
    if kind == INT16:
        store16(out, o, v)
        return o + 2
    if kind == INT32:
        store32(out, o, v)
        return o + 4
    store64(out, o, v)
    return o + 8


@rare
def _put_keys(buf, nodes, i, out, entry, wide):  # type: ignore[no-untyped-def]
    # Entries of the names of object i at entry, the names behind all entries; their end or -1.
    word = 4 if wide else 2
    at = entry + nodes[i, _COUNT] * (2 * word + 3)
    before, before_size = at, np.int64(-1)
    j = i + 1
    while j < nodes[i, _END]:
        size = nodes[j, _KEY_SIZE]
        _word(out, entry, at - nodes[i, _START], wide)
        store16(out, entry + word, size)
        _unescape(buf, nodes[j, _KEY], nodes[j, _KEY_BYTES], size, out, at)
        # The server's text has them in the order of what it stores: by length, then bytes.
        ascending = size > before_size
        if size == before_size:
            for q in range(size):
                a, b = load8(out, before + q), load8(out, at + q)
                if a != b:
                    ascending = a < b
                    break
        if not ascending:
            return np.int64(BAD)
        before, before_size = at, size
        at += size
        entry += word + 2
        j = nodes[j, _END]
    nodes[i, _ENTRY] = entry
    return at


@rare
def binary_json(buf, p, n, prefix, nodes, out, o):  # type: ignore[no-untyped-def]
    """Write the document of the text ``buf[p:p+n]`` behind its length in ``prefix`` bytes.

    ``nodes`` int64[:, NODE_SIZE] is room for its values. ``out`` has ``4 * n + 64`` bytes behind
    ``o``. Returns the new offset, BAD or MORE_NODES.
    """
    count = _parse(buf, p, p + n, nodes, out, o)
    if count < 0:
        return count
    _measure(nodes, count)
    start = o
    type_at = o + prefix
    o = type_at + 1
    for i in range(count):
        parent = nodes[i, _PARENT]
        kind = nodes[i, _KIND]
        wide = kind <= _ARRAY and nodes[i, _SMALL] < 0
        if parent >= 0:
            held = nodes[parent, _WIDE] != 0
            type_at = nodes[parent, _ENTRY]
            nodes[parent, _ENTRY] += 5 if held else 3
            if kind > _ARRAY and _is_inside(nodes, i, held):
                store8(out, type_at, _number_type(nodes, i))
                _word(out, type_at + 1, nodes[i, _VALUE], held)
                continue
            _word(out, type_at + 1, o - nodes[parent, _START], held)
        if kind > _ARRAY:
            store8(out, type_at, _number_type(nodes, i))
            o = _put_scalar(buf, nodes, i, out, o)
            if o < 0:
                return np.int64(BAD)
            continue
        store8(out, type_at, kind | (1 if wide else 0))
        nodes[i, _WIDE] = 1 if wide else 0
        nodes[i, _START] = o
        word = 4 if wide else 2
        members = nodes[i, _COUNT]
        _word(out, o, members, wide)
        _word(out, o + word, nodes[i, _LARGE] if wide else nodes[i, _SMALL], wide)
        o += 2 * word
        if kind == _OBJECT:
            o = _put_keys(buf, nodes, i, out, o, wide)
            if o < 0:
                return np.int64(BAD)
        else:
            nodes[i, _ENTRY] = o
            o += members * (1 + word)
    size = o - start - prefix
    if size > _MOST32:
        return np.int64(BAD)
    store32(out, start, size)
    return o
