"""Any capture takes any request: what needs another capture's log, or is its matter, goes there.

What the store can answer is answered here. The way of the others is the route's: by its changefeed,
its upstream, the upstream in its body, a capture, or the owner.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc.base.errors import TidegateError
from cdc.base.http_client import httpx
from cdc.server.peers import CaptureUnreachable, Peers

# It would write a line for each request that is forwarded.
logging.getLogger("httpx").setLevel(logging.WARNING)
_FORWARDED = b"tidegate-forwarded"
_LOOK_S = 1.0
# As of the command line: an upstream with many tables takes minutes to be read.
_ANSWER_S = 900.0
# Of this connection, or told anew for the next one.
_OURS = frozenset(
    {b"host", b"authorization", b"connection", b"content-length", b"transfer-encoding", b"origin"}
)
_GIVEN = frozenset({"content-type", "etag", "retry-after", "allow"})
_FEED = re.compile(r"/api/v2/changefeeds/([^/]+)(?:/(.*))?\Z")
_PROCESSOR = re.compile(r"/api/v2/processors/([^/]+)/[^/]+\Z")
_UPSTREAM = re.compile(r"/api/v2/upstreams/([^/]+)(?:/nodes(?:/[^/]+)?)?\Z")
_DRAIN = re.compile(r"/api/v2/captures/([^/]+)/drain\Z")
# They read the log, or what lies beside it.
_BY_LOG = ("tables", "synced", "apply", "verifications")
_BY_BODY = frozenset(
    f"/api/v2/{name}"
    for name in ("changefeeds", "verify_table", "get_all_tables", "filter/explain")
)


def where(method: str, path: str, body: bytes, peers: Peers) -> str:
    """The capture that a request belongs to; "" for whichever has it. May wait for the store."""
    reads = method in ("GET", "HEAD")
    if found := _FEED.match(path):
        below = (found[2] or "").split("/")[0]
        return "" if reads and below not in _BY_LOG else peers.of_feed(found[1])
    if reads:
        found = _PROCESSOR.match(path)
        return peers.of_feed(found[1]) if found else ""
    if path in _BY_BODY and method == "POST":
        upstream = _named(body, "upstream")
        return peers.of_upstream(upstream) if upstream else ""
    if found := _UPSTREAM.match(path):
        return peers.of_upstream(found[1])
    if path == "/api/v2/upstreams" and method == "POST":
        # One of a name that is there is refused by whoever has that.
        return peers.of_upstream(_named(body, "name")) or peers.of_new()
    if found := _DRAIN.match(path):
        return found[1]
    return peers.owner() if path == "/api/v2/owner/resign" else ""


def _named(body: bytes, field: str) -> str:
    """A field of a body; "" where there is none, which its route says better."""
    try:
        said: Any = json.loads(body or b"{}")
    except ValueError:
        return ""
    value = said.get(field, "") if isinstance(said, dict) else ""
    return value if isinstance(value, str) and "/" not in value else ""


class ForwardingMiddleware:
    """Inside the guard, which has taken the body in; around what writes the audit log.

    So a change is written down once, by who makes it, and as that of who has sent it.
    """

    def __init__(
        self, app: ASGIApp, peers: Peers, refuse: Callable[[TidegateError], ASGIApp]
    ) -> None:
        self._app = app
        self._peers = peers
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers: Mapping[bytes, bytes] = dict(scope.get("headers", ()))
        caller = scope.get("state", {}).get("caller")
        # What was sent here is answered here, lest two captures send it to and fro.
        if scope["type"] != "http" or caller is None or _FORWARDED in headers:
            await self._app(scope, receive, send)
            return
        body = b""
        if scope["method"] not in ("GET", "HEAD"):
            body = (await receive()).get("body", b"")
        given = False

        async def again() -> Any:
            nonlocal given
            if given or scope["method"] in ("GET", "HEAD"):
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            url, capture = await run_in_threadpool(self._way, scope["method"], scope["path"], body)
            if not url:
                await self._app(scope, again, send)
                return
            token = await run_in_threadpool(self._peers.token, caller)
            answer = await self._asked(capture, url, scope, token, body)
        except TidegateError as error:
            await self._refuse(error)(scope, receive, send)
            return
        kept = [
            (name.encode(), value.encode("latin-1"))
            for name, value in answer.headers.items()
            if name in _GIVEN
        ]
        kept.append((b"content-length", str(len(answer.content)).encode()))
        await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
        await send({"type": "http.response.body", "body": answer.content})

    def _way(self, method: str, path: str, body: bytes) -> tuple[str, str]:
        """(URL, id) of the capture that is to be asked; ("", "") for this one.

        What belongs to a capture that is gone is answered here: it is about to be placed anew.
        """
        capture = where(method, path, body, self._peers)
        if capture in ("", self._peers.capture):
            return "", ""
        return self._peers.url(capture), capture

    async def _asked(
        self, capture: str, url: str, scope: Scope, token: str, body: bytes
    ) -> httpx.Response:
        headers = [
            (k, v)
            for k, v in scope["headers"]
            if k not in _OURS and not k.startswith((b"sec-fetch-", b"accept-encoding"))
        ]
        headers += [(b"authorization", f"Bearer {token}".encode()), (_FORWARDED, b"1")]
        path = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        query = scope.get("query_string", b"").decode("latin-1")
        target = f"{url}{path}" + (f"?{query}" if query else "")
        tls = await run_in_threadpool(self._peers.tls)
        how = httpx.Timeout(_ANSWER_S, connect=3.0)
        gone = CaptureUnreachable(
            "the capture that has it does not answer",
            object=f"capture {capture}",
            hint="another takes over when its session has ended; try again",
        )
        async with httpx.AsyncClient(verify=tls, timeout=how, trust_env=False) as http:
            asked = asyncio.ensure_future(
                http.request(scope["method"], target, content=body, headers=headers)
            )
            try:
                while not (await asyncio.wait({asked}, timeout=_LOOK_S))[0]:
                    # One that is frozen takes requests, and never answers.
                    if not await run_in_threadpool(self._peers.url, capture):
                        raise gone
                return asked.result()
            except httpx.HTTPError as error:
                raise gone from error
            finally:
                asked.cancel()
