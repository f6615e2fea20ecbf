"""``cdc cli changefeed …``."""

from __future__ import annotations

import json as json_
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from cdc.base.secrets import mask_uri
from cdc.base.ts import physical_ms
from cdc.cli import output, ticdc_json
from cdc.cli.catching_up import CatchUp
from cdc.cli.config_file import ConfigFile, read_config
from cdc.cli.options import (
    FeedId,
    Json,
    NoConfirm,
    UpstreamName,
    client,
    without_none,
)
from cdc.cli.passwords import PasswordFile, complete
from cdc.cli.times import TsInvalid, moment
from cdc.cli.watching import watched
from cdc.client import Client, ServerRefused
from cdc.coord.snapshot_config import SnapshotMode

app = typer.Typer(no_args_is_help=True, help="Create, watch and control changefeeds.")


EARLIEST = "earliest"
"""Where an upstream's log begins: all that was registered is delivered."""

MOMENT = "A ts, 2026-11-20T12:34:56Z, or '10m ago'."
SinkUri = Annotated[
    str, typer.Option("--sink-uri", help="Where to deliver, e.g. kafka://…; - reads it.")
]
Config = Annotated[
    Path | None, typer.Option("--config", help="TOML file with the replica configuration.")
]
_LOG_BEGIN_S = 10.0
# A command that shows again and again has seen what it showed before.
_catch_up = CatchUp()


@app.command()
def create(
    sink_uri: SinkUri,
    upstream: UpstreamName,
    changefeed_id: FeedId = "",
    password_file: PasswordFile = None,
    config: Config = None,
    start_ts: Annotated[
        str,
        typer.Option(help=f"Begin after this; 0: now; earliest: where the log begins. {MOMENT}"),
    ] = "0",
    target_ts: Annotated[str, typer.Option(help=f"Finish at this; 0: never. {MOMENT}")] = "0",
    snapshot: Annotated[
        SnapshotMode | None,
        typer.Option(help="Rows that are there already: first, none of them, or only they."),
    ] = None,
    create_tables: Annotated[
        bool, typer.Option("--create-tables", help="Make tables that the target does not have.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the tables that it would deliver.")
    ] = False,
    replace_installation: Annotated[
        str, typer.Option(help="Remove what this installation, gone for good, left in the ledger.")
    ] = "",
    no_confirm: NoConfirm = False,
    json: Json = False,
) -> None:
    """Create a changefeed; everything is checked before it starts."""
    api = client()
    file = read_config(config)
    start = (
        _log_begin(api, upstream) if start_ts == EARLIEST else moment(start_ts, partial(_now, api))
    )
    body: dict[str, Any] = {
        "changefeed_id": changefeed_id,
        "upstream": upstream,
        "sink_uri": complete(sink_uri, password_file),
        "start_ts": start,
        "target_ts": moment(target_ts, partial(_now, api)),
        "replica_config": _with_snapshot(file.values, snapshot, create_tables),
        "replace_installation": replace_installation,
    }
    if dry_run:
        _show_tables(_placed(api.post, file, "/verify_table", body), json)
        return
    if start and start_ts != EARLIEST and not no_confirm:
        age_s = (_now(api) - start) / (1 << 18) / 1000
        if age_s > 86400:
            typer.confirm(f"start-ts is {age_s / 3600:.0f} hours ago. Go on?", abort=True)
    try:
        info = _placed(api.post, file, "/changefeeds", body)
    except ServerRefused as refused:
        if no_confirm or json or not _leave_out(refused):
            raise
        body["replica_config"] = {**body["replica_config"], "ignore-ineligible-table": True}
        info = _placed(api.post, file, "/changefeeds", body)
    if json:
        output.as_json(info)
        return
    for warning in info.pop("warnings"):
        typer.echo(f"[WARN] {warning}", err=True)
    info.pop("task_status", None)
    typer.echo(f"Create changefeed successfully!\nID: {info['id']}")
    output.fields(info)


