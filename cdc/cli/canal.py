"""``cdc canal import``: an instance of Canal's as a changefeed."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.base.errors import InvalidError
from cdc.cli.canal_config import imported
from cdc.cli.imported import write
from cdc.cli.options import Json
from cdc.cli.properties import read_properties, read_text

app = typer.Typer(no_args_is_help=True, help="Come from Canal.")


class CanalFileInvalid(InvalidError):
    """A file that is no configuration of Canal's, or has no position of an instance."""

    code = "TG:ErrCanalFileInvalid"


@app.callback()
def _group() -> None:
    """Come from Canal."""


@app.command("import")
def import_(
    instance: Annotated[Path, typer.Argument(help="The instance's instance.properties.")],
    server: Annotated[Path | None, typer.Option(help="The server's canal.properties.")] = None,
    meta: Annotated[
        Path | None,
        typer.Option(help="Where it stopped: its meta.dat, or its cursor out of ZooKeeper."),
    ] = None,
    position: Annotated[str, typer.Option(help="The same as FILE:POS or GTIDs.")] = "",
    brokers: Annotated[
        str, typer.Option(help="Kafka's, HOST:PORT,…, where the files have none.")
    ] = "",
    folder: Annotated[Path, typer.Option("--output", help="Where the file is written.")] = Path(),
    json: Json = False,
) -> None:
    """Write the changefeed of an instance, and print the commands that create it.

    Nothing is asked of any server. What has no counterpart is listed.
    """
    files = [instance] if server is None else [server, instance]
    given = {k: v for file in files for k, v in read_properties(file, _invalid).items()}
    start = position or (_stopped(meta) if meta is not None else "")
    write(imported(given, start, brokers), folder, json=json)


def _stopped(path: Path) -> str:
    """The position in what Canal writes down; GTIDs if it has them."""
    try:
        read = json_.loads(read_text(path, _invalid))
    except ValueError:
        raise _invalid(path, "is no JSON") from None
    places = list(_positions(read))
    if len(places) != 1:
        raise _invalid(path, f"has {len(places)} positions, not one")
    (place,) = places
    return str(place.get("gtid") or f"{place['journalName']}:{place.get('position', 4)}")


def _positions(read: Any) -> Iterator[Mapping[str, Any]]:
    """What has a file's name, wherever it is."""
    if isinstance(read, Mapping):
        if read.get("journalName"):
            yield read
        for value in read.values():
            yield from _positions(value)
    elif isinstance(read, list):
        for value in read:
            yield from _positions(value)


def _invalid(path: Path, what: str) -> CanalFileInvalid:
    # What a file holds is not shown: it has the instance's password.
    return CanalFileInvalid(what, object=str(path), hint="give Canal's own files, docs/canal.md")
