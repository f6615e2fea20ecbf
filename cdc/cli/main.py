"""The ``cdc`` command."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

import cdc
from cdc.base.errors import TidegateError
from cdc.cli import (
    changefeed,
    ddl,
    output,
    processor,
    shard_ddl,
    snapshot,
    ticdc_json,
    ticdc_words,
    token,
    unsafe,
    upstream,
)
from cdc.cli.audit import audit
from cdc.cli.backup import backup, restore
from cdc.cli.console import console
from cdc.cli.options import Json, OfServer, access, client
from cdc.cli.server import server
from cdc.cli.verify import verify
from cdc.cli.watching import watched
from cdc.client.connection import ServerRefused

_MISUSED = 2

app = typer.Typer(
    no_args_is_help=True,
    # Commands below inherit it.
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Tidegate: a changefeed framework on Spark for MySQL-family databases.",
)
cli = typer.Typer(
    cls=OfServer, no_args_is_help=True, help="Operate a running server.", callback=access
)
capture = typer.Typer(no_args_is_help=True, help="Captures: the running servers.")
owner = typer.Typer(no_args_is_help=True, help="The capture that decides which has which upstream.")
tso = typer.Typer(no_args_is_help=True, help="Timestamps.")

app.command("server")(server)
app.command("backup")(backup)
app.command("restore")(restore)
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


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"Tidegate {cdc.__version__}, Python {sys.version.split()[0]}")


def _show_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    pass


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
    """Entry point: a user's mistake ends in one line and exit code 1, never in a traceback."""
    try:
        for name in _LOADED_LATE:
            _add(name, sys.argv[1:])
        app()
    except (TidegateError, ServerRefused) as e:
        output.error(e)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except SystemExit as e:
        if e.code == _MISUSED and (instead := ticdc_words.hint(sys.argv[1:])):
            print(f"Hint: {instead}", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
