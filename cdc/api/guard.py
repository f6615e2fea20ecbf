"""Who may ask what of the API: a judgement over a request's head, before anything is read of it.

Three kinds of strangers are kept out. A page of another site in an operator's browser: by ``Host``
(a name that was rebound to our address), ``Origin`` and ``Sec-Fetch-Site``. Other users of the host
and of the network: by the token, and by its role whoever may not do all. Bodies that no request of
ours has: by type and size.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.api import bodies, roles
from cdc.api.bodies import MAX_BODY, BodyTooLarge, BodyUnreadable, too_large
from cdc.api.console import serving
from cdc.api.failures import FAILURES, WINDOW_S, Failures
from cdc.api.swagger import serving as swagger
from cdc.base.errors import InvalidError, TidegateError, TransientError
from cdc.server.api_tokens import OWN, Caller

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"0.0.0.0", "::"})
# They tell names and numbers, no rows and no addresses; probes and scrapers ask for them, and a
# browser for the console's files before it has a token.
OPEN = frozenset({"/api/v2/health", "/api/v2/ready", "/metrics"}) | serving.PATHS | swagger.PATHS
READS = frozenset({"GET", "HEAD"})


class HostRefused(InvalidError):
    """The request names a host that is not this server."""

    code = "TG:ErrAPIHostRefused"


class CrossSiteRefused(InvalidError):
    """A page of another site has sent the request."""

    code = "TG:ErrAPICrossSite"


class TokenMissing(InvalidError):
    """The request has no token, or one that is wrong, revoked or expired."""

    code = "TG:ErrAPIUnauthorized"


class TooManyFailures(TransientError):
    """Too many wrong tokens have come from an address."""

    code = "TG:ErrAPITooManyFailures"
    retry_s = 1


class RoleTooLow(InvalidError):
    """The token is right, but its role may not do this."""

    code = "TG:ErrAPIForbidden"
    caller: Caller


class BodyTypeRefused(InvalidError):
    """The body is not declared as JSON."""

    code = "TG:ErrAPIContentType"


STATUS: dict[type[TidegateError], int] = {
    HostRefused: 421,
    CrossSiteRefused: 403,
    TokenMissing: 401,
    RoleTooLow: 403,
    TooManyFailures: 429,
    BodyTypeRefused: 415,
    BodyTooLarge: 413,
    BodyUnreadable: 400,
}


Forbidden = Callable[[Scope, Caller, str, int], None]
"""Told of a request that its caller's role does not allow, with code and status of its answer."""

Known = Callable[[str], Caller | None]
"""Whose a token is that was made for somebody, see :class:`cdc.server.api_tokens.ApiTokens`."""


def _nobody(_: str) -> None:
    return None


