"""The 19 bytes that begin every event, and the CRC-32 that may end it."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from cdc.binlog.errors import EventChecksumBad, EventTruncated

HEADER_LENGTH = 19
CHECKSUM_LENGTH = 4
MAGIC = b"\xfebin"

_LAYOUT = struct.Struct("<IBIIIH")

FLAG_BINLOG_IN_USE = 0x0001
FLAG_THREAD_SPECIFIC = 0x0004
FLAG_SUPPRESS_USE = 0x0008
FLAG_ARTIFICIAL = 0x0020
FLAG_RELAY_LOG = 0x0040
FLAG_IGNORABLE = 0x0080
FLAG_SKIP_REPLICATION = 0x8000


@dataclass(frozen=True, slots=True)
class EventHeader:
    """``timestamp`` in seconds since the epoch; ``length`` of the whole event in bytes.

    ``next_position`` is 32 bits wide and wraps in files past 4 GiB; inside a TRANSACTION_PAYLOAD
    and in relayed events it is 0 or the position in another file.
    """

    timestamp: int
    type_code: int
    server_id: int
    length: int
    next_position: int
    flags: int

    @classmethod
    def parse(cls, data: bytes | bytearray, at: int = 0) -> EventHeader:
        """The header at ``data[at:at + 19]``; :class:`EventTruncated` if there are fewer bytes."""
        if at < 0 or at + HEADER_LENGTH > len(data):
            raise EventTruncated(
                f"an event header needs {HEADER_LENGTH} bytes, {max(0, len(data) - at)} are left"
            )
        return cls(*_LAYOUT.unpack_from(data, at))

    def encode(self) -> bytes:
        """The 19 bytes."""
        return _LAYOUT.pack(
            self.timestamp,
            self.type_code,
            self.server_id,
            self.length,
            self.next_position & 0xFFFFFFFF,
            self.flags,
        )


def checksum(event_without_crc: bytes) -> bytes:
    """The four bytes that end an event: CRC-32 of everything before them, little endian."""
    return zlib.crc32(event_without_crc).to_bytes(CHECKSUM_LENGTH, "little")


def check_checksum(event: bytes, *, position: str = "") -> None:
    """Raise :class:`EventChecksumBad` unless the last four bytes are the CRC-32 of the rest.

    The flag "binlog in use" of a FORMAT_DESCRIPTION is set and cleared in place by the server
    after the CRC was computed, so it counts as cleared.
    """
    if len(event) < HEADER_LENGTH + CHECKSUM_LENGTH:
        raise EventTruncated("the event is too short for a checksum", position=position)
    if zlib.crc32(_in_use_cleared(event)) != int.from_bytes(event[-CHECKSUM_LENGTH:], "little"):
        raise EventChecksumBad(
            "the checksum of the event does not match its bytes",
            position=position,
            hint="the bytes were changed after they were written; take the file from its source",
        )


_FORMAT_DESCRIPTION = 15
_FLAGS_AT = 17


def _in_use_cleared(event: bytes) -> bytes:
    body = event[:-CHECKSUM_LENGTH]
    if event[4] == _FORMAT_DESCRIPTION and event[_FLAGS_AT] & FLAG_BINLOG_IN_USE:
        changed = bytearray(body)
        changed[_FLAGS_AT] &= ~FLAG_BINLOG_IN_USE & 0xFF
        return bytes(changed)
    return bytes(body)
