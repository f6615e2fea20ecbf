"""``cdc cli processor …``."""

from __future__ import annotations

from typing import Annotated

import typer

from cdc.cli import output
from cdc.cli.options import FeedId, Json, client
from cdc.cli.watching import watched

app = typer.Typer(no_args_is_help=True, help="Processors: which capture delivers what.")


@app.command("list")
@watched
def list_(json: Json = False) -> None:
    """List the changefeeds that are delivered, each with its capture."""
    items = client().get("/processors")["items"]
    if json:
        output.as_json(items)
        return
    rows = ((i["changefeed_id"], i["capture_id"]) for i in items)
    output.table(("CHANGEFEED", "CAPTURE"), rows)


@app.command()
@watched
def query(
    changefeed_id: FeedId,
    capture_id: Annotated[
        str, typer.Option("--capture-id", "-p", help="Id of the capture; default: who delivers it.")
    ] = "",
    json: Json = False,
) -> None:
    """Show the tables that a capture delivers of a changefeed."""
    api = client()
    if not capture_id:
        items = api.get("/processors")["items"]
        found = (i["capture_id"] for i in items if i["changefeed_id"] == changefeed_id)
        # Of one that nobody delivers the server says what it is.
        capture_id = next(found, "none")
    (output.as_json if json else output.fields)(
        api.get(f"/processors/{changefeed_id}/{capture_id}")
    )
