"""``cdc dm import``: a task of DM as changefeeds."""

from __future__ import annotations

import json as json_
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml  # type: ignore[import-untyped]

from cdc.base.errors import InvalidError
from cdc.base.refusals import Refusals
from cdc.cli import output
from cdc.cli.dm_task import ImportedFeed, imported
from cdc.cli.options import Json
from cdc.cli.upstream import Kind
from owner.replica_config import check

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
    made = imported(_yaml(task), sources)
    files = {one.feed: folder / f"{one.feed}.toml" for one in made.feeds}
    folder.mkdir(parents=True, exist_ok=True)
    refusals = Refusals()
    for one in made.feeds:
        # What a server would refuse is refused here, before a file is written.
        with refusals.gathered():
            check(one.config)
    refusals.check()
    for one in made.feeds:
        files[one.feed].write_text(toml_text(one.config))
    if json:
        output.as_json(
            {
                "changefeeds": [
                    {"commands": _commands(one, files[one.feed]), "config": one.config}
                    for one in made.feeds
                ],
                "left": [{"key": key, "why": why} for key, why in made.left],
            }
        )
        return
    for one in made.feeds:
        typer.echo("\n".join(_commands(one, files[one.feed])))
    if made.left:
        typer.echo("\nwithout a counterpart:")
        for key, why in made.left:
            typer.echo(f"  {key}: {why}")


def _commands(one: ImportedFeed, file: Path) -> list[str]:
    upstream = ["cdc", "cli", "upstream", "create", "--upstream", one.upstream]
    several = len(one.nodes) > 1
    if several:
        upstream += ["--kind", Kind.SHARDS.value]
    for node in one.nodes:
        uri = node.uri or "mysql://USER@HOST:PORT"
        upstream += ["--node", f"{node.name}={uri}"] if several else ["--uri", uri]
    for node in one.nodes:
        if node.start:
            named = ["--node-start", f"{node.name}={node.start}"]
            upstream += named if several else ["--start", node.start]
    feed = ["cdc", "cli", "changefeed", "create", "-c", one.feed, "-u", one.upstream]
    feed += ["--sink-uri", one.sink_uri, "--config", str(file)]
    return [shlex.join(words) for words in (upstream, feed)]


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


def toml_text(config: Mapping[str, Any], path: str = "") -> str:
    """Values, sections and lists of sections of a changefeed's file as TOML."""
    lines, below = [], []
    for key, value in config.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            below.append(f"[{name}]\n{toml_text(value, name)}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            below += [f"[[{name}]]\n{toml_text(one, name)}" for one in value]
        else:
            # A string, number, boolean or list of strings is the same in JSON.
            lines.append(f"{key} = {json_.dumps(value)}\n")
    return "".join(lines) + "".join(f"\n{part}" for part in below)
