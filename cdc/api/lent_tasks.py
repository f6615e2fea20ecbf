"""Tasks of other captures, in front of the API: not of it, and described nowhere.

Who may send them is told by their seal, which holds where the guard has no say: no token of a user
opens this way, whatever its role.
"""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cdc.api import bodies
from cdc.base.errors import TidegateError
from cdc.server.lenders import PATH, TaskTaker

# A layout of 100,000 tables has some 10 MiB.
_MAX_BODY = 256 << 20
# Each waits for a job; the API's own threads are for its requests.
_AT_ONCE = 16


class LentTasksMiddleware:
    """Answers what comes to the path of lent tasks, and leaves the rest to the application."""

    def __init__(
        self, app: ASGIApp, tasks: TaskTaker, refuse: Callable[[TidegateError], ASGIApp]
    ) -> None:
        self._app = app
        self._tasks = tasks
        self._refuse = refuse
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or (scope["method"], scope["path"]) != ("POST", PATH):
            await self._app(scope, receive, send)
            return
        token = dict(scope["headers"]).get(b"authorization", b"").removeprefix(b"Bearer ")
        try:
            if not await to_thread.run_sync(self._tasks.knows, token.decode("latin-1")):
                answer = Response(status_code=401)
            else:
                body = await bodies.taken(receive, _MAX_BODY)
                done = await to_thread.run_sync(self._tasks.take, body, limiter=self._limiter)
                answer = Response(done, media_type="application/octet-stream")
        except TidegateError as error:
            await self._refuse(error)(scope, receive, send)
            return
        await answer(scope, receive, send)
