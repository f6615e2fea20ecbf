"""Regular expressions over text: a table is followed, one entry for each character.

Texts are as in ``expr_text``, tables as ``filter.expr.regexp.automaton`` makes them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_text import FLAGS, I64, INDEX, TABLE32, _character
from cdc.kernels.memory import load8

NO_END: Final = 0  # no $ in the pattern
NEWLINE_END: Final = 1  # $ is the end, or before a last \n
LINE_END: Final = 2  # or before a last line terminator of Unicode, \r\n being one


@small
def _last_line(buf, start, end, utf8, ends):  # type: ignore[no-untyped-def]
    # Where the line terminator at the end of the text begins; -1 if there is none.
    if end == start:
        return np.int64(-1)
    b = load8(buf, end - 1)
    if b == 10:
        if ends == LINE_END and end - start >= 2 and load8(buf, end - 2) == 13:
            return end - 2
        return end - 1
    if ends == LINE_END:
        if 11 <= b <= 13:
            return end - 1
        if utf8 and b == 0x85 and load8(buf, end - 2) == 0xC2:
            return end - 2
        if utf8 and (b == 0xA8 or b == 0xA9) and load8(buf, end - 2) == 0x80:
            # UTF-8 is valid, so there are three bytes.
            return end - 3 if load8(buf, end - 3) == 0xE2 else np.int64(-1)
    return np.int64(-1)


@rare
def _class_of(c, lows, classes):  # type: ignore[no-untyped-def]
    low, high = 0, lows.size
    while high - low > 1:
        middle = (low + high) >> 1
        if lows[middle] <= c:
            low = middle
        else:
            high = middle
    return np.int64(classes[low])


@rare
def _found(buf, p, end, utf8, ends, bytes_, lows, classes, table, width, start):  # type: ignore[no-untyped-def]
    state = start
    last = np.int64(-1)
    if ends != NO_END:
        last = _last_line(buf, p, end, utf8, ends)
    # Of the first two states none leads anywhere else.
    while p < end and state > width:
        if p == last:
            state = np.int64(table[state + width - 1])
        b = load8(buf, p)
        if not utf8 or b < 0x80:
            state = np.int64(table[state + bytes_[b]])
            p += 1
        else:
            c, n = _character(buf, p)
            state = np.int64(table[state + _class_of(c, lows, classes)])
            p += n
    if ends != NO_END:
        state = np.int64(table[state + width - 1])
    return state == width


@kernel(
    types.void(
        BYTES, INDEX, INDEX, types.boolean, I64, TABLE32, TABLE32, TABLE32, TABLE32, I64, I64, FLAGS
    )
)  # fmt: skip
def search(  # type: ignore[no-untyped-def]
    buf, text, lengths, utf8, ends, bytes_, lows, classes, table, width, start, out
):
    """Whether the pattern is found in each text, in time linear in its bytes.

    ``bytes_`` int32[256] are the classes of bytes: of all of a single-byte character set, or of
    ASCII if ``utf8``, where others are looked up in ``lows`` and ``classes`` (int32, of one size).
    ``ends`` is NO_END, NEWLINE_END or LINE_END. Entries of ``out`` for NULLs mean nothing.
    """
    step = 0 if text.size == 1 else 1
    for i in range(out.size):
        p = text[i * step]
        out[i] = p >= 0 and _found(
            buf, p, p + lengths[i * step], utf8, ends, bytes_, lows, classes, table, width, start
        )
