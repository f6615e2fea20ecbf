"""Parts of MySQL's binary JSON for expressions: found by a path, as text, type and length.

Format: the comment of sql-common/json_binary.h in MySQL's documentation of sources; see
``values.mysql_json``. The keys of an object are sorted by length, then by bytes, and occur once.

A part is its type byte and the bytes behind it, up to an end that it may not leave. Each kernel
returns ``(-1, 0)``, or the row and the code of ``values.errors`` of a malformed document.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8, load16, store8
from cdc.kernels.unescape import unescape
from cdc.kernels.values.errors import JSON_TRUNCATED, JSON_TYPE
from cdc.kernels.values.json_container import ARRAY, LAST_CONTAINER, members, word
from cdc.kernels.values.json_scalar import (
    DOUBLE,
    INT32,
    LITERAL,
    OPAQUE,
    STRING,
    UINT16,
    UINT32,
    variable_length,
)
from cdc.kernels.values.mysql_json import json_part

MISSING: Final = -1  # no such part, or a NULL column
EMPTY: Final = 14  # a value of no bytes, which is JSON's null

KEY: Final = 0  # a leg: keys[a:a + b]
CELL: Final = 1  # a leg: item a of an array
CELL_FROM_END: Final = 2  # a leg: item a, counted from the last, which is 0

T_NULL: Final = 0
T_BOOLEAN: Final = 1
T_INTEGER: Final = 2
T_UNSIGNED: Final = 3
T_DOUBLE: Final = 4
T_STRING: Final = 5
T_OBJECT: Final = 6
T_ARRAY: Final = 7
T_OPAQUE: Final = 256

BAD = -2

_NULL = np.frombuffer(b"null", np.uint8)

I64 = types.int64
VECTOR = types.int64[::1]
INDEX = types.Array(types.int64, 1, "C", readonly=True)
LEGS = types.Array(types.int64, 2, "C", readonly=True)
OUT = types.uint8[::1]
CHECKED = types.UniTuple(types.int64, 2)


@rare
def _order_of_key(buf, base, end, i, wide, keys, a, n):  # type: ignore[no-untyped-def]
    # -1, 0, 1: key i of the object at base against keys[a:a + n]; BAD outside of the object.
    size = 4 if wide else 2
    entry = base + 2 * size + i * (size + 2)
    p = base + word(buf, entry, wide)
    length = load16(buf, entry + size)
    if p + length > end:
        return np.int64(BAD)
    if length != n:
        return np.int64(-1 if length < n else 1)
    for j in range(n):
        x, y = load8(buf, p + j), load8(keys, a + j)
        if x != y:
            return np.int64(-1 if x < y else 1)
    return np.int64(0)


@rare
def _key_index(buf, base, end, count, wide, keys, a, n):  # type: ignore[no-untyped-def]
    # The member of that key, MISSING, or BAD.
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        order = _order_of_key(buf, base, end, middle, wide, keys, a, n)
        if order == BAD:
            return np.int64(BAD)
        if order == 0:
            return middle
        if order < 0:
            low = middle + 1
        else:
            high = middle
    return np.int64(MISSING)


@rare
def member(buf, base, stop, kind, count, i):  # type: ignore[no-untyped-def]
    """Member ``i`` of the container at ``base``: ``(type, start, end)``."""
    wide = kind & 1 != 0
    size = 4 if wide else 2
    entry = base + 2 * size + i * (1 + size)
    if kind < ARRAY:
        entry += count * (size + 2)
    item = load8(buf, entry)
    if LITERAL <= item <= UINT16 or (wide and (item in (INT32, UINT32))):
        return item, entry + 1, entry + 1 + size
    return item, base + word(buf, entry + 1, wide), stop


@rare
def scalar_end(buf, p, end, kind):  # type: ignore[no-untyped-def]
    """``(error or 0, end)`` of the scalar at ``p``; nothing of it lies behind that end."""
    if kind < LITERAL or (kind > STRING and kind != OPAQUE):
        return np.int64(JSON_TYPE), end
    size = np.int64(1)
    if kind in (STRING, OPAQUE):
        own = 0 if kind == STRING else 1
        n, used = variable_length(buf, p + own, end)
        if used == 0:
            return np.int64(JSON_TRUNCATED), end
        size = own + used + n
    elif kind != LITERAL:
        size = np.int64(2 if kind <= UINT16 else 4 if kind <= UINT32 else 8)
    if p + size > end:
        return np.int64(JSON_TRUNCATED), end
    if kind == LITERAL and load8(buf, p) > 2:
        return np.int64(JSON_TYPE), end
    return np.int64(0), p + size


@rare
def _find(buf, p, end, legs, keys):  # type: ignore[no-untyped-def]
    # (type, start, end) of the part; MISSING; or BAD and the code of an error.
    kind = load8(buf, p)
    p += 1
    for leg in range(legs.shape[0]):
        what, a = legs[leg, 0], legs[leg, 1]
        if what != KEY and (kind > LAST_CONTAINER or kind < ARRAY):
            # What is no array is taken for an array of itself.
            if a != 0:
                return np.int64(MISSING), p, end
            continue
        if what == KEY and kind >= ARRAY:
            return np.int64(MISSING), p, end
        count, stop = members(buf, p, end, kind)
        if count < 0:
            return np.int64(BAD), np.int64(JSON_TRUNCATED), end
        i = a
        if what == KEY:
            i = _key_index(buf, p, stop, count, kind & 1 != 0, keys, a, legs[leg, 2])
            if i == BAD:
                return np.int64(BAD), np.int64(JSON_TRUNCATED), end
        elif what == CELL_FROM_END:
            i = count - 1 - a
        if i < 0 or i >= count:
            return np.int64(MISSING), p, end
        kind, p, end = member(buf, p, stop, kind, count, i)
        if p > end:
            return np.int64(BAD), np.int64(JSON_TRUNCATED), end
    if kind <= LAST_CONTAINER:
        count, end = members(buf, p, end, kind)
        if count < 0:
            return np.int64(BAD), np.int64(JSON_TRUNCATED), end
        return kind, p, end
    error, end = scalar_end(buf, p, end, kind)
    if error != 0:
        return np.int64(BAD), error, end
    return kind, p, end


@kernel(CHECKED(BYTES, INDEX, INDEX, LEGS, BYTES, VECTOR, VECTOR, VECTOR))
def find(buf, starts, lengths, legs, keys, kinds, found, ends):  # type: ignore[no-untyped-def]
    """The part of each document that the path ``legs`` names; a start of -1 is NULL.

    ``legs`` is int64[legs, 3]: what, a, b. Writes the type of each part, or MISSING.
    """
    for i in range(starts.size):
        p, n = starts[i], lengths[i]
        kinds[i], found[i], ends[i] = MISSING, 0, 0
        if p < 0:
            continue
        if n <= 0:
            # A value of no bytes is null, and an array of itself as any scalar.
            whole = True
            for leg in range(legs.shape[0]):
                whole &= legs[leg, 0] != KEY and legs[leg, 1] == 0
            kinds[i] = EMPTY if whole else MISSING
            continue
        kind, at, end = _find(buf, p, p + n, legs, keys)
        if kind == BAD:
            return i, at
        kinds[i], found[i], ends[i] = kind, at, end
    return np.int64(-1), np.int64(0)


@rare
def is_null(buf, kind, p):  # type: ignore[no-untyped-def]
    """Whether a part is JSON's null."""
    return kind == EMPTY or (kind == LITERAL and load8(buf, p) == 0)


