"""MySQL's binary JSON as a SQL expression that makes the same value, where text would not.

Parsed text has no decimals, dates, times and bytes, and takes a small unsigned integer for a signed
one. A document that has such a value becomes ``JSON_ARRAY(…)`` and ``JSON_OBJECT(…)`` of typed SQL
values. Format: the comment of sql-common/json_binary.h in MySQL's documentation of sources.
"""

from __future__ import annotations

import numpy as np

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.compile import rare
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.memory import load8, load16, load32, load64, store8
from cdc.kernels.sql_number import put_double
from cdc.kernels.sql_text import put_hex, put_string
from cdc.kernels.values.dates import date_text, packed_datetime, packed_time
from cdc.kernels.values.decimals import MAX_PRECISION, decimal, decimal_bytes
from cdc.kernels.values.errors import JSON_DEPTH, JSON_OPAQUE, JSON_TRUNCATED, JSON_TYPE
from cdc.kernels.values.json_container import ARRAY, LAST_CONTAINER, members, word
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

MAX_DEPTH = 100
STACK = 5 * MAX_DEPTH
"""Words of scratch that a walk needs."""

# Words of a stack frame: the container's start and end, members done, members in all, its type.
_BASE, _END, _DONE, _MEMBERS, _KIND, _FRAME = 0, 1, 2, 3, 4, 5
_TIMESTAMP, _DATE, _TIME, _DATETIME, _VARCHAR, _DECIMAL = 7, 10, 11, 12, 15, 246
_ROOM = 192

_WORDS = np.frombuffer(
    b"JSON_ARRAY(JSON_OBJECT(JSON_EXTRACT(CAST( AS UNSIGNED) AS DECIMAL( AS DATE) AS TIME(6))"
    b" AS DATETIME(6)),'$[0]')NULLTRUEFALSE",
    np.uint8,
)
_A_ARRAY, _A_OBJECT, _A_EXTRACT, _A_CAST = (0, 11), (11, 12), (23, 13), (36, 5)
_A_UNSIGNED, _A_DECIMAL, _A_DATE, _A_TIME = (41, 13), (54, 12), (66, 9), (75, 12)
_A_DATETIME, _A_FIRST = (87, 16), (103, 8)
_A_NULL, _A_TRUE, _A_FALSE = (111, 4), (115, 4), (119, 5)


@rare
def _word(part, out, o):  # type: ignore[no-untyped-def]
    for i in range(part[1]):
        store8(out, o + i, np.int64(_WORDS[part[0] + i]))
    return o + part[1]


