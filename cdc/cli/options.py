"""Options that many commands share, and those that every command of a running server takes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cdc.client.access import DEFAULT_SERVER
from cdc.client.operations import Client
from cdc.client.profiles import chosen

# What stands on the command line about the server, before and after the verb.
_given: ContextVar[dict[str, Any] | None] = ContextVar("given", default=None)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
FeedId = Annotated[str, typer.Option("--changefeed-id", "-c", help="Id of the changefeed.")]
UpstreamName = Annotated[str, typer.Option("--upstream", "-u", help="Name of the upstream.")]
NoConfirm = Annotated[bool, typer.Option("--no-confirm", "-y", help="Do not ask.")]

_PANEL = "Server"


def access(
    server: Annotated[
        str | None,
        typer.Option(
            help=f"Address of a server's API; TIDEGATE_SERVER, else {DEFAULT_SERVER}.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Take server, files and token from this section of the file of profiles;"
            " TIDEGATE_PROFILE.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token; the server's own user needs none."
            " TIDEGATE_TOKEN_FILE, or TIDEGATE_TOKEN with the token itself.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option(
            help="PEM file of the authority of the server; TIDEGATE_CA.", rich_help_panel=_PANEL
        ),
    ] = None,
    cert: Annotated[
        str | None,
        typer.Option(help="PEM file of our certificate; TIDEGATE_CERT.", rich_help_panel=_PANEL),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="PEM file of its key; TIDEGATE_KEY.", rich_help_panel=_PANEL),
    ] = None,
) -> None:
    """Operate a running server."""
    _given.set(
        without_none(
            server=server, profile=profile, token_file=token_file, ca=ca, cert=cert, key=key
        )
    )


class OfServer(TyperGroup):
    """A group whose own options, those of :func:`access`, its commands take behind the verb too.

    A command that has one of that name keeps its own: ``upstream create --ca`` is the upstream's.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for command in _commands(self):
            own = {flag for p in command.params for flag in p.opts}
            for option in (p for p in self.params if not own.intersection(p.opts)):
                behind = copy.copy(option)
                behind.expose_value = False
                behind.callback = _note
                command.params.append(behind)


def _commands(group: TyperGroup) -> Iterator[Any]:
    for command in group.commands.values():
        if isinstance(command, TyperGroup):
            yield from _commands(command)
        else:
            yield command


def _note(_: object, option: Any, value: Any) -> Any:
    if value is not None:
        _given.set({**(_given.get() or {}), option.name: value})
    return value


def client() -> Client:
    """A client of the server that is meant, with what is known of access."""
    return Client(chosen(**(_given.get() or {})))


def without_none(**values: Any) -> dict[str, Any]:
    """Only what was given."""
    return {k: v for k, v in values.items() if v is not None}
