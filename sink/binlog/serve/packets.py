"""The client protocol from the server's side: packets, login, answers as text.

https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
from collections.abc import Sequence

_MOST = 0xFFFFFF
_UTF8MB4 = 45
_AUTOCOMMIT = 2
_VAR_STRING = 253
_PLUGIN = b"mysql_native_password"
# Long password and flags, database at connect, 4.1, transactions, long passwords' form, plugins.
_CAPABILITIES = 1 | 4 | 8 | 0x200 | 0x2000 | 0x8000 | 0x80000
_NONCE_BYTES = 20
# Refused before they are read: nobody who replicates sends as much.
_LONGEST = 1 << 20


class PeerGone(Exception):
    """The other side has closed the connection, or says what no client says."""


class PacketStream:
    """Packets over a socket, numbered from each command on."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._next = 0

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

    def ok(self) -> None:
        """Done."""
        self.send(b"\0\0\0" + _AUTOCOMMIT.to_bytes(2, "little") + b"\0\0")

    def end(self) -> None:
        """EOF: no more rows, or events."""
        self.send(b"\xfe\0\0" + _AUTOCOMMIT.to_bytes(2, "little"))

    def error(self, code: int, text: str, state: str = "HY000") -> None:
        """An error."""
        self.send(b"\xff" + code.to_bytes(2, "little") + f"#{state}{text}".encode())

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """A result of texts."""
        self.send(bytes([len(columns)]))
        for name in columns:
            fixed = _UTF8MB4.to_bytes(2, "little") + (1024).to_bytes(4, "little")
            fixed += bytes([_VAR_STRING]) + bytes(5)
            parts = (b"def", b"", b"", b"", name.encode(), name.encode())
            self.send(b"".join(map(_text, parts)) + bytes([len(fixed)]) + fixed)
        self.end()
        for row in rows:
            self.send(b"".join(b"\xfb" if v is None else _text(v.encode()) for v in row))
        self.end()

    def login(self, version: str, user: str, password: str) -> bool:
        """Greet, and say whether the client is the user."""
        nonce = bytes(1 + byte % 127 for byte in os.urandom(_NONCE_BYTES))
        low, high = (n.to_bytes(2, "little") for n in (_CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16))
        self.send(
            b"\x0a" + version.encode() + b"\0" + (1).to_bytes(4, "little") + nonce[:8] + b"\0"
            + low + bytes([_UTF8MB4]) + _AUTOCOMMIT.to_bytes(2, "little") + high
            + bytes([_NONCE_BYTES + 1]) + bytes(10) + nonce[8:] + b"\0" + _PLUGIN + b"\0"
        )  # fmt: skip
        answer = self.read()
        name, behind, rest = answer[32:].partition(b"\0")
        if not behind or len(answer) < 34:
            raise PeerGone
        given = rest[1 : 1 + rest[0]] if rest else b""
        if _PLUGIN not in rest[len(given) :]:
            self.send(b"\xfe" + _PLUGIN + b"\0" + nonce + b"\0")
            given = self.read()
        wanted = _scrambled(password, nonce)
        # Both are compared, so that time says nothing of which was wrong.
        right = hmac.compare_digest(given, wanted) & hmac.compare_digest(name, user.encode())
        if right:
            self.ok()
        else:
            self.error(1045, "Access denied", "28000")
        return bool(right)

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            data = self._peer.recv(length - len(found))
            if not data:
                raise PeerGone
            found += data
        return bytes(found)


def _scrambled(password: str, nonce: bytes) -> bytes:
    """What a client that knows the password answers (the protocol's own use of SHA-1)."""
    if not password:
        return b""
    first = hashlib.sha1(password.encode(), usedforsecurity=False).digest()
    second = hashlib.sha1(first, usedforsecurity=False).digest()
    mask = hashlib.sha1(nonce + second, usedforsecurity=False).digest()
    return bytes(a ^ b for a, b in zip(first, mask, strict=True))


def _text(data: bytes) -> bytes:
    if len(data) < 251:
        return bytes([len(data)]) + data
    return b"\xfc" + len(data).to_bytes(2, "little") + data
