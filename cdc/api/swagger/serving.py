"""The page and its files. They hold nothing of this server, so they need no token.

The description itself is asked for with the token of whoever looks at the page, as all else is.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from fastapi import FastAPI, HTTPException, Response

from cdc.api.console import serving

PATH = "/api/v2/docs"
# A package of PyPI that has Swagger UI's own two files, and does nothing here.
_BUNDLE = "fastapi_swagger.resources"
_FILES = {
    "start.js": (__package__, "page/start.js", "text/javascript"),
    "start.css": (__package__, "page/start.css", "text/css"),
    "swagger-ui.css": (_BUNDLE, "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_BUNDLE, "swagger-ui-bundle.js", "text/javascript"),
}
_INDEX = (__package__, "page/index.html", "text/html")
# As the console's, but Swagger UI sets styles of elements, has pictures in its text, and makes
# markup of what it has cleaned itself: of the description, in which nobody else writes.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {**serving.HEADERS, "Content-Security-Policy": POLICY}
PATHS = frozenset({PATH, *(f"{PATH}/{name}" for name in _FILES)})
"""What is answered without a token."""


def install(app: FastAPI) -> None:
    """Have the application answer the page and its files."""

    @app.get(PATH, include_in_schema=False)
    def page() -> Response:
        return _answer(*_INDEX)

    @app.get(f"{PATH}/{{name}}", include_in_schema=False)
    def file(name: str) -> Response:
        if name not in _FILES:
            raise HTTPException(404)
        return _answer(*_FILES[name])


def _answer(package: str, path: str, media_type: str) -> Response:
    return Response(_content(package, path), media_type=media_type, headers=_HEADERS)


@cache
def _content(package: str, path: str) -> bytes:
    found: Traversable = resources.files(package)
    for part in path.split("/"):
        found = found / part
    return found.read_bytes()
