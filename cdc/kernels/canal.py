"""Row images to canal-json inside Kafka record framing, or as lines.

The constant parts of a message (everything up to ``data``) come ready from the plan
(``canal_layout``); es and ts are 13 digits at known places.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import canal_layout as C  # noqa: N812
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.cell import put_value, put_value_called
from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.digits import put_signed, put_unsigned, thirteen
from cdc.kernels.framing import RECORDS, end_line, frame, frame_keyed, value_place
from cdc.kernels.memory import copy_padded, load8, move, store8, store32, store64
from cdc.kernels.rows import MATRIX, next_value, null_bytes, same_bytes, value_span
from cdc.kernels.search import row_at

I64 = types.int64
OUT = types.Array(types.uint8, 1, "C")
TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)

_13_LOW, _13_HIGH = 10**12, 10**13
_NULL = int.from_bytes(b"null", "little")
# Room beside the bound of a row: record header, wide stores.
_SLACK = 160
_LOGICAL_BITS = 18
_VTSO = np.frombuffer(b',"_tidegate":{"vtso":"', np.uint8)
_BRANCHES = np.frombuffer(b'","branches":', np.uint8)


@small
def _too_large(buf, p, n):  # type: ignore[no-untyped-def]
    # Whether an unsigned integer of n bytes has its highest bit set.
    return load8(buf, p + n - 1) >= 128


@rare
def put_image(  # type: ignore[no-untyped-def]
    buf,
    p,
    end,
    bitmap,
    partial,
    plan,
    keys_only,
    lead,
    tables,
    columns,
    names,
    blob,
    starts,
    offsets,
    texts,
    out,
    o,
):
    """Members of the JSON object of one image: ``(new o, unsigned over, error, offset)``.

    ``lead``: 0 if others stand before them, else 1. ``unsigned over`` tells that an unsigned
    integer exceeds its signed type.
    """
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    present = count
    if partial:
        present = 0
        for c in range(count):
            present += load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1
    nulls = p
    p += (present + 7) >> 3
    over = False
    k = 0
    for c in range(count):
        if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
            continue
        is_null = load8(buf, nulls + (k >> 3)) >> (k & 7) & 1
        k += 1
        at = first + c
        flags = columns[at, L.C_FLAGS]
        hidden = flags & L.COLUMN_HIDDEN != 0 or (keys_only and flags & L.COLUMN_HANDLE == 0)
        if is_null == 0:
            start, n = value_span(buf, p, end, columns[at, L.C_WIDTH])
            if start < 0:
                return o, over, L.ERR_IMAGE, p
            p = start + n
            if hidden:
                continue
            name = names[at, C.N_NAME]
            o = copy_padded(blob, name + lead, out, o, names[at, C.N_NAME_LENGTH] - lead)
            o, error = put_value(buf, start, n, at, columns, starts, offsets, texts, out, o)
            if error != 0:
                return o, over, error, start
            store8(out, o, 34)
            o += 1
            if names[at, C.N_CODE_LENGTH] > 0 and _too_large(buf, start, n):
                over = True
            lead = 0
        elif not hidden:
            name = names[at, C.N_NAME]
            o = copy_padded(blob, name + lead, out, o, names[at, C.N_NAME_LENGTH] - lead)
            store32(out, o - 1, _NULL)
            o += 3
            lead = 0
    return o, over, L.OK, p


@rare
def put_changed(  # type: ignore[no-untyped-def]
    buf, ref, partial, tables, columns, names, blob, starts, offsets, texts, out, o
):
    """Members of ``old`` of an UPDATE: the old values of columns whose bytes differ."""
    plan = ref[L.R_PLAN]
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    a, b, end = ref[L.R_BEFORE], ref[L.R_AFTER], ref[L.R_END]
    nulls_a, nulls_b = a, b
    bits_a, bits_b = ref[L.R_BITMAP], ref[L.R_BITMAP_AFTER]
    middle = b
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
        name = names[at, C.N_NAME]
        o = copy_padded(blob, name + lead, out, o, names[at, C.N_NAME_LENGTH] - lead)
        lead = 0
        if sa < 0:
            store32(out, o - 1, _NULL)
            o += 3
            continue
        o, error = put_value_called(buf, sa, na, at, columns, starts, offsets, texts, out, o)
        if error != 0:
            return o, error, sa
        store8(out, o, 34)
        o += 1
    return o, L.OK, a


@rare
def _mend_codes(  # type: ignore[no-untyped-def]
    buf, p, end, bitmap, partial, plan, delete, tables, columns, names, blob, out, head, o
):
    """Replace sqlType codes of unsigned values that exceed the signed type; ``head`` is the
    offset in ``out`` that hole offsets count from. Returns the new end of the message."""
    first = tables[plan, L.T_COLUMN]
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    k = 0
    shift = 0
    for c in range(count):
        at = first + c
        k, start, n, p, ok = next_value(
            buf, k, bitmap, partial, c, nulls, p, end, columns[at, L.C_WIDTH]
        )
        if not ok:
            return o
        hole = names[at, C.N_HOLE_DELETE if delete else C.N_HOLE]
        if start < 0 or hole < 0 or names[at, C.N_CODE_LENGTH] == 0:
            continue
        if not _too_large(buf, start, n):
            continue
        usual, size = names[at, C.N_CODE_USUAL], names[at, C.N_CODE_LENGTH]
        place = head + hole + shift
        if usual != size:
            move(out, place + usual, place + size, o - place - usual)
            shift += size - usual
            o += size - usual
        for i in range(size):
            store8(out, place + i, load8(blob, names[at, C.N_CODE] + i))
    return o


@small
def _put_head(plan, kind, ms, es_low, es_high, build_ms, ts_low, ts_high, heads, blob, out, o):  # type: ignore[no-untyped-def]
    # Returns (new o, offset that hole offsets count from).
    head = heads[plan, C.H_HEAD + kind]
    length = heads[plan, C.H_HEAD_LENGTH + kind]
    es = heads[plan, C.H_ES]
    start = o
    if _13_LOW <= ms < _13_HIGH and _13_LOW <= build_ms < _13_HIGH:
        o = copy_padded(blob, head, out, o, length)
        store64(out, start + es, es_low)
        store64(out, start + es + 5, es_high)
        store64(out, start + es + 19, ts_low)
        store64(out, start + es + 24, ts_high)
        return o, start
    # es, then ``,"ts":``, then ts, of any width
    o = copy_padded(blob, head, out, o, es)
    o = put_signed(ms, out, o)
    o = copy_padded(blob, head + es + 13, out, o, 6)
    o = put_signed(build_ms, out, o)
    rest = es + 32
    o = copy_padded(blob, head + rest, out, o, length - rest)
    return o, o - length


@rare
def _put_padded(v, digits, out, o):  # type: ignore[no-untyped-def]
    for k in range(digits - 1, -1, -1):
        store8(out, o + k, 48 + v % 10)
        v //= 10
    return o + digits


@rare
def _put_mark(marks, m, out, o):  # type: ignore[no-untyped-def]
    # The virtual TSO as 54 digits, and how many branches the transaction has.
    for k in range(_VTSO.size):
        store8(out, o + k, _VTSO[k])
    o += _VTSO.size
    o = _put_padded(marks[m, C.K_TSO], 19, out, o)
    o = _put_padded(marks[m, C.K_TRANSACTION], 19, out, o)
    o = _put_padded(marks[m, C.K_SEQUENCE], 10, out, o)
    o = _put_padded(marks[m, C.K_NODE], 6, out, o)
    for k in range(_BRANCHES.size):
        store8(out, o + k, _BRANCHES[k])
    o = put_unsigned(np.uint64(marks[m, C.K_BRANCHES]), out, o + _BRANCHES.size)
    store8(out, o, 125)
    return o + 1


@rare
def put_message(  # type: ignore[no-untyped-def]
    buf, ref, es_low, es_high, build_ms, ts_low, ts_high,
    tables, columns, heads, names, blob, starts, offsets, texts, marks, mark, out, o,
):  # fmt: skip
    """One canal-json message: ``(new o, error, offset in buf)``; ``mark`` of ``marks``, or -1."""
    plan = ref[L.R_PLAN]
    kind = ref[L.R_KIND] & L.KIND_MASK
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    ts = ref[L.R_TS]
    options = heads[plan, C.H_OPTIONS]
    o, head = _put_head(
        plan, kind, ts >> _LOGICAL_BITS, es_low, es_high, build_ms, ts_low, ts_high,
        heads, blob, out, o,
    )  # fmt: skip
    image, end = ref[L.R_AFTER], ref[L.R_END]
    bitmap = ref[L.R_BITMAP_AFTER]
    lead = 0 if options & C.OPTION_GIVEN else 1
    delete = kind == L.KIND_DELETE
    if delete:
        image, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    elif kind == L.KIND_UPDATE:
        if options & C.OPTION_OLD_CHANGED:
            o, error, at = put_changed(
                buf, ref, partial, tables, columns, names, blob, starts, offsets, texts, out, o
            )
        else:
            o, _, error, at = put_image(
                buf, ref[L.R_BEFORE], image, ref[L.R_BITMAP], partial, plan, False, lead,
                tables, columns, names, blob, starts, offsets, texts, out, o,
            )  # fmt: skip
        if error != 0:
            return o, error, at
        o = copy_padded(blob, heads[plan, C.H_BETWEEN], out, o, heads[plan, C.H_BETWEEN_LENGTH])
    keys_only = delete and tables[plan, L.T_OPTIONS] & L.OPTION_DELETE_KEYS != 0
    o, over, error, at = put_image(
        buf, image, end, bitmap, partial, plan, keys_only, lead,
        tables, columns, names, blob, starts, offsets, texts, out, o,
    )  # fmt: skip
    if error != 0:
        return o, error, at
    o = copy_padded(blob, heads[plan, C.H_TAIL], out, o, heads[plan, C.H_TAIL_LENGTH])
    if options & C.OPTION_COMMIT_TS:
        o = put_unsigned(np.uint64(ts), out, o)
        store8(out, o, 125)
        o += 1
        if mark >= 0:
            o = _put_mark(marks, mark, out, o)
        store8(out, o, 125)
        o += 1
    if over:
        o = _mend_codes(
            buf, image, end, bitmap, partial, plan, delete, tables, columns, names, blob,
            out, head, o,
        )  # fmt: skip
    return o, L.OK, at


@rare
def _put_key(  # type: ignore[no-untyped-def]
    buf, ref, tables, columns, heads, names, blob, starts, offsets, texts, out, o
):
    # The handle key as a JSON object, of the row that there is after the change, if there is one.
    image, bitmap = ref[L.R_AFTER], ref[L.R_BITMAP_AFTER]
    if ref[L.R_KIND] & L.KIND_MASK == L.KIND_DELETE:
        image, bitmap = ref[L.R_BEFORE], ref[L.R_BITMAP]
    partial = ref[L.R_KIND] & L.PARTIAL != 0
    plan = ref[L.R_PLAN]
    o = copy_padded(blob, heads[plan, C.H_KEY], out, o, heads[plan, C.H_KEY_LENGTH])
    lead = 0 if heads[plan, C.H_OPTIONS] & C.OPTION_GIVEN else 1
    o, _, error, at = put_image(
        buf, image, ref[L.R_END], bitmap, partial, plan, True, lead,
        tables, columns, names, blob, starts, offsets, texts, out, o,
    )  # fmt: skip
    store8(out, o, 125)
    return o + 1, error, at


@kernel(
    types.UniTuple(I64, 5)(
        BYTES, MATRIX, types.int64[::1], I64, MATRIX, MATRIX, MATRIX, MATRIX, BYTES, TABLE64,
        TABLE64, TABLE16, MATRIX, I64, I64, I64, I64, I64, OUT,
    )
)  # fmt: skip
def encode(  # type: ignore[no-untyped-def]
    buf, refs, order, i, tables, columns, heads, names, blob, starts, offsets, texts, marks,
    mode, build_ms, base_ms, max_value, limit, out,
):  # fmt: skip
    """Write the messages of ``refs[order[i:]]``: as many as ``limit`` bytes hold, at least one.

    ``mode`` RECORDS frames them as records of one batch (timestamp: commit ms against ``base_ms``;
    offset delta from 0), LINES and CRLF_LINES end each with a line end. ``starts`` and ``offsets``
    are the time zone (``values.zones``). ``marks`` int64[:, K_SIZE], rising by ts, are what the
    coordinator of a cluster calls transactions. ``max_value`` bounds a message's bytes, its key's
    included.

    Returns ``(next i, bytes, largest message, error, where)``. Errors: ERR_TOO_LARGE (``where`` is
    the index in ``order``; third item its size, or a lower bound of it), ERR_ROOM (``out`` is too
    small for row ``i``: third item what it takes), and codes of images and values (``where`` is an
    offset in ``buf``; ``next i`` names the row). Messages before the row in question are written.
    """
    o = 0
    first = i
    largest = 0
    ms = np.int64(-1)
    mark, marked = np.int64(-1), np.int64(-1)
    es_low = es_high = 0
    ts_low, ts_high = thirteen(np.uint64(build_ms if _13_LOW <= build_ms < _13_HIGH else _13_LOW))
    limit = min(limit, out.size)
    while i < order.size:
        ref = refs[order[i]]
        plan = ref[L.R_PLAN]
        start = ref[L.R_BEFORE] if ref[L.R_BEFORE] >= 0 else ref[L.R_AFTER]
        image = ref[L.R_END] - start
        if image > 8 * max_value + 65536:
            return i, o, image // 8, L.ERR_TOO_LARGE, i
        bound = heads[plan, C.H_BOUND] + 12 * image + _SLACK
        keyed = mode == RECORDS and heads[plan, C.H_OPTIONS] & C.OPTION_RECORD_KEY != 0
        if keyed:
            bound += bound
        if o + bound > out.size:
            if i > first:
                break
            return i, o, bound, L.ERR_ROOM, i
        if ref[L.R_TS] >> _LOGICAL_BITS != ms:
            ms = ref[L.R_TS] >> _LOGICAL_BITS
            es_low, es_high = thirteen(np.uint64(max(np.int64(0), ms)))
        if marks.shape[0] > 0 and ref[L.R_TS] != marked:
            marked = ref[L.R_TS]
            mark = row_at(marks, C.K_TS, marked)
        number = i - first
        lengths = 2 if image < 4096 else 3
        key = value = o
        key_size = np.int64(0)
        if keyed:
            key = value_place(o, lengths, ms - base_ms, number)
            end, error, at = _put_key(
                buf, ref, tables, columns, heads, names, blob, starts, offsets, texts, out, key
            )
            if error != 0:
                return i, o, largest, error, at
            key_size = end - key
            value = end + lengths
        elif mode == RECORDS:
            value = value_place(o, 2 * lengths, ms - base_ms, number)
        end, error, at = put_message(
            buf, ref, es_low, es_high, build_ms, ts_low, ts_high,
            tables, columns, heads, names, blob, starts, offsets, texts, marks, mark, out, value,
        )  # fmt: skip
        if error != 0:
            return i, o, largest, error, at
        size = end - value + key_size
        if size > max_value:
            return i, o, size, L.ERR_TOO_LARGE, i
        if keyed:
            end, _ = frame_keyed(out, o, key, key_size, value, end - value, ms - base_ms, number)
        elif mode == RECORDS:
            end = frame(out, o, value, end, ms - base_ms, number)
        else:
            end = end_line(out, end, mode)
        if end > limit and i > first:
            break
        largest = max(largest, size)
        o = end
        i += 1
    return i, o, largest, L.OK, np.int64(-1)
