"""``cdc cli changefeed verify``: started in the server, watched and printed here."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import FeedId, Json, client
from cdc.client import Client

_LOOK_S = 0.2

Tables = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", help="Only tables of this pattern; may be given several times."),
]


def verify(
    changefeed_id: FeedId,
    tables: Tables = None,
    limit: Annotated[int, typer.Option(help="Differing rows shown of each table.")] = 20,
    workers: Annotated[int, typer.Option(help="Tables at a time; two connections each.")] = 4,
    chunk_rows: Annotated[int, typer.Option(help="Rows of one checksum.")] = 10_000,
    rechecks: Annotated[int, typer.Option(help="Looks at a row that differs under load.")] = 5,
    whole: Annotated[
        bool, typer.Option("--whole", help="The topic must have every row of its tables.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the changefeed.")] = 60.0,
    repair: Annotated[
        bool, typer.Option("--repair", help="Say how rows that differ would be repaired, and ask.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Repair without asking.")] = False,
    json: Json = False,
) -> None:
    """Compare all rows of the target, or the fold of the topics, with the upstream.

    Exit code 0 if everything is equal, else 1, also where what differs is being repaired.
    """
    api = client()
    body = {
        "tables": tables or [],
        "limit": limit,
        "workers": workers,
        "chunk_rows": chunk_rows,
        "rechecks": rechecks,
        "whole": whole,
        "wait_s": wait,
    }
    path = f"/changefeeds/{changefeed_id}/verifications"
    found = api.post(path, body)
    place = f"{path}/{found['id']}"
    try:
        found = _watch(api, place, found)
    except KeyboardInterrupt:
        api.delete(place)
        typer.echo("stopped", err=True)
        raise typer.Exit(1) from None
    if json:
        output.as_json(found)
    else:
        _print(found)
    if repair and not found["equal"]:
        _repair(api, place, found["tables"], yes=yes)
    raise typer.Exit(0 if found["equal"] else 1)


def _repair(api: Client, place: str, tables: list[dict[str, Any]], *, yes: bool) -> None:
    """Say what would be done, and do it if that is wanted."""
    planned = [table for table in tables if table["repair"]]
    for table in tables:
        if table["verdict"] == "different" and table not in planned:
            typer.echo(f"{table['table']}: cannot be repaired row by row", err=True)
    for table in planned:
        rows, gone = table["repair"]["rows"], table["repair"]["target_only"]
        deleted = f", {gone} of them are deleted, as the upstream has none" if gone else ""
        more = "; compare again for the others" if table["different"] > rows else ""
        typer.echo(f"{table['table']}: {rows} rows are delivered again{deleted}{more}", err=True)
    if not planned:
        return
    if not yes and not (sys.stdin.isatty() and typer.confirm("Repair them?", err=True)):
        typer.echo("nothing was repaired; --yes does it", err=True)
        return
    for item in api.post(f"{place}/repair", {})["items"]:
        typer.echo(
            f"snapshot {item['id']}: {item['repairs']} rows of {item['tables'][0]}", err=True
        )
    typer.echo("cdc cli snapshot list shows when they are delivered; then compare again", err=True)


def _watch(api: Client, place: str, found: dict[str, Any]) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    quiet = not console.is_terminal
    with Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=quiet
    ) as bars:
        total = bars.add_task("rows", total=None)
        shown: dict[str, Any] = {}
        while found["state"] == "running":
            for table in found["tables"]:
                name, at = table["table"], table["verdict"] == "running"
                if at and name not in shown:
                    shown[name] = bars.add_task(name)
                if name in shown:
                    bars.update(
                        shown[name], total=table["rows"], completed=table["done"], visible=at
                    )
            read = f", {found['messages']} messages" if found["messages"] else ""
            bars.update(
                total,
                description=f"{_ended(found)} of {len(found['tables'])} tables{read}",
                total=sum(t["rows"] for t in found["tables"]) or None,
                completed=sum(t["done"] for t in found["tables"]),
            )
            time.sleep(_LOOK_S)
            found = api.get(place)
    return found


def _ended(found: dict[str, Any]) -> int:
    return sum(t["verdict"] not in ("waiting", "running") for t in found["tables"])


def _print(found: dict[str, Any]) -> None:
    tables = sorted(found["tables"], key=lambda t: (t["verdict"] == "equal", t["table"]))
    if tables:
        names = ("TABLE", "VERDICT", "UPSTREAM ROWS", "TARGET ROWS", "DIFFERENT", "CUT", "SECONDS")
        output.table(names, (_line(t) for t in tables))
    for table in tables:
        for text in (*table["structure"], *table["notes"], *_remarks(table)):
            typer.echo(f"{table['table']}: {text}")
        for row in table["differences"]:
            typer.echo("\n".join(_row(table["table"], row)))
    if error := found["error"]:
        sys.stderr.write(f"Error: [{error['code']}] {error['object']}: {error['message']}\n")
    said = "equal" if found["equal"] else "NOT equal"
    if found["state"] == "stopped":
        said = "stopped, nothing is proven"
    typer.echo(f"{said}; {_cut(found)}; {len(tables)} tables in {found['seconds']:.1f} s")


def _cut(found: dict[str, Any]) -> str:
    if found["exact"]:
        return "exact: nothing was written to the tables meanwhile"
    return "under load: each part was compared at a moment of its own, differences at several"


def _line(table: dict[str, Any]) -> tuple[Any, ...]:
    different = f"{table['different']}{'+' if table['more'] else ''}"
    return (
        table["table"],
        table["verdict"],
        table["upstream_rows"],
        table["target_rows"],
        different,
        "exact" if table["exact"] else "moving",
        f"{table['seconds']:.1f}",
    )


def _remarks(table: dict[str, Any]) -> list[str]:
    found = []
    if table["unsettled"]:
        found.append(f"{table['unsettled']} rows changed at each look; try again with less load")
    if table["unseen"]:
        found.append(
            f"{table['unseen']} rows have no message: unchanged since the changefeed began, or"
            " lost (--whole counts them as missing)"
        )
    hidden = table["different"] - len(table["differences"])
    if table["differences"] and hidden > 0:
        found.append(f"{hidden} more rows differ" + (" at least" if table["more"] else ""))
    return found


def _row(table: str, row: dict[str, Any]) -> list[str]:
    key = ", ".join(f"{k}={_value(v)}" for k, v in row["key"].items())
    kinds = {
        "changed": "differs",
        "missing": "is missing at the target",
        "extra": "is at the target only",
        "count": "is there a different number of times",
    }
    if row["kind"] == "count" or max(row["upstream"], row["target"]) > 1:
        times = f"{row['upstream']} times upstream, {row['target']} times at the target"
        return [f"{table} ({key}): {times}"]
    lines = [f"{table} ({key}): {kinds[row['kind']]}"]
    for value in row["values"]:
        sides = []
        if row["kind"] != "extra":
            sides.append(f"upstream {_value(value['upstream'])}")
        if row["kind"] != "missing":
            sides.append(f"target {_value(value['target'])}")
        lines.append(f"    {value['column']}: {', '.join(sides)}")
    return lines


def _value(text: str | None) -> str:
    return "NULL" if text is None else f"'{text}'"
