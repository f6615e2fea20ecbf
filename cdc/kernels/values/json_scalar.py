"""Scalar values of MySQL's binary JSON."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import function
from cdc.kernels.values import json_text
from cdc.kernels.values.dates import date_text, packed_datetime, packed_time
from cdc.kernels.values.decimals import decimal, decimal_bytes
from cdc.kernels.values.errors import (
    JSON_OPAQUE,
    JSON_TRUNCATED,
    JSON_TYPE,
    OK,
    OUT_FULL,
    TEMPORAL_RANGE,
)
from cdc.kernels.values.integers import signed, unsigned
from cdc.kernels.values.signature import BUF, CHECKED, I64, OUT
from cdc.kernels.values.words import load16, load32, load64

LITERAL = 4
INT16 = 5
UINT16 = 6
INT32 = 7
UINT32 = 8
INT64 = 9
UINT64 = 10
DOUBLE = 11
STRING = 12
OPAQUE = 15

_TIMESTAMP = 7
_DATE = 10
_TIME = 11
_DATETIME = 12
_DECIMAL = 246
_SCALAR_ROOM = 48
_OPAQUE_ROOM = 96

_LITERALS = np.frombuffer(b"null true false", dtype=np.uint8)
_LITERAL_START = np.array([0, 5, 10], dtype=np.int64)
_LITERAL_LENGTH = np.array([4, 4, 5], dtype=np.int64)


@function(CHECKED(I64, OUT, I64, I64))
def literal(which, out, o, p):  # type: ignore[no-untyped-def]
    """``null`` 0, ``true`` 1, ``false`` 2."""
    if which < 0 or which > 2:
        return p, JSON_TYPE
    for i in range(_LITERAL_LENGTH[which]):
        out[o + i] = _LITERALS[_LITERAL_START[which] + i]
    return o + _LITERAL_LENGTH[which], OK


@function(types.UniTuple(I64, 2)(BUF, I64, I64))
def variable_length(buf, p, end):  # type: ignore[no-untyped-def]
    """Length in 7-bit groups, low first, at most 5 bytes: (length, bytes used), or (0, 0)."""
    value = np.int64(0)
    for i in range(5):
        if p + i >= end:
            return 0, 0
        b = np.int64(buf[p + i])
        value |= (b & 127) << (7 * i)
        if b < 128:
            return value, i + 1
    return 0, 0


@function(CHECKED(BUF, I64, I64, OUT, I64))
def _temporal(buf, p, kind, out, o):  # type: ignore[no-untyped-def]
    packed = np.int64(load64(buf, p))
    o = json_text.quote(out, o)
    if kind == _TIME:
        a = abs(packed)
        if a < 0:
            return p, TEMPORAL_RANGE
        o, error = packed_time(a >> 24, a & 0xFFFFFF, 1 if packed < 0 else 0, 6, out, o, p)
    elif kind == _DATE:
        ymd = packed >> 41
        year = (ymd >> 5) // 13
        if packed < 0 or year > 9999:
            return p, TEMPORAL_RANGE
        o, error = date_text(year, (ymd >> 5) % 13, ymd & 31, out, o), OK
    else:
        o, error = packed_datetime(packed >> 24, packed & 0xFFFFFF, 6, out, o, p)
    if error != OK:
        return o, error
    return json_text.quote(out, o), OK


@function(CHECKED(BUF, I64, I64, OUT, I64, I64))
def _opaque(buf, p, end, out, o, limit):  # type: ignore[no-untyped-def]
    if p >= end:
        return p, JSON_TRUNCATED
    kind = np.int64(buf[p])
    n, used = variable_length(buf, p + 1, end)
    p += 1 + used
    if used == 0 or p + n > end:
        return p, JSON_TRUNCATED
    if kind == _DECIMAL:
        if n < 2:
            return p, JSON_OPAQUE
        precision = np.int64(buf[p])
        scale = np.int64(buf[p + 1])
        if decimal_bytes(precision, scale) != n - 2:
            return p, JSON_OPAQUE
        if o + _OPAQUE_ROOM > limit:
            return p, OUT_FULL
        return decimal(buf, p + 2, precision, scale, out, o)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if n != 8:
            return p, JSON_OPAQUE
        if o + _OPAQUE_ROOM > limit:
            return p, OUT_FULL
        return _temporal(buf, p, kind, out, o)
    if o + 2 * n + 32 > limit:
        return p, OUT_FULL
    return json_text.base64(buf, p, n, kind, out, o), OK


@function(CHECKED(BUF, I64, I64, I64, OUT, I64))
def _number(buf, p, end, kind, out, o):  # type: ignore[no-untyped-def]
    size = 2 if kind <= UINT16 else 4 if kind <= UINT32 else 8
    if p + size > end:
        return p, JSON_TRUNCATED
    if kind == INT16:
        return signed(np.int64(np.int16(load16(buf, p))), out, o), OK
    if kind == UINT16:
        return unsigned(np.uint64(load16(buf, p)), out, o), OK
    if kind == INT32:
        return signed(np.int64(np.int32(load32(buf, p))), out, o), OK
    if kind == UINT32:
        return unsigned(np.uint64(load32(buf, p)), out, o), OK
    if kind == INT64:
        return signed(np.int64(load64(buf, p)), out, o), OK
    if kind == UINT64:
        return unsigned(load64(buf, p), out, o), OK
    bits = load64(buf, p)
    if bits >> np.uint64(52) & np.uint64(2047) == np.uint64(2047):
        return p, JSON_TYPE
    return json_text.double(bits, out, o), OK


@function(CHECKED(BUF, I64, I64, I64, OUT, I64, I64))
def scalar(buf, p, end, kind, out, o, limit):  # type: ignore[no-untyped-def]
    """The scalar of type ``kind`` at ``p``: bytes not beyond ``end``, text not beyond ``limit``."""
    if o + _SCALAR_ROOM > limit:
        return p, OUT_FULL
    if kind == LITERAL:
        if p >= end:
            return p, JSON_TRUNCATED
        return literal(np.int64(buf[p]), out, o, p)
    if INT16 <= kind <= DOUBLE:
        return _number(buf, p, end, kind, out, o)
    if kind == STRING:
        n, used = variable_length(buf, p, end)
        if used == 0 or p + used + n > end:
            return p, JSON_TRUNCATED
        if o + 7 * n + 20 > limit:
            return p, OUT_FULL
        return json_text.string(buf, p + used, n, out, o)
    if kind == OPAQUE:
        return _opaque(buf, p, end, out, o, limit)
    return p, JSON_TYPE
