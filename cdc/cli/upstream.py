"""``cdc cli upstream …``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import SERVER, Json, Server, UpstreamName, client
from cdc.cli.passwords import PasswordFile, complete

app = typer.Typer(no_args_is_help=True, help="Register and watch upstreams.")


def _path(given: str | None) -> str | None:
    # The server reads the file, and it works in another folder than whoever calls us.
    return str(Path(given).absolute()) if given and Path(given).is_file() else given


@app.command()
def create(
    upstream: UpstreamName,
    uri: Annotated[str, typer.Option("--uri", help="mysql://user@host:port; - reads it.")],
    password_file: PasswordFile = None,
    ca: Annotated[str | None, typer.Option(help="PEM file of the authority; turns TLS on.")] = None,
    cert: Annotated[str | None, typer.Option(help="PEM file of our certificate.")] = None,
    key: Annotated[str | None, typer.Option(help="PEM file of its key.")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Where to begin: a GTID set, file:position or a time; default: now."),
    ] = None,
    server: Server = SERVER,
    json: Json = False,
) -> None:
    """Check a server's settings, take a schema snapshot, and begin to pull its binlog."""
    body = {"name": upstream, "uri": complete(uri, password_file), "start": start}
    body |= {"ca": _path(ca), "cert": _path(cert), "key": _path(key)}
    info = client(server).post("/upstreams", body)
    for finding in info["findings"]:
        output.warning(f"{finding['what']}; hint: {finding['statement']}")
    if json:
        output.as_json(info)
        return
    what = f"{info['server_kind']} {info['server_version']}".strip()
    typer.echo(f"upstream {upstream} registered: {what}")


@app.command("list")
def list_(server: Server = SERVER, json: Json = False) -> None:
    """List upstreams."""
    items: list[dict[str, Any]] = client(server).get("/upstreams")["items"]
    if json:
        output.as_json(items)
        return
    output.table(
        ("NAME", "SERVER", "STATE", "RESOLVED TS", "RESOLVED TIME", "LOG MIB", "ERROR", "WARNINGS"),
        (
            (
                i["name"],
                f"{i['server_kind']} {i['server_version']}",
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
def query(upstream: UpstreamName, server: Server = SERVER, json: Json = False) -> None:
    """Show an upstream."""
    info = client(server).get(f"/upstreams/{upstream}")
    (output.as_json if json else output.fields)(info)


@app.command()
def remove(upstream: UpstreamName, server: Server = SERVER, json: Json = False) -> None:
    """Forget an upstream and delete its log; refused while changefeeds read it."""
    client(server).delete(f"/upstreams/{upstream}")
    if json:
        output.as_json({})
    else:
        typer.echo(f"upstream {upstream} removed")
