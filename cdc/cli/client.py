"""Talking to a server's API; every failure becomes one of our errors."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cdc.base.errors import InvalidError, TransientError
from cdc.base.hosts import is_loopback
from cdc.server import token

_TOKEN_VARIABLE = "TIDEGATE_TOKEN"
DEFAULT_SERVER = "http://127.0.0.1:8300"
# Asking is quick; an upstream with many tables takes minutes to be read.
_ASK_S, _CHANGE_S = 120.0, 900.0


class ServerUnreachable(TransientError):
    """No server answers there."""

    code = "TG:ErrServerUnreachable"


class AnswerLate(TransientError):
    """The server has not answered in time; what it was told to do, it goes on with."""

    code = "TG:ErrAnswerLate"


class ServerUrlInvalid(InvalidError):
    """``--server`` is not an address."""

    code = "TG:ErrServerURLInvalid"


class TokenUnusable(InvalidError):
    """The token cannot be read, or would be sent where the network can read it along."""

    code = "TG:ErrTokenUnusable"


class TlsFileUnusable(InvalidError):
    """A TLS file of the command line cannot be used."""

    code = "TG:ErrTLSFileUnusable"


@dataclass(frozen=True)
class Access:
    """With what the command line shows who it is; a part that is None is looked for, or not used.

    ``ca`` is a PEM file of the authority that signed the server's certificate.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    token_file: Path | None = None

    def token(self, url: httpx.URL) -> str:
        """The token for a server: of the file, of the environment, or this user's own server's."""
        if self.token_file is not None:
            try:
                found = token.read(self.token_file)
            except OSError as e:
                raise TokenUnusable(
                    e.strerror or str(e), object=str(self.token_file), hint="check --token-file"
                ) from None
            if not found:
                raise TokenUnusable(
                    "holds no token",
                    object=str(self.token_file),
                    hint="give the file token of the server's data directory",
                )
        else:
            port = url.port or (443 if url.scheme == "https" else 80)
            found = os.environ.get(_TOKEN_VARIABLE, "").strip() or token.find(url.host, port)
        if found and url.scheme == "http" and not is_loopback(url.host):
            raise TokenUnusable(
                "the token is not sent over plain HTTP to another machine",
                object=f"{url.scheme}://{url.host}",
                hint="write https:// in --server",
            )
        return found

    def verified(self) -> ssl.SSLContext:
        """How the server's certificate is verified. Raises :class:`TlsFileUnusable`."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                context.load_cert_chain(self.cert, self.key)
        except OSError as e:
            raise TlsFileUnusable(
                e.strerror or type(e).__name__,
                object=", ".join(str(f) for f in (self.ca, self.cert, self.key) if f),
                hint="give PEM files, a certificate with its key",
            ) from None
        return context


class ServerRefused(Exception):
    """The server's own error, as it came."""

    def __init__(self, code: str, message: str, hint: str, object: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.object = object


class Client:
    """``/api/v2`` of one server."""

    def __init__(self, server: str, access: Access) -> None:
        self._server = server if "://" in server else f"http://{server}"
        try:
            url = httpx.URL(self._server)
        except httpx.InvalidURL as e:
            raise ServerUrlInvalid(str(e), object=server, hint=DEFAULT_SERVER) from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ServerUrlInvalid("not an http address", object=server, hint=DEFAULT_SERVER)
        found = self._token = access.token(url)
        self._http = httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(_CHANGE_S, connect=5.0),
            headers={"Authorization": f"Bearer {found}"} if found else None,
            verify=access.verified() if url.scheme == "https" else False,
            trust_env=False,
        )

    def console(self) -> str:
        """The address of the page for people, which takes the token out of it."""
        page = str(self._http.base_url.copy_with(path="/"))
        return f"{page}#token={self._token}" if self._token else page

    def get(self, path: str, **params: str) -> Any:
        """Answer of a GET."""
        return self._send("GET", path, params=params, timeout=httpx.Timeout(_ASK_S, connect=5.0))

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer of a POST."""
        return self._send("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer of a PUT."""
        return self._send("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        """Answer of a DELETE."""
        return self._send("DELETE", path)

    def _send(self, method: str, path: str, **how: Any) -> Any:
        try:
            answer = self._http.request(method, f"/api/v2{path}", **how)
        except httpx.ReadTimeout:
            raise AnswerLate(
                "the server has not answered yet, and goes on with it",
                object=f"{method} {path}",
                hint="list what there is before you do it again",
            ) from None
        except httpx.HTTPError as e:
            raise ServerUnreachable(
                str(e) or type(e).__name__,
                object=self._server,
                hint="start it with cdc server, or give its address with --server",
            ) from None
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success:
            return body
        raise _error(answer.status_code, body, self._server)


def _error(status: int, body: Any, server: str) -> Exception:
    if not isinstance(body, dict) or "error_code" not in body:
        return ServerUnreachable(
            f"answered {status} and is no Tidegate server", object=server, hint="check --server"
        )
    return ServerRefused(
        body["error_code"], body["error_msg"], body.get("hint", ""), body.get("object", "")
    )
