"""``cdc cli upstream …``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.base.errors import InvalidError
from cdc.cli import output, upstream_node
from cdc.cli.options import Json, UpstreamName, client
from cdc.cli.passwords import PasswordFile, complete, given_password
from cdc.cli.watching import watched

app = typer.Typer(no_args_is_help=True, help="Register and watch upstreams.")
app.add_typer(upstream_node.app, name="node")


def _path(given: str | None) -> str | None:
    # The server reads the file, and it works in another folder than whoever calls us.
    return str(Path(given).absolute()) if given and Path(given).is_file() else given


class Kind(StrEnum):
    """One server, or several nodes whose changes are one stream."""

    SINGLE = "single"
    SHARDS = "shards"
    CLUSTER = "cluster"


class NodeOptionInvalid(InvalidError):
    """A node on the command line is not ``name=value``."""

    code = "TG:ErrNodeOptionInvalid"


def _pairs(option: str, given: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        # The rest may hold a password.
        if not equals or not value or name in found:
            raise NodeOptionInvalid(
                f"{option} takes name=value, each name once",
                hint="--node n1=mysql://user@host:port",
            )
        found[name] = value
    return found


def _nodes(
    node: list[str], node_start: list[str], password_file: str | None
) -> list[dict[str, Any]]:
    uris, starts = _pairs("--node", node), _pairs("--node-start", node_start)
    if unknown := starts.keys() - uris.keys():
        raise NodeOptionInvalid(
            f"--node-start of {', '.join(sorted(unknown))}, which is no node",
            hint="give --node for each",
        )
    return [
        {"name": name, "uri": complete(uri, password_file), "start": starts.get(name)}
        for name, uri in uris.items()
    ]


@app.command()
def create(
    upstream: UpstreamName,
    uri: Annotated[
        str | None, typer.Option("--uri", help="mysql://user@host:port; - reads it.")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="One server, or nodes: shards, or a cluster.")] = (
        Kind.SINGLE
    ),
    carrier: Annotated[
        str | None,
        typer.Option(help="Where the nodes of a cluster have commit TSOs; default: timestamp."),
    ] = None,
    logical_tables: Annotated[
        list[str] | None,
        typer.Option(help="Names of parts of a cluster's tables: {schema}_#.{table}_#."),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="name=uri of one of several nodes.")
    ] = None,
    node_start: Annotated[
        list[str] | None, typer.Option("--node-start", help="name=start, of a node alone.")
    ] = None,
    password_file: PasswordFile = None,
    ca: Annotated[str | None, typer.Option(help="PEM file of the authority; turns TLS on.")] = None,
    cert: Annotated[str | None, typer.Option(help="PEM file of our certificate.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file of its key.")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Where to begin: a GTID set, file:position or a time; default: now."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a server's settings, take a schema snapshot, and begin to pull its binlog."""
    body: dict[str, Any] = {"name": upstream, "kind": kind.value, "start": start}
    if uri is not None:
        body["uri"] = complete(uri, password_file)
    if node or node_start:
        body["nodes"] = _nodes(node or [], node_start or [], password_file)
    if carrier is not None:
        body["carrier"] = carrier
    if logical_tables:
        body["logical_tables"] = logical_tables
    body |= {"ca": _path(ca), "cert": _path(cert), "key": _path(key)}
    info = client().post("/upstreams", body)
    for finding in info["findings"]:
        output.warning(f"{finding['what']}; hint: {finding['statement']}")
    if json:
        output.as_json(info)
        return
    what = f"{info['server_kind']} {info['server_version']}".strip()
    nodes = ", ".join(n["name"] for n in info["nodes"])
    typer.echo(f"upstream {upstream} registered: {what}" + (f", nodes {nodes}" if nodes else ""))


@app.command()
def move(
    upstream: UpstreamName,
    capture: Annotated[str, typer.Option("--capture", help="Its id, of capture list.")],
    json: Json = False,
) -> None:
    """Have another capture pull an upstream and deliver the changefeeds that read it."""
    placed = client().post(f"/upstreams/{upstream}/move", {"capture_id": capture})
    if json:
        output.as_json(placed)
        return
    typer.echo(f"upstream {upstream} is placed at capture {capture}, which takes it over")


@app.command()
def update(
    upstream: UpstreamName,
    uri: Annotated[
        str | None, typer.Option("--uri", help="The same server's URI, whole; - reads it.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="In the place of the URI's.")] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", help="name=uri of one of several nodes.")
    ] = None,
    password_file: PasswordFile = None,
    ca: Annotated[str | None, typer.Option(help="PEM file of the authority; '' for none.")] = None,
    cert: Annotated[str | None, typer.Option(help="PEM file of our certificate.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file of its key.")] = None,
    json: Json = False,
) -> None:
    """Reach the same server by another user, password, address or certificate; its log stays.

    The server is asked first, and nothing is changed unless it is the one whose changes the log
    has. Without an option it is asked anew, and connected to anew where an error had ended that.
    """
    body: dict[str, Any] = {"user": user, "ca": _path(ca), "cert": _path(cert), "key": _path(key)}
    if uri is not None:
        body["uri"] = complete(uri, password_file)
    elif node:
        body["nodes"] = [
            {"name": name, "uri": complete(given, password_file)}
            for name, given in _pairs("--node", node).items()
        ]
    else:
        body["password"] = given_password(password_file)
    info = client().put(f"/upstreams/{upstream}", body)
    for finding in info["findings"]:
        output.warning(f"{finding['what']}; hint: {finding['statement']}")
    if json:
        output.as_json(info)
    else:
        typer.echo(f"upstream {upstream} updated")


@app.command("list")
@watched
def list_(json: Json = False) -> None:
    """List upstreams."""
    items: list[dict[str, Any]] = client().get("/upstreams")["items"]
    if json:
        output.as_json(items)
        return
    output.table(
        (
            "NAME",
            "SERVER",
            "NODES",
            "STATE",
            "RESOLVED TS",
            "RESOLVED TIME",
            "LOG MIB",
            "ERROR",
            "WARNINGS",
        ),
        (
            (
                i["name"],
                f"{i['server_kind']} {i['server_version']}",
                len(i["nodes"]) or None,
                i["state"],
                i["resolved_ts"],
                i["resolved_time"],
                f"{i['log_bytes'] / (1 << 20):.1f}",
                (i["error"] or {}).get("code"),
                len(i["findings"]) or None,
            )
            for i in items
        ),
    )


@app.command()
@watched
def query(upstream: UpstreamName, json: Json = False) -> None:
    """Show an upstream."""
    info = client().get(f"/upstreams/{upstream}")
    (output.as_json if json else output.fields)(info)


@app.command()
def remove(upstream: UpstreamName, json: Json = False) -> None:
    """Forget an upstream and delete its log; refused while changefeeds read it."""
    client().delete(f"/upstreams/{upstream}")
    if json:
        output.as_json({})
    else:
        typer.echo(f"upstream {upstream} removed")
