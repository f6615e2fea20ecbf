"""Row images to Debezium's JSON: records with keys, or values as lines.

The constant parts of a message (schemas, names of fields, the source) come ready from the plan
(``debezium_layout``). An INSERT or UPDATE is a record, a DELETE two: its value, then the tombstone
of its key.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import debezium_layout as D  # noqa: N812
from cdc.kernels import json_layout as J  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.debezium_values import put_value
from cdc.kernels.digits import eight, put_signed, put_unsigned, thirteen
from cdc.kernels.framing import RECORDS, end_line, frame_keyed, value_place
from cdc.kernels.memory import copy_padded, load8, load32, move, store8, store32, store64
from cdc.kernels.row_places import EVENT, NUMBER, POSITION
from cdc.kernels.rows import MATRIX, null_bytes, value_of, value_span
from cdc.kernels.search import row_at

I64 = types.int64
OUT = types.Array(types.uint8, 1, "C")
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)

_13_LOW, _13_HIGH = 10**12, 10**13
_NULL = int.from_bytes(b"null", "little")
_SLACK = 320
_LOGICAL_BITS = 18
_TIMES = b',"ts_us":'
_AFTER = b',"after":'
_NS = b'000,"ts_ns":'
_GTID = b',"gtid":'
_FILE = b',"file":'
_POS = b'","pos":'
_ROW = b',"row":'
_SERVER_AT = 5  # in an event's header
_E6 = 10**6
_DIGITS = np.int64(0x3030303030303030)


def _words(text: bytes) -> tuple[int, int]:
    padded = text.ljust(16)
    return tuple(np.frombuffer(padded, "<i8").tolist())


_TIMES_0, _TIMES_1 = _words(_TIMES)
_AFTER_0, _AFTER_1 = _words(_AFTER)
_NS_0, _NS_1 = _words(_NS)
_GTID_0, _FILE_0, _POS_0, _ROW_0 = (_words(text)[0] for text in (_GTID, _FILE, _POS, _ROW))


@small
def _put_ms(ms, low, high, out, o):  # type: ignore[no-untyped-def]
    if _13_LOW <= ms < _13_HIGH:
        store64(out, o, low)
        store64(out, o + 5, high)
        return o + 13
    return put_signed(ms, out, o)


@small
def _put_constant(row, at, heads, blob, out, o):  # type: ignore[no-untyped-def]
    return copy_padded(blob, heads[row, at], out, o, heads[row, at + 1])


@small
def _put_null(out, o):  # type: ignore[no-untyped-def]
    store32(out, o, _NULL)
    return o + 4


@rare
def put_image(  # type: ignore[no-untyped-def]
    buf, p, end, bitmap, partial, plan, tables, columns, heads, forms, members, blob, texts, out, o
):
    """The JSON object of one image: ``(new o, error, offset)``."""
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    o = _put_constant(plan, D.H_ROW_HEAD, heads, blob, out, o)
    lead = 0 if heads[plan, D.H_OPTIONS] & D.OPTION_GIVEN else 1
    k = 0
    for c in range(count):
        if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
            continue
        is_null = load8(buf, nulls + (k >> 3)) >> (k & 7) & 1
        k += 1
        at = first + c
        hidden = columns[at, L.C_FLAGS] & L.COLUMN_HIDDEN != 0
        start, n = p, np.int64(0)
        if is_null == 0:
            start, n = value_span(buf, p, end, columns[at, L.C_WIDTH])
            if start < 0:
                return o, L.ERR_IMAGE, p
            p = start + n
        if hidden:
            continue
        name, length = forms[at, D.N_NAME], forms[at, D.N_NAME_LENGTH]
        o = copy_padded(blob, name + lead, out, o, length - lead)
        lead = 0
        if is_null:
            o = _put_null(out, o)
            continue
        o, error = put_value(buf, start, n, at, columns, forms, members, blob, texts, out, o)
        if error != 0:
            return o, error, start
    store8(out, o, 125)
    return o + 1, L.OK, p


@rare
def put_key(  # type: ignore[no-untyped-def]
    buf, image, end, bitmap, partial, plan,
    tables, columns, heads, forms, keys, members, blob, texts, out, o,
):  # fmt: skip
    """The key of the row with this image: ``(new o, error, offset)``."""
    first = tables[plan, L.T_COLUMN]
    from_image = image + null_bytes(buf, bitmap, partial, tables[plan, L.T_COLUMNS])
    o = _put_constant(plan, D.H_KEY_HEAD, heads, blob, out, o)
    c, k, p = np.int64(0), np.int64(0), from_image
    for i in range(heads[plan, D.H_KEY], heads[plan, D.H_KEY] + heads[plan, D.H_KEYS]):
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
        at = first + wanted
        o, error = put_value(buf, start, n, at, columns, forms, members, blob, texts, out, o)
        if error != 0:
            return o, error, start
    return _put_constant(plan, D.H_KEY_TAIL, heads, blob, out, o), L.OK, image


@small
def _put_source(  # type: ignore[no-untyped-def]
    buf, ref, ms, low, high, heads, blob, names, name, labels, places, at, out, o
):
    plan = ref[L.R_PLAN]
    o = _put_constant(plan, D.H_NAME, heads, blob, out, o)
    o = _put_ms(ms, low, high, out, o)
    o = _put_constant(plan, D.H_DB, heads, blob, out, o)
    o = _put_ms(ms, low, high, out, o)
    o = _put_ns(out, o)
    o = _put_ms(ms, low, high, out, o)
    o = _put_constant(plan, D.H_TABLE, heads, blob, out, o)
    o = _put_place(buf, ref, names, name, labels, places, at, out, o)
    o = _put_constant(plan, D.H_ROW, heads, blob, out, o)
    return put_unsigned(np.uint64(ref[L.R_TS]), out, o)


@rare
def _put_place(buf, ref, names, name, labels, places, at, out, o):  # type: ignore[no-untyped-def]
    # From the server's id to the row's number: of row ``at``, of the transaction ``names[name]``.
    row, server, position = ref[L.R_ROW], np.int64(0), np.int64(0)
    if name >= 0:
        row, position = places[at, NUMBER], places[at, POSITION]
        server = np.int64(load32(buf, places[at, EVENT] + _SERVER_AT))
    o = put_unsigned(np.uint64(server), out, o)
    store64(out, o, _GTID_0)
    o += 8
    if name >= 0 and names[name, D.U_SOURCE_LENGTH] > 0:
        store8(out, o, 34)
        size = names[name, D.U_SOURCE_LENGTH]
        o = copy_padded(labels, names[name, D.U_SOURCE], out, o + 1, size)
        o = put_unsigned(np.uint64(names[name, D.U_SEQUENCE]), out, o)
        store8(out, o, 34)
        o += 1
    else:
        o = _put_null(out, o)
    store64(out, o, _FILE_0)
    store8(out, o + 8, 34)
    o += 9
    if name >= 0 and names[name, D.U_BINLOG_LENGTH] > 0:
        size = names[name, D.U_BINLOG_LENGTH]
        o = copy_padded(labels, names[name, D.U_BINLOG], out, o, size)
        o = _put_file(names[name, D.U_FILE], out, o)
    store64(out, o, _POS_0)
    o = put_unsigned(np.uint64(position), out, o + 8)
    store64(out, o, _ROW_0)
    return put_unsigned(np.uint64(row), out, o + 7)


@small
def _put_file(number, out, o):  # type: ignore[no-untyped-def]
    # Six digits or more.
    if number >= _E6:
        return put_unsigned(np.uint64(number), out, o)
    digits = np.int64(eight(np.uint64(number))) | _DIGITS
    store64(out, o, digits >> 16)
    return o + 6


@small
def _put_ns(out, o):  # type: ignore[no-untyped-def]
    store64(out, o, _NS_0)
    store64(out, o + 8, _NS_1)
    return o + 12


@rare
def put_message(  # type: ignore[no-untyped-def]
    buf, ref, low, high, build_ms, build_low, build_high,
    tables, columns, heads, forms, members, blob, texts, names, name, labels,
    places, row_at, out, o,
):  # fmt: skip
    """The value of one row: ``(new o, error, offset in buf)``."""
    plan = ref[L.R_PLAN]
    kind = ref[L.R_KIND] & L.KIND_MASK
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    before, after, end = ref[L.R_BEFORE], ref[L.R_AFTER], ref[L.R_END]
    o = _put_constant(plan, D.H_HEAD, heads, blob, out, o)
    shown = kind == L.KIND_DELETE
    if kind == L.KIND_UPDATE:
        shown = heads[plan, D.H_OPTIONS] & D.OPTION_NO_OLD == 0
    if shown:
        o, error, at = put_image(
            buf, before, after if after >= 0 else end, ref[L.R_BITMAP], partial, plan,
            tables, columns, heads, forms, members, blob, texts, out, o,
        )  # fmt: skip
        if error != 0:
            return o, error, at
    else:
        o = _put_null(out, o)
    store64(out, o, _AFTER_0)
    store64(out, o + 8, _AFTER_1)
    o += 9
    if kind == L.KIND_DELETE:
        o = _put_null(out, o)
    else:
        o, error, at = put_image(
            buf, after, end, ref[L.R_BITMAP_AFTER], partial, plan,
            tables, columns, heads, forms, members, blob, texts, out, o,
        )  # fmt: skip
        if error != 0:
            return o, error, at
    ms = ref[L.R_TS] >> _LOGICAL_BITS
    o = _put_source(
        buf, ref, ms, low, high, heads, blob, names, name, labels, places, row_at, out, o
    )
    o = _put_constant(plan, D.H_OP + 2 * kind, heads, blob, out, o)
    o = _put_ms(build_ms, build_low, build_high, out, o)
    store64(out, o, _TIMES_0)
    store64(out, o + 8, _TIMES_1)
    o = _put_ms(build_ms, build_low, build_high, out, o + 9)
    o = _put_ns(out, o)
    o = _put_ms(build_ms, build_low, build_high, out, o)
    return _put_constant(plan, D.H_TAIL, heads, blob, out, o), L.OK, end


@kernel(
    types.UniTuple(I64, 5)(
        BYTES, MATRIX, types.int64[::1], I64, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX,
        BYTES, TABLE16, MATRIX, BYTES, MATRIX, I64, I64, I64, I64, I64, OUT,
    )
)  # fmt: skip
def encode(  # type: ignore[no-untyped-def]
    buf, refs, order, i, tables, columns, heads, forms, keys, members, blob, texts,
    names, labels, places, mode, build_ms, base_ms, max_message, limit, out,
):  # fmt: skip
    """Write the messages of ``refs[order[i:]]``: as many rows as ``limit`` bytes hold, or one.

    ``mode`` RECORDS frames them as records of one batch (timestamp: commit ms against ``base_ms``;
    offset delta from 0), LINES and CRLF_LINES end each value with a line end, without keys and
    tombstones. ``max_message`` bounds the bytes of a message's key and value. ``names``
    int64[:, U_SIZE] are what the upstream calls the transactions, their texts in ``labels``,
    ``places`` (``row_places``) go with ``refs``. Of rows whose transaction is not among the names,
    server, GTID and place are left empty.

    Returns ``(next i, bytes, records, error, where)``. Errors: ERR_TOO_LARGE (``where`` is the
    message's size, or a lower bound of it), ERR_ROOM (``out`` is too small for row ``i``: ``where``
    is what it takes), and codes of images and values (``where`` is an offset in ``buf``).
    ``next i`` names the row; messages of rows before it are written.
    """
    o = records = np.int64(0)
    first = i
    ms = np.int64(-1)
    low = high = 0
    named = name = np.int64(-1)
    build_low, build_high = thirteen(
        np.uint64(build_ms if _13_LOW <= build_ms < _13_HIGH else _13_LOW)
    )
    limit = min(limit, out.size)
    while i < order.size:
        ref = refs[order[i]]
        plan = ref[L.R_PLAN]
        start = ref[L.R_BEFORE] if ref[L.R_BEFORE] >= 0 else ref[L.R_AFTER]
        image = ref[L.R_END] - start
        if image > 8 * max_message + 65536:
            return i, o, records, L.ERR_TOO_LARGE, image // 8
        bound = heads[plan, D.H_BOUND] + 20 * image + _SLACK + labels.size
        if o + bound > out.size:
            if i > first:
                break
            return i, o, records, L.ERR_ROOM, bound
        if ref[L.R_TS] >> _LOGICAL_BITS != ms:
            ms = ref[L.R_TS] >> _LOGICAL_BITS
            low, high = thirteen(np.uint64(max(np.int64(0), ms)))
        if ref[L.R_TS] != named:
            named = ref[L.R_TS]
            name = row_at(names, D.U_TS, named)
        delta, number = ms - base_ms, records
        deleted = ref[L.R_KIND] & L.KIND_MASK == L.KIND_DELETE
        lengths = 2 if image < 2048 and heads[plan, D.H_HEAD + 1] < 2048 else 3
        key = value = o
        key_size = np.int64(-1)
        if mode == RECORDS:
            key = value_place(o, lengths, delta, number)
            value = key + lengths
            if heads[plan, D.H_KEYS] > 0:
                row, bitmap, stop = ref[L.R_AFTER], ref[L.R_BITMAP_AFTER], ref[L.R_END]
                if deleted:
                    row, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
                partial = ref[L.R_KIND] & L.PARTIAL != 0
                p, error, at = put_key(
                    buf, row, stop, bitmap, partial, plan,
                    tables, columns, heads, forms, keys, members, blob, texts, out, key,
                )  # fmt: skip
                if error != 0:
                    return i, o, records, error, at
                key_size = p - key
                value = p + lengths
        end, error, at = put_message(
            buf, ref, low, high, build_ms, build_low, build_high,
            tables, columns, heads, forms, members, blob, texts, names, name, labels,
            places, order[i], out, value,
        )  # fmt: skip
        if error != 0:
            return i, o, records, error, at
        size = end - value
        if max(np.int64(0), key_size) + size > max_message:
            return i, o, records, L.ERR_TOO_LARGE, max(np.int64(0), key_size) + size
        number += 1
        if mode == RECORDS:
            end, key = frame_keyed(out, o, key, key_size, value, size, delta, number - 1)
            if deleted:
                place = value_place(end, 2, delta, number)
                move(out, key, place, max(np.int64(0), key_size))
                value = place + max(np.int64(0), key_size)
                end, _ = frame_keyed(out, end, place, key_size, value, np.int64(-1), delta, number)
                number += 1
        else:
            end = end_line(out, end, mode)
        if end > limit and i > first:
            break
        records = number
        o = end
        i += 1
    return i, o, records, L.OK, np.int64(-1)
