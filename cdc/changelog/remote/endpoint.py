"""Serves the logs of a capture to workers that do not see its data directory: HTTP byte ranges.

A connection and a thread for each worker. Bytes go from the page cache to the socket without coming
to Python (``sendfile``), or by TLS. Who has no token of an upstream learns nothing of it.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol

from cdc.base import measures
from cdc.base.errors import TidegateError
from cdc.base.parts import Parts
from cdc.changelog import origin
from cdc.changelog.remote import served
from cdc.changelog.remote.access import LogAccess, token
from cdc.changelog.remote.mirror import tag_of

_log = logging.getLogger("log-server")
_RANGE = re.compile(r"bytes=(\d{1,19})-(\d{1,19})?\Z")
# A worker answers at once; one that waits for its next window is silent for long.
_STRANGER_S = 10.0
_IDLE_S = 3600.0
_PIECE = 1 << 20
_BODY_MAX = 4096


class Slots(Protocol):
    """Hands out numbers to workers that cannot hold locks here themselves."""

    def claim(self, folder: Path, count: int) -> int:
        """A number below ``count`` that nobody has; raises an error of ours if there is none."""

    def release(self, folder: Path, number: int) -> None:
        """Its worker does not need it any more."""


class LogEndpoint:
    """Serves what lies below ``root`` on a listening socket; ``host`` and ``port`` are as seen.

    ``tls`` with the SHA-256 of its certificate, or neither.
    """

    def __init__(
        self,
        root: Path,
        listener: socket.socket,
        host: str,
        port: int,
        slots: Slots,
        parts: Parts,
        tls: tuple[ssl.SSLContext, str] | None = None,
        *,
        cache_bytes: int = 2 << 30,
    ) -> None:
        self.root = root.absolute()
        self.slots = slots
        self._host, self._port = host, port
        self._listener = listener
        self._tls = tls
        self._cache_bytes = cache_bytes
        self._secret = secrets.token_bytes(32)
        self._stopping = threading.Event()
        self._parts = parts
        self._part = parts.make("log-server", self._accept, self._stopping)
        self._peers: set[socket.socket] = set()
        self._guard = threading.Lock()

    def start(self) -> None:
        """Begin to serve."""
        self._part.start()

    def stop(self) -> None:
        """End all connections."""
        self._stopping.set()
        # A close alone would leave who waits in accept() with the port.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._part.join(2.0)
        self._listener.close()
        with self._guard:
            for peer in self._peers:
                with suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def access(self, folder: Path) -> LogAccess:
        """How a worker reads the log of a folder, and those of its nodes. Raises LogCorrupt."""
        found = origin.load(folder)
        root = str(self.root)
        upstream = Path(os.path.relpath(folder.absolute(), root)).parts[0]
        certificate = self._tls[1] if self._tls else ""
        return LogAccess(
            self._host, self._port, root, found.log if found else "",
            token(self._secret, upstream), certificate, self._cache_bytes,
        )  # fmt: skip

    def opens(self, given: str, upstream: str) -> bool:
        """Whether a token opens what is of an upstream."""
        expected = token(self._secret, upstream)
        return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())

    def _accept(self) -> bool:
        try:
            peer, address = self._listener.accept()
        except OSError:
            if self._stopping.is_set():
                return False
            raise
        with self._guard:
            self._peers.add(peer)
        threading.Thread(
            target=self._serve, args=(peer, address), name="log-server", daemon=True
        ).start()
        return True

    def _serve(self, peer: socket.socket, address: Any) -> None:
        spoken = peer
        try:
            peer.settimeout(_STRANGER_S)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with suppress(OSError):
                if self._tls is not None:
                    spoken = self._tls[0].wrap_socket(peer, server_side=True)
                _Requests(spoken, address, self)
        finally:
            with self._guard:
                self._peers.discard(peer)
            with suppress(OSError):
                spoken.close()


class _Requests(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = _STRANGER_S

    def __init__(self, peer: socket.socket, address: Any, endpoint: LogEndpoint) -> None:
        self._endpoint = endpoint
        super().__init__(peer, address, endpoint)  # type: ignore[arg-type]

    def version_string(self) -> str:
        """What is said of the server."""
        return "tidegate"

    def log_message(self, format: str, *args: Any) -> None:
        """One line a request would be one a window and worker."""

    def do_GET(self) -> None:
        """A range of a file, or the names of a folder of schemas."""
        found = served.readable(self.path[1:])
        if not self._may(found) or found is None:
            return
        path = self._endpoint.root / self.path[1:]
        if self.path.endswith("/"):
            listed = [p.name for p in path.glob("*.json")]
            self._say(HTTPStatus.OK, json.dumps(listed).encode())
            return
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError):
            self._say(HTTPStatus.NOT_FOUND)
            return
        with open(fd, "rb", buffering=0) as file:
            self._send_range(file, found.upstream)

    def do_POST(self) -> None:
        """Claim a slot."""
        found = served.slots(self.path[1:])
        if not self._may(found) or found is None:
            return
        body = self._body()
        if body is None or found.number is not None:
            self._say(HTTPStatus.BAD_REQUEST)
            return
        folder = (self._endpoint.root / self.path[1:]).parent
        self._answer(lambda: {"number": self._endpoint.slots.claim(folder, int(body["count"]))})

    def do_DELETE(self) -> None:
        """Release a slot."""
        found = served.slots(self.path[1:])
        if not self._may(found) or found is None:
            return
        number = found.number
        if self._body() is None or number is None:
            self._say(HTTPStatus.BAD_REQUEST)
            return
        folder = (self._endpoint.root / self.path[1:]).parent.parent

        def release() -> dict[str, Any]:
            self._endpoint.slots.release(folder, number)
            return {}

        self._answer(release)

    def do_PUT(self) -> None:
        """A chunk of a table's rows; its folder must be there, as a copy that goes on has it."""
        found = served.chunk(self.path[1:])
        if not self._may(found):
            return
        left = self._length()
        path = self._endpoint.root / self.path[1:]
        try:
            fd, made = tempfile.mkstemp(dir=path.parent)
        except FileNotFoundError:
            self._say(HTTPStatus.NOT_FOUND)
            self.close_connection = True
            return
        try:
            with open(fd, "wb") as file:
                while left:
                    piece = self.rfile.read(min(left, _PIECE))
                    if not piece:
                        raise ConnectionResetError
                    file.write(piece)
                    left -= len(piece)
            os.replace(made, path)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
        self._say(HTTPStatus.OK)

    def _may(self, found: served.Served | None) -> bool:
        """Whether the path is one that is served, and the token opens it; answers if not."""
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        upstream = found.upstream if found else ""
        right = kind == "Bearer" and self._endpoint.opens(given, upstream)
        if found is not None and right:
            self.connection.settimeout(_IDLE_S)
            return True
        peer = self.client_address[0]
        measures.REFUSED_READS.inc()
        _log.warning("%s asked for what its token does not open", peer)
        self._say(HTTPStatus.FORBIDDEN)
        # A body that was not read would be taken for the next request.
        self.close_connection = True
        return False

    def _send_range(self, file: Any, upstream: str) -> None:
        size = os.fstat(file.fileno()).st_size
        lo, hi, status = 0, size, HTTPStatus.OK
        asked = _RANGE.match(self.headers.get("Range", ""))
        wanted = self.headers.get("If-Range")
        if asked is not None and (wanted is None or wanted == f'"{_tag(file)}"'):
            lo, status = int(asked[1]), HTTPStatus.PARTIAL_CONTENT
            hi = min(size, int(asked[2]) + 1 if asked[2] else size)
            if lo >= hi:
                self._say(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                return
        measures.SERVED_BYTES.labels(upstream).inc(hi - lo)
        self.send_response(status)
        self.send_header("Content-Length", str(hi - lo))
        if status is HTTPStatus.PARTIAL_CONTENT:
            self.send_header("Content-Range", f"bytes {lo}-{hi - 1}/{size}")
        self.end_headers()
        if isinstance(self.connection, ssl.SSLSocket):
            while lo < hi:
                piece = os.pread(file.fileno(), min(_PIECE, hi - lo), lo)
                if not piece:
                    break
                self.connection.sendall(piece)
                lo += len(piece)
        elif hi > lo:
            lo += self.connection.sendfile(file, lo, hi - lo)
        # What is cut meanwhile cannot be sent any more: the worker must not wait for it.
        self.close_connection = self.close_connection or lo < hi

    def _length(self) -> int:
        said = self.headers.get("Content-Length", "")
        return int(said) if said.isascii() and said.isdigit() else 0

    def _body(self) -> dict[str, Any] | None:
        length = self._length()
        if not 0 < length <= _BODY_MAX:
            self.close_connection = True
            return None
        try:
            value = json.loads(self.rfile.read(length))
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _answer(self, work: Callable[[], dict[str, Any]]) -> None:
        try:
            self._say(HTTPStatus.OK, json.dumps(work()).encode())
        except TidegateError as error:
            self._say(HTTPStatus.CONFLICT, json.dumps(error.to_dict()).encode())
        except (KeyError, TypeError, ValueError):
            self._say(HTTPStatus.BAD_REQUEST)

    def _say(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _tag(file: Any) -> str:
    return tag_of(os.pread(file.fileno(), 64, 0))
