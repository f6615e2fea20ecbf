"""``cdc backup`` and ``cdc restore``: what of a data directory cannot be had again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc.coord import backup as copies


def backup(
    data_dir: Annotated[Path, typer.Option(help="Of the server, which may run.")],
    output: Annotated[Path, typer.Option(help="The file to make; it holds passwords.")],
) -> None:
    """Back up what is decided: changefeeds, upstreams, how far they are."""
    count = copies.back_up(data_dir / "store" / "meta.db", output)
    typer.echo(f"{output}: {count} keys")


def restore(
    file: Annotated[Path, typer.Argument(help="What cdc backup has made.")],
    data_dir: Annotated[Path, typer.Option(help="A new data directory.")],
) -> None:
    """Make a data directory of a backup; a server that starts there pulls the logs anew."""
    count = copies.restore(file, data_dir)
    typer.echo(f"{data_dir}: {count} keys")