@dataclass(frozen=True)
class Guard:
    """What is let in: requests to one of ``hosts`` with ``token``, or with one that is known.

    ``any_address``: a Host that is an address and no name is ours too. A server that listens on all
    addresses does not know them, and only names can be rebound.
    """

    token: str = field(repr=False)
    hosts: frozenset[str] = _LOOPBACK
    any_address: bool = False

    @classmethod
    def of(cls, token: str, addresses: Iterable[str]) -> Guard:
        """For a server that is reached by the hosts of these (and by its loopback names)."""
        hosts = frozenset(a.strip("[]").lower() for a in addresses if a)
        return cls(token, (hosts | _LOOPBACK) - _WILDCARDS, bool(hosts & _WILDCARDS))

    def judge(
        self, method: str, path: str, headers: Mapping[str, str], known: Known = _nobody
    ) -> Caller | None:
        """Who asks, None if that needs no token, or raise what is wrong.

        ``headers`` by lower-case name; ``known`` may wait for the store, and raise its errors.
        """
        self._judge_host(headers.get("host", ""))
        self._judge_origin(headers)
        caller = None
        if not (method in READS and path in OPEN):
            caller = self._caller(headers.get("authorization", ""), known)
            _judge_role(caller, method, path)
        _judge_body(method, headers)
        return caller

    def _judge_host(self, given: str) -> None:
        host = host_of(given)
        if host in self.hosts or (self.any_address and _is_address(host)):
            return
        raise HostRefused(
            f"this server is not {host or 'a request without Host'}",
            hint="ask for the host of addr, or name this one in security.allowed-hosts",
        )

    def _judge_origin(self, headers: Mapping[str, str]) -> None:
        origin, host = headers.get("origin"), headers.get("host", "")
        ours = origin is None or origin.partition("://")[2].lower() == host.lower()
        if not ours or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise CrossSiteRefused(
                "a page of another site has sent the request",
                hint="use cdc cli, or a program that is no browser",
            )

    def _caller(self, given: str, known: Known) -> Caller:
        scheme, _, token = given.partition(" ")
        token = token.strip()
        if scheme.lower() == "bearer" and token:
            if hmac.compare_digest(token.encode(), self.token.encode()):
                return OWN
            if (caller := known(token)) is not None:
                return caller
        raise TokenMissing(
            "the token is wrong, revoked or expired" if token else "the request has no token",
            hint="the server's user needs none; others: --token-file or TIDEGATE_TOKEN,"
            " with what cdc cli token create has printed",
        )


def _judge_role(caller: Caller, method: str, path: str) -> None:
    needed = roles.least(method, path)
    if caller.role < needed:
        error = RoleTooLow(
            f"this needs the role {needed}, the token has {caller.role}",
            object=f"token {caller.name}",
            hint=f"use a token with --role {needed}: cdc cli token create makes one",
        )
        error.caller = caller
        raise error


def _judge_body(method: str, headers: Mapping[str, str]) -> None:
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        raise too_large()
    has_body = int(length) > 0 or "transfer-encoding" in headers
    given = headers.get("content-type", "").partition(";")[0].strip().lower()
    # Forms and plain text are what a browser sends anywhere without asking first.
    if method not in READS and given != "application/json" and (given or has_body):
        raise BodyTypeRefused(
            f"the body is {given or 'of no type'}", hint="send Content-Type: application/json"
        )


def host_of(given: str) -> str:
    """The host of a ``Host`` header or address, without port and brackets."""
    if given.startswith("["):
        return given[1:].partition("]")[0].lower()
    return given.partition(":")[0].lower() if given.count(":") < 2 else given.lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class GuardMiddleware:
    """Asks the guard before the application; what it raises is answered by ``refuse``."""

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        known: Known,
        failures: Failures,
        refuse: Callable[[TidegateError], ASGIApp],
        forbidden: Forbidden,
    ) -> None:
        self._app = app
        self._guard = guard
        self._known = known
        self._failures = failures
        self._refuse = refuse
        self._forbidden = forbidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; its body is taken in whole before anybody reads it."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            # In a thread, since the store may be a network away.
            caller = await run_in_threadpool(self._judge, scope, headers)
            body = b"" if scope["method"] in READS else await bodies.taken(receive)
            await run_in_threadpool(bodies.judge, body)
        except TidegateError as error:
            await self._refuse(error)(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = caller
        given = scope["method"] in READS

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)

    def _judge(self, scope: Scope, headers: Mapping[str, str]) -> Caller | None:
        try:
            return self._guard.judge(scope["method"], scope["path"], headers, self._known)
        except RoleTooLow as error:
            self._forbidden(scope, error.caller, error.code, STATUS[RoleTooLow])
            raise
        except TokenMissing:
            # Whoever has sent none has not tried one.
            if "authorization" not in headers:
                raise
            left_s = self._failures.failed((scope.get("client") or ("",))[0])
            if left_s <= 0:
                raise
        many = TooManyFailures(
            f"more than {FAILURES} wrong tokens in {WINDOW_S:.0f} s have come from this address",
            hint="a right token is let in all the same; cdc cli token create makes one",
        )
        many.retry_s = math.ceil(left_s)
        raise many
