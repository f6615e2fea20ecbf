"""Comparison of text under collations with contractions (UTS #10, 3.3.2).

At each place the longest contraction is taken whose characters stand next to one another there; a
character that begins none has its own weights. That is MariaDB's uca1400, which skips no marks in
between as UTS #10 would.
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, rare, small
from cdc.kernels.crc import BYTES
from cdc.kernels.expr_text import I64, INDEX, OUT8, TABLE16, TABLE32, _character


@rare
def _longest(buf, p, end, c, children, following, nodes, whole):  # type: ignore[no-untyped-def]
    # (contraction or c, the place behind it): the longest that begins with c, which ends before p.
    found, behind = c, p
    node = c
    while p < end:
        low, high = np.int64(children[node]), np.int64(children[node + 1])
        d, n = _character(buf, p)
        while low < high:
            middle = (low + high) >> 1
            if following[middle] < d:
                low = middle + 1
            else:
                high = middle
        if low == np.int64(children[node + 1]) or following[low] != d:
            break
        node = np.int64(nodes[low])
        p += n
        if node < whole:
            found, behind = node, p
    return found, behind


@small
def _next_weight(buf, p, end, w, stop, starts, values, children, following, nodes, whole):  # type: ignore[no-untyped-def]
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
        if children[c] != children[c + 1]:
            c, p = _longest(buf, p, end, c, children, following, nodes, whole)
        w = np.int64(starts[c])
        stop = np.int64(starts[c + 1])


@rare
def _compared(  # type: ignore[no-untyped-def]
    a, sa, ea, b, sb, eb, pad, starts, values, children, following, nodes, whole
):
    wa = na = wb = nb = np.int64(0)
    while True:
        va, sa, wa, na = _next_weight(
            a, sa, ea, wa, na, starts, values, children, following, nodes, whole
        )
        vb, sb, wb, nb = _next_weight(
            b, sb, eb, wb, nb, starts, values, children, following, nodes, whole
        )
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


@kernel(
    types.void(
        BYTES, INDEX, INDEX, BYTES, INDEX, INDEX, I64,
        TABLE32, TABLE16, TABLE16, TABLE32, TABLE32, I64, OUT8,
    )
)  # fmt: skip
def compare(  # type: ignore[no-untyped-def]
    a, starts_a, lengths_a, b, starts_b, lengths_b, pad,
    starts, values, children, following, nodes, whole, out,
):  # fmt: skip
    """-1, 0 or 1 for each row, as ``expr_text.compare`` does it for texts without contractions.

    ``pad`` is the weight of the spaces that the shorter text is filled up with, -1 for none;
    ``starts`` and ``values`` are ``collations.Weights``, the next four a ``collations.trie.Trie``.
    """
    step_a = 0 if starts_a.size == 1 else 1
    step_b = 0 if starts_b.size == 1 else 1
    for i in range(out.size):
        sa, sb = starts_a[i * step_a], starts_b[i * step_b]
        out[i] = 0
        if sa >= 0 and sb >= 0:
            out[i] = _compared(
                a, sa, sa + lengths_a[i * step_a], b, sb, sb + lengths_b[i * step_b], pad,
                starts, values, children, following, nodes, whole,
            )  # fmt: skip
