"""Small valid binlog events, built with struct and zlib alone (independent of cdc.binlog)."""

from __future__ import annotations

import struct
import zlib

MAGIC = b"\xfebin"
QUERY = 2
FORMAT = 15
TABLE_MAP = 19
WRITE_ROWS = 30


def event(kind: int, body: bytes, *, seconds: int = 1_700_000_000, next_pos: int = 0) -> bytes:
    """One event with header and CRC-32."""
    length = 19 + len(body) + 4
    head = struct.pack("<IBIIIH", seconds, kind, 1, length, next_pos & 0xFFFFFFFF, 0)
    return head + body + struct.pack("<I", zlib.crc32(head + body))


def format_description() -> bytes:
    """A FORMAT_DESCRIPTION of version 4 with checksum algorithm CRC32."""
    body = struct.pack("<H50sIB", 4, b"10.11.0-test", 0, 19) + bytes(40) + b"\x01"
    return event(FORMAT, body)


def table_map(table: int, name: str) -> bytes:
    """A TABLE_MAP of one INT column (the changelog never looks inside)."""
    return event(TABLE_MAP, struct.pack("<IHH", table, 0, 0) + name.encode() + b"\x01\x03\x00\x00")


def rows(table: int, payload: bytes) -> bytes:
    """A WRITE_ROWS event carrying ``payload`` as its image."""
    return event(WRITE_ROWS, struct.pack("<IHHH", table, 0, 0, 2) + payload)


def query(text: str) -> bytes:
    """A QUERY event, the way a DDL travels."""
    return event(QUERY, struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\x00" + text.encode())
