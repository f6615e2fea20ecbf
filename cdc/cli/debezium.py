"""``cdc debezium import``: a connector of Debezium's as a changefeed."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.base.errors import InvalidError
from cdc.cli.debezium_connector import imported
from cdc.cli.imported import write
from cdc.cli.options import Json
from cdc.cli.properties import properties, read_text

app = typer.Typer(no_args_is_help=True, help="Come from Debezium.")


class ConnectorFileInvalid(InvalidError):
    """A file that has no properties of a connector, or no offset of one."""

    code = "TG:ErrConnectorFileInvalid"


@app.callback()
def _group() -> None:
    """Come from Debezium."""


@app.command("import")
def import_(
    connector: Annotated[
        Path, typer.Argument(help="Its configuration: JSON as Connect has it, or .properties.")
    ],
    offsets: Annotated[
        Path | None,
        typer.Option(help="Where it stopped: the answer of GET /connectors/NAME/offsets."),
    ] = None,
    brokers: Annotated[str, typer.Option(help="Kafka's, HOST:PORT,…")] = "",
    folder: Annotated[Path, typer.Option("--output", help="Where the file is written.")] = Path(),
    json: Json = False,
) -> None:
    """Write the changefeed of a connector, and print the commands that create it.

    Nothing is asked of any server. What has no counterpart is listed.
    """
    offset = _offset(offsets) if offsets is not None else None
    write(imported(_properties(connector), offset, brokers), folder, json=json)


def _properties(path: Path) -> Mapping[str, Any]:
    """A JSON object of properties, or with them as ``config``; or lines ``key=value``."""
    text = read_text(path, _invalid)
    if text.lstrip().startswith("{"):
        whole = _json(path, text)
        config = whole.get("config", whole)
        if isinstance(config, Mapping):
            return {"name": whole["name"], **config} if "name" in whole else config
        raise _invalid(path, "its config has no properties")
    read = properties(text)
    if not read:
        raise _invalid(path, "is neither a JSON object nor lines of key=value")
    return read


def _offset(path: Path) -> Mapping[str, Any]:
    """The one offset of an answer of Connect's, or an offset alone."""
    read = _json(path, read_text(path, _invalid))
    found = read.get("offsets", [{"offset": read}])
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], Mapping):
        raise _invalid(path, "has not one offset")
    offset = found[0].get("offset")
    if not isinstance(offset, Mapping):
        raise _invalid(path, "has no offset")
    return offset


def _json(path: Path, text: str) -> dict[str, Any]:
    try:
        read = json_.loads(text)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise _invalid(path, "is no JSON object")
    return read


def _invalid(path: Path, what: str) -> ConnectorFileInvalid:
    # What a file holds is not shown: it has the connector's password.
    return ConnectorFileInvalid(
        what, object=str(path), hint="give what Connect's REST interface answers, docs/debezium.md"
    )
