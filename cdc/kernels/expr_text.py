"""Text of expressions: comparison by collation, LIKE, numbers in text.

A text is three arrays: bytes, starts, lengths; one of a single entry stands for all rows.
``kind`` says what its characters are: BYTES_ONLY and BYTE_TABLE are single bytes, the others UTF-8.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8

BYTES_ONLY: Final = 0  # bytes as they are
BYTE_TABLE: Final = 1  # bytes through a table of 256 weights
UTF8_BIN: Final = 2  # code points, which compare as their bytes do
UTF8_WEIGHTS: Final = 3  # weights of each code point

ANY: Final = -1  # _ in a pattern
MANY: Final = -2  # % in a pattern

I64 = types.int64
INDEX = types.Array(types.int64, 1, "C", readonly=True)
TABLE32 = types.Array(types.int32, 1, "C", readonly=True)
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)
OUT8 = types.int8[::1]
FLAGS = types.boolean[::1]


@small
def _character(buf, p):  # type: ignore[no-untyped-def]
    # (code point, length) of valid UTF-8.
    b = load8(buf, p)
    if b < 0x80:
        return b, 1
    if b < 0xE0:
        return (b & 31) << 6 | load8(buf, p + 1) & 63, 2
    if b < 0xF0:
        return (b & 15) << 12 | (load8(buf, p + 1) & 63) << 6 | load8(buf, p + 2) & 63, 3
    return (
        (b & 7) << 18
        | (load8(buf, p + 1) & 63) << 12
        | (load8(buf, p + 2) & 63) << 6
        | load8(buf, p + 3) & 63
    ), 4


@small
def _next_weight(buf, p, end, w, stop, starts, values):  # type: ignore[no-untyped-def]
    # (weight or -1 at the end, p, w, stop): the next weight that is not 0.
    while True:
        while w < stop:
            v = np.int64(values[w])
            w += 1
            if v != 0:
                return v, p, w, stop
        if p >= end:
            return np.int64(-1), p, w, stop
        c, n = _character(buf, p)
        p += n
        if c >= 0x110000:
            c = 0x10FFFF
        w = np.int64(starts[c])
        stop = np.int64(starts[c + 1])


@rare
def _by_weights(a, sa, ea, b, sb, eb, pad, starts, values):  # type: ignore[no-untyped-def]
    wa = na = wb = nb = np.int64(0)
    while True:
        va, sa, wa, na = _next_weight(a, sa, ea, wa, na, starts, values)
        vb, sb, wb, nb = _next_weight(b, sb, eb, wb, nb, starts, values)
        if va < 0 and vb < 0:
            return 0
        if va < 0:
            if pad < 0:
                return -1
            va = pad
        elif vb < 0:
            if pad < 0:
                return 1
            vb = pad
        if va != vb:
            return -1 if va < vb else 1


@small
def _by_bytes(a, sa, ea, b, sb, eb, pad, table):  # type: ignore[no-untyped-def]
    while sa < ea or sb < eb:
        if sa < ea:
            va = load8(a, sa)
            if table.size != 0:
                va = np.int64(table[va])
            sa += 1
        else:
            va = pad
        if sb < eb:
            vb = load8(b, sb)
            if table.size != 0:
                vb = np.int64(table[vb])
            sb += 1
        else:
            vb = pad
        if va != vb:
            return -1 if va < vb else 1
    return 0


@kernel(
    types.void(
        BYTES, INDEX, INDEX, BYTES, INDEX, INDEX, I64, I64, BYTES, TABLE32, TABLE16, OUT8
    )
)  # fmt: skip
def compare(  # type: ignore[no-untyped-def]
    a, starts_a, lengths_a, b, starts_b, lengths_b, kind, pad, table, starts, values, out
):
    """-1, 0 or 1 for each row; ``out`` has one entry a row, those of NULLs mean nothing.

    ``pad`` is the weight (or byte) of the spaces that the shorter one is filled up with, -1 for
    none. ``table`` uint8[256] is for BYTE_TABLE, ``starts`` and ``values`` for weights.
    """
    step_a = 0 if starts_a.size == 1 else 1
    step_b = 0 if starts_b.size == 1 else 1
    for i in range(out.size):
        sa, sb = starts_a[i * step_a], starts_b[i * step_b]
        out[i] = 0
        if sa < 0 or sb < 0:
            continue
        ea, eb = sa + lengths_a[i * step_a], sb + lengths_b[i * step_b]
        if kind >= UTF8_WEIGHTS:
            out[i] = _by_weights(a, sa, ea, b, sb, eb, pad, starts, values)
        else:
            out[i] = _by_bytes(a, sa, ea, b, sb, eb, pad, table)


@small
def _same(c, d, kind, table, starts, values):  # type: ignore[no-untyped-def]
    if c == d:
        return True
    if kind == BYTE_TABLE:
        return table[c] == table[d]
    if kind < UTF8_WEIGHTS:
        return False
    p, q = np.int64(starts[c]), np.int64(starts[d])
    n = np.int64(starts[c + 1]) - p
    if n != np.int64(starts[d + 1]) - q:
        return False
    same = True
    for i in range(n):
        same = same and values[p + i] == values[q + i]
    return same and not (table[c >> 8] or table[d >> 8])


@rare
def _like(buf, p, end, pattern, kind, table, starts, values):  # type: ignore[no-untyped-def]
    # Greedy with one way back, to the last %: at most length x pattern steps.
    k = 0
    back, again = -1, p
    while p < end:
        if k < pattern.size and pattern[k] == MANY:
            back, again = k, p
            k += 1
            continue
        if kind <= BYTE_TABLE:
            c, n = load8(buf, p), 1
        else:
            c, n = _character(buf, p)
        if k < pattern.size and (
            pattern[k] == ANY or _same(c, pattern[k], kind, table, starts, values)
        ):
            k += 1
            p += n
            continue
        if back < 0:
            return False
        if kind <= BYTE_TABLE:
            again += 1
        else:
            c, n = _character(buf, again)
            again += n
        p = again
        k = back + 1
    while k < pattern.size and pattern[k] == MANY:
        k += 1
    return k == pattern.size


@kernel(types.void(BYTES, INDEX, INDEX, INDEX, I64, BYTES, TABLE32, TABLE16, FLAGS))
def like(buf, text, lengths, pattern, kind, table, starts, values, out):  # type: ignore[no-untyped-def]
    """Whether each text is like the pattern: characters, ANY and MANY.

    For weights, ``table`` uint8[0x1100] says of which pages of 256 code points each is like none
    but itself.
    """
    step = 0 if text.size == 1 else 1
    for i in range(out.size):
        p = text[i * step]
        out[i] = p >= 0 and _like(
            buf, p, p + lengths[i * step], pattern, kind, table, starts, values
        )


_E22 = np.array([10.0**i for i in range(23)])


@small
def _digit(buf, p, end):  # type: ignore[no-untyped-def]
    if p < end:
        b = load8(buf, p)
        if 48 <= b <= 57:
            return b - 48
    return np.int64(-1)


@kernel(I64(BYTES, INDEX, INDEX, types.float64[::1], FLAGS))
def numbers(buf, starts, lengths, out, long):  # type: ignore[no-untyped-def]
    """The number that each text begins with, as the servers read it; 0 if there is none.

    Where ``long`` is set, the text has more digits than one rounding can do, and ``out`` is not
    set. Returns how many.
    """
    count = 0
    for i in range(starts.size):
        p = starts[i]
        out[i] = 0.0
        long[i] = False
        if p < 0:
            continue
        end = p + lengths[i]
        while p < end and (load8(buf, p) == 32 or 9 <= load8(buf, p) <= 13):
            p += 1
        negative = False
        if p < end and (load8(buf, p) == 45 or load8(buf, p) == 43):
            negative = load8(buf, p) == 45
            p += 1
        value = np.int64(0)
        digits, exponent, seen = np.int64(0), np.int64(0), np.int64(0)
        d = _digit(buf, p, end)
        while d >= 0:
            seen += 1
            if digits > 0 or d > 0:
                digits += 1
                if digits <= 18:
                    value = value * 10 + d
            p += 1
            d = _digit(buf, p, end)
        if p < end and load8(buf, p) == 46:
            p += 1
            d = _digit(buf, p, end)
            while d >= 0:
                seen += 1
                if digits > 0 or d > 0:
                    digits += 1
                    if digits <= 18:
                        value = value * 10 + d
                exponent -= 1
                p += 1
                d = _digit(buf, p, end)
        if seen == 0:
            continue
        if p + 1 < end and (load8(buf, p) | 32) == 101:
            p += 1
            down = load8(buf, p) == 45
            if load8(buf, p) == 45 or load8(buf, p) == 43:
                p += 1
            d = _digit(buf, p, end)
            written = np.int64(0)
            while d >= 0:
                if written < 100000:
                    written = written * 10 + d
                p += 1
                d = _digit(buf, p, end)
            exponent += -written if down else written
        if value == 0 and digits == 0:
            result = 0.0
        elif digits <= 18 and value < 1 << 53 and -22 <= exponent <= 22:
            result = float(value)
            result = result / _E22[-exponent] if exponent < 0 else result * _E22[exponent]
        else:
            long[i] = True
            count += 1
            continue
        out[i] = -result if negative else result
    return count


@kernel(types.void(BYTES, INDEX, INDEX, I64, types.int64[::1]))
def characters(buf, starts, lengths, kind, out):  # type: ignore[no-untyped-def]
    """Number of characters of each text."""
    for i in range(starts.size):
        n = np.int64(0)
        p = starts[i]
        if p >= 0:
            end = p + lengths[i]
            if kind <= BYTE_TABLE:
                n = lengths[i]
            else:
                while p < end:
                    n += load8(buf, p) & 0xC0 != 0x80
                    p += 1
        out[i] = n


@kernel(types.void(BYTES, INDEX, INDEX, FLAGS, INDEX, types.uint8[::1]))
def copy_chosen(buf, starts, lengths, chosen, to, out):  # type: ignore[no-untyped-def]
    """Copy the texts of the rows where ``chosen`` is set to ``out[to[i]:]``."""
    step = 0 if starts.size == 1 else 1
    for i in range(chosen.size):
        p = starts[i * step]
        if chosen[i] and p >= 0:
            for j in range(lengths[i * step]):
                out[to[i] + j] = load8(buf, p + j)
