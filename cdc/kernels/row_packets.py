"""Rows of a result set out of the packets of the text protocol, in place.

Packet: payload length (3 bytes, little endian), sequence number (1), payload; a payload of
2**24 - 1 bytes goes on in the next packet. One payload is a row, until one that begins with 0xFE
and is short (the end), or with 0xFF (an error).
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import types

from cdc.kernels.compile import kernel, small
from cdc.kernels.memory import load8, load32, move, store32

I64 = types.int64

# What ended a call, beside the end of the bytes.
MORE: Final = 0
END: Final = 1  # the rows are over; the payload of the last packet is given
ERROR: Final = 2  # the server gave up; the same
BAD_SEQUENCE: Final = 3
JOINED: Final = 4  # a row of several packets, which must be the last of its block
TOO_LARGE: Final = 5  # a row of 2 GiB or more

_LARGEST = 0xFFFFFF
_END_BYTES = 9
_MOST = (1 << 31) - 1


@small
def _packet(buf, at, hi):  # type: ignore[no-untyped-def]
    # (payload length, sequence number), or -1 if the packet goes on behind hi.
    if at + 4 > hi:
        return np.int64(-1), np.int64(0)
    head = load32(buf, at)
    n = head & _LARGEST
    if at + 4 + n > hi:
        return np.int64(-1), np.int64(0)
    return n, head >> 24


@kernel(types.UniTuple(I64, 6)(types.uint8[::1], I64, I64, I64))
def take_rows(buf, at, hi, sequence):  # type: ignore[no-untyped-def]
    """Turn whole packets of ``buf[at:hi]`` into rows: a length of 4 bytes, then the payload.

    ``at`` begins a packet, which must have the number ``sequence``. Returns ``(done, raw, next
    sequence, rows, code, payload)``: rows lie in ``[at, done)``, bytes that were not taken begin
    at ``raw`` (a gap between them is left by JOINED). With END and ERROR ``payload`` is the length
    of the last packet's payload, which ends at ``raw``.
    """
    rows = np.int64(0)
    while True:
        n, number = _packet(buf, at, hi)
        if n < 0:
            return at, at, sequence, rows, MORE, 0
        if number != sequence:
            return at, at, sequence, rows, BAD_SEQUENCE, 0
        if n < _LARGEST:
            first = load8(buf, at + 4) if n > 0 else np.int64(0)
            sequence = (sequence + 1) & 255
            if first == 0xFF or (first == 0xFE and n < _END_BYTES):
                code = ERROR if first == 0xFF else END
                return at, at + 4 + n, sequence, rows, code, n
            store32(buf, at, n)
            at += 4 + n
            rows += 1
            continue
        # A long row is touched only when all of it is here.
        raw = at
        following = sequence
        while n == _LARGEST:
            raw += 4 + n
            following = (following + 1) & 255
            n, number = _packet(buf, raw, hi)
            if n < 0:
                return at, at, sequence, rows, MORE, 0
            if number != following:
                return raw, raw, following, rows, BAD_SEQUENCE, 0
        stop = raw + 4 + n
        done = at + 4
        raw = at
        while raw < stop:
            n = load32(buf, raw) & _LARGEST
            move(buf, raw + 4, done, n)
            done += n
            raw += 4 + n
        if done - at - 4 > _MOST:
            return at, at, sequence, rows, TOO_LARGE, 0
        store32(buf, at, done - at - 4)
        return done, stop, (following + 1) & 255, rows + 1, JOINED, 0
