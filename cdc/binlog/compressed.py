"""MariaDB's compressed events (``log_bin_compress``) as the plain events that they stand for.

A compressed block: one byte ``0x80 | algorithm << 4 | n`` (algorithm 0: zlib), ``n`` bytes of
uncompressed length, big endian, then the zlib stream.
https://mariadb.com/kb/en/compressing-events-to-reduce-size-of-the-binary-log/
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.binlog.rows_header import RowsHeader

PLAIN: dict[int, EventType] = {
    EventType.MARIADB_QUERY_COMPRESSED: EventType.QUERY,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: EventType.WRITE_ROWS,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: EventType.UPDATE_ROWS,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: EventType.DELETE_ROWS,
}
_LARGEST = 1 << 31


def decompress_block(block: bytes, what: str) -> bytes:
    """The bytes that a compressed block stands for."""
    cursor = Cursor(block, what)
    first = cursor.uint(1, "compression head")
    size = first & 0x07
    if not first & 0x80 or first & 0x70 or not 1 <= size <= 4:
        raise EventMalformed(f"{what}: compression head 0x{first:02x} is not known")
    length = int.from_bytes(cursor.take(size, "uncompressed length"), "big")
    if length > _LARGEST:
        raise EventMalformed(f"{what}: {length} uncompressed bytes are too many")
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(cursor.rest(), length + 1)
    except zlib.error as error:
        raise EventMalformed(f"{what}: {error}") from None
    if len(data) != length or not stream.eof:
        raise EventMalformed(f"{what}: does not decompress to the {length} bytes it announces")
    return data


def plain_event(event: bytes, *, trailer: int) -> bytes:
    """The plain form of a whole compressed event, ``trailer`` (0 or 4) bytes of checksum included.

    The type, the length and the checksum become those of the plain event; the next position
    stays that of the compressed one, as the server does when it decompresses for a replica.
    """
    header = EventHeader.parse(event)
    plain = PLAIN.get(header.type_code)
    if plain is None:
        raise EventMalformed(f"event type {header.type_code} is not a compressed one")
    what = EventType(header.type_code).name
    body = event[HEADER_LENGTH : len(event) - trailer]
    at = _query_text_at(body) if plain is EventType.QUERY else _rows_at(header.type_code, body)
    whole = body[:at] + decompress_block(body[at:], what)
    length = HEADER_LENGTH + len(whole) + trailer
    out = replace(header, type_code=int(plain), length=length).encode() + whole
    return out + checksum(out) if trailer == CHECKSUM_LENGTH else out


def _query_text_at(body: bytes) -> int:
    cursor = Cursor(body, "MARIADB_QUERY_COMPRESSED")
    cursor.take(8, "thread id and execution time")
    schema_length = cursor.uint(1, "schema length")
    cursor.take(2, "error code")
    cursor.take(cursor.uint(2, "status length"), "status variables")
    cursor.take(schema_length + 1, "schema")
    return cursor.at


def _rows_at(code: int, body: bytes) -> int:
    return RowsHeader.parse(code, body).rows_at
