"""Parts of MySQL's binary JSON compared with one SQL literal.

The order of types and of numbers: MySQL manual, "Comparison and Ordering of JSON Values". Parts
are those of ``expr_json.find``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_json import CHECKED, INDEX, MISSING, is_null
from cdc.kernels.memory import load8, load16, load32, load64
from cdc.kernels.values.decimals import decimal, decimal_bytes
from cdc.kernels.values.errors import JSON_OPAQUE, JSON_TYPE
from cdc.kernels.values.json_container import ARRAY, LAST_CONTAINER
from cdc.kernels.values.json_scalar import (
    DOUBLE,
    INT16,
    INT32,
    LITERAL,
    OPAQUE,
    STRING,
    UINT16,
    UINT32,
    UINT64,
    variable_length,
)

# Types from the lowest to the highest.
NULL: Final = 0
NUMBER: Final = 1
TEXT: Final = 2
OBJECT: Final = 3
LIST: Final = 4
BOOLEAN: Final = 5
OTHER: Final = 6  # dates, times and bytes, which no literal is

_DECIMAL = 246

I64 = types.int64
F64 = types.float64
OUT8 = types.int8[::1]
SCRATCH = types.uint8[::1]


@rare
def _rank(buf, kind, p):  # type: ignore[no-untyped-def]
    if is_null(buf, kind, p):
        return np.int64(NULL)
    if kind == LITERAL:
        return np.int64(BOOLEAN)
    if kind <= LAST_CONTAINER:
        return np.int64(OBJECT if kind < ARRAY else LIST)
    if kind == STRING:
        return np.int64(TEXT)
    if kind == OPAQUE and load8(buf, p) != _DECIMAL:
        return np.int64(OTHER)
    return np.int64(NUMBER)


@rare
def _of_bytes(buf, p, n, other, m):  # type: ignore[no-untyped-def]
    for j in range(min(n, m)):
        x, y = load8(buf, p + j), load8(other, j)
        if x != y:
            return np.int64(-1 if x < y else 1)
    return np.int64(-1 if n < m else 1 if n > m else 0)


@rare
def _of_integer(v, unsigned, side, negative, floor, whole):  # type: ignore[no-untyped-def]
    # An integer against a number whose floor has these 64 bits; ``side`` if that is beyond 64 bits.
    if side != 0:
        return np.int64(-side)
    below = not unsigned and v < 0
    if below != (negative != 0):
        return np.int64(-1 if below else 1)
    if v == floor:
        return np.int64(0 if whole else -1)
    return np.int64(-1 if np.uint64(v) < np.uint64(floor) else 1)


@rare
def _of_decimal(text, n, other, m):  # type: ignore[no-untyped-def]
    # Two decimals as text: sign, digits, and perhaps a point and more digits.
    i = j = np.int64(0)
    below, under = load8(text, 0) == 45, load8(other, 0) == 45
    i += below
    j += under
    while i < n and load8(text, i) == 48:
        i += 1
    while j < m and load8(other, j) == 48:
        j += 1
    a = b = np.int64(0)
    while i + a < n and load8(text, i + a) != 46:
        a += 1
    while j + b < m and load8(other, j + b) != 46:
        b += 1
    order = np.int64(-1 if a < b else 1 if a > b else 0)
    zero = np.int64(1)
    while i < n or j < m:
        x = load8(text, i) if i < n else np.int64(48)
        y = load8(other, j) if j < m else np.int64(48)
        # Where one of them ends before its point, the other one has only zeros to match.
        x, y = (48 if x == 46 else x), (48 if y == 46 else y)
        if order == 0 and x != y:
            order = np.int64(-1 if x < y else 1)
        if x != 48 or y != 48:
            zero = np.int64(0)
        i += 1
        j += 1
    if zero:
        return np.int64(0)
    if below != under:
        return np.int64(-1 if below else 1)
    return -order if below else order


@rare
def _number(buf, p, kind, numbers, real, text, n, scratch):  # type: ignore[no-untyped-def]
    # (order, error)
    if kind == DOUBLE:
        bits = load64(buf, p)
        if bits >> 52 & 2047 == 2047:
            return p, np.int64(JSON_TYPE)
        x = np.int64(bits).view(np.float64)
        return np.int64(-1 if x < real else 1 if x > real else numbers[4]), np.int64(0)
    if kind == OPAQUE:
        size, used = variable_length(buf, p + 1, p + 6)
        p += 1 + used
        if size < 2 or decimal_bytes(load8(buf, p), load8(buf, p + 1)) != size - 2:
            return p, np.int64(JSON_OPAQUE)
        stop, error = decimal(buf, p + 2, load8(buf, p), load8(buf, p + 1), scratch, 0)
        if error != 0:
            return p, error
        return _of_decimal(scratch, stop, text, n), np.int64(0)
    if kind <= UINT16:
        v = load16(buf, p)
        v = np.int64(np.int16(v)) if kind == INT16 else v
    elif kind <= UINT32:
        v = load32(buf, p)
        v = np.int64(np.int32(v)) if kind == INT32 else v
    else:
        v = load64(buf, p)
    order = _of_integer(v, kind == UINT64, numbers[0], numbers[1], numbers[2], numbers[3])
    return order, np.int64(0)


@kernel(CHECKED(BYTES, INDEX, INDEX, INDEX, I64, INDEX, F64, BYTES, I64, SCRATCH, OUT8))
def order(  # type: ignore[no-untyped-def]
    buf, kinds, found, ends, rank, numbers, real, text, length, scratch, out
):
    """-1, 0 or 1 for each part against a literal of type ``rank``; 0 for a missing one.

    A NUMBER has its floor in ``numbers``: 1 or -1 if that is beyond 64 bits, whether it is
    negative, its bits, whether it is the number itself; then the order of the double ``real``
    (the nearest) against the number. ``text[:length]`` are its decimal digits, or the bytes of a
    TEXT; a BOOLEAN is ``numbers[0]``. ``scratch`` has 128 bytes.
    """
    for i in range(kinds.size):
        kind, p = kinds[i], found[i]
        out[i] = 0
        if kind == MISSING:
            continue
        own = _rank(buf, kind, p)
        if own != rank:
            out[i] = -1 if own < rank else 1
        elif rank == NUMBER:
            result, error = _number(buf, p, kind, numbers, real, text, length, scratch)
            if error != 0:
                return i, error
            out[i] = result
        elif rank == TEXT:
            n, used = variable_length(buf, p, ends[i])
            out[i] = _of_bytes(buf, p + used, n, text, length)
        else:
            truth = 1 if load8(buf, p) == 1 else 0
            out[i] = truth - numbers[0]
    return np.int64(-1), np.int64(0)
