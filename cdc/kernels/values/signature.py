"""Numba types shared by the signatures of the value kernels."""

from __future__ import annotations

from numba import types

# A kernel typed for read-only arrays also takes writable ones, so a mapped file and a buffer both
# do.
BUF = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")
TABLE16 = types.Array(types.uint16, 1, "C", readonly=True)
TABLE32 = types.Array(types.uint32, 1, "C", readonly=True)
TABLE64 = types.Array(types.int64, 1, "C", readonly=True)
I64 = types.int64
U64 = types.uint64
CHECKED = types.UniTuple(types.int64, 2)
