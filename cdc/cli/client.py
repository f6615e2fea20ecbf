"""Talking to a server's API; every failure becomes one of our errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from cdc.base.errors import InvalidError, TransientError

DEFAULT_SERVER = "http://127.0.0.1:8300"


class ServerUnreachable(TransientError):
    """No server answers there."""

    code = "TG:ErrServerUnreachable"


class ServerUrlInvalid(InvalidError):
    """``--server`` is not an address."""

    code = "TG:ErrServerURLInvalid"


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

    def __init__(
        self, server: str, ca: str | None = None, cert: str | None = None, key: str | None = None
    ) -> None:
        self._server = server if "://" in server else f"http://{server}"
        try:
            url = httpx.URL(self._server)
        except httpx.InvalidURL as e:
            raise ServerUrlInvalid(str(e), object=server, hint=DEFAULT_SERVER) from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ServerUrlInvalid("not an http address", object=server, hint=DEFAULT_SERVER)
        self._http = httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(120.0, connect=5.0),
            verify=ca or True,
            cert=(cert, key) if cert and key else cert,
            trust_env=False,
        )

    def get(self, path: str, **params: str) -> Any:
        """Answer of a GET."""
        return self._send("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer of a POST."""
        return self._send("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """Answer of a PUT."""
        return self._send("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        """Answer of a DELETE."""
        return self._send("DELETE", path)

    def _send(self, method: str, path: str, **how: Any) -> Any:
        try:
            answer = self._http.request(method, f"/api/v2{path}", **how)
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
