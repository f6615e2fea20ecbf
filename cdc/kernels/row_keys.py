"""Hashes of chosen columns of located rows, so that rows of one key find each other."""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8
from cdc.kernels.murmur3 import absorb
from cdc.kernels.rows import MATRIX, next_value, null_bytes

I64 = types.int64

_SEED = np.uint64(0x5469646567617465)


@kernel(types.UniTuple(I64, 2)(BYTES, MATRIX, I64, BYTES, MATRIX, MATRIX, types.uint64[:, ::1]))
def hash_keys(buf, refs, which, wanted, tables, columns, out):  # type: ignore[no-untyped-def]
    """Write the hash of the wanted columns of each row of ``refs`` to ``out`` uint64[rows, 2].

    ``which`` is R_BEFORE or R_AFTER; ``wanted`` uint8[:] has 1 at the ordinal of each column, 0 at
    the others. A row without that image gets (0, 0), which no key has. The bytes of a value count
    and its length, not how the length is stored; NULL is no value. Returns ``(row, error)``:
    ERR_COLUMNS (a table with fewer columns), ERR_NOT_FULL (a wanted column is absent), ERR_IMAGE.
    """
    zero = np.uint64(0)
    for r in range(refs.shape[0]):
        p = refs[r, which]
        if p < 0:
            out[r, 0] = zero
            out[r, 1] = zero
            continue
        plan = refs[r, L.R_PLAN]
        count = tables[plan, L.T_COLUMNS]
        first = tables[plan, L.T_COLUMN]
        if wanted.size > count:
            return r, L.ERR_COLUMNS
        bitmap = refs[r, L.R_BITMAP if which == L.R_BEFORE else L.R_BITMAP_AFTER]
        partial = refs[r, L.R_KIND] & L.PARTIAL != 0
        end = refs[r, L.R_END]
        nulls = p
        p += null_bytes(buf, bitmap, partial, count)
        h1 = _SEED
        h2 = _SEED
        k = np.int64(0)
        for c in range(wanted.size):
            k, start, n, p, ok = next_value(
                buf, k, bitmap, partial, c, nulls, p, end, columns[first + c, L.C_WIDTH]
            )
            if not ok:
                return r, L.ERR_IMAGE
            if wanted[c] == 0:
                continue
            if start < 0:
                if partial and load8(buf, bitmap + (c >> 3)) >> (c & 7) & 1 == 0:
                    return r, L.ERR_NOT_FULL
                n = np.int64(-1)
            h1, h2 = absorb(buf, start, n, h1, h2)
        if h1 == zero and h2 == zero:
            h2 = np.uint64(1)
        out[r, 0] = h1
        out[r, 1] = h2
    return np.int64(0), L.OK
