"""MurmurHash3 (Austin Appleby), the variant of 128 bits for 64-bit machines, and a chain of it.

https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp
"""

from __future__ import annotations

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.crc import BYTES
from cdc.kernels.memory import load8, load64

I64 = types.int64
U64 = types.uint64

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_N1 = np.uint64(0x52DCE729)
_N2 = np.uint64(0x38495AB5)
_M1 = np.uint64(0xFF51AFD7ED558CCD)
_M2 = np.uint64(0xC4CEB9FE1A85EC53)
_5 = np.uint64(5)
_33 = np.uint64(33)


@small
def _rotate(v, n):  # type: ignore[no-untyped-def]
    return v << np.uint64(n) | v >> np.uint64(64 - n)


@small
def _final(v):  # type: ignore[no-untyped-def]
    v ^= v >> _33
    v *= _M1
    v ^= v >> _33
    v *= _M2
    return v ^ v >> _33


@small
def absorb(buf, p, n, h1, h2):  # type: ignore[no-untyped-def]
    """The hash of ``n`` bytes at ``p`` with the state ``h1, h2`` as seed; -1 for no value at all.

    Results as the next seed make a chain, in which each part counts with its length.
    """
    end = p + max(n, np.int64(0))
    while p + 16 <= end:
        k1 = np.uint64(load64(buf, p))
        k2 = np.uint64(load64(buf, p + 8))
        h1 ^= _rotate(k1 * _C1, 31) * _C2
        h1 = (_rotate(h1, 27) + h2) * _5 + _N1
        h2 ^= _rotate(k2 * _C2, 33) * _C1
        h2 = (_rotate(h2, 31) + h1) * _5 + _N2
        p += 16
    k1 = np.uint64(0)
    k2 = np.uint64(0)
    for i in range(end - p):
        byte = np.uint64(load8(buf, p + i))
        if i < 8:
            k1 |= byte << np.uint64(8 * i)
        else:
            k2 |= byte << np.uint64(8 * i - 64)
    h2 ^= _rotate(k2 * _C2, 33) * _C1
    h1 ^= _rotate(k1 * _C1, 31) * _C2
    h1 ^= np.uint64(n)
    h2 ^= np.uint64(n)
    h1 += h2
    h2 += h1
    h1 = _final(h1)
    h2 = _final(h2)
    h1 += h2
    h2 += h1
    return h1, h2


@kernel(types.UniTuple(U64, 2)(BYTES, I64, I64, U64))
def murmur3(buf, lo, hi, seed):  # type: ignore[no-untyped-def]
    """Both words of MurmurHash3_x64_128 of ``buf[lo:hi]``; the range is clamped to the array."""
    lo = max(lo, 0)
    hi = max(min(hi, buf.size), lo)
    return absorb(buf, lo, hi - lo, seed, seed)
