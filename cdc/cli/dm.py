"""``cdc dm import``: a task of DM as changefeeds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml  # type: ignore[import-untyped]

from cdc.base.errors import InvalidError
from cdc.cli.dm_task import imported
from cdc.cli.imported import write
from cdc.cli.options import Json

app = typer.Typer(no_args_is_help=True, help="Come from DM.")


class DmFileInvalid(InvalidError):
    """A file that is no YAML, or no task or source of DM's."""

    code = "TG:ErrDMFileInvalid"


@app.callback()
def _group() -> None:
    """Come from DM."""


@app.command("import")
def import_(
    task: Annotated[Path, typer.Argument(help="DM's task file.")],
    source: Annotated[
        list[Path] | None, typer.Option(help="DM's file of a source; may be given often.")
    ] = None,
    folder: Annotated[Path, typer.Option("--output", help="Where the files are written.")] = Path(),
    json: Json = False,
) -> None:
    """Write the changefeeds of a DM task, and print the commands that create them.

    Nothing is asked of any server. What has no counterpart is listed.
    """
    sources = {str(s.get("source-id", "")): s for s in map(_yaml, source or ())}
    write(imported(_yaml(task), sources), folder, json=json)


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        read = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as e:
        raise DmFileInvalid(
            f"cannot be read: {' '.join(str(e).split())[:300]}",
            object=str(path),
            hint="give a task or source file of DM's",
        ) from None
    if not isinstance(read, Mapping):
        raise DmFileInvalid(
            "has no keys", object=str(path), hint="give a task or source file of DM's"
        )
    return read
