"""TRANSACTION_PAYLOAD (MySQL 8.0.20+): the events of a transaction, compressed as one.

Fields of (type, length, value) before the payload: 1 payload size, 2 algorithm (0 zstd, 255 none),
3 uncompressed size, 0 end. Events inside have no checksum, and 0 as next position.
https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Transaction__payload__event.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import zstandard

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed
from cdc.binlog.header import HEADER_LENGTH, EventHeader

_CHUNK = 1 << 20
_LARGEST_EVENT = 1 << 31


class Compression(IntEnum):
    """Algorithms."""

    ZSTD = 0
    NONE = 255


@dataclass(frozen=True, slots=True)
class PayloadHeader:
    """``at`` is the offset of the payload in the body, ``size`` its bytes as they stand."""

    compression: Compression
    size: int
    uncompressed_size: int
    at: int

    @classmethod
    def parse(cls, body: bytes) -> PayloadHeader:
        """From the start of a body; the payload need not be there yet."""
        cursor = Cursor(body, "TRANSACTION_PAYLOAD")
        size = uncompressed = -1
        algorithm = int(Compression.NONE)
        while (field := cursor.lenenc("field type")) != 0:
            value = Cursor(cursor.lenenc_bytes("field"), "TRANSACTION_PAYLOAD field")
            if field == 1:
                size = value.lenenc("payload size")
            elif field == 2:
                algorithm = value.lenenc("algorithm")
            elif field == 3:
                uncompressed = value.lenenc("uncompressed size")
        if algorithm not in (Compression.ZSTD, Compression.NONE):
            raise EventMalformed(f"TRANSACTION_PAYLOAD: compression {algorithm} is not known")
        if size < 0:
            raise EventMalformed("TRANSACTION_PAYLOAD does not say its size")
        if uncompressed < 0:
            uncompressed = size
        return cls(Compression(algorithm), size, uncompressed, cursor.at)


def payload_events(body: bytes) -> Iterator[bytes]:
    """Each event inside, header and body without checksum.

    Memory is bounded by one chunk and the largest event inside, whatever the payload's size.
    Raises :class:`EventMalformed` where compression or lengths are wrong.
    """
    head = PayloadHeader.parse(body)
    if head.at + head.size > len(body):
        raise EventMalformed(
            f"TRANSACTION_PAYLOAD: {head.size} bytes of payload, {len(body) - head.at} are there"
        )
    payload = memoryview(body)[head.at : head.at + head.size]
    yield from split_events(decompressed(head.compression, payload), head.uncompressed_size)


def decompressed(compression: Compression, payload: memoryview) -> Iterator[bytes]:
    """The payload in pieces of about 1 MiB."""
    if compression is Compression.NONE:
        for at in range(0, len(payload), _CHUNK):
            yield bytes(payload[at : at + _CHUNK])
        return
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 30).stream_reader(
        payload, read_across_frames=True
    )
    try:
        while piece := reader.read(_CHUNK):
            yield piece
    except zstandard.ZstdError as error:
        raise EventMalformed(f"TRANSACTION_PAYLOAD: {error}") from None


def split_events(pieces: Iterator[bytes], expected: int) -> Iterator[bytes]:
    """Cut a stream of bytes into events by the lengths in their headers."""
    kept = bytearray()
    total = 0
    for piece in pieces:
        total += len(piece)
        kept += piece
        at = 0
        while len(kept) - at >= HEADER_LENGTH:
            length = EventHeader.parse(kept, at).length
            if not HEADER_LENGTH <= length <= _LARGEST_EVENT:
                raise EventMalformed(f"TRANSACTION_PAYLOAD: an event of {length} bytes inside")
            if len(kept) - at < length:
                break
            yield bytes(kept[at : at + length])
            at += length
        del kept[:at]
    if kept:
        raise EventMalformed("TRANSACTION_PAYLOAD ends inside an event")
    if total != expected:
        raise EventMalformed(f"TRANSACTION_PAYLOAD: {total} bytes where {expected} were announced")
