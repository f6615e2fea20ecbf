"""What the API says of itself: ``GET /api/v2/openapi.json``.

The framework derives paths, parameters and answers from the routes; what all of them share (who is
let in, and the errors that each kind of request may get) is added here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

import cdc
from cdc.api import roles
from cdc.api.answers import ApiError
from cdc.api.guard import OPEN, READS

PATH = "/api/v2/openapi.json"
_ERROR = "#/components/schemas/ApiError"
_DESCRIPTION = (
    "Operate a Tidegate server. Names and paths are those of TiCDC's OpenAPI v2 where it has them. "
    "A ts is 2^18 times the milliseconds since 1970, as TiDB's TSO. Every answer that is not 2xx "
    "has a stable `error_code` and a hint."
)
_MEANINGS = {
    400: "The request is wrong, or cannot be carried out as things are.",
    401: "The token is missing, wrong, revoked or expired.",
    403: "The role of the token may not do it, or a page of another site has sent the request.",
    404: "What the path or the body names does not exist.",
    409: "It exists already, is in use, or is in another state.",
    412: "It is not what `If-Match` names any more.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The request names a host that is not this server.",
    429: "Too many wrong tokens have come from this address; `Retry-After` says for how long.",
    500: "A bug; the server's log has the details.",
    503: "The world's fault, or another capture is the owner: ask again later, or there.",
}


def install(app: FastAPI) -> None:
    """Have the application describe itself so."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title="Tidegate", version=cdc.__version__, description=_DESCRIPTION, routes=app.routes
    )
    _, errors = models_json_schema(
        [(ApiError, "serialization")], ref_template="#/components/schemas/{model}"
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {}) | errors["$defs"]
    # The framework's own answer to a wrong parameter, which is never given here.
    components["schemas"] = {n: s for n, s in sorted(schemas.items()) if "ValidationError" not in n}
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            is_open = path in OPEN and method.upper() in READS
            operation["security"] = [] if is_open else [{"token": []}]
            if not is_open:
                operation["x-role"] = str(roles.least(method.upper(), path))
            operation["responses"].pop("422", None)
            for status in _statuses(path, method, operation):
                if not (is_open and status in (401, 429)):
                    operation["responses"][str(status)] = _error(status)
    return found


def _statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    """Errors that a request may get, but for 405: that is not one of this operation."""
    yield from (401, 403, 421, 429, 500, 503)
    changes = method.upper() not in READS
    if "{" in path or changes:
        yield 404
    if "parameters" in operation or "requestBody" in operation or changes:
        yield 400
    if any(p["name"] == "if-match" for p in operation.get("parameters", ())):
        yield 412
    if changes:
        yield from (409, 413, 415)


def _error(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _ERROR}}}
    return {"description": _MEANINGS[status], "content": content}