def _log_begin(api: Client, upstream: str) -> int:
    """Above which the log of an upstream has all, as soon as its puller has said it."""
    end = time.monotonic() + _LOG_BEGIN_S
    while not (begin := int(api.get(f"/upstreams/{upstream}")["first_ts"])):
        if time.monotonic() > end:
            raise TsInvalid(
                "the upstream's log has not begun yet",
                object=EARLIEST,
                hint=f"see cdc cli upstream query -u {upstream}, then try again",
            )
        time.sleep(_LOG_BEGIN_S / 50)
    return begin


def _now(api: Client) -> int:
    return int(api.post("/tso")["tso"])


def _with_snapshot(
    values: dict[str, Any], mode: SnapshotMode | None, create_tables: bool
) -> dict[str, Any]:
    """The configuration; what the command line says of a snapshot counts."""
    given: dict[str, Any] = {} if mode is None else {"mode": mode.value}
    if create_tables:
        given["create-tables"] = True
    return {**values, "snapshot": {**values.get("snapshot", {}), **given}} if given else values


def _placed(
    send: Callable[[str, Any], Any], file: ConfigFile, path: str, body: dict[str, Any]
) -> Any:
    """The answer; an error about a place of the configuration says the file's line too."""
    try:
        return send(path, body)
    except ServerRefused as e:
        raise _with_line(e, file) from None


def _with_line(e: ServerRefused, file: ConfigFile) -> ServerRefused:
    where = file.where(e.object)
    message = f"{e.message} ({where})" if where else e.message
    reasons = [_with_line(reason, file) for reason in e.reasons]
    return ServerRefused(e.code, message, e.hint, e.object, e.kind, reasons)


def _show_tables(found: dict[str, Any], json: bool) -> None:
    if json:
        output.as_json(found)
        return
    rows = [
        (f"{t['database_name']}.{t['table_name']}", word)
        for word in ("eligible", "ineligible")
        for t in found[f"{word}_tables"]
    ]
    output.table(("TABLE", "STATE"), sorted(rows))


def _leave_out(refused: ServerRefused) -> bool:
    """Whether the user agrees to do without tables that have no key."""
    if refused.code != "TG:ErrTableIneligible":
        return False
    typer.echo(f"[WARN] {refused.message}")
    try:
        return typer.confirm("Leave these tables out and go on?")
    except typer.Abort:
        # Nobody is there to be asked: then it is what the server says.
        return False


@app.command("list")
@watched
def list_(
    every: Annotated[
        bool, typer.Option("--all", "-a", help="Also those that have finished.")
    ] = False,
    state: Annotated[str, typer.Option(help="Only those in this state.")] = "",
    json: Json = False,
) -> None:
    """List changefeeds."""
    api = client()
    items = api.get("/changefeeds", state="all" if every else state)["items"]
    if json:
        output.as_json([ticdc_json.summarized(item) for item in items])
        return
    columns = ("ID", "UPSTREAM", "STATE", "CHECKPOINT", "CHECKPOINT TIME", "LAG", "ERROR")
    now_ms = api.post("/tso")["timestamp"] if items else 0
    output.table(
        columns,
        (
            (
                i["id"],
                i["upstream"],
                i["state"],
                i["checkpoint_tso"],
                i["checkpoint_time"],
                _lag(i, now_ms),
                (i["error"] or {}).get("code"),
            )
            for i in items
        ),
    )


def _lag(item: dict[str, Any], now_ms: int) -> str:
    """How far a changefeed is behind now; nothing of one that has ended, or has no place yet.

    With how long it takes until it is not, where it is watched.
    """
    if item["state"] == "finished" or not item["checkpoint_tso"]:
        return ""
    reached_ms = physical_ms(item["checkpoint_tso"])
    left_ms = _catch_up.left_ms(item["id"], reached_ms, now_ms)
    lag = output.lag(now_ms - reached_ms)
    return lag if left_ms is None else f"{lag}, {output.lag(left_ms)} left"


