"""FORMAT_DESCRIPTION: the first event of every file, which says how to read the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import Dialect, EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH

_VERSION_BYTES = 50
_NAME = "FORMAT_DESCRIPTION"


class ChecksumAlgorithm(IntEnum):
    """How events end."""

    NONE = 0
    CRC32 = 1


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """``post_header_lengths[t - 1]`` is the length of the fixed part of events of type ``t``.

    ``created`` is the time of the server's start that made the file, else 0.
    """

    binlog_version: int
    server_version: str
    created: int
    post_header_lengths: bytes
    checksum: ChecksumAlgorithm

    @property
    def dialect(self) -> Dialect:
        """Judged from the server version."""
        return Dialect.of(self.server_version)

    @property
    def trailer(self) -> int:
        """Bytes of checksum at the end of each event of the file."""
        return CHECKSUM_LENGTH if self.checksum is ChecksumAlgorithm.CRC32 else 0

    def post_header_length(self, code: int) -> int:
        """Fixed-part length of a type, 0 if the writer did not know the type."""
        if 1 <= code <= len(self.post_header_lengths):
            return self.post_header_lengths[code - 1]
        return 0

    @classmethod
    def parse(cls, body: bytes) -> FormatDescription:
        """From everything behind the header, the checksum included: it is there even if off."""
        cursor = Cursor(body, _NAME)
        binlog_version = cursor.uint(2, "binlog version")
        version_bytes = cursor.take(_VERSION_BYTES, "server version")
        created = cursor.uint(4, "creation time")
        header_length = cursor.uint(1, "header length")
        server_version = version_bytes.split(b"\0", 1)[0].decode("utf-8", "replace")
        if binlog_version != 4 or header_length != HEADER_LENGTH:
            raise EventMalformed(
                f"{_NAME}: binlog version {binlog_version} with headers of {header_length} bytes;"
                f" only version 4 with {HEADER_LENGTH} is supported",
                object=_NAME,
            )
        algorithm = ChecksumAlgorithm.NONE
        rest = cursor.rest()
        if writes_checksums(server_version):
            if len(rest) < 1 + CHECKSUM_LENGTH:
                raise EventMalformed(f"{_NAME} has no checksum algorithm", object=_NAME)
            code = rest[-1 - CHECKSUM_LENGTH]
            if code not in (0, 1):
                raise EventMalformed(
                    f"{_NAME}: checksum algorithm {code} is not known", object=_NAME
                )
            algorithm = ChecksumAlgorithm(code)
            rest = rest[: -1 - CHECKSUM_LENGTH]
        if len(rest) < EventType.FORMAT_DESCRIPTION:
            raise EventMalformed(f"{_NAME} lists only {len(rest)} event types", object=_NAME)
        return cls(binlog_version, server_version, created, rest, algorithm)

    def encode(self) -> bytes:
        """The body without the final CRC-32 (which a file always has here)."""
        version = self.server_version.encode()[: _VERSION_BYTES - 1].ljust(_VERSION_BYTES, b"\0")
        return (
            self.binlog_version.to_bytes(2, "little")
            + version
            + self.created.to_bytes(4, "little")
            + HEADER_LENGTH.to_bytes(1, "little")
            + self.post_header_lengths
            + int(self.checksum).to_bytes(1, "little")
        )


def version_number(server_version: str) -> tuple[int, int, int]:
    """``(8, 0, 33)`` of ``8.0.33-debug``; zeros where it does not parse."""
    found = re.match(r"(?:5\.5\.5-(?=1\d\.))?(\d+)\.(\d+)\.(\d+)", server_version)
    if found is None:
        return (0, 0, 0)
    return (int(found[1]), int(found[2]), int(found[3]))


def writes_checksums(server_version: str) -> bool:
    """Whether a server of this version ends FORMAT_DESCRIPTION with algorithm and CRC-32."""
    first = (5, 3, 0) if Dialect.of(server_version) is Dialect.MARIADB else (5, 6, 1)
    return version_number(server_version) >= first
