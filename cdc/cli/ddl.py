"""``cdc cli ddl …``: schema changes that wait, and what to do with them."""

from __future__ import annotations

from textwrap import shorten
from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import FeedId, Json, client
from cdc.cli.watching import watched

app = typer.Typer(no_args_is_help=True, help="Schema changes: what waits, hold, approve, skip.")

_SHOWN_SQL = 70

Ts = Annotated[int, typer.Option("--ts", help="The schema change, by the ts that list shows.")]
Reason = Annotated[str, typer.Option(help="Why; it is kept and shown.")]


@app.command("list")
@watched
def list_(
    changefeed_id: FeedId,
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also the last ones that ended.")
    ] = False,
    json: Json = False,
) -> None:
    """List schema changes that wait: whose, for whom, since when."""
    state = "all" if every else "pending"
    page = client().get(f"/changefeeds/{changefeed_id}/ddls", state=state)
    if json:
        output.as_json(page["items"])
        return
    columns = ("TS", "STATE", "SINCE", "TABLES", "WAITS FOR", "STATEMENT")
    output.table(
        columns,
        (
            (
                i["ts"],
                i["state"],
                i["since"],
                ", ".join(i["tables"]),
                ", ".join(i["waits_for"]),
                shorten(i["sql"], _SHOWN_SQL, placeholder="…"),
            )
            for i in page["items"]
        ),
    )
    counts = ", ".join(f"{n} {page[n]}" for n in ("executed", "skipped", "ignored"))
    typer.echo(f"policy {page['policy']}; {counts}")


@app.command()
@watched
def show(changefeed_id: FeedId, ts: Ts, json: Json = False) -> None:
    """Show one schema change whole: statement, tables, state, error, what was decided."""
    found = client().get(f"/changefeeds/{changefeed_id}/ddls/{ts}")
    (output.as_json if json else output.fields)(found)


@app.command()
def hold(
    changefeed_id: FeedId,
    ts: Ts,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Do not execute it before it is approved; its tables wait, others go on."""
    _decide(changefeed_id, ts, "hold", reason, json)


@app.command()
def approve(
    changefeed_id: FeedId,
    ts: Ts,
    reason: Reason = "",
    json: Json = False,
) -> None:
    """Execute it once its tables have reached it."""
    _decide(changefeed_id, ts, "approve", reason, json)


@app.command()
def skip(
    changefeed_id: FeedId,
    ts: Ts,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Leave it out: the target stays as it is, rows behind it come in their new form."""
    if not yes:
        found = client().get(f"/changefeeds/{changefeed_id}/ddls/{ts}")
        typer.echo(f"{found['state']} since {found['since']}: {found['sql']}", err=True)
        typer.echo("It is left out for good. If rows behind it do not fit the target,", err=True)
        typer.echo("their tables stop until the target has been changed by hand.", err=True)
        typer.confirm("Skip it?", abort=True, err=True)
    _decide(changefeed_id, ts, "skip", reason, json)


_DONE = {"hold": "held", "approve": "approved", "skip": "to be skipped"}


def _decide(feed: str, ts: int, action: str, reason: str, json: bool) -> None:
    path = f"/changefeeds/{feed}/ddls/{ts}/{action}"
    found: dict[str, Any] = client().post(path, {"reason": reason})
    if json:
        output.as_json(found)
    else:
        sql = shorten(found["sql"], _SHOWN_SQL, placeholder="…")
        typer.echo(f"changefeed {feed}: schema change {ts} is {_DONE[action]}: {sql}")
