"""The client protocol from the server's side: packets, and answers as text.

https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress

UTF8MB4 = 45
AUTOCOMMIT = 2
_MOST = 0xFFFFFF
# A packet's head, and the byte before an event that says that it is none of EOF and error.
_EVENT_HEAD = struct.Struct("<IB")
_VAR_STRING = 253
# Refused before they are read: nobody who replicates sends as much.
_LONGEST = 1 << 20


class PeerGone(Exception):
    """The other side has closed the connection, or says what no client says."""


class PacketStream:
    """Packets over a socket, numbered from each command on."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._next = 0

    def __enter__(self) -> PacketStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def secure(self, context: ssl.SSLContext) -> None:
        """Go on by TLS, as the server. Raises OSError if the client does not."""
        self._peer = context.wrap_socket(self._peer, server_side=True)

    def limit(self, seconds: float | None) -> None:
        """Wait so long for the other side, None for ever."""
        self._peer.settimeout(seconds)

    def shut(self) -> None:
        """End the connection, whoever waits for it."""
        with suppress(OSError):
            self._peer.shutdown(socket.SHUT_RDWR)

    def read(self) -> bytes:
        """The next packet. Raises PeerGone."""
        head = self._exactly(4)
        length = int.from_bytes(head[:3], "little")
        if length > _LONGEST:
            raise PeerGone
        self._next = head[3] + 1 & 0xFF
        return self._exactly(length)

    def command(self) -> bytes:
        """The next command: numbers begin anew."""
        self._next = 0
        return self.read()

    def send(self, body: bytes) -> None:
        """Send one packet, in as many parts as it needs. Raises OSError."""
        at, out = 0, bytearray()
        while True:
            part = body[at : at + _MOST]
            out += len(part).to_bytes(3, "little") + bytes([self._next]) + part
            self._next = self._next + 1 & 0xFF
            at += len(part)
            if len(part) < _MOST:
                break
        self._peer.sendall(out)

    def send_events(self, events: Sequence[bytes]) -> None:
        """Send each event as a packet, at once. Raises OSError."""
        out, number = bytearray(), self._next
        for event in events:
            if len(event) >= _MOST - 1:
                self._next = number
                self._peer.sendall(out)
                self.send(b"\0" + event)
                out, number = bytearray(), self._next
                continue
            out += _EVENT_HEAD.pack(len(event) + 1 | number << 24, 0)
            out += event
            number = number + 1 & 0xFF
        self._next = number
        self._peer.sendall(out)

    def ok(self) -> None:
        """Done."""
        self.send(b"\0\0\0" + AUTOCOMMIT.to_bytes(2, "little") + b"\0\0")

    def end(self) -> None:
        """EOF: no more rows, or events."""
        self.send(b"\xfe\0\0" + AUTOCOMMIT.to_bytes(2, "little"))

    def error(self, code: int, text: str, state: str = "HY000") -> None:
        """An error."""
        self.send(b"\xff" + code.to_bytes(2, "little") + f"#{state}{text}".encode())

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """A result of texts."""
        self.send(bytes([len(columns)]))
        for name in columns:
            fixed = UTF8MB4.to_bytes(2, "little") + (1024).to_bytes(4, "little")
            fixed += bytes([_VAR_STRING]) + bytes(5)
            parts = (b"def", b"", b"", b"", name.encode(), name.encode())
            self.send(b"".join(map(_text, parts)) + bytes([len(fixed)]) + fixed)
        self.end()
        for row in rows:
            self.send(b"".join(b"\xfb" if v is None else _text(v.encode()) for v in row))
        self.end()

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            data = self._peer.recv(length - len(found))
            if not data:
                raise PeerGone
            found += data
        return bytes(found)


def _text(data: bytes) -> bytes:
    if len(data) < 251:
        return bytes([len(data)]) + data
    return b"\xfc" + len(data).to_bytes(2, "little") + data
