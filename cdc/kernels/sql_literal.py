"""One value of a row image as a SQL literal: the choice of its form."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import njit

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.cell import integer, little_endian, put_value_called
from cdc.kernels.compile import rare
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.memory import copy_padded, store8, store32
from cdc.kernels.sql_json import needs_expression, put_expression
from cdc.kernels.sql_number import double, float32
from cdc.kernels.sql_text import put_hex, put_string
from cdc.kernels.unescape import unescape
from cdc.kernels.values.errors import LENGTH

merged: Any = partial(njit, nogil=True, _nrt=False, inline="always")()
"""Part of its only caller: each function that is called is optimised again with all that it calls,
which for chains down to the value kernels took a minute."""

NULL = int.from_bytes(b"NULL", "little")
_QUOTE, _COMMA, _CLOSE = 39, 44, 41
# Lengths of "CONCAT_WS(','" and of a quoted text of zeros with the spaces behind it.
_CONCAT, _ZEROS = 13, 7


@rare
def _member(v, item, items, blob, numbers, out, o, cap):  # type: ignore[no-untyped-def]
    # The literal of member number v, counted from 0, or ERR_MEMBER.
    if v >= items[item, S.I_B]:
        return np.int64(-1), np.int64(S.ERR_MEMBER)
    pair = items[item, S.I_A] + 2 * v
    if o + numbers[pair + 1] + 64 > cap:
        return numbers[pair + 1] + 64, np.int64(L.ERR_ROOM)
    return copy_padded(blob, numbers[pair], out, o, numbers[pair + 1]), np.int64(0)


@rare
def _put_members(v, item, items, blob, numbers, out, o, cap):  # type: ignore[no-untyped-def]
    # A SET as CONCAT_WS(',',…) of its members' literals; the blob has its head before them.
    first = items[item, S.I_C]
    o = copy_padded(blob, first, out, o, _CONCAT)
    error = np.int64(0)
    bit = np.int64(0)
    while v != np.uint64(0):
        if v & np.uint64(1) != np.uint64(0):
            store8(out, o, _COMMA)
            o, error = _member(bit, item, items, blob, numbers, out, o + 1, cap)
            if error != 0:
                return o, error
        v >>= np.uint64(1)
        bit += 1
    store8(out, o, _CLOSE)
    return o + 1, np.int64(0)


@rare
def _put_choice(buf, p, n, form, item, items, blob, numbers, out, o, cap):  # type: ignore[no-untyped-def]
    # ENUM and SET.
    if n > 8:
        return p, np.int64(LENGTH)
    v = little_endian(buf, p, n)
    if form == S.FORM_ENUM_TEXT:
        return _member(np.int64(v), item, items, blob, numbers, out, o, cap)
    if form == S.FORM_SET_TEXT:
        return _put_members(v, item, items, blob, numbers, out, o, cap)
    if items[item, S.I_A] >= 0:
        first, count = items[item, S.I_A], items[item, S.I_B]
        if form == S.FORM_ENUM:
            if np.int64(v) >= count or numbers[first + np.int64(v)] < 0:
                return p, np.int64(S.ERR_MEMBER)
            v = np.uint64(numbers[first + np.int64(v)])
        else:
            moved = np.uint64(0)
            for bit in range(64):
                if v >> np.uint64(bit) & np.uint64(1) != np.uint64(0):
                    if bit >= count or numbers[first + bit] < 0:
                        return p, np.int64(S.ERR_MEMBER)
                    moved |= np.uint64(1) << np.uint64(numbers[first + bit])
            v = moved
    if v == np.uint64(0) and form == S.FORM_ENUM and items[item, S.I_C] >= 0:
        # Strict modes refuse the number 0, and take a text of zeros that is no member.
        at = items[item, S.I_C]
        return copy_padded(blob, at, out, o, _ZEROS), np.int64(0)
    return put_unsigned(v, out, o), np.int64(0)


@merged
def _put_by_text(  # type: ignore[no-untyped-def]
    buf, p, n, form, item, items, columns, blob, starts, offsets, texts, scratch, out, o, cap
):
    # Text that the value kernels make: JSON, and other character sets as UTF-8.
    c = items[item, S.I_COLUMN]
    need = 12 * n + columns[c, L.C_ROOM] + 64
    if need > scratch.size:
        return need, np.int64(S.ERR_SCRATCH)
    m, error = put_value_called(buf, p, n, c, columns, starts, offsets, texts, scratch, 0)
    if error != 0:
        return m, np.int64(error)
    m = unescape(scratch, 0, m, scratch, 0)
    if o + 2 * m + 128 > cap:
        return 2 * m + 128, np.int64(L.ERR_ROOM)
    if form == S.FORM_JSON_CAST:
        at = items[item, S.I_C]
        o = copy_padded(blob, at, out, o, 5)
        o = put_string(scratch, 0, m, False, blob, items[item, S.I_A], items[item, S.I_B], out, o)
        return copy_padded(blob, at + 5, out, o, 9), np.int64(0)
    o = put_string(scratch, 0, m, False, blob, items[item, S.I_A], items[item, S.I_B], out, o)
    return o, np.int64(0)


@merged
def _put_rare(  # type: ignore[no-untyped-def]
    buf, p, n, form, item, items, columns, blob, numbers, starts, offsets, texts,
    spans, frame, scratch, out, o, cap,
):  # fmt: skip
    c = items[item, S.I_COLUMN]
    a, b = items[item, S.I_A], items[item, S.I_B]
    if form == S.FORM_PLAIN:
        o, error = put_value_called(buf, p, n, c, columns, starts, offsets, texts, out, o)
        return o, np.int64(error)
    if form == S.FORM_QUOTED:
        store8(out, o, _QUOTE)
        o, error = put_value_called(buf, p, n, c, columns, starts, offsets, texts, out, o + 1)
        store8(out, o, _QUOTE)
        return (o, np.int64(error)) if error != 0 else (o + 1, np.int64(0))
    if form == S.FORM_DOUBLE:
        return double(buf, p, out, o)
    if form == S.FORM_FLOAT:
        return float32(buf, p, out, o)
    if form == S.FORM_ASCII:
        return put_string(buf, p, n, True, blob, a, b, out, o), np.int64(0)
    if form == S.FORM_HEX:
        return put_hex(buf, p, n, 0, out, copy_padded(blob, a, out, o, b)), np.int64(0)
    if form == S.FORM_PADDED:
        zeros = max(np.int64(0), items[item, S.I_C] - n)
        return put_hex(buf, p, n, zeros, out, o), np.int64(0)
    if form >= S.FORM_ENUM and form <= S.FORM_SET_TEXT:
        return _put_choice(buf, p, n, form, item, items, blob, numbers, out, o, cap)
    if form == S.FORM_JSON:
        special, error = needs_expression(buf, p, n, spans, frame, blob, out)
        if error != 0:
            return special, error
        if special != 0:
            return put_expression(buf, p, n, spans, frame, blob, a, b, out, o, cap)
    return _put_by_text(
        buf, p, n, form, item, items, columns, blob, starts, offsets, texts, scratch, out, o, cap
    )


@merged
def put_literal(  # type: ignore[no-untyped-def]
    buf, p, n, item, items, columns, blob, numbers, starts, offsets, texts,
    spans, frame, scratch, out, o, cap,
):  # fmt: skip
    """The value ``buf[p:p + n]`` of an item at ``out[o:cap]``; NULL where ``p`` is negative.

    Returns ``(new o, 0)``, ``(offset in buf, code)``, ``(bytes needed after o, ERR_ROOM)`` or
    ``(bytes of scratch needed, ERR_SCRATCH)``. ``spans[frame:]`` is scratch of JSON.
    """
    if p < 0:
        store32(out, o, NULL)
        return o + 4, np.int64(0)
    form = items[item, S.I_FORM]
    if form == S.FORM_INTEGER:
        op = columns[items[item, S.I_COLUMN], L.C_OP]
        v = integer(buf, p, op)
        if op == L.OP_UINT64:
            return put_unsigned(np.uint64(v), out, o), np.int64(0)
        return put_signed(v, out, o), np.int64(0)
    if form == S.FORM_UTF8:
        o = put_string(buf, p, n, False, blob, items[item, S.I_A], items[item, S.I_B], out, o)
        return o, np.int64(0)
    return _put_rare(
        buf, p, n, form, item, items, columns, blob, numbers, starts, offsets, texts,
        spans, frame, scratch, out, o, cap,
    )  # fmt: skip
