"""Options that many commands share."""

from __future__ import annotations

import os
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.cli.client import DEFAULT_SERVER, Access, Client

_TOKEN_FILE = "TIDEGATE_TOKEN_FILE"
# What `cdc cli` was given before the command that makes a client.
_access: ContextVar[Access | None] = ContextVar("access", default=None)

Server = Annotated[
    str, typer.Option("--server", envvar="TIDEGATE_SERVER", help="Address of a server's API.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
FeedId = Annotated[str, typer.Option("--changefeed-id", "-c", help="Id of the changefeed.")]
UpstreamName = Annotated[str, typer.Option("--upstream", "-u", help="Name of the upstream.")]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", "-y", help="Do not ask.")]

SERVER = DEFAULT_SERVER


def access(
    ca: Annotated[
        str | None,
        typer.Option(envvar="TIDEGATE_CA", help="PEM file of the authority of the server."),
    ] = None,
    cert: Annotated[
        str | None, typer.Option(envvar="TIDEGATE_CERT", help="PEM file of our certificate.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(envvar="TIDEGATE_KEY", help="PEM file of its key.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar=_TOKEN_FILE,
            help="File with the server's token; the server's own user needs none."
            " Or TIDEGATE_TOKEN with the token itself.",
        ),
    ] = None,
) -> None:
    """Operate a running server."""
    _access.set(Access(ca, cert, key, token_file))


def client(server: str) -> Client:
    """A client of that server, with what the command line says about access."""
    return Client(server, _access.get() or _of_environment())


def _of_environment() -> Access:
    # Commands outside `cdc cli` have no options for it.
    ca, cert, key, file = (
        os.environ.get(name)
        for name in ("TIDEGATE_CA", "TIDEGATE_CERT", "TIDEGATE_KEY", _TOKEN_FILE)
    )
    return Access(ca, cert, key, Path(file) if file else None)


def without_none(**values: Any) -> dict[str, Any]:
    """Only what was given."""
    return {k: v for k, v in values.items() if v is not None}
