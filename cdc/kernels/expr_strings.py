"""Functions of text for expressions: parts of texts, trimmed, joined, in another case.

Texts are as in ``expr_text``. Parts share the bytes of the whole; what is new goes to ``out``.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_text import BYTE_TABLE, INDEX, TABLE32, _character
from cdc.kernels.memory import load8, store8

I64 = types.int64
VECTOR = types.int64[::1]
OUT = types.uint8[::1]


@small
def _skip(buf, p, end, count, kind):  # type: ignore[no-untyped-def]
    # (offset behind ``count`` characters, how many there were)
    if kind <= BYTE_TABLE:
        n = min(count, end - p)
        return p + n, n
    done = np.int64(0)
    while p < end and done < count:
        p += 1
        while p < end and load8(buf, p) & 0xC0 == 0x80:
            p += 1
        done += 1
    return p, done


@kernel(types.void(BYTES, INDEX, INDEX, I64, INDEX, INDEX, VECTOR, VECTOR))
def part(buf, starts, lengths, kind, first, count, out, out_lengths):  # type: ignore[no-untyped-def]
    """``count`` characters from character ``first`` on: 1 is the first, -1 the last, 0 none.

    ``out`` has one entry a row; arrays of a single entry stand for all rows.
    """
    step = 0 if starts.size == 1 else 1
    step_first = 0 if first.size == 1 else 1
    step_count = 0 if count.size == 1 else 1
    for i in range(out.size):
        p = starts[i * step]
        out[i], out_lengths[i] = p, 0
        if p < 0:
            continue
        f, n = first[i * step_first], count[i * step_count]
        end = p + lengths[i * step]
        if f == 0 or n <= 0:
            continue
        if f > 0:
            p, _ = _skip(buf, p, end, f - 1, kind)
        else:
            _, total = _skip(buf, p, end, np.int64(1) << 40, kind)
            if -f > total:
                continue
            p, _ = _skip(buf, p, end, total + f, kind)
        stop, _ = _skip(buf, p, end, n, kind)
        out[i], out_lengths[i] = p, stop - p


@kernel(types.void(BYTES, INDEX, INDEX, I64, I64, VECTOR, VECTOR))
def trim(buf, starts, lengths, left, right, out, out_lengths):  # type: ignore[no-untyped-def]
    """Without the spaces on the left, on the right, or both."""
    for i in range(starts.size):
        p = starts[i]
        end = p + lengths[i]
        if p >= 0:
            while left and p < end and load8(buf, p) == 32:
                p += 1
            while right and p < end and load8(buf, end - 1) == 32:
                end -= 1
        out[i], out_lengths[i] = p, end - p


@small
def _put(out, o, c):  # type: ignore[no-untyped-def]
    if c < 0x80:
        store8(out, o, c)
        return o + 1
    if c < 0x800:
        store8(out, o, 0xC0 | c >> 6)
        store8(out, o + 1, 0x80 | c & 63)
        return o + 2
    if c < 0x10000:
        store8(out, o, 0xE0 | c >> 12)
        store8(out, o + 1, 0x80 | c >> 6 & 63)
        store8(out, o + 2, 0x80 | c & 63)
        return o + 3
    store8(out, o, 0xF0 | c >> 18)
    store8(out, o + 1, 0x80 | c >> 12 & 63)
    store8(out, o + 2, 0x80 | c >> 6 & 63)
    store8(out, o + 3, 0x80 | c & 63)
    return o + 4


@kernel(types.void(BYTES, INDEX, INDEX, BYTES, TABLE32, I64, OUT, VECTOR, VECTOR))
def change_case(buf, starts, lengths, table, points, room, out, out_starts, out_lengths):  # type: ignore[no-untyped-def]
    """Each character through ``points`` (by code point), or each byte through ``table`` if it has.

    ``out`` has room for ``room`` times the bytes of all texts.
    """
    o = np.int64(0)
    for i in range(starts.size):
        p = starts[i]
        out_starts[i] = o
        if p >= 0:
            end = p + lengths[i]
            while p < end:
                if table.size != 0:
                    store8(out, o, np.int64(table[load8(buf, p)]))
                    p += 1
                    o += 1
                else:
                    c, n = _character(buf, p)
                    c = np.int64(points[c]) if c < 0x110000 else c
                    size = 1 + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000)
                    begun = o - out_starts[i]
                    # Without more room a text is changed in its place: what grows over unread
                    # bytes ends it.
                    if begun + size > room * lengths[i]:
                        break
                    p += n
                    o = _put(out, o, c)
                    if room == 1 and begun + size > p - starts[i]:
                        break
        out_lengths[i] = o - out_starts[i]


@kernel(types.void(BYTES, INDEX, INDEX, OUT, VECTOR))
def append(buf, starts, lengths, out, ends):  # type: ignore[no-untyped-def]
    """Append each text at ``out[ends[i]:]`` and move ``ends[i]`` behind it."""
    step = 0 if starts.size == 1 else 1
    for i in range(ends.size):
        p = starts[i * step]
        if p < 0:
            continue
        for j in range(lengths[i * step]):
            store8(out, ends[i] + j, load8(buf, p + j))
        ends[i] += lengths[i * step]
