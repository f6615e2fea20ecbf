"""``cdc maxwell import``: a configuration of Maxwell's as a changefeed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cdc.base.errors import InvalidError
from cdc.cli.imported import write
from cdc.cli.maxwell_config import imported
from cdc.cli.options import Json
from cdc.cli.properties import read_properties

app = typer.Typer(no_args_is_help=True, help="Come from Maxwell.")


class MaxwellFileInvalid(InvalidError):
    """A file that is no configuration of Maxwell's."""

    code = "TG:ErrMaxwellFileInvalid"


@app.callback()
def _group() -> None:
    """Come from Maxwell."""


@app.command("import")
def import_(
    config: Annotated[Path, typer.Argument(help="Its config.properties.")],
    position: Annotated[
        str,
        typer.Option(help="Where it stopped: FILE:POS or GTIDs, as maxwell.positions has them."),
    ] = "",
    brokers: Annotated[
        str, typer.Option(help="Kafka's, HOST:PORT,…, where the file has none.")
    ] = "",
    folder: Annotated[Path, typer.Option("--output", help="Where the file is written.")] = Path(),
    json: Json = False,
) -> None:
    """Write the changefeed of a configuration, and print the commands that create it.

    Nothing is asked of any server. What has no counterpart is listed.
    """
    write(imported(read_properties(config, _invalid), position, brokers), folder, json=json)


def _invalid(path: Path, what: str) -> MaxwellFileInvalid:
    # What a file holds is not shown: it has Maxwell's password.
    return MaxwellFileInvalid(
        what, object=str(path), hint="give Maxwell's config.properties, docs/maxwell.md"
    )
