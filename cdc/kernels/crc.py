"""CRC-32 (IEEE 802.3, as zlib and binlog events use it), and the check of a range of events.

Slicing by 16: sixteen bytes a step through sixteen tables of 256 entries (Kounavis and Berry,
"A Systematic Approach to Building High Performance Software-based CRC Generators", 2005); in front
of it 64 bytes a step without tables where the processor can (``fold``).
Binlog event layout: https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html
(timestamp 4, type 1, server id 4, event length 4, next position 4, flags 2, body, CRC-32 4).
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from cdc.kernels.compile import kernel, small
from cdc.kernels.fold import BLOCK, FOLDS, fold

# Of maps and of bytes objects, which are read-only; writable arrays convert to it.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)

HEADER = 19
CHECKSUM = 4
LENGTH_AT = 9

_POLYNOMIAL = np.uint32(0xEDB88320)


def _tables() -> NDArray[np.uint32]:
    tables = np.zeros((16, 256), np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, (row >> 1) ^ _POLYNOMIAL, row >> 1).astype(np.uint32)
    tables[0] = row
    for k in range(1, 16):
        tables[k] = (tables[k - 1] >> 8) ^ row[tables[k - 1] & 0xFF]
    return tables


_T = _tables()


@small
def _sixteen(first, second):  # type: ignore[no-untyped-def]
    # State behind 16 bytes, given as two little-endian words, from the state 0.
    c = np.uint32(0)
    for k in range(8):
        c ^= _T[15 - k, (first >> (8 * k)) & 0xFF] ^ _T[7 - k, (second >> (8 * k)) & 0xFF]
    return c


@kernel(types.uint32(BYTES, types.int64, types.int64, types.uint32), counted=True)
def crc32(buf: NDArray[np.uint8], lo: int, hi: int, seed: int) -> int:
    """CRC-32 of ``buf[lo:hi]`` going on from ``seed`` (0 at first), equal to ``zlib.crc32``.

    Bounds are clamped to the array, so a wrong range can never read outside of it.
    """
    lo = max(lo, 0)
    hi = min(hi, buf.size)
    c = np.uint32(seed ^ np.uint32(0xFFFFFFFF))
    i = lo
    if FOLDS and i + BLOCK <= hi:
        blocks = (hi - i) // BLOCK
        first, second = fold(buf, i, blocks, np.int64(c))
        c = _sixteen(first, second)
        i += blocks * BLOCK
    while i + 16 <= hi:
        a = c ^ (
            np.uint32(buf[i])
            | (np.uint32(buf[i + 1]) << np.uint32(8))
            | (np.uint32(buf[i + 2]) << np.uint32(16))
            | (np.uint32(buf[i + 3]) << np.uint32(24))
        )
        c = (
            _T[15, a & np.uint32(0xFF)]
            ^ _T[14, (a >> np.uint32(8)) & np.uint32(0xFF)]
            ^ _T[13, (a >> np.uint32(16)) & np.uint32(0xFF)]
            ^ _T[12, a >> np.uint32(24)]
            ^ _T[11, buf[i + 4]]
            ^ _T[10, buf[i + 5]]
            ^ _T[9, buf[i + 6]]
            ^ _T[8, buf[i + 7]]
            ^ _T[7, buf[i + 8]]
            ^ _T[6, buf[i + 9]]
            ^ _T[5, buf[i + 10]]
            ^ _T[4, buf[i + 11]]
            ^ _T[3, buf[i + 12]]
            ^ _T[2, buf[i + 13]]
            ^ _T[1, buf[i + 14]]
            ^ _T[0, buf[i + 15]]
        )
        i += 16
    while i < hi:
        c = (c >> np.uint32(8)) ^ _T[0, (c ^ np.uint32(buf[i])) & np.uint32(0xFF)]
        i += 1
    return int(c ^ np.uint32(0xFFFFFFFF))


@kernel(types.UniTuple(types.int64, 2)(BYTES, types.int64, types.int64), counted=True)
def check_events(buf: NDArray[np.uint8], lo: int, hi: int) -> tuple[int, int]:
    """Check the length and the CRC of every event of ``buf[lo:hi]``; ``lo`` starts an event.

    Returns ``(ok_until, bad_offset)``. Whole, right events lie in ``[lo, ok_until)``.
    ``bad_offset`` is -1 if nothing contradicts that the range is a prefix of a good one: either
    ``ok_until == hi``, or the last event goes on behind ``hi``. Else it is the offset of the
    event whose length is impossible or whose CRC is wrong.
    """
    lo = max(lo, 0)
    hi = min(hi, buf.size)
    i = lo
    while i + HEADER <= hi:
        length = int(
            np.uint32(buf[i + LENGTH_AT])
            | (np.uint32(buf[i + LENGTH_AT + 1]) << np.uint32(8))
            | (np.uint32(buf[i + LENGTH_AT + 2]) << np.uint32(16))
            | (np.uint32(buf[i + LENGTH_AT + 3]) << np.uint32(24))
        )
        if length < HEADER + CHECKSUM:
            return i, i
        end = i + length
        if end > hi:
            return i, -1
        stored = (
            np.uint32(buf[end - 4])
            | (np.uint32(buf[end - 3]) << np.uint32(8))
            | (np.uint32(buf[end - 2]) << np.uint32(16))
            | (np.uint32(buf[end - 1]) << np.uint32(24))
        )
        if crc32(buf, i, end - CHECKSUM, np.uint32(0)) != stored:
            return i, i
        i = end
    return i, -1
