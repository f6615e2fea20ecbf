"""``cdc cli upstream node …``."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.options import Json, UpstreamName, client
from cdc.cli.passwords import PasswordFile, complete

app = typer.Typer(no_args_is_help=True, help="Nodes that come to an upstream, and leave it.")

NodeName = Annotated[str, typer.Option("--node", help="Name of the node.")]


@app.command()
def add(
    upstream: UpstreamName,
    node: NodeName,
    uri: Annotated[str, typer.Option("--uri", help="mysql://user@host:port; - reads it.")],
    password_file: PasswordFile = None,
    start: Annotated[
        str | None,
        typer.Option(help="Where to begin: a GTID set, file:position or a time; default: now."),
    ] = None,
    json: Json = False,
) -> None:
    """Have another server belong to an upstream of kind shards, from its start on."""
    body = {"name": node, "uri": complete(uri, password_file), "start": start}
    info = client().post(f"/upstreams/{upstream}/nodes", body)
    for finding in info["findings"]:
        output.warning(f"{finding['what']}; hint: {finding['statement']}")
    if json:
        output.as_json(info)
    else:
        typer.echo(f"upstream {upstream}: node {node} joins")


@app.command()
def remove(upstream: UpstreamName, node: NodeName, json: Json = False) -> None:
    """Have a server leave, behind what is pulled of it by now; the target keeps its rows."""
    info = client().delete(f"/upstreams/{upstream}/nodes/{node}")
    if json:
        output.as_json(info)
    else:
        typer.echo(f"upstream {upstream}: node {node} leaves")
