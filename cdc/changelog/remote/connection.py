"""A worker's connection to the endpoint: one request after the other, plain or by TLS."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cdc.base.errors import from_dict
from cdc.changelog.remote.access import LogAccess
from cdc.changelog.remote.errors import LogAccessRefused, LogEndpointForeign, LogUnreachable

_TIMEOUT_S = 30.0
# In pieces of so many bytes what comes is written.
_PIECE = 1 << 20

Answered = TypeVar("Answered")


class LogConnection:
    """Requests of one worker; connects when it is first used, and again when it was cut."""

    def __init__(self, access: LogAccess) -> None:
        self.access = access
        self._lock = threading.Lock()
        self._http: http.client.HTTPConnection | None = None

    def tail(self, name: str, begin: int, tag: str) -> tuple[bool, bytes]:
        """Whether a file is another one than that of ``tag``, and its bytes from ``begin`` on.

        Of another one it is all bytes. Raises FileNotFoundError, and LogUnreachable or
        LogAccessRefused as all others.
        """
        headers = {"Range": f"bytes={begin}-", "If-Range": f'"{tag}"'} if tag else {}

        def read(answer: http.client.HTTPResponse) -> tuple[bool, bytes]:
            data = answer.read()
            return answer.status == 200, data if answer.status in (200, 206) else b""

        return self._ask("GET", name, headers, read)

    def whole(self, name: str) -> bytes:
        """All of a file, or of a folder's list. Raises FileNotFoundError."""
        return self._ask("GET", name, {}, lambda answer: answer.read())

    def part(self, name: str, lo: int, hi: int, take: Callable[[int, memoryview], None]) -> None:
        """Hand bytes ``[lo, hi)`` of a file to ``take``, with the offset of each piece.

        Raises FileNotFoundError.
        """

        def read(answer: http.client.HTTPResponse) -> None:
            piece = memoryview(bytearray(min(_PIECE, hi - lo)))
            at = lo
            while at < hi:
                got = answer.readinto(piece[: hi - at])
                if not got:
                    answer.close()
                    raise self._unreachable(f"{name} ends at {at}, and {hi} bytes are committed")
                take(at, piece[:got])
                at += got

        self._ask("GET", name, {"Range": f"bytes={lo}-{hi - 1}"}, read)

    def send(self, method: str, name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        """Send an object, and what is answered. Raises an error of ours that is answered."""
        body = json.dumps(value).encode()
        answered = self._ask(method, name, {}, lambda answer: answer.read(), body)
        found: dict[str, Any] = json.loads(answered or b"{}")
        return found

    def put(self, name: str, path: Path) -> None:
        """Send a file, which is there behind it as a whole or not at all."""
        with path.open("rb") as file:
            length = {"Content-Length": str(path.stat().st_size)}
            self._ask("PUT", name, length, lambda answer: answer.read(), file)

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._cut()

    def _ask(
        self,
        method: str,
        name: str,
        headers: dict[str, str],
        read: Callable[[http.client.HTTPResponse], Answered],
        body: Any = None,
    ) -> Answered:
        """One request; ``read`` takes what was answered.

        An idle connection may end just when it is used again, so that what was never answered is
        asked once more.
        """
        sent = {**headers, "Authorization": f"Bearer {self.access.token}"}
        with self._lock:
            for attempt in (0, 1):
                kept = self._http is not None
                try:
                    connection = self._http or self._connect()
                    connection.request(method, f"/{name}", body, sent)
                    answer = connection.getresponse()
                except (http.client.HTTPException, OSError) as error:
                    self._cut()
                    if kept and attempt == 0 and (body is None or isinstance(body, bytes)):
                        continue
                    raise self._unreachable(str(error) or type(error).__name__) from None
                try:
                    self._check(answer, name)
                    return read(answer)
                except (http.client.HTTPException, OSError) as error:
                    self._cut_unless_read(answer)
                    if isinstance(error, FileNotFoundError):
                        raise
                    raise self._unreachable(str(error) or type(error).__name__) from None
                except BaseException:
                    self._cut_unless_read(answer)
                    raise
        raise AssertionError

    def _check(self, answer: http.client.HTTPResponse, name: str) -> None:
        if answer.status in (200, 206, 416):
            return
        data = answer.read()
        if answer.status == 404:
            raise FileNotFoundError(name)
        if answer.status == 409:
            raise from_dict(json.loads(data))
        if answer.status in (401, 403):
            raise LogAccessRefused(
                f"it answers {answer.status} {answer.reason}",
                object=self._where,
                hint="delivery recovers by itself, with the capture that has the log now",
            )
        raise self._unreachable(f"it answers {answer.status} {answer.reason}")

    @property
    def _where(self) -> str:
        return f"{self.access.host}:{self.access.port}"

    def _unreachable(self, why: str) -> LogUnreachable:
        return LogUnreachable(
            why,
            object=self._where,
            hint="workers must reach the capture: see [log-server] in docs/spark.md",
        )

    def _connect(self) -> http.client.HTTPConnection:
        access = self.access
        if not access.certificate:
            plain = http.client.HTTPConnection(access.host, access.port, timeout=_TIMEOUT_S)
            plain.connect()
            self._http = plain
            return plain
        # The very certificate is known, which says more than any authority could.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        made = http.client.HTTPSConnection(
            access.host, access.port, timeout=_TIMEOUT_S, context=context
        )
        made.connect()
        shown = hashlib.sha256(made.sock.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(shown, access.certificate):
            made.close()
            raise LogEndpointForeign(
                "it shows another certificate than that of the capture",
                object=self._where,
                hint="look at what answers at this address; the token was not sent to it",
            )
        self._http = made
        return made

    def _cut(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _cut_unless_read(self, answer: http.client.HTTPResponse) -> None:
        if not answer.isclosed():
            self._cut()
