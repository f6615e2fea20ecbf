"""The ``cdc`` command, as far as no running server is asked, and how it ends."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import cdc
from cdc.base.errors import TidegateError
from cdc.base.refusals import ServerRefused
from cdc.cli import output, ticdc_words
from cdc.cli.backup import backup, restore
from cdc.cli.server import server

_MISUSED = 2

app = typer.Typer(
    no_args_is_help=True,
    # Commands below inherit it.
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Tidegate: a changefeed framework on Spark for MySQL-family databases.",
)
app.command("server")(server)
app.command("backup")(backup)
app.command("restore")(restore)


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


def main() -> None:
    """Run it: a user's mistake ends in one line and exit code 1, never in a traceback."""
    try:
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
