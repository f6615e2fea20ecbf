"""From our errors to answers: HTTP status by kind and class, body by ``ApiError``."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from cdc.api import guard
from cdc.api.answers import ApiError, Reason
from cdc.base.errors import ErrorKind, InternalError, InvalidError, TidegateError
from cdc.base.refusals import SeveralReasons
from cdc.base.secrets import mask_text
from cdc.coord.draining import CaptureNotFound, NoOtherCapture
from cdc.coord.expected import ChangedSince
from cdc.server.api_tokens import TokenExists, TokenNotFound
from cdc.server.logging_setup import RedactionLoosened
from cdc.server.upstream_errors import (
    UpstreamChanging,
    UpstreamExists,
    UpstreamInUse,
    UpstreamNotFound,
)
from cdc.verify.job import NothingToRepair, VerificationNotFound, VerificationRuns
from owner.admin import ChangefeedExists, ChangefeedNotFound
from owner.orders import CopyNotCancelled, CopyNotFound, CopyNotPaused
from owner.placed_tables import TableMoveRefused
from owner.placing import PlacementRefused
from owner.state import TransitionRefused

_log = logging.getLogger("api")

_UNAUTHORIZED = 401
_METHOD_NOT_ALLOWED = 405


class DdlNotFound(InvalidError):
    """The owner knows no schema change of this ts."""

    code = "TG:ErrDDLNotExists"


class DdlNotPending(InvalidError):
    """The schema change cannot be decided about: it runs, has ended, or was never seen."""

    code = "TG:ErrDDLNotPending"


_STATUS: dict[type[TidegateError], int] = {
    ChangefeedNotFound: 404,
    UpstreamNotFound: 404,
    ChangefeedExists: 409,
    UpstreamExists: 409,
    UpstreamChanging: 409,
    ChangedSince: 412,
    UpstreamInUse: 409,
    VerificationNotFound: 404,
    VerificationRuns: 409,
    NothingToRepair: 409,
    DdlNotFound: 404,
    DdlNotPending: 409,
    CopyNotFound: 404,
    CopyNotCancelled: 409,
    CopyNotPaused: 409,
    TransitionRefused: 400,
    CaptureNotFound: 404,
    NoOtherCapture: 409,
    PlacementRefused: 409,
    TableMoveRefused: 409,
    RedactionLoosened: 409,
    TokenExists: 409,
    TokenNotFound: 404,
    **guard.STATUS,
}


class ParameterInvalid(InvalidError):
    """A parameter of a request is missing, unknown, or of the wrong type."""

    code = "TG:ErrAPIInvalidParam"


class NoSuchPath(InvalidError):
    """The path, or the method on it, does not exist."""

    code = "TG:ErrAPINotFound"


class Unexpected(InternalError):
    """A bug; its traceback is in the server's log."""

    code = "TG:ErrUnexpected"


def answer(error: TidegateError, status: int | None = None) -> JSONResponse:
    """The HTTP answer for an error."""
    if status is None:
        fallback = {ErrorKind.INVALID: 400, ErrorKind.DEFINITE: 400, ErrorKind.TRANSIENT: 503}
        status = _STATUS.get(type(error), fallback.get(error.kind, 500))
    text = f"{error.object}: {error.message}" if error.object else error.message
    body = ApiError(
        error_msg=mask_text(text),
        error_code=error.code,
        kind=str(error.kind),
        object=mask_text(error.object),
        hint=mask_text(error.hint),
        reasons=_reasons(error),
    )
    # RFC 9110 §15.5.2 wants it.
    headers = {"WWW-Authenticate": "Bearer"} if status == _UNAUTHORIZED else {}
    if isinstance(error, guard.TooManyFailures):
        headers["Retry-After"] = str(error.retry_s)
    fields = body.model_dump(exclude=None if body.reasons else {"reasons"})
    return JSONResponse(fields, status_code=status, headers=headers)


def _reasons(error: TidegateError) -> list[Reason]:
    if not isinstance(error, SeveralReasons):
        return []
    return [
        Reason(
            error_msg=mask_text(f"{r.object}: {r.message}" if r.object else r.message),
            error_code=r.code,
            object=mask_text(r.object),
            hint=mask_text(r.hint),
        )
        for r in error.reasons
    ]


def _methods(request: Request) -> str:
    """``Allow`` of the path of a request: what any of its routes takes (RFC 9110 §15.5.6).

    The framework names only the methods of the first route that has the path.
    """
    path = request.scope["path"]
    routes = iter_route_contexts(request.app.routes)
    found = (r.methods or () for r in routes if r.path_regex and r.path_regex.match(path))
    return ", ".join(sorted(set().union(*found)))


def install(app: FastAPI) -> None:
    """Every error leaves as ``ApiError``, whatever raised it."""

    @app.exception_handler(TidegateError)
    async def _ours(_: Request, error: TidegateError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def _request(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        name = ".".join(str(p) for p in first["loc"][1:]) or "body"
        what = "is not a parameter" if first["type"] == "extra_forbidden" else first["msg"]
        return answer(ParameterInvalid(f"{name}: {what}", hint=f"correct {name}"))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        refused = NoSuchPath(f"{request.method} {request.url.path}: {error.detail}")
        refusal = answer(refused, error.status_code)
        if error.status_code == _METHOD_NOT_ALLOWED:
            refusal.headers["Allow"] = _methods(request)
        return refusal

    @app.exception_handler(Exception)
    async def _bug(request: Request, error: Exception) -> JSONResponse:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        what = f"{type(error).__name__} in {request.method} {request.url.path}"
        return answer(Unexpected(what, hint="the server's log has the details"))
