"""What another tool's files become: changefeeds, their files, and the commands that make them."""

from __future__ import annotations

import json as json_
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from cdc.base.refusals import Refusals
from cdc.cli import output
from cdc.cli.changefeed import EARLIEST
from cdc.cli.upstream import Kind
from owner.replica_config import check


@dataclass(frozen=True, slots=True)
class ImportedNode:
    """A server. ``uri`` is empty if nothing names it, ``start`` if its log begins now."""

    name: str
    uri: str = ""
    start: str = ""


@dataclass(frozen=True, slots=True)
class ImportedFeed:
    """A changefeed, and the upstream that it reads: a server, or several as its nodes.

    ``config`` are the values of the changefeed's file. URIs have no passwords.
    """

    feed: str
    upstream: str
    nodes: tuple[ImportedNode, ...]
    config: dict[str, Any]
    sink_uri: str


@dataclass(frozen=True, slots=True)
class Imported:
    """``left`` are keys that have no counterpart, each with the reason."""

    feeds: tuple[ImportedFeed, ...]
    left: tuple[tuple[str, str], ...]


def write(made: Imported, folder: Path, *, json: bool) -> None:
    """Write a file for each changefeed; print the commands that create it, and what is left.

    What a server would refuse is refused before a file is written. Raises ManyRefusals and what
    ``owner.replica_config.check`` raises.
    """
    files = {one.feed: folder / f"{one.feed}.toml" for one in made.feeds}
    folder.mkdir(parents=True, exist_ok=True)
    refusals = Refusals()
    for one in made.feeds:
        with refusals.gathered():
            check(one.config)
    refusals.check()
    for one in made.feeds:
        files[one.feed].write_text(toml_text(one.config))
    if json:
        output.as_json(
            {
                "changefeeds": [
                    {"commands": commands(one, files[one.feed]), "config": one.config}
                    for one in made.feeds
                ],
                "left": [{"key": key, "why": why} for key, why in made.left],
            }
        )
        return
    for one in made.feeds:
        typer.echo("\n".join(commands(one, files[one.feed])))
    if made.left:
        typer.echo("\nwithout a counterpart:")
        for key, why in made.left:
            typer.echo(f"  {key}: {why}")


def commands(one: ImportedFeed, file: Path) -> list[str]:
    """What registers the upstream, and what creates the changefeed with its file."""
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
    if any(node.start for node in one.nodes):
        # What was committed since the other tool ended is in the log, and is to be delivered.
        feed += ["--start-ts", EARLIEST]
    return [shlex.join(words) for words in (upstream, feed)]


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


@dataclass
class Findings:
    """What is in the way, and what is left out, each with its key and the reason."""

    refused: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    def refuse(self, key: str, why: str) -> None:
        """One more thing that no changefeed can do."""
        self.refused.append(f"{key}: {why}")


def plain_name(text: str, otherwise: str) -> str:
    """A text as the id of a changefeed or the name of an upstream."""
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
    return "-".join(filter(None, kept.split("-"))) or otherwise


def server_uri(host: str, port: int | str, user: str) -> str:
    """Of a MySQL server, without a password."""
    who = f"{user}@" if user else ""
    return f"mysql://{who}{f'[{host}]' if ':' in host else host}:{port}"


def listed(value: Any) -> Sequence[Any]:
    """A list as it is, one value as a list, nothing as an empty one."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
