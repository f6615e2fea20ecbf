"""Who may ask what of the API: a judgement over a request's head, before anything is read of it.

Three kinds of strangers are kept out. A page of another site in an operator's browser: by ``Host``
(a name that was rebound to our address), ``Origin`` and ``Sec-Fetch-Site``. Other users of the host
and of the network: by the token. Bodies that no request of ours has: by type and size.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc.base.errors import InvalidError, TidegateError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"0.0.0.0", "::"})
# A configuration with some ten thousand rules is about one MiB.
MAX_BODY = 8 << 20
# They tell names and numbers, no rows and no addresses; probes and scrapers ask for them.
OPEN = frozenset({"/api/v2/health", "/api/v2/ready", "/metrics"})
READS = frozenset({"GET", "HEAD"})


class HostRefused(InvalidError):
    """The request names a host that is not this server."""

    code = "TG:ErrAPIHostRefused"


class CrossSiteRefused(InvalidError):
    """A page of another site has sent the request."""

    code = "TG:ErrAPICrossSite"


class TokenMissing(InvalidError):
    """The request has no token, or a wrong one."""

    code = "TG:ErrAPIUnauthorized"


class BodyTypeRefused(InvalidError):
    """The body is not declared as JSON."""

    code = "TG:ErrAPIContentType"


class BodyTooLarge(InvalidError):
    """The body is larger than any request needs to be."""

    code = "TG:ErrAPIBodyTooLarge"


STATUS: dict[type[TidegateError], int] = {
    HostRefused: 421,
    CrossSiteRefused: 403,
    TokenMissing: 401,
    BodyTypeRefused: 415,
    BodyTooLarge: 413,
}


@dataclass(frozen=True)
class Guard:
    """What is let in: requests to one of ``hosts`` with ``token``.

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

    def judge(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Raise what is wrong with a request; ``headers`` by lower-case name."""
        self._judge_host(headers.get("host", ""))
        self._judge_origin(headers)
        if not (method in READS and path in OPEN):
            self._judge_token(headers.get("authorization", ""))
        _judge_body(method, headers)

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

    def _judge_token(self, given: str) -> None:
        scheme, _, token = given.partition(" ")
        right = hmac.compare_digest(token.strip().encode(), self.token.encode())
        if scheme.lower() != "bearer" or not right:
            raise TokenMissing(
                "the token is wrong" if token else "the request has no token",
                hint="the server's user needs none; others: --token-file or TIDEGATE_TOKEN,"
                " with what the file token in the data directory holds",
            )


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


def too_large() -> BodyTooLarge:
    """The error for a body beyond ``MAX_BODY``."""
    return BodyTooLarge(
        f"a body has at most {MAX_BODY >> 20} MiB", hint="write fewer rules, with wildcards"
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
        self, app: ASGIApp, guard: Guard, refuse: Callable[[TidegateError], ASGIApp]
    ) -> None:
        self._app = app
        self._guard = guard
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; of a body without a length only ``MAX_BODY`` bytes are taken in."""
        if scope["type"] != "http":
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            self._guard.judge(scope["method"], scope["path"], headers)
        except TidegateError as error:
            await self._refuse(error)(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MAX_BODY:
                # Of all errors only this kind passes the framework's reading of a body unchanged.
                raise HTTPException(STATUS[BodyTooLarge])
            return message

        await self._app(scope, counted, send)
