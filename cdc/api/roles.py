"""The least role that each route asks for: the one table of it.

An application with a route that is not here does not start (:func:`check`), so what the table does
not know is answered 404 or 405, whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import compile_path

from cdc.server.api_tokens import ApiRole

_V2 = "/api/v2"
_FEED = f"{_V2}/changefeeds/{{feed}}"

ROUTES: dict[tuple[str, str], ApiRole] = {
    ("GET", f"{_V2}/openapi.json"): ApiRole.VIEWER,
    ("GET", f"{_V2}/docs"): ApiRole.VIEWER,
    ("GET", f"{_V2}/docs/{{name}}"): ApiRole.VIEWER,
    ("GET", "/metrics"): ApiRole.VIEWER,
    ("GET", "/"): ApiRole.VIEWER,
    ("GET", "/console/{name}"): ApiRole.VIEWER,
    ("GET", f"{_V2}/health"): ApiRole.VIEWER,
    ("GET", f"{_V2}/ready"): ApiRole.VIEWER,
    ("GET", f"{_V2}/status"): ApiRole.VIEWER,
    ("GET", f"{_V2}/caller"): ApiRole.VIEWER,
    ("GET", f"{_V2}/captures"): ApiRole.VIEWER,
    ("PUT", f"{_V2}/captures/{{capture_id}}/drain"): ApiRole.ADMIN,
    ("POST", f"{_V2}/owner/resign"): ApiRole.ADMIN,
    ("GET", f"{_V2}/processors"): ApiRole.VIEWER,
    ("GET", f"{_V2}/processors/{{feed}}/{{capture_id}}"): ApiRole.VIEWER,
    ("POST", f"{_V2}/tso"): ApiRole.VIEWER,
    ("POST", f"{_V2}/filter/explain"): ApiRole.VIEWER,
    ("POST", f"{_V2}/verify_table"): ApiRole.VIEWER,
    ("POST", f"{_V2}/get_all_tables"): ApiRole.VIEWER,
    ("POST", f"{_V2}/log"): ApiRole.ADMIN,
    ("POST", f"{_V2}/log/redact"): ApiRole.ADMIN,
    ("GET", f"{_V2}/upstreams"): ApiRole.VIEWER,
    ("POST", f"{_V2}/upstreams"): ApiRole.ADMIN,
    ("GET", f"{_V2}/upstreams/{{name}}"): ApiRole.VIEWER,
    ("PUT", f"{_V2}/upstreams/{{name}}"): ApiRole.ADMIN,
    ("DELETE", f"{_V2}/upstreams/{{name}}"): ApiRole.ADMIN,
    ("POST", f"{_V2}/upstreams/{{name}}/move"): ApiRole.ADMIN,
    ("POST", f"{_V2}/upstreams/{{name}}/nodes"): ApiRole.ADMIN,
    ("DELETE", f"{_V2}/upstreams/{{name}}/nodes/{{node}}"): ApiRole.ADMIN,
    ("GET", f"{_V2}/changefeeds"): ApiRole.VIEWER,
    ("POST", f"{_V2}/changefeeds"): ApiRole.OPERATOR,
    ("GET", _FEED): ApiRole.VIEWER,
    ("PUT", _FEED): ApiRole.OPERATOR,
    ("DELETE", _FEED): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/pause"): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/resume"): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/move_table"): ApiRole.OPERATOR,
    ("GET", f"{_FEED}/meta_info"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/synced"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/apply"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/status"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/tables"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/ddls"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/ddls/{{ts}}"): ApiRole.VIEWER,
    ("POST", f"{_FEED}/ddls/{{ts}}/{{action}}"): ApiRole.OPERATOR,
    ("GET", f"{_FEED}/shard-ddls"): ApiRole.VIEWER,
    ("GET", f"{_FEED}/snapshots"): ApiRole.VIEWER,
    ("POST", f"{_FEED}/snapshots"): ApiRole.OPERATOR,
    ("GET", f"{_FEED}/snapshots/{{number}}"): ApiRole.VIEWER,
    ("POST", f"{_FEED}/snapshots/{{number}}/pause"): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/snapshots/{{number}}/resume"): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/snapshots/{{number}}/cancel"): ApiRole.OPERATOR,
    # It reads all of the source and the target, and its answer has no rows but their keys.
    ("POST", f"{_FEED}/verifications"): ApiRole.OPERATOR,
    ("GET", f"{_FEED}/verifications"): ApiRole.OPERATOR,
    ("GET", f"{_FEED}/verifications/{{id}}"): ApiRole.OPERATOR,
    ("DELETE", f"{_FEED}/verifications/{{id}}"): ApiRole.OPERATOR,
    ("POST", f"{_FEED}/verifications/{{id}}/repair"): ApiRole.OPERATOR,
    ("GET", f"{_V2}/audit"): ApiRole.ADMIN,
    ("GET", f"{_V2}/unsafe/metadata"): ApiRole.ADMIN,
    ("GET", f"{_V2}/tokens"): ApiRole.ADMIN,
    ("POST", f"{_V2}/tokens"): ApiRole.ADMIN,
    ("DELETE", f"{_V2}/tokens/{{name}}"): ApiRole.ADMIN,
}
ASKS = frozenset(
    f"{_V2}/{name}" for name in ("tso", "filter/explain", "verify_table", "get_all_tables")
)
"""These ask with a body, and change nothing."""
# As the framework itself finds a route.
_PATTERNS = [(method, path, compile_path(path)[0], role) for (method, path), role in ROUTES.items()]


def least(method: str, path: str) -> ApiRole:
    """The role that a request needs; what leads to no route needs only a token."""
    method = "GET" if method == "HEAD" else method
    found = (role for m, _, pattern, role in _PATTERNS if m == method and pattern.match(path))
    # Where two routes have a path, the framework's order decides; so the stricter one is asked for.
    return max(found, default=ApiRole.VIEWER)


def is_change(method: str, path: str) -> bool:
    """Whether a route of the table changes something; ``path`` as it is there."""
    return method != "GET" and path not in ASKS


def change(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The route of a request that changes something, with its parameters; None for any other."""
    for known, template, pattern, _ in _PATTERNS:
        if known == method and is_change(known, template) and (found := pattern.match(path)):
            return template, found.groupdict()
    return None


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """(method, path) of all routes of an application."""
    for route in iter_route_contexts(app.routes):
        for method in route.methods or ():
            yield method, str(route.path)


def check(found: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError for a route that is not in the table; HEAD is as GET."""
    missing = {(m, p) for m, p in found if ("GET" if m == "HEAD" else m, p) not in ROUTES}
    if missing:
        raise ValueError(f"routes without a role: {sorted(missing)}")
