"""``cdc cli snapshot …``: copy the rows of tables for a changefeed that runs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import FeedId, Json, client
from cdc.cli.watching import watched

app = typer.Typer(
    no_args_is_help=True, help="Rows that were there before: copied for a changefeed that runs."
)

Number = Annotated[str, typer.Option("--id", help="The snapshot, by the number that list shows.")]


@app.command()
def start(
    changefeed_id: FeedId,
    tables: Annotated[
        list[str], typer.Option(help="Pattern of tables, as in filter.rules; may be repeated.")
    ],
    where: Annotated[str, typer.Option(help="SQL of the upstream: only rows it is true for.")] = "",
    json: Json = False,
) -> None:
    """Deliver the rows of tables, as they are now, between their changes; others go on."""
    asked = {"tables": tables, "where": where}
    found = client().post(f"/changefeeds/{changefeed_id}/snapshots", asked)
    if json:
        output.as_json(found)
    else:
        typer.echo(f"changefeed {changefeed_id}: snapshot {found['id']} is {found['state']}")


@app.command("list")
@watched
def list_(changefeed_id: FeedId, json: Json = False) -> None:
    """List the snapshots of a changefeed that were started."""
    items = client().get(f"/changefeeds/{changefeed_id}/snapshots")["items"]
    if json:
        output.as_json(items)
        return
    columns = ("ID", "STATE", "TABLES", "DONE", "ROWS", "OF", "ROWS/S", "LEFT", "ASKED", "ENDED")
    output.table(
        columns,
        (
            (
                i["id"],
                i["state"],
                ", ".join(i["tables"]),
                f"{i['tables_done']}/{i['table_count']}",
                i["rows"],
                *_reading(i["reading"]),
                i["asked"],
                i["ended"],
            )
            for i in items
        ),
    )


@app.command()
@watched
def show(changefeed_id: FeedId, number: Number, json: Json = False) -> None:
    """Show one snapshot: how far it is, how long each table may take, its error."""
    found = client().get(f"/changefeeds/{changefeed_id}/snapshots/{number}")
    if json:
        output.as_json(found)
        return
    reading = found.pop("reading")
    of, speed, left = _reading(reading)
    output.fields(found | {"rows_expected": of, "rows_per_second": speed, "left": left})
    if reading:
        output.table(
            ("TABLE", "STATE", "ROWS", "OF", "LEFT"),
            (
                (t["table"], t["state"], t["rows"], t["rows_expected"], _span(t["seconds_left"]))
                for t in reading["tables"]
            ),
        )


@app.command()
def pause(changefeed_id: FeedId, number: Number, json: Json = False) -> None:
    """Read nothing more for a snapshot until it is resumed; what was read is kept."""
    _ask(changefeed_id, number, "pause", "is paused", json)


@app.command()
def resume(changefeed_id: FeedId, number: Number, json: Json = False) -> None:
    """Let a paused snapshot go on."""
    _ask(changefeed_id, number, "resume", "goes on", json)


@app.command()
def cancel(changefeed_id: FeedId, number: Number, json: Json = False) -> None:
    """Cancel a snapshot whose rows are not delivered yet."""
    _ask(changefeed_id, number, "cancel", "does not go on", json)


def _reading(reading: dict[str, Any] | None) -> tuple[Any, Any, str]:
    """Rows that are expected, rows a second, and the time left."""
    if reading is None:
        return "", "", ""
    return (
        reading["rows_expected"] or "",
        round(reading["rows_per_second"]),
        _span(reading["seconds_left"]),
    )


def _span(seconds: int | None) -> str:
    """A time as people say it: ``2h05m``, ``3m20s``; empty where it is not known."""
    if seconds is None:
        return ""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _ask(feed: str, number: str, verb: str, done: str, json: bool) -> None:
    found = client().post(f"/changefeeds/{feed}/snapshots/{number}/{verb}", {})
    if json:
        output.as_json(found)
    else:
        typer.echo(f"changefeed {feed}: snapshot {number} {done}")
