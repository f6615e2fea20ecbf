"""``cdc cli audit``."""

from __future__ import annotations

import json as json_
from typing import Annotated, Any

import typer

from cdc.cli import output
from cdc.cli.options import Json, client
from cdc.cli.times import since as since_

_KEYS = ("time", "caller", "role", "peer", "action", "object")


def audit(
    since: Annotated[
        str, typer.Option("--since", help="Only since then: 10m, a ts, 2026-11-20T12:34:56Z.")
    ] = "",
    object: Annotated[
        str, typer.Option("--object", help="Only about this, such as 'changefeed a', or a.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most so many, the newest.")
    ] = 200,
    json: Json = False,
) -> None:
    """Show who has asked for which change, and what came of it."""
    api = client()
    params = {"limit": str(limit), "object": object}
    if since:
        params["since"] = str(since_(since, lambda: int(api.post("/tso")["tso"])))
    items: list[dict[str, Any]] = api.get("/audit", **params)["items"]
    if json:
        output.as_json(items)
        return
    columns = ("TIME", "WHO", "ROLE", "FROM", "WHAT", "OBJECT", "OUTCOME", "CHANGED")
    output.table(
        columns,
        ((*(i[k] for k in _KEYS), i["outcome"] or "not known", _changed(i)) for i in items),
    )


def _changed(item: dict[str, Any]) -> str:
    """``target_ts: 0 -> 9``; of what was created or removed that is in ``--json``."""
    was, now = item["before"], item["after"]
    if was is None or now is None:
        return "" if was is now else "created" if was is None else "removed"
    return ", ".join(f"{p}: {_text(was, p)} -> {_text(now, p)}" for p in {**was, **now})


def _text(values: dict[str, Any], path: str) -> str:
    return json_.dumps(values[path], ensure_ascii=False) if path in values else "-"
