"""Integer arithmetic of expressions, as the servers do it: 64 bits, signed or not, checked."""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.values.words import multiply_wide

ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3  # DIV
MODULO: Final = 4

I64 = types.int64
BITS = types.Array(types.int64, 1, "C", readonly=True)
_TOP = np.uint64(1 << 63)


@small
def _split(v, unsigned):  # type: ignore[no-untyped-def]
    # (is negative, magnitude)
    if unsigned or v >= 0:
        return False, np.uint64(v)
    return True, ~np.uint64(v) + np.uint64(1)


@small
def _sum(na, ma, nb, mb):  # type: ignore[no-untyped-def]
    # (is negative, magnitude, fits in 64 bits)
    if na == nb:
        total = ma + mb
        return na, total, total >= ma
    if ma >= mb:
        return na, ma - mb, True
    return nb, mb - ma, True


@kernel(types.void(I64, BITS, I64, BITS, I64, I64, types.int64[::1], types.uint8[::1]))
def arithmetic(op, a, unsigned_a, b, unsigned_b, unsigned, out, state):  # type: ignore[no-untyped-def]
    """``a op b`` for each row; arrays hold bits, one of a single entry stands for all rows.

    ``unsigned`` is the result's sign. ``state`` is set to 1 (NULL) for a division by zero and to 2
    for a result that is out of range, and left alone otherwise.
    """
    step_a = 0 if a.size == 1 else 1
    step_b = 0 if b.size == 1 else 1
    zero = np.uint64(0)
    for i in range(out.size):
        na, ma = _split(a[i * step_a], unsigned_a != 0)
        nb, mb = _split(b[i * step_b], unsigned_b != 0)
        fits = True
        if op == ADD:
            n, m, fits = _sum(na, ma, nb, mb)
        elif op == SUBTRACT:
            n, m, fits = _sum(na, ma, not nb, mb)
        elif op == MULTIPLY:
            high, m = multiply_wide(ma, mb)
            n, fits = na != nb, high == zero
        elif mb == zero:
            out[i] = 0
            if state[i] == 0:
                state[i] = 1
            continue
        elif op == DIVIDE:
            n, m = na != nb, ma // mb
        else:
            n, m = na, ma % mb
        if m != zero and n:
            fits = fits and unsigned == 0 and m <= _TOP
        elif unsigned == 0:
            fits = fits and m < _TOP
        if not fits:
            out[i] = 0
            if state[i] == 0:
                state[i] = 2
            continue
        out[i] = np.int64(~m + np.uint64(1)) if n else np.int64(m)
