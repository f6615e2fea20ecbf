"""``/api/v2/audit``: not in TiCDC. Every request for a change leaves an entry, whoever sends it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.api import roles
from cdc.api.answers import Page
from cdc.api.audit_models import AuditOut
from cdc.api.audited import Audited, difference, shown
from cdc.base.errors import TidegateError
from cdc.base.ts import MAX_TS, physical_ms
from cdc.coord.contract import StoreFailed
from cdc.coord.messages import AuditEntry
from cdc.server.api_tokens import Caller
from cdc.server.audit import PLACES, AuditLog, AuditOutcome, Ring
from cdc.server.capture import Capture

_log = logging.getLogger("audit")

OK = "ok"
_UNEXPECTED = 500
# Where bodies that create something have its name.
_NAMES = {"changefeed_id": "feed", "name": "name"}
# Of a body that is longer only its length is kept.
_MAX_BODY = 64 << 10


def router(capture: Capture) -> APIRouter:
    """The route over one capture."""
    routes = APIRouter(prefix="/audit", tags=["audit"])

    @routes.get("")
    def list_entries(
        since: Annotated[int, Query(ge=0, le=MAX_TS, description="A ts.")] = 0,
        object: Annotated[str, Query(description="Such as `changefeed a`, or only `a`.")] = "",
        limit: Annotated[int, Query(ge=1, le=sum(PLACES.values()))] = 1000,
    ) -> Page[AuditOut]:
        """The newest entries, from the oldest of them on."""
        found = [
            AuditOut.of(e)
            for e in capture.audit.entries(physical_ms(since))
            if not object or _is_about(e.object, object)
        ]
        return Page(total=len(found), items=found[-limit:])

    return routes


def _is_about(entry: str, asked: str) -> bool:
    whole = entry.partition(", ")[0]
    return asked in (entry, whole, whole.partition(" ")[2])


def peer_of(scope: Scope) -> str:
    """The address that a request comes from."""
    return str((scope.get("client") or ("",))[0])


def forbidden(log: AuditLog, scope: Scope, caller: Caller, code: str, status: int) -> None:
    """Write down a change that the role of a caller does not allow."""
    found = roles.change(scope["method"], scope["path"])
    if found is None:
        return
    template, params = found
    name = Audited.name(template, params)
    action = f"{scope['method']} {template}"
    begun = log.begin(caller, peer_of(scope), action, name, Ring.FORBIDDEN)
    log.end(begun, AuditOutcome(name, code, status), Ring.FORBIDDEN)


class AuditMiddleware:
    """Writes an entry before a change is made, and completes it before the answer is given."""

    def __init__(
        self,
        app: ASGIApp,
        log: AuditLog,
        audited: Audited,
        refuse: Callable[[TidegateError], ASGIApp],
    ) -> None:
        self._app = app
        self._log = log
        self._audited = audited
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; whoever sends it is known already."""
        found = roles.change(scope.get("method", ""), scope.get("path", ""))
        if scope["type"] != "http" or found is None:
            await self._app(scope, receive, send)
            return
        one = _Change(self._log, self._audited, scope, *found)
        try:
            await run_in_threadpool(one.begin)
        except TidegateError as error:
            await self._refuse(error)(scope, receive, send)
            return
        body, answer, status = bytearray(), list[Message](), _UNEXPECTED

        async def read() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def keep(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answer.append(message)

        try:
            await self._app(scope, read, keep)
        finally:
            said = b"".join(m.get("body", b"") for m in answer)
            await run_in_threadpool(one.end, status, bytes(body), said)
        for message in answer:
            await send(message)


class _Change:
    """One request for a change, from before to after."""

    def __init__(
        self, log: AuditLog, audited: Audited, scope: Scope, template: str, params: dict[str, str]
    ) -> None:
        self._log = log
        self._audited = audited
        self._scope = scope
        self._template = template
        self._params = params
        self._before: dict[str, Any] | None = None
        self._entry: AuditEntry | None = None

    def begin(self) -> None:
        scope, template = self._scope, self._template
        name = self._audited.name(template, self._params)
        self._before = self._audited.state(template, self._params)
        caller: Caller = scope["state"]["caller"]
        action = f"{scope['method']} {template}"
        self._entry = self._log.begin(caller, peer_of(scope), action, name)

    def end(self, status: int, body: bytes, said: bytes) -> None:
        """The change is made, so its answer does not wait for a store that fails now: the entry
        then stays one whose outcome is not known."""
        if self._entry is None:
            return
        try:
            self._log.end(self._entry, self._came(self._entry, status, body, said))
        except StoreFailed as e:
            _log.error("entry %d has no outcome: %s", self._entry.number, e)

    def _came(self, entry: AuditEntry, status: int, body: bytes, said: bytes) -> AuditOutcome:
        asked, answer = _json(body), _json(said)
        answer = answer if isinstance(answer, dict) else {}
        if status >= 400:
            code = str(answer.get("error_code") or "TG:ErrUnexpected")
            wanted = asked if isinstance(asked, dict) and not self._params else {}
            named = {n: str(wanted[k]) for k, n in _NAMES.items() if wanted.get(k)}
            name = self._audited.name(self._template, named | self._params)
            return AuditOutcome(name, code, status)
        # What was created has its name now: the server may have made it.
        created = {k: str(answer[k]) for k in ("id", "name") if k in answer}
        params = created | self._params
        after = self._audited.state(self._template, params)
        before, after = difference(self._before, after)
        request = f"{len(body)} bytes" if len(body) > _MAX_BODY else shown(asked)
        name = self._audited.name(self._template, params)
        return AuditOutcome(name, OK, status, request, before, after)


def _json(text: bytes) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None