@rare
def _temporal(buf, p, kind, out, o):  # type: ignore[no-untyped-def]
    packed = load64(buf, p)
    o = _word(_A_CAST, out, o)
    store8(out, o, 39)
    o += 1
    error = np.int64(0)
    if kind == _TIME:
        a = abs(packed)
        o, error = packed_time(a >> 24, a & 0xFFFFFF, 1 if packed < 0 else 0, 6, out, o, p)
    elif kind == _DATE:
        ymd = packed >> 41
        if packed < 0 or (ymd >> 5) // 13 > 9999:
            return p, np.int64(JSON_OPAQUE)
        o = date_text((ymd >> 5) // 13, (ymd >> 5) % 13, ymd & 31, out, o)
    else:
        o, error = packed_datetime(packed >> 24, packed & 0xFFFFFF, 6, out, o, p)
    if error != 0:
        return o, error
    store8(out, o, 39)
    word = _A_TIME if kind == _TIME else _A_DATETIME
    return _word(_A_DATE if kind == _DATE else word, out, o + 1), np.int64(0)


@rare
def _opaque(buf, p, end, out, o, cap):  # type: ignore[no-untyped-def]
    if p >= end:
        return p, np.int64(JSON_TRUNCATED)
    kind = load8(buf, p)
    n, used = variable_length(buf, p + 1, end)
    p += 1 + used
    if used == 0 or p + n > end:
        return p, np.int64(JSON_TRUNCATED)
    if kind == _DECIMAL:
        if n < 2 or decimal_bytes(load8(buf, p), load8(buf, p + 1)) != n - 2:
            return p, np.int64(JSON_OPAQUE)
        precision, scale = load8(buf, p), load8(buf, p + 1)
        o, error = decimal(buf, p + 2, precision, scale, out, _word(_A_CAST, out, o))
        if error != 0:
            return o, error
        o = put_signed(min(precision, MAX_PRECISION), out, _word(_A_DECIMAL, out, o))
        store8(out, o, 44)
        o = put_signed(scale, out, o + 1)
        store8(out, o, 41)
        store8(out, o + 1, 41)
        return o + 2, np.int64(0)
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if n != 8:
            return p, np.int64(JSON_OPAQUE)
        return _temporal(buf, p, kind, out, o)
    if kind != _VARCHAR:
        # Only strings of bytes can be made; the type code of others is part of the value.
        return p, np.int64(S.ERR_OPAQUE)
    if o + 2 * n + _ROOM > cap:
        return 2 * n + _ROOM, np.int64(L.ERR_ROOM)
    return put_hex(buf, p, n, 0, out, o), np.int64(0)


@rare
def _number(buf, p, end, kind, out, o):  # type: ignore[no-untyped-def]
    size = 2 if kind <= UINT16 else 4 if kind <= UINT32 else 8
    if p + size > end:
        return p, np.int64(JSON_TRUNCATED)
    if kind == DOUBLE:
        return put_double(np.uint64(load64(buf, p)), p, out, o)
    v = load64(buf, p) if size == 8 else load32(buf, p) if size == 4 else load16(buf, p)
    if kind in (UINT16, UINT32, UINT64):
        o = put_unsigned(np.uint64(v), out, _word(_A_CAST, out, o))
        return _word(_A_UNSIGNED, out, o), np.int64(0)
    if kind == INT16:
        v = np.int64(np.int16(v))
    elif kind == INT32:
        v = np.int64(np.int32(v))
    return put_signed(v, out, o), np.int64(0)


@rare
def _scalar(buf, p, end, kind, blob, introducer, length, out, o, cap):  # type: ignore[no-untyped-def]
    if o + _ROOM > cap:
        return np.int64(_ROOM), np.int64(L.ERR_ROOM)
    if kind == LITERAL:
        if p >= end:
            return p, np.int64(JSON_TRUNCATED)
        which = load8(buf, p)
        if which > 2:
            return p, np.int64(JSON_TYPE)
        word = _A_TRUE if which == 1 else _A_NULL
        return _word(_A_FALSE if which == 2 else word, out, o), np.int64(0)
    if INT16 <= kind <= DOUBLE:
        return _number(buf, p, end, kind, out, o)
    if kind == STRING:
        n, used = variable_length(buf, p, end)
        if used == 0 or p + used + n > end:
            return p, np.int64(JSON_TRUNCATED)
        if o + 2 * n + _ROOM > cap:
            return 2 * n + _ROOM, np.int64(L.ERR_ROOM)
        o = put_string(buf, p + used, n, False, blob, introducer, length, out, o)
        return o, np.int64(0)
    if kind == OPAQUE:
        return _opaque(buf, p, end, out, o, cap)
    return p, np.int64(JSON_TYPE)


@rare
def _is_special(buf, p, end, kind):  # type: ignore[no-untyped-def]
    # Whether text would be read as another value.
    if kind in (UINT16, UINT32, OPAQUE):
        return True
    return kind == UINT64 and p + 8 <= end and load64(buf, p) >= 0


@rare
def _walk(buf, p, end, kind, emit, stack, frame, blob, introducer, length, out, o, cap):  # type: ignore[no-untyped-def]
    """The container at ``p`` as an expression; without ``emit`` only look: 1 if it needs one.

    Returns ``(new o, 0)``, ``(1 or 0, 0)`` without ``emit``, or ``(detail, error)``.
    """
    bottom = frame - _FRAME
    frame = bottom
    opening = True
    while True:
        if opening:
            frame += _FRAME
            if frame >= bottom + _FRAME + STACK:
                return p, np.int64(JSON_DEPTH)
            count, stop = members(buf, p, end, kind)
            if count < 0:
                return p, np.int64(JSON_TRUNCATED)
            stack[frame + _BASE] = p
            stack[frame + _END] = stop
            stack[frame + _DONE] = 0
            stack[frame + _MEMBERS] = count
            stack[frame + _KIND] = kind
            opening = False
            if emit:
                if o + _ROOM > cap:
                    return np.int64(_ROOM), np.int64(L.ERR_ROOM)
                o = _word(_A_ARRAY if kind >= ARRAY else _A_OBJECT, out, o)
        kind = stack[frame + _KIND]
        i = stack[frame + _DONE]
        count = stack[frame + _MEMBERS]
        if emit and o + _ROOM > cap:
            return np.int64(_ROOM), np.int64(L.ERR_ROOM)
        if i == count:
            if emit:
                store8(out, o, 41)
                o += 1
            frame -= _FRAME
            if frame == bottom:
                return o if emit else np.int64(0), np.int64(0)
            continue
        stack[frame + _DONE] = i + 1
        base, end = stack[frame + _BASE], stack[frame + _END]
        wide = kind & 1 != 0
        size = 4 if wide else 2
        if emit and i > 0:
            store8(out, o, 44)
            o += 1
        entry = base + 2 * size + i * (1 + size)
        if kind < ARRAY:
            entry += count * (size + 2)
            if emit:
                key = base + 2 * size + i * (size + 2)
                n = load16(buf, key + size)
                at = base + word(buf, key, wide)
                if at + n > end:
                    return key, np.int64(JSON_TRUNCATED)
                if o + 2 * n + _ROOM > cap:
                    return 2 * n + _ROOM, np.int64(L.ERR_ROOM)
                o = put_string(buf, at, n, False, blob, introducer, length, out, o)
                store8(out, o, 44)
                o += 1
        item = load8(buf, entry)
        stop = end
        inside = LITERAL <= item <= UINT16 or (wide and item in (INT32, UINT32))
        p = entry + 1
        if inside:
            stop = entry + 1 + size
        else:
            p = base + word(buf, entry + 1, wide)
            if item <= LAST_CONTAINER:
                kind = item
                opening = True
                continue
        if emit:
            o, error = _scalar(buf, p, stop, item, blob, introducer, length, out, o, cap)
            if error != 0:
                return o, error
        elif _is_special(buf, p, stop, item):
            return np.int64(1), np.int64(0)


@rare
def needs_expression(buf, p, n, stack, frame, blob, out):  # type: ignore[no-untyped-def]
    """Whether text would not do: ``(1 or 0, 0)``, or ``(offset, code)``.

    ``stack[frame:frame + STACK]`` is scratch.
    """
    if n <= 0:
        return np.int64(0), np.int64(0)
    kind = load8(buf, p)
    if kind > LAST_CONTAINER:
        special = _is_special(buf, p + 1, p + n, kind)
        return np.int64(1 if special else 0), np.int64(0)
    return _walk(buf, p + 1, p + n, kind, False, stack, frame, blob, 0, 0, out, 0, 0)


@rare
def put_expression(buf, p, n, stack, frame, blob, introducer, length, out, o, cap):  # type: ignore[no-untyped-def]
    """The document as an expression: ``(new o, 0)``; ``(room, ERR_ROOM)``, or ``(offset, code)``.

    ``blob[introducer:introducer + length]`` is the introducer of hexadecimal text.
    """
    kind = load8(buf, p)
    if kind <= LAST_CONTAINER:
        return _walk(
            buf, p + 1, p + n, kind, True, stack, frame, blob, introducer, length, out, o, cap
        )
    if o + _ROOM > cap:
        return np.int64(_ROOM), np.int64(L.ERR_ROOM)
    o = _word(_A_ARRAY, out, _word(_A_EXTRACT, out, o))
    o, error = _scalar(
        buf, p + 1, p + n, kind, blob, introducer, length, out, o, cap - _A_FIRST[1] - 1
    )
    if error != 0:
        return o, error
    store8(out, o, 41)
    return _word(_A_FIRST, out, o + 1), np.int64(0)
