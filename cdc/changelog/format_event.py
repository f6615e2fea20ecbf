"""What a log needs to know of the FORMAT_DESCRIPTION event at the head of its segments."""

from __future__ import annotations

import zlib

from cdc.changelog.errors import LogOrderBroken

FORMAT_DESCRIPTION = 15
CHECKSUM_CRC32 = 1
_HEADER = 19
_TYPE_AT = 4
_LENGTH_AT = 9


def check_format(event: bytes) -> None:
    """Raise LogOrderBroken unless it is one FORMAT_DESCRIPTION event that announces CRC-32."""
    sound = (
        len(event) > _HEADER + 5
        and event[_TYPE_AT] == FORMAT_DESCRIPTION
        and int.from_bytes(event[_LENGTH_AT : _LENGTH_AT + 4], "little") == len(event)
        and event[-5] == CHECKSUM_CRC32
        and zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
    )
    if not sound:
        raise LogOrderBroken("not a FORMAT_DESCRIPTION event with checksum CRC32")


def same_format(a: bytes, b: bytes) -> bool:
    """Whether both announce the same; their headers and the server's start time may differ."""
    create_time_at = _HEADER + 2 + 50
    return _parts(a, create_time_at) == _parts(b, create_time_at)


def _parts(event: bytes, create_time_at: int) -> tuple[bytes, bytes]:
    return event[_HEADER:create_time_at], event[create_time_at + 4 : -4]


def first_event(head: bytes, at: int) -> bytes:
    """The event at ``at`` of a file's first bytes; it must lie in them wholly."""
    length = int.from_bytes(head[at + _LENGTH_AT : at + _LENGTH_AT + 4], "little")
    return head[at : at + length]
