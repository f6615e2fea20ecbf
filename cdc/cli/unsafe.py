"""``cdc cli unsafe …``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import Json, client

app = typer.Typer(no_args_is_help=True, help="Look below what the other commands show.")


@app.command("show-metadata")
def show_metadata(
    contains: Annotated[
        str, typer.Option("--contains", help="Only keys that have this in them.")
    ] = "",
    json: Json = False,
) -> None:
    """Show what the store has of the cluster, without secrets."""
    items: list[dict[str, Any]] = client().get("/unsafe/metadata", contains=contains)["items"]
    if json:
        output.as_json(items)
        return
    for item in items:
        typer.echo(f"Key: {item['key']}, Value: {item['value']}")
