"""``cdc cli console``."""

from __future__ import annotations

import typer

from cdc.cli.options import client


def console() -> None:
    """Print the address of the page at /, with the token: who has the address has the token."""
    found = client()
    # A token that is refused would only be shown so by the page.
    found.get("/caller")
    typer.echo(found.console())