@app.command()
@watched
def query(
    changefeed_id: FeedId,
    simple: Annotated[
        bool, typer.Option("--simple", "-s", help="Only state, checkpoint and error.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a changefeed."""
    path = f"/changefeeds/{changefeed_id}"
    info = client().get(path + ("/status" if simple else ""))
    if not simple:
        info |= _applied(path)
    elif json:
        info = ticdc_json.simple(info)
    if not json:
        # Of many tables nobody reads the ids: processor query has the names.
        info.pop("task_status", None)
    (output.as_json if json else output.fields)(info)


@app.command()
def statistics(
    changefeed_id: FeedId,
    interval: Annotated[
        float, typer.Option("--interval", "-I", min=0.1, help="Seconds between two lines.")
    ] = 10.0,
    count: Annotated[int, typer.Option("--count", "-n", min=0, help="Lines; 0: no end.")] = 0,
) -> None:
    """Print how far it is behind, a line of JSON each interval: milliseconds of both gaps.

    ``sink_gap``: what the log holds and the sink has not; ``replication_gap``: the sink against
    now; ``catch_up``: until there is none, as it goes, null where that cannot be told.
    """
    api, printed = client(), 0
    while True:
        status = api.get(f"/changefeeds/{changefeed_id}/status")
        now_ms, reached_ms = api.post("/tso")["timestamp"], physical_ms(status["checkpoint_ts"])
        gaps = {
            "sink_gap": max(0, physical_ms(status["resolved_ts"]) - reached_ms),
            "replication_gap": max(0, now_ms - reached_ms),
            "catch_up": _catch_up.left_ms(changefeed_id, reached_ms, now_ms),
        }
        typer.echo(json_.dumps({"state": status["state"], **gaps}))
        printed += 1
        if printed == count:
            return
        time.sleep(interval)


@app.command()
def pause(changefeed_id: FeedId, json: Json = False) -> None:
    """Stop delivery; it can be resumed."""
    _act(changefeed_id, "pause", "paused", json)


@app.command()
def resume(
    changefeed_id: FeedId,
    overwrite: Annotated[
        str,
        typer.Option("--overwrite-checkpoint-ts", help=f"Go on from there instead. now, {MOMENT}"),
    ] = "",
    rewind: Annotated[
        bool, typer.Option("--rewind", help="Go on where the sink is, which has gone back.")
    ] = False,
    copy_again: Annotated[
        bool,
        typer.Option("--copy-again", help="Copy rows again that were lost; some come twice."),
    ] = False,
    no_confirm: NoConfirm = False,
    json: Json = False,
) -> None:
    """Deliver again, from the checkpoint or from the ts that overwrites it."""
    if [rewind, copy_again, bool(overwrite)].count(True) > 1:
        raise TsInvalid("each of the options says where it goes on", hint="give one of them")
    if not overwrite:
        body = {"rewind": True} if rewind else {"copy_again": True} if copy_again else None
        _act(changefeed_id, "resume", "resumed", json, body)
        return
    api = client()
    # What is now, the server says when it does it.
    to = overwrite if overwrite == "now" else moment(overwrite, partial(_now, api))
    if not no_confirm:
        was = api.get(f"/changefeeds/{changefeed_id}/status")["checkpoint_ts"]
        typer.echo(f"The checkpoint {was} becomes {to}: rows in between are delivered")
        typer.echo("once more if it goes back, and left out if it goes forward.")
        typer.confirm("Go on?", abort=True)
    chosen = {"overwrite_checkpoint_ts": to}
    _act(changefeed_id, "resume", "resumed", json, chosen)


@app.command("move-table")
def move_table(
    changefeed_id: FeedId,
    table: Annotated[
        str,
        typer.Option("--table-id", "-t", help="Its name, or an id of `processor query`."),
    ],
    capture: Annotated[
        str,
        typer.Option("--target-node-id", "-d", help="A capture's id; any: whoever has room."),
    ],
    mode: Annotated[int, typer.Option("--mode", hidden=True)] = 0,
    wait: Annotated[bool, typer.Option("--wait", hidden=True)] = False,
    json: Json = False,
) -> None:
    """Have the workers of another capture deliver a table, from the next window on."""
    # Both are TiCDC's: of a redo log, which there is none of, and of what needs no waiting here.
    more = {"mode": mode, "wait": str(wait).lower()}
    query = urlencode({"tableID": table, "targetNodeID": capture, **more})
    placed = client().post(f"/changefeeds/{changefeed_id}/move_table?{query}")
    if json:
        output.as_json(placed)
    elif capture == "any":
        typer.echo(f"table {table} is delivered by any capture")
    else:
        typer.echo(f"table {table} is delivered by capture {capture}, while it takes tasks")


def _act(feed: str, verb: str, done: str, json: bool, body: dict[str, Any] | None = None) -> None:
    api = client()
    api.post(f"/changefeeds/{feed}/{verb}", body)
    if json:
        output.as_json(api.get(f"/changefeeds/{feed}/status"))
    else:
        typer.echo(f"changefeed {feed} {done}")


@app.command()
def update(
    changefeed_id: FeedId,
    sink_uri: Annotated[
        str | None, typer.Option("--sink-uri", help="New sink; - reads its URI.")
    ] = None,
    password_file: PasswordFile = None,
    config: Config = None,
    target_ts: Annotated[
        str | None, typer.Option(help=f"Finish at this; 0: never. {MOMENT}")
    ] = None,
    no_confirm: NoConfirm = False,
    json: Json = False,
) -> None:
    """Change a changefeed; one that runs goes on, and takes it at one ts of all its tables.

    Shows the difference and asks. --target-ts is for one that is stopped or failed.
    """
    if sink_uri is not None:
        sink_uri = complete(sink_uri, password_file)
    api = client()
    file = read_config(config)
    replica_config = None if config is None else file.values
    target = None if target_ts is None else moment(target_ts, partial(_now, api))
    changes = without_none(sink_uri=sink_uri, target_ts=target, replica_config=replica_config)
    if not changes:
        typer.echo("nothing to change: give --sink-uri, --target-ts or --config")
        return
    tag = ""
    if not no_confirm:
        # What is changed is what was shown, or nothing.
        now, tag = api.look(f"/changefeeds/{changefeed_id}")
        was = {"sink_uri": now["sink_uri"], "target_ts": now["target_ts"]}
        was["replica_config"] = now["config"]
        shown = changes | ({"sink_uri": mask_uri(sink_uri)} if sink_uri else {})
        output.table(("SETTING", "NOW", "NEW"), ((k, was[k], v) for k, v in shown.items()))
        typer.confirm("Go on?", abort=True)
    put = partial(api.put, tag=tag)
    info = _placed(put, file, f"/changefeeds/{changefeed_id}", changes)
    if json:
        output.as_json(info)
    else:
        runs = info["change"] is not None
        then = "and takes it at one ts, without a pause" if runs else "; resume it to go on"
        typer.echo(f"changefeed {changefeed_id} updated{' ' if runs else ''}{then}")


@app.command()
def remove(changefeed_id: FeedId, json: Json = False) -> None:
    """Remove a changefeed and its progress; what has been delivered stays."""
    found = True
    try:
        client().get(f"/changefeeds/{changefeed_id}/status")
    except ServerRefused as refused:
        # One that cannot be read is there, and is removed.
        found = refused.code != "TG:ErrChangeFeedNotExists"
    client().delete(f"/changefeeds/{changefeed_id}")
    if json:
        output.as_json({})
    else:
        did = "removed" if found else "is not there, so nothing is removed"
        typer.echo(f"changefeed {changefeed_id} {did}")


def _applied(path: str) -> dict[str, Any]:
    """How tables are applied; a sink that cannot be asked now does not keep the rest from view."""
    try:
        found = client().get(f"{path}/apply")["items"]
    except ServerRefused as refused:
        return {"apply": f"not known now: {refused}"}
    return {"apply": found} if found else {}
