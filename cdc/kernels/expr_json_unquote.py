"""JSON values of MariaDB as text: strings without their quotes and escapes, all others as JSON.

Values are those of ``expr_json_text.find``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_json import INDEX, T_ARRAY, T_BOOLEAN, T_OBJECT, T_STRING, VECTOR
from cdc.kernels.expr_json_tokens import escaped, utf8_byte
from cdc.kernels.memory import load8, store8

VALUE: Final = 0  # JSON_VALUE: true and false are 1 and 0
UNQUOTE: Final = 1  # JSON_UNQUOTE: true and false are words

_QUOTE, _BACKSLASH = 34, 92

I64 = types.int64
OUT = types.uint8[::1]


@rare
def _string(buf, p, end, out, o):  # type: ignore[no-untyped-def]
    while p < end:
        c = load8(buf, p)
        p += 1
        if c == _BACKSLASH:
            c, p = escaped(buf, p, end)
            if c < 0:
                continue
        elif c >= 0x80:
            store8(out, o, c)
            o += 1
            continue
        size = 1 + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000)
        for j in range(size):
            store8(out, o + j, utf8_byte(c, size, j))
        o += size
    return o


@rare
def _container(buf, p, end, out, o):  # type: ignore[no-untyped-def]
    # As it is written, but for the spaces: one behind each comma and colon, no others.
    inside = False
    while p < end:
        c = load8(buf, p)
        p += 1
        if inside:
            store8(out, o, c)
            o += 1
            if c == _BACKSLASH:
                store8(out, o, load8(buf, p))
                p += 1
                o += 1
            elif c == _QUOTE:
                inside = False
            continue
        if c <= 32:
            continue
        inside = c == _QUOTE
        store8(out, o, c)
        o += 1
        if c == 44 or c == 58:
            store8(out, o, 32)
            o += 1
    return o


@kernel(types.void(BYTES, INDEX, INDEX, INDEX, I64, OUT, VECTOR, VECTOR))
def texts(buf, kinds, found, ends, form, out, starts, lengths):  # type: ignore[no-untyped-def]
    """Each value as VALUE or UNQUOTE have it, one behind the other; others start at -1.

    ``out`` has twice the bytes of all values.
    """
    o = np.int64(0)
    for i in range(kinds.size):
        kind, p, end = kinds[i], found[i], ends[i]
        starts[i], lengths[i] = -1, 0
        if kind < 0:
            continue
        starts[i] = o
        if kind == T_STRING:
            o = _string(buf, p + 1, end - 1, out, o)
        elif kind in (T_ARRAY, T_OBJECT):
            o = _container(buf, p, end, out, o)
        elif kind == T_BOOLEAN and form == VALUE:
            store8(out, o, 49 if load8(buf, p) == 116 else 48)
            o += 1
        else:
            for j in range(p, end):
                store8(out, o, load8(buf, j))
                o += 1
        lengths[i] = o - starts[i]
