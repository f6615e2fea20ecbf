"""Rows of the log as the text of one SQL statement.

Consecutive rows of one table share a statement where it does to them, in their order, what one
statement each would do.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.apply import FLAG_NO_FOREIGN_KEY_CHECKS
from cdc.kernels.compile import kernel, rare
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import copy_padded
from cdc.kernels.rows import next_value, null_bytes, same_bytes
from cdc.kernels.sql_json import STACK
from cdc.kernels.sql_literal import merged, put_literal

_I64 = types.int64
_MATRIX = types.int64[:, ::1]
_VECTOR = types.int64[::1]
_OUT = types.uint8[::1]
_TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
_TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)
# Wide stores go so far beyond what they write.
_SLACK = 64


@rare
def _find(buf, p, end, bitmap, partial, plan, tables, columns, spans, first):  # type: ignore[no-untyped-def]
    # Start (-1 for NULL and absent) and length of each value of the image at p.
    count = tables[plan, L.T_COLUMNS]
    nulls = p
    p += null_bytes(buf, bitmap, partial, count)
    k = 0
    at = tables[plan, L.T_COLUMN]
    for c in range(count):
        k, start, n, p, ok = next_value(
            buf, k, bitmap, partial, c, nulls, p, end, columns[at + c, L.C_WIDTH]
        )
        if not ok:
            return False
        spans[first + 2 * c] = start
        spans[first + 2 * c + 1] = n
    return True


@rare
def _images(buf, refs, r, second, tables, columns, spans):  # type: ignore[no-untyped-def]
    # Values of the old image from spans[0], of the new one behind them.
    plan = refs[r, L.R_PLAN]
    partial = refs[r, L.R_KIND] & L.PARTIAL != 0
    before, after, end = refs[r, L.R_BEFORE], refs[r, L.R_AFTER], refs[r, L.R_END]
    if before >= 0 and not second:
        stop = after if after >= 0 else end
        if not _find(
            buf, before, stop, refs[r, L.R_BITMAP], partial, plan, tables, columns, spans, 0
        ):
            return before
    if after >= 0:
        bitmap = refs[r, L.R_BITMAP_AFTER]
        first = 2 * tables[plan, L.T_COLUMNS]
        if not _find(buf, after, end, bitmap, partial, plan, tables, columns, spans, first):
            return after
    return np.int64(-1)


@rare
def _fits(buf, p, end, bitmap, size):  # type: ignore[no-untyped-def]
    return 0 <= p <= end - size and 0 <= bitmap <= buf.size - size


@rare
def _is_sound(buf, refs, r, second, flags, tables, columns, forms, spans):  # type: ignore[no-untyped-def]
    if r < 0 or r >= refs.shape[0] or r >= flags.size:
        return False
    plan, kind = refs[r, L.R_PLAN], refs[r, L.R_KIND] & L.KIND_MASK
    if plan < 0 or plan >= tables.shape[0] or (plan + 1) * S.S_COUNT > forms.shape[0]:
        return False
    if forms[plan * S.S_COUNT, S.F_HEAD_LENGTH] == 0:
        return False  # a table that is not written as text
    count = tables[plan, L.T_COLUMNS]
    if 4 * count + STACK > spans.size or tables[plan, L.T_COLUMN] + count > columns.shape[0]:
        return False
    before, after, end = refs[r, L.R_BEFORE], refs[r, L.R_AFTER], refs[r, L.R_END]
    size = (count + 7) >> 3
    if end > buf.size or kind > L.KIND_DELETE:
        return False
    old = _fits(buf, before, end, refs[r, L.R_BITMAP], size)
    new = _fits(buf, after, end, refs[r, L.R_BITMAP_AFTER], size)
    if kind == L.KIND_INSERT:
        return new and before < 0
    if kind == L.KIND_DELETE:
        return old and after < 0 and not second
    return old and new


@rare
def _same(buf, spans, ordinal, count):  # type: ignore[no-untyped-def]
    # Whether a column has the same bytes in both images.
    a, b = spans[2 * ordinal], spans[2 * (count + ordinal)]
    if a < 0 or b < 0:
        return a < 0 and b < 0
    n = spans[2 * ordinal + 1]
    return n == spans[2 * (count + ordinal) + 1] and same_bytes(buf, a, b, n)


@rare
def _statement(buf, kind, plan, second, tables, forms, items, spans):  # type: ignore[no-untyped-def]
    # Which statement a row becomes, and whether its S_INSERT follows.
    if kind == L.KIND_INSERT or second:
        return S.S_INSERT, False
    if kind == L.KIND_DELETE:
        return S.S_DELETE, False
    update = plan * S.S_COUNT + S.S_UPDATE
    way = forms[update, S.F_WAY]
    if way == S.WAY_UPDATE:
        return S.S_UPDATE, False
    count = tables[plan, L.T_COLUMNS]
    where = forms[update, S.F_WHERE]
    for item in range(where, where + forms[update, S.F_WHERE_COUNT]):
        if not _same(buf, spans, items[item, S.I_ORDINAL], count):
            return (S.S_DELETE, True) if way == S.WAY_REPLACE else (S.S_UPDATE, False)
    if way == S.WAY_REPLACE:
        return S.S_INSERT, False
    values = forms[update, S.F_VALUES]
    for item in range(values, values + forms[update, S.F_VALUES_COUNT]):
        if not _same(buf, spans, items[item, S.I_ORDINAL], count):
            return S.S_UPSERT, False
    # A server reports an upsert that changes nothing like an insert.
    return S.S_UPDATE, False


@merged
def _put_row(  # type: ignore[no-untyped-def]
    buf, form, update, count, forms, columns, items, blob, numbers,
    starts, offsets, texts, spans, scratch, out, o, cap,
):  # fmt: skip
    """Values and where items of one row: ``(new o, 0, -1)`` or ``(detail, error, item)``.

    An UPDATE sets the columns that changed, or all if none did.
    """
    written = 0
    for phase in range(3):
        first, last = forms[form, S.F_VALUES], forms[form, S.F_VALUES_COUNT]
        half = 2 * count
        if phase == 2:
            first, last = forms[form, S.F_WHERE], forms[form, S.F_WHERE_COUNT]
            half = 0
        elif phase == 1 and written > 0:
            continue
        last += first
        for item in range(first, last):
            ordinal = items[item, S.I_ORDINAL]
            if (
                update
                and phase == 0
                and items[item, S.I_ALWAYS] == 0
                and _same(buf, spans, ordinal, count)
            ):
                continue
            p, n = spans[half + 2 * ordinal], spans[half + 2 * ordinal + 1]
            # The first value has no comma before it.
            skip = 1 if written == 0 and phase < 2 else 0
            size = items[item, S.I_PREFIX_LENGTH] - skip
            need = size + items[item, S.I_ROOM] + _SLACK
            if p >= 0:
                need += items[item, S.I_FACTOR] * n
            if o + need > cap:
                return o + need, np.int64(L.ERR_ROOM), item
            o = copy_padded(blob, items[item, S.I_PREFIX] + skip, out, o, size)
            end, error = put_literal(
                buf, p, n, item, items, columns, blob, numbers, starts, offsets, texts,
                spans, 4 * count, scratch, out, o, cap,
            )  # fmt: skip
            if error != 0:
                if error == L.ERR_ROOM:
                    end += o
                return end, error, item
            o = end
            written += 1
    return o, np.int64(0), np.int64(-1)


@kernel(
    types.UniTuple(_I64, 9)(
        BYTES, _MATRIX, _VECTOR, _I64, _I64, types.boolean, _VECTOR, _MATRIX, _MATRIX, _MATRIX,
        _MATRIX, BYTES, _VECTOR, _TABLE64, _TABLE64, _TABLE16, _I64, _I64, _VECTOR, _OUT, _OUT,
    )
)  # fmt: skip
def write(  # type: ignore[no-untyped-def]
    buf, refs, order, i, n, second, flags, tables, columns, forms,
    items, blob, numbers, starts, offsets, texts, limit, most, spans, scratch, out,
):  # fmt: skip
    """Write one statement for ``refs[order[i:]]`` to ``out``: at most ``limit`` bytes, or one row.

    ``second``: of row ``i`` the DELETE is written, its S_INSERT follows. ``flags`` int64[len(refs)]
    as ``apply.row_flags`` writes them; ``forms``, ``items``, ``blob`` and ``numbers`` as in
    ``sql_layout``; ``spans`` and ``scratch`` are scratch, ``spans`` of 4 words a column and
    ``sql_json.STACK``.

    Returns ``(next, second, size, rows, statement, detail, error, offset, item)``: the rows up to
    ``next`` are in ``out[:size]``, as the statement of row ``statement`` of ``forms``.
    ``ERR_TOO_LARGE``: the first row takes ``detail`` bytes, over ``most``. ``ERR_ROOM`` and
    ``ERR_SCRATCH``: ``out`` or ``scratch`` must have ``detail`` bytes. Other errors are about
    ``item`` of row ``next``, at ``offset`` of ``buf`` where it is one.
    """
    cap = out.size - _SLACK
    o = np.int64(0)
    rows = np.int64(0)
    current = np.int64(-1)
    free = False
    half = second
    if i < 0 or n > order.size:
        return i, 0, 0, 0, -1, 0, L.ERR_REFERENCES, -1, -1
    while i < n:
        r = order[i]
        if not _is_sound(buf, refs, r, half, flags, tables, columns, forms, spans):
            if rows > 0:
                break
            return i, 0, 0, 0, -1, 0, L.ERR_REFERENCES, r, -1
        bad = _images(buf, refs, r, half, tables, columns, spans)
        if bad >= 0:
            if rows > 0:
                break
            return i, 0, 0, 0, -1, 0, L.ERR_IMAGE, bad, -1
        plan, kind = refs[r, L.R_PLAN], refs[r, L.R_KIND] & L.KIND_MASK
        which, follows = _statement(buf, kind, plan, half, tables, forms, items, spans)
        form = plan * S.S_COUNT + which
        unchecked = flags[r] & FLAG_NO_FOREIGN_KEY_CHECKS != 0
        start = o
        if rows > 0:
            if form != current or unchecked != free or rows >= forms[form, S.F_ROWS]:
                break
            before, size = forms[form, S.F_BETWEEN], forms[form, S.F_BETWEEN_LENGTH]
        else:
            current, free = form, unchecked
            before, size = forms[form, S.F_HEAD], forms[form, S.F_HEAD_LENGTH]
            if free:
                before, size = forms[form, S.F_FREE], forms[form, S.F_FREE_LENGTH]
        tail = forms[form, S.F_TAIL_LENGTH]
        error, item, detail = np.int64(L.ERR_ROOM), np.int64(-1), o + size + tail + _SLACK
        if detail <= cap:
            o = copy_padded(blob, before, out, o, size)
            o, error, item = _put_row(
                buf, form, which == S.S_UPDATE, tables[plan, L.T_COLUMNS], forms, columns, items,
                blob, numbers, starts, offsets, texts, spans, scratch, out, o, cap - tail,
            )  # fmt: skip
            detail = o
        if error != 0 and rows > 0:
            # What is before it goes out; the row's own statement will tell.
            o = start
            break
        if error == L.ERR_ROOM:
            return i, 0, 0, 0, form, detail + tail + 2 * _SLACK, error, -1, item
        if error != 0:
            return i, 0, 0, 0, form, detail, error, detail, item
        if o + tail > limit and rows > 0:
            o = start
            break
        if o + tail > most:
            return i, 0, 0, 0, form, o + tail, L.ERR_TOO_LARGE, -1, -1
        rows += 1
        if follows:
            half = True
        else:
            half = False
            i += 1
    if rows > 0:
        o = copy_padded(blob, forms[current, S.F_TAIL], out, o, forms[current, S.F_TAIL_LENGTH])
    return i, np.int64(half), o, rows, current, 0, L.OK, -1, -1
