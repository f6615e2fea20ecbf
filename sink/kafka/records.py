"""The records of a Kafka batch (format v2) written in Python, for the few that are not hot.

Format: https://kafka.apache.org/documentation/#record: length, attributes, timestamp delta, offset
delta, key, value, headers; numbers are zig-zag varints, length -1 means null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

HEADER_BYTES = 61
Bytes = bytes | bytearray | memoryview


class SmallRecord(NamedTuple):
    """Key and value of one message; ``None`` is null."""

    key: bytes | None
    value: bytes | None


def frame(records: Sequence[SmallRecord]) -> bytes:
    """Records region of one batch; all have the batch's first timestamp."""
    return b"".join(_record(delta, record) for delta, record in enumerate(records))


def varint(value: int) -> bytes:
    """Zig-zag varint of a signed 64-bit integer."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _record(offset_delta: int, record: SmallRecord) -> bytes:
    body = b"\x00\x00" + varint(offset_delta) + _blob(record.key) + _blob(record.value) + b"\x00"
    return varint(len(body)) + body


def _blob(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