@rare
def _printed(buf, p, end, kind, out, o, limit):  # type: ignore[no-untyped-def]
    # JSON text without the quotes of a scalar; the value kernels escape it once more.
    if kind == EMPTY:
        for j in range(4):
            store8(out, o + j, np.int64(_NULL[j]))
        return o + 4, np.int64(0)
    stop, error = json_part(buf, p, end, kind, out, o, limit)
    if error != 0:
        return stop, error
    stop = unescape(out, o, stop, out, o)
    if kind == OPAQUE and stop - o > 1 and load8(out, o) == 34:
        stop = unescape(out, o + 1, stop - 1, out, o)
    return stop, np.int64(0)


@small
def _room(kind, p, end):  # type: ignore[no-untyped-def]
    return end - p + 16 if kind == STRING else 12 * (end - p) + 128


@kernel(I64(INDEX, INDEX, INDEX))
def room(kinds, found, ends):  # type: ignore[no-untyped-def]
    """Bytes that ``texts`` writes at most."""
    total = np.int64(0)
    for i in range(kinds.size):
        if kinds[i] != MISSING:
            total += _room(kinds[i], found[i], ends[i])
    return total


@kernel(CHECKED(BYTES, INDEX, INDEX, INDEX, OUT, VECTOR, VECTOR))
def texts(buf, kinds, found, ends, out, starts, lengths):  # type: ignore[no-untyped-def]
    """JSON_UNQUOTE of each part, one behind the other in ``out``; a missing one starts at -1.

    Strings are what they say, all others are printed as JSON. ``out`` has ``room`` bytes.
    """
    o = np.int64(0)
    for i in range(kinds.size):
        kind, p, end = kinds[i], found[i], ends[i]
        starts[i], lengths[i] = -1, 0
        if kind == MISSING:
            continue
        starts[i] = o
        if kind == STRING:
            n, used = variable_length(buf, p, end)
            for j in range(n):
                store8(out, o + j, load8(buf, p + used + j))
            o += n
        else:
            stop, error = _printed(buf, p, end, kind, out, o, o + _room(kind, p, end))
            if error != 0:
                return i, error
            o = stop
        lengths[i] = o - starts[i]
    return np.int64(-1), np.int64(0)


@kernel(types.void(BYTES, INDEX, INDEX, INDEX, VECTOR))
def sizes(buf, kinds, found, ends, out):  # type: ignore[no-untyped-def]
    """JSON_LENGTH of each part: members of a container, 1 of a scalar."""
    for i in range(kinds.size):
        out[i] = 1
        if 0 <= kinds[i] <= LAST_CONTAINER:
            count, _ = members(buf, found[i], ends[i], kinds[i])
            out[i] = count


@kernel(types.void(BYTES, INDEX, INDEX, VECTOR))
def types_of(buf, kinds, found, out):  # type: ignore[no-untyped-def]
    """A code of the JSON type of each part: ``T_``; of an opaque one 256 and its MySQL type."""
    for i in range(kinds.size):
        kind, p = kinds[i], found[i]
        code = np.int64(T_NULL)
        if kind == LITERAL:
            code = np.int64(T_NULL if load8(buf, p) == 0 else T_BOOLEAN)
        elif 0 <= kind <= LAST_CONTAINER:
            code = np.int64(T_OBJECT if kind < ARRAY else T_ARRAY)
        elif kind == STRING:
            code = np.int64(T_STRING)
        elif kind == OPAQUE:
            code = T_OPAQUE + load8(buf, p)
        elif kind == DOUBLE:
            code = np.int64(T_DOUBLE)
        elif LITERAL < kind < DOUBLE:
            code = np.int64(T_INTEGER if kind & 1 else T_UNSIGNED)
        out[i] = code
