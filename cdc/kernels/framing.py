"""What stands around a message: a Kafka record, or a line end.

Record framing: https://kafka.apache.org/documentation/#record
"""

from __future__ import annotations

import numpy as np

from cdc.kernels.compile import small
from cdc.kernels.memory import move, store8

RECORDS, LINES, CRLF_LINES = 0, 1, 2


@small
def varint_size(v):  # type: ignore[no-untyped-def]
    """Bytes of a signed integer as a zigzag varint."""
    u = np.uint64((v << 1) ^ (v >> 63))
    n = 1
    while u >= np.uint64(128):
        u >>= np.uint64(7)
        n += 1
    return n


@small
def _put_varint(v, out, o):  # type: ignore[no-untyped-def]
    u = np.uint64((v << 1) ^ (v >> 63))
    while u >= np.uint64(128):
        store8(out, o, np.int64(u & np.uint64(127) | np.uint64(128)))
        o += 1
        u >>= np.uint64(7)
    store8(out, o, np.int64(u))
    return o + 1


@small
def _put_head(out, record, total, delta, number):  # type: ignore[no-untyped-def]
    # A record up to its key.
    p = _put_varint(total, out, record)
    store8(out, p, 0)
    p = _put_varint(delta, out, p + 1)
    return _put_varint(number, out, p)


@small
def frame(out, record, value, o, delta, number):  # type: ignore[no-untyped-def]
    """Put the record's header before the value at ``out[value:o]``; returns the record's end.

    The key is null: a format without keys does not pay for their cases. The value is moved where
    ``value`` was a wrong guess of its place.
    """
    size = o - value
    around = 1 + varint_size(delta) + varint_size(number) + 1
    total = around + varint_size(size) + size + 1
    start = record + varint_size(total) + around + varint_size(size)
    if start != value:
        move(out, value, start, size)
    p = _put_head(out, record, total, delta, number)
    store8(out, p, 1)
    _put_varint(size, out, p + 1)
    store8(out, start + size, 0)
    return start + size + 1


@small
def frame_keyed(out, record, key, key_size, value, value_size, delta, number):  # type: ignore[no-untyped-def]
    """Put a record around key and value, which lie in ``out`` behind ``record`` in this order.

    A size of -1 is null. Both are moved where their places were wrong guesses. Returns the
    record's end and where its key begins.
    """
    key_bytes, value_bytes = max(key_size, np.int64(0)), max(value_size, np.int64(0))
    total = 1 + varint_size(delta) + varint_size(number) + 1
    total += varint_size(key_size) + key_bytes + varint_size(value_size) + value_bytes
    p = record + varint_size(total) + 1 + varint_size(delta) + varint_size(number)
    key_at = p + varint_size(key_size)
    value_at = key_at + key_bytes + varint_size(value_size)
    if value_at > value:
        move(out, value, value_at, value_bytes)
    if key_bytes > 0 and key_at != key:
        move(out, key, key_at, key_bytes)
    if value_at < value:
        move(out, value, value_at, value_bytes)
    p = _put_head(out, record, total, delta, number)
    _put_varint(key_size, out, p)
    _put_varint(value_size, out, key_at + key_bytes)
    store8(out, value_at + value_bytes, 0)
    return value_at + value_bytes + 1, key_at


@small
def value_place(record, lengths, delta, number):  # type: ignore[no-untyped-def]
    """Where the value of a record without a key begins, if its length varints take ``lengths``.

    Given those of the record's own length alone: where a key of up to 63 bytes begins.
    """
    return record + lengths + 2 + varint_size(delta) + varint_size(number)


@small
def end_line(out, o, mode):  # type: ignore[no-untyped-def]
    """A line end of LINES or CRLF_LINES; returns the new ``o``."""
    if mode == CRLF_LINES:
        store8(out, o, 13)
        o += 1
    store8(out, o, 10)
    return o + 1
