"""``cdc cli shard-ddl …``: shard groups whose tables come to a schema change."""

from __future__ import annotations

from textwrap import shorten
from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import FeedId, Json, client
from cdc.cli.watching import watched

app = typer.Typer(
    no_args_is_help=True, help="Schema changes of shard groups: who has come, who is missing."
)

_SHOWN_SQL = 60
_SHOWN_TABLES = 3

Target = Annotated[str, typer.Option("--target", "-t", help="The group's name at the target.")]


@app.command("list")
@watched
def list_(changefeed_id: FeedId, json: Json = False) -> None:
    """List shard groups of which schema changes wait: how many have come, who is missing."""
    groups = client().get(f"/changefeeds/{changefeed_id}/shard-ddls")["items"]
    if json:
        output.as_json(groups)
        return
    columns = ("TARGET", "STATE", "SINCE", "CAME", "MISSING", "STATEMENT")
    output.table(columns, ((g["target"], g["state"], g["since"], *_progress(g)) for g in groups))


@app.command()
@watched
def show(changefeed_id: FeedId, target: Target, json: Json = False) -> None:
    """Show one shard group: the next schema change of each table side by side."""
    path = f"/changefeeds/{changefeed_id}/shard-ddls"
    groups = client().get(path, contains=target)["items"]
    group = next((g for g in groups if g["target"] == target), None)
    if json:
        output.as_json(group)
    elif group is None:
        typer.echo(f"changefeed {changefeed_id}: no schema change of {target} waits")
    else:
        _show(group)


def _show(group: dict[str, Any]) -> None:
    typer.echo(f"{group['target']}  {group['state']} since {group['since']}")
    changes = group["changes"]
    columns = ("TABLE", "TS", "STATE", "CAME", "LATER", "STATEMENT")
    rows = [
        (
            c["table"],
            c["ts"],
            c["state"],
            "yes" if c["came"] else "no",
            c["later"],
            shorten(c["sql"], _SHOWN_SQL, placeholder="…"),
        )
        for c in changes
    ]
    output.table(columns, (*rows, *((t, "", "missing", "no", 0, "") for t in group["missing"])))
    for change in changes:
        if change["error"]:
            error = change["error"]
            typer.echo(f"[{error['code']}] {change['table']}: {error['message']}")
            typer.echo(f"hint: {error['hint']}")


def _progress(group: dict[str, Any]) -> tuple[str, str, str]:
    changes, missing = group["changes"], group["missing"]
    came = sum(c["came"] for c in changes)
    late = [c["table"] for c in changes if not c["came"]] + missing
    more = f" and {len(late) - _SHOWN_TABLES} more" if len(late) > _SHOWN_TABLES else ""
    first = shorten(changes[0]["sql"], _SHOWN_SQL, placeholder="…")
    return f"{came}/{len(changes) + len(missing)}", ", ".join(late[:_SHOWN_TABLES]) + more, first
