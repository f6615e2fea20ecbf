"""The files of the page, and under which rules a browser runs them.

They hold nothing of this server, so they need no token; what the page shows it asks the API for,
with the token of whoever looks at it.
"""

from __future__ import annotations

from importlib import resources

from fastapi import FastAPI, HTTPException, Response

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FOLDER = "/console"
_INDEX = "index.html"
# Nothing of another host, nothing inline, and no text is ever read as markup.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Its files belong together, so none of them may be an older version's.
    "Cache-Control": "no-cache",
}


def _files() -> dict[str, tuple[bytes, str]]:
    """Content and type of every file, by the name that it is asked for by."""
    found = {}
    for file in (resources.files(__package__) / "page").iterdir():
        media_type = _TYPES.get(file.name[file.name.rfind(".") :])
        if media_type is not None:
            found[file.name] = (file.read_bytes(), media_type)
    return found


_FILES = _files()
PATHS = frozenset({"/", *(f"{_FOLDER}/{name}" for name in _FILES)})
"""What is answered without a token."""


def install(app: FastAPI) -> None:
    """Have the application answer the page and its files."""

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return _answer(_INDEX)

    @app.get(f"{_FOLDER}/{{name}}", include_in_schema=False)
    def file(name: str) -> Response:
        return _answer(name)


def _answer(name: str) -> Response:
    if name not in _FILES:
        raise HTTPException(404)
    content, media_type = _FILES[name]
    return Response(content, media_type=media_type, headers=HEADERS)
