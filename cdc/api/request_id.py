"""Each request has an id, in the answer and in all that is logged on its behalf."""

from __future__ import annotations

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.base.log_fields import about

HEADER = b"x-request-id"
# What else a caller sends could break a line of the log, or fill it.
_USABLE = re.compile(rb"[0-9A-Za-z._-]{1,64}")


class RequestIdMiddleware:
    """Takes the caller's ``X-Request-Id``, or makes one, and gives it back with the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((v for k, v in scope["headers"] if k == HEADER), b"")
        name = given if _USABLE.fullmatch(given) else uuid.uuid4().hex.encode()

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (HEADER, name)]
            await send(message)

        with about(request=name.decode()):
            await self._app(scope, receive, named)
