"""JSON lines that carry their own CRC-32.

A line is ``{"crc32":"1a2b3c4d",…}`` and a newline. The CRC is that of the same object without
the ``crc32`` member, so the file stays readable by any JSON tool and every flipped bit, also one
of the CRC's own digits or of the newline, makes the line invalid.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

_HEAD = b'{"crc32":"'
_BODY_AT = len(_HEAD) + 10


class Line(NamedTuple):
    """One complete line: its range in the file, and its object's bytes or None if invalid."""

    start: int
    end: int
    body: bytes | None

    def parse(self) -> dict[str, Any]:
        """The object; the line must be valid."""
        if self.body is None:
            raise ValueError("line is not valid")
        value: dict[str, Any] = json.loads(self.body)
        return value


def encode(value: dict[str, Any]) -> bytes:
    """The line of a non-empty object."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
    return _HEAD + b"%08x" % zlib.crc32(body) + b'",' + body[1:] + b"\n"


def _body(line: bytes) -> bytes | None:
    if not line.startswith(_HEAD) or line[_BODY_AT - 2 : _BODY_AT] != b'",':
        return None
    body = b"{" + line[_BODY_AT:]
    # Compared as text, because hexadecimal digits have two cases.
    return body if line[len(_HEAD) : _BODY_AT - 2] == b"%08x" % zlib.crc32(body) else None


def scan(data: bytes, start: int = 0) -> Iterator[Line]:
    """The newline-terminated lines of ``data``; ``start`` is the file offset of its first byte.

    What follows the last newline is a torn tail and is not returned.
    """
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        yield Line(start + at, start + end + 1, _body(data[at:end]))
        at = end + 1
