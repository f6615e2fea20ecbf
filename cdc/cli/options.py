"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cdc.cli.client import DEFAULT_SERVER, Client

Server = Annotated[
    str, typer.Option("--server", envvar="TIDEGATE_SERVER", help="Address of a server's API.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
FeedId = Annotated[str, typer.Option("--changefeed-id", "-c", help="Id of the changefeed.")]
UpstreamName = Annotated[str, typer.Option("--upstream", "-u", help="Name of the upstream.")]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", "-y", help="Do not ask.")]

SERVER = DEFAULT_SERVER


def client(server: str) -> Client:
    """A client of that server."""
    return Client(server)


def without_none(**values: Any) -> dict[str, Any]:
    """Only what was given."""
    return {k: v for k, v in values.items() if v is not None}
