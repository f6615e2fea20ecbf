"""The whole ``cdc`` command."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

from cdc.cli import (
    changefeed,
    ddl,
    output,
    processor,
    root,
    shard_ddl,
    snapshot,
    ticdc_json,
    token,
    unsafe,
    upstream,
)
from cdc.cli.audit import audit
from cdc.cli.console import console
from cdc.cli.options import Json, OfServer, access, client
from cdc.cli.root import app
from cdc.cli.verify import verify
from cdc.cli.watching import watched

cli = typer.Typer(
    cls=OfServer, no_args_is_help=True, help="Operate a running server.", callback=access
)
capture = typer.Typer(no_args_is_help=True, help="Captures: the running servers.")
owner = typer.Typer(no_args_is_help=True, help="The capture that decides which has which upstream.")
tso = typer.Typer(no_args_is_help=True, help="Timestamps.")

cli.command("console")(console)
app.add_typer(cli, name="cli")
changefeed.app.command("verify")(verify)
cli.add_typer(changefeed.app, name="changefeed")
cli.add_typer(ddl.app, name="ddl")
cli.add_typer(shard_ddl.app, name="shard-ddl")
cli.add_typer(snapshot.app, name="snapshot")
cli.add_typer(upstream.app, name="upstream")
cli.add_typer(capture, name="capture")
cli.add_typer(processor.app, name="processor")
cli.add_typer(owner, name="owner")
cli.add_typer(token.app, name="token")
cli.add_typer(tso, name="tso")
cli.command("audit")(audit)
cli.add_typer(unsafe.app, name="unsafe")


@capture.command("list")
@watched
def capture_list(json: Json = False) -> None:
    """List captures."""
    items = client().get("/captures")["items"]
    if json:
        output.as_json([ticdc_json.capture(item) for item in items])
        return
    keys = ("id", "is_owner", "is_drained", "address", "cluster_id", "version")
    # A server of an earlier version places nothing.
    rows = ((*(i[k] for k in keys), ",".join(i.get("upstreams", ()))) for i in items)
    heads = ("ID", "OWNER", "DRAINED", "ADDRESS", "CLUSTER", "VERSION", "UPSTREAMS")
    output.table(heads, rows)


@capture.command("drain")
def capture_drain(
    capture_id: Annotated[str, typer.Argument(metavar="ID", help="Of capture list.")],
) -> None:
    """Have a capture hand over what it does."""
    count = client().put(f"/captures/{capture_id}/drain")["current_table_count"]
    typer.echo(f"draining, {count} tables to hand over")


@owner.command("resign")
def owner_resign() -> None:
    """Let another capture be the owner."""
    client().post("/owner/resign")
    typer.echo("resigned")


@tso.command("query")
def tso_query(
    json: Json = False,
) -> None:
    """Print the present ts."""
    answer = client().post("/tso")
    if json:
        output.as_json(answer)
    else:
        typer.echo(str(answer["tso"]))


# These load kernels or parsers, so all other commands only show their names.
_LOADED_LATE = {
    "log": "Print and verify binlog files.",
    "filter": "Look at what a changefeed's filter does.",
    "dm": "Come from DM.",
    "debezium": "Come from Debezium.",
    "maxwell": "Come from Maxwell.",
    "canal": "Come from Canal.",
}


def _add(name: str, words: list[str]) -> None:
    """A group of commands, with what is in it if it is asked for."""
    if words[:1] == [name]:
        app.add_typer(import_module(f"cdc.cli.{name}").app, name=name)
    else:
        app.add_typer(typer.Typer(help=_LOADED_LATE[name]), name=name)


def main() -> None:
    """Entry point."""
    for name in _LOADED_LATE:
        _add(name, sys.argv[1:])
    root.main()


if __name__ == "__main__":
    main()
