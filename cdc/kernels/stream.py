"""Splitting a replication stream: packet headers are taken out, event bytes stay contiguous.

Packet: payload length (3 bytes, little endian), sequence number (1), payload. A payload of
2**24 - 1 bytes goes on in the next packet. The first byte of a message is 0 before an event, 0xFE
at the end of the stream, 0xFF before an error.
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
"""

from __future__ import annotations

from typing import Final

from numba import types

from cdc.kernels.compile import kernel
from cdc.kernels.crc import BYTES, HEADER, LENGTH_AT
from cdc.kernels.memory import copy, load8, load32

I64 = types.int64

SEQUENCE: Final = 0  # number that the next packet must have
HEADER_BYTES: Final = 1  # bytes of the packet header that were read
LENGTH: Final = 2  # payload length and sequence number as read so far
LEFT: Final = 3  # payload bytes of the packet that are still to come
STARTED: Final = 4  # 1 once the status byte of the message was read
STATUS: Final = 5
CONTINUED: Final = 6  # 1 if the packet's payload goes on in the next packet
WHOLE: Final = 7  # end of the last whole event in the output
FILLED: Final = 8  # end of the bytes in the output
EVENTS: Final = 9
STATE_SIZE: Final = 10

DONE: Final = 0  # all input was taken
ROOM: Final = 1  # the output is full; the input goes on at the returned offset
END_OF_STREAM: Final = 2
SERVER_ERROR: Final = 3  # the message lies in [WHOLE, FILLED)
BAD_SEQUENCE: Final = 4
BAD_STATUS: Final = 5
BAD_LENGTH: Final = 6  # an event whose length is not that of its message

_LARGEST = 0xFFFFFF


@kernel(
    types.UniTuple(I64, 2)(BYTES, I64, I64, types.int64[::1], types.uint8[::1]),
    counted=True,
)
def split(source, lo, hi, state, out):  # type: ignore[no-untyped-def]
    """Take packets from ``source[lo:hi]``, append event bytes at ``out[state[FILLED]]``.

    Packets and events may be cut anywhere between calls; ``state`` int64[STATE_SIZE] carries on.
    Returns ``(next, code)``: the offset of the first byte not taken, and one of the codes above.
    """
    if lo < 0 or hi > source.size or state.size < STATE_SIZE:
        return lo, BAD_LENGTH
    p = lo
    filled = state[FILLED]
    if filled < 0 or filled > out.size or state[WHOLE] < 0 or state[WHOLE] > filled:
        return lo, BAD_LENGTH
    while True:
        if state[HEADER_BYTES] < 4:
            while p < hi and state[HEADER_BYTES] < 4:
                state[LENGTH] |= load8(source, p) << (8 * state[HEADER_BYTES])
                state[HEADER_BYTES] += 1
                p += 1
            if state[HEADER_BYTES] < 4:
                break
            if state[LENGTH] >> 24 != state[SEQUENCE]:
                return p, BAD_SEQUENCE
            state[SEQUENCE] = (state[SEQUENCE] + 1) & 255
            state[LEFT] = state[LENGTH] & _LARGEST
            state[CONTINUED] = state[LEFT] == _LARGEST
        if state[STARTED] == 0:
            if state[LEFT] == 0:
                return p, BAD_STATUS
            if p >= hi:
                break
            state[STATUS] = load8(source, p)
            p += 1
            state[LEFT] -= 1
            state[STARTED] = 1
            if state[STATUS] != 0 and state[STATUS] < 0xFE:
                return p, BAD_STATUS
        n = min(state[LEFT], hi - p)
        room = out.size - filled
        if n > room:
            n = room
        if n > 0:
            copy(source, p, out, filled, n)
            p += n
            filled += n
            state[LEFT] -= n
            state[FILLED] = filled
        if state[LEFT] > 0:
            if p < hi:
                return p, ROOM
            break
        state[HEADER_BYTES] = 0
        state[LENGTH] = 0
        if state[CONTINUED]:
            continue
        state[STARTED] = 0
        if state[STATUS] == 0xFE:
            return p, END_OF_STREAM
        if state[STATUS] == 0xFF:
            return p, SERVER_ERROR
        size = filled - state[WHOLE]
        if size < HEADER or load32(out, state[WHOLE] + LENGTH_AT) != size:
            return p, BAD_LENGTH
        state[WHOLE] = filled
        state[EVENTS] += 1
    return p, DONE
