"""Row images to Maxwell's JSON: records with keys, or values as lines.

The constant parts of a message (names, keys' names) come ready from the plan (``maxwell_layout``).
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import maxwell_layout as X  # noqa: N812
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.digits import put_signed, put_unsigned
from cdc.kernels.framing import RECORDS, end_line, frame_keyed, value_place
from cdc.kernels.maxwell_values import put_value
from cdc.kernels.memory import copy_padded, load8, store8, store32, store64
from cdc.kernels.rows import (
    MATRIX,
    next_value,
    null_bytes,
    same_bytes,
    value_of,
    value_span,
)

I64 = types.int64
OUT = types.Array(types.uint8, 1, "C")
TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)

_SLACK = 160
_LOGICAL_BITS = 18
_NULL = int.from_bytes(b"null", "little")
_XID = np.frombuffer(b',"xid":  ', "<i8", 1)[0]
_XID_LENGTH = 7
_OLD = np.frombuffer(b'},"old":{', "<i8", 1)[0]
_BRACE = 123


@small
def _put_constant(row, at, heads, blob, out, o):  # type: ignore[no-untyped-def]
    return copy_padded(blob, heads[row, at], out, o, heads[row, at + 1])


@small
def _put_null(out, o):  # type: ignore[no-untyped-def]
    store32(out, o, _NULL)
    return o + 4


@rare
def put_image(  # type: ignore[no-untyped-def]
    buf, p, end, bitmap, partial, plan,
    tables, columns, heads, forms, members, blob, starts, offsets, texts, out, o,
):  # fmt: skip
    """Members of the JSON object of one image: ``(new o, error, offset)``."""
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    lead = 0 if heads[plan, X.H_OPTIONS] & X.OPTION_GIVEN else 1
    k = 0
    for c in range(count):
        if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
            continue
        is_null = load8(buf, nulls + (k >> 3)) >> (k & 7) & 1
        k += 1
        at = first + c
        start, n = p, np.int64(0)
        if is_null == 0:
            start, n = value_span(buf, p, end, columns[at, L.C_WIDTH])
            if start < 0:
                return o, L.ERR_IMAGE, p
            p = start + n
        if columns[at, L.C_FLAGS] & L.COLUMN_HIDDEN:
            continue
        name, length = forms[at, X.N_NAME], forms[at, X.N_NAME_LENGTH]
        o = copy_padded(blob, name + lead, out, o, length - lead)
        lead = 0
        if is_null:
            o = _put_null(out, o)
            continue
        o, error = put_value(
            buf, start, n, at, columns, forms, members, blob, starts, offsets, texts, out, o
        )
        if error != 0:
            return o, error, start
    return o, L.OK, p


@rare
def put_changed(  # type: ignore[no-untyped-def]
    buf, ref, partial, tables, columns, forms, members, blob, starts, offsets, texts, out, o
):
    """Members of ``old`` of an UPDATE: the old values of columns whose bytes differ."""
    plan = ref[L.R_PLAN]
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    a, b, end = ref[L.R_BEFORE], ref[L.R_AFTER], ref[L.R_END]
    nulls_a, nulls_b, middle = a, b, b
    bits_a, bits_b = ref[L.R_BITMAP], ref[L.R_BITMAP_AFTER]
    a += null_bytes(buf, bits_a, partial, count)
    b += null_bytes(buf, bits_b, partial, count)
    ka = kb = 0
    lead = 1
    for c in range(count):
        at = first + c
        width = columns[at, L.C_WIDTH]
        ka, sa, na, a, ok = next_value(buf, ka, bits_a, partial, c, nulls_a, a, middle, width)
        if not ok:
            return o, L.ERR_IMAGE, nulls_a
        kb, sb, nb, b, ok = next_value(buf, kb, bits_b, partial, c, nulls_b, b, end, width)
        if not ok:
            return o, L.ERR_IMAGE, nulls_b
        if columns[at, L.C_FLAGS] & L.COLUMN_HIDDEN:
            continue
        if (sa < 0) == (sb < 0) and (sa < 0 or (na == nb and same_bytes(buf, sa, sb, na))):
            continue
        name, length = forms[at, X.N_NAME], forms[at, X.N_NAME_LENGTH]
        o = copy_padded(blob, name + lead, out, o, length - lead)
        lead = 0
        if sa < 0:
            o = _put_null(out, o)
            continue
        o, error = put_value(
            buf, sa, na, at, columns, forms, members, blob, starts, offsets, texts, out, o
        )
        if error != 0:
            return o, error, sa
    return o, L.OK, a


@rare
def put_key(  # type: ignore[no-untyped-def]
    buf, ref, tables, columns, heads, forms, keys, members, blob, starts, offsets, texts, out, o
):
    """The key of the row that there is behind the change, if there is one: as ``put_image``."""
    image, bitmap = ref[L.R_AFTER], ref[L.R_BITMAP_AFTER]
    if ref[L.R_KIND] & L.KIND_MASK == L.KIND_DELETE:
        image, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    plan, end = ref[L.R_PLAN], ref[L.R_END]
    first = tables[plan, L.T_COLUMN]
    from_image = image + null_bytes(buf, bitmap, partial, tables[plan, L.T_COLUMNS])
    o = _put_constant(plan, X.H_KEY_HEAD, heads, blob, out, o)
    c, k, p = np.int64(0), np.int64(0), from_image
    for i in range(heads[plan, X.H_KEY], heads[plan, X.H_KEY] + heads[plan, X.H_KEYS]):
        wanted = keys[i, J.K_COLUMN]
        if wanted < c:
            c, k, p = np.int64(0), np.int64(0), from_image
        c, k, start, n, p, ok = value_of(
            buf, c, k, wanted, bitmap, partial, image, p, end, first, columns
        )
        if not ok:
            return o, L.ERR_IMAGE, image
        o = copy_padded(blob, keys[i, J.K_NAME], out, o, keys[i, J.K_NAME_LENGTH])
        if start < 0:
            o = _put_null(out, o)
            continue
        o, error = put_value(
            buf, start, n, first + wanted, columns, forms, members, blob, starts, offsets, texts,
            out, o,
        )  # fmt: skip
        if error != 0:
            return o, error, start
    store8(out, o, 125)
    return o + 1, L.OK, image


@rare
def put_message(  # type: ignore[no-untyped-def]
    buf, ref, tables, columns, heads, forms, members, blob, starts, offsets, texts, out, o
):
    """The value of one row: ``(new o, error, offset in buf)``."""
    plan = ref[L.R_PLAN]
    kind = ref[L.R_KIND] & L.KIND_MASK
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    o = _put_constant(plan, X.H_HEAD + 2 * kind, heads, blob, out, o)
    o = put_signed((ref[L.R_TS] >> _LOGICAL_BITS) // 1000, out, o)
    if heads[plan, X.H_OPTIONS] & X.OPTION_XID:
        store64(out, o, _XID)
        o = put_unsigned(np.uint64(ref[L.R_TS]), out, o + _XID_LENGTH)
    o = _put_constant(plan, X.H_DATA, heads, blob, out, o)
    image, bitmap = ref[L.R_AFTER], ref[L.R_BITMAP_AFTER]
    if kind == L.KIND_DELETE:
        image, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    o, error, at = put_image(
        buf, image, ref[L.R_END], bitmap, partial, plan,
        tables, columns, heads, forms, members, blob, starts, offsets, texts, out, o,
    )  # fmt: skip
    if error != 0:
        return o, error, at
    if kind == L.KIND_UPDATE:
        store64(out, o, _OLD)
        store8(out, o + 8, _BRACE)
        o, error, at = put_changed(
            buf, ref, partial, tables, columns, forms, members, blob, starts, offsets, texts,
            out, o + 9,
        )  # fmt: skip
        if error != 0:
            return o, error, at
    store8(out, o, 125)
    store8(out, o + 1, 125)
    return o + 2, L.OK, at


@kernel(
    types.UniTuple(I64, 5)(
        BYTES, MATRIX, types.int64[::1], I64, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX,
        BYTES, TABLE64, TABLE64, TABLE16, I64, I64, I64, I64, OUT,
    )
)  # fmt: skip
def encode(  # type: ignore[no-untyped-def]
    buf, refs, order, i, tables, columns, heads, forms, keys, members, blob,
    starts, offsets, texts, mode, base_ms, max_message, limit, out,
):  # fmt: skip
    """Write the messages of ``refs[order[i:]]``: as many rows as ``limit`` bytes hold, or one.

    ``mode`` RECORDS frames them as records of one batch (timestamp: commit ms against ``base_ms``;
    offset delta from 0), LINES and CRLF_LINES end each value with a line end, without keys.
    ``starts`` and ``offsets`` are the time zone (``values.zones``). ``max_message`` bounds the
    bytes of a message's key and value.

    Returns ``(next i, bytes, records, error, where)``. Errors: ERR_TOO_LARGE (``where`` is the
    message's size, or a lower bound of it), ERR_ROOM (``out`` is too small for row ``i``: ``where``
    is what it takes), and codes of images and values (``where`` is an offset in ``buf``).
    ``next i`` names the row; messages of rows before it are written.
    """
    o = records = np.int64(0)
    limit = min(limit, out.size)
    while i < order.size:
        ref = refs[order[i]]
        plan = ref[L.R_PLAN]
        start = ref[L.R_BEFORE] if ref[L.R_BEFORE] >= 0 else ref[L.R_AFTER]
        image = ref[L.R_END] - start
        if image > 8 * max_message + 65536:
            return i, o, records, L.ERR_TOO_LARGE, image // 8
        bound = heads[plan, X.H_BOUND] + 20 * image + _SLACK
        if o + bound > out.size:
            if records > 0:
                break
            return i, o, records, L.ERR_ROOM, bound
        delta = (ref[L.R_TS] >> _LOGICAL_BITS) - base_ms
        lengths = 2 if image < 2048 else 3
        key = value = o
        key_size = np.int64(-1)
        if mode == RECORDS:
            key = value_place(o, lengths, delta, records)
            value = key + lengths
            if heads[plan, X.H_KEYS] > 0:
                p, error, at = put_key(
                    buf, ref, tables, columns, heads, forms, keys, members, blob,
                    starts, offsets, texts, out, key,
                )  # fmt: skip
                if error != 0:
                    return i, o, records, error, at
                key_size = p - key
                value = p + lengths
        end, error, at = put_message(
            buf, ref, tables, columns, heads, forms, members, blob, starts, offsets, texts,
            out, value,
        )  # fmt: skip
        if error != 0:
            return i, o, records, error, at
        size = end - value
        if max(np.int64(0), key_size) + size > max_message:
            return i, o, records, L.ERR_TOO_LARGE, max(np.int64(0), key_size) + size
        if mode == RECORDS:
            end, _ = frame_keyed(out, o, key, key_size, value, size, delta, records)
        else:
            end = end_line(out, end, mode)
        if end > limit and records > 0:
            break
        records += 1
        o = end
        i += 1
    return i, o, records, L.OK, np.int64(-1)
