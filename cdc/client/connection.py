"""Talking to a server's API; every failure becomes one of our errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.errors import InvalidError, TransientError
from cdc.base.http_client import httpx
from cdc.base.refusals import ServerRefused
from cdc.client.access import DEFAULT_SERVER, Access

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


class AnswerUnreadable(InvalidError):
    """An answer has another form than this version knows."""

    code = "TG:ErrAnswerUnreadable"


class Connection:
    """``/api/v2`` of one server. Raises :class:`ServerRefused` and the errors above.

    Threads may share it.
    """

    def __init__(self, access: Access) -> None:
        given = access.server
        self._server = given if "://" in given else f"http://{given}"
        try:
            url = httpx.URL(self._server)
        except httpx.InvalidURL as e:
            raise ServerUrlInvalid(str(e), object=given, hint=DEFAULT_SERVER) from None
        if url.scheme not in ("http", "https") or not url.host:
            raise ServerUrlInvalid("not an http address", object=given, hint=DEFAULT_SERVER)
        found = self._token = access.bearer(url)
        self._http = httpx.Client(
            base_url=url,
            timeout=httpx.Timeout(_CHANGE_S, connect=5.0),
            headers={"Authorization": f"Bearer {found}"} if found else None,
            verify=access.verified() if url.scheme == "https" else False,
            trust_env=False,
        )

    def close(self) -> None:
        """Give up the connections."""
        self._http.close()

    def console(self) -> str:
        """The address of the page for people, which takes the token out of it."""
        page = str(self._http.base_url.copy_with(path="/"))
        return f"{page}#token={self._token}" if self._token else page

    def get(self, path: str, **params: str) -> Any:
        """Answer of a GET."""
        return self._send("GET", path, params=params, timeout=httpx.Timeout(_ASK_S, connect=5.0))

    def look(self, path: str) -> tuple[Any, str]:
        """Answer of a GET, and the tag with which :meth:`put` changes just this."""
        how = httpx.Timeout(_ASK_S, connect=5.0)
        answer = self._answer("GET", path, timeout=how)
        return self._body(answer), answer.headers.get("ETag", "")

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Answer of a POST."""
        return self._send("POST", path, json=body)

    def put(self, path: str, body: Mapping[str, Any] | None = None, tag: str = "") -> Any:
        """Answer of a PUT; with ``tag`` refused if what it changes is another one by now."""
        headers = {"If-Match": tag} if tag else {}
        return self._send("PUT", path, json=body, headers=headers)

    def delete(self, path: str) -> Any:
        """Answer of a DELETE."""
        return self._send("DELETE", path)

    def _send(self, method: str, path: str, **how: Any) -> Any:
        return self._body(self._answer(method, path, **how))

    def _answer(self, method: str, path: str, **how: Any) -> httpx.Response:
        try:
            return self._http.request(method, f"/api/v2{path}", **how)
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

    def _body(self, answer: httpx.Response) -> Any:
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
    return _refused(body)


def _refused(body: Mapping[str, Any]) -> ServerRefused:
    return ServerRefused(
        body["error_code"],
        body["error_msg"],
        body.get("hint", ""),
        body.get("object", ""),
        body.get("kind", "invalid"),
        [_refused(reason) for reason in body.get("reasons", ())],
    )
