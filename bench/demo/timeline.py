"""When each schema change was made, waited and ran, as ``cdc cli ddl list`` says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from textwrap import shorten
from typing import Any

from bench.demo.capture import Capture

_SHOWN_SQL = 74


def timeline(capture: Capture, feeds: Iterable[str], began_s: float) -> tuple[list[str], int]:
    """Lines for people, and how many changes are not done in one of the changefeeds.

    ``began_s``: the demo's begin in Unix time. A change waits from when the owner has seen it until
    every table that it touches has delivered all rows before it.
    """
    names = list(feeds)
    said = {
        feed: {
            d["ts"]: d for d in json.loads(capture.cli("ddl", "list", "-c", feed, "-a", "--json"))
        }
        for feed in names
    }
    every = sorted({ts for found in said.values() for ts in found})
    lines = [f"{'SEEN AT':>9}  " + "".join(f"{feed + ' waited, ran':<28}" for feed in names)]
    undone = 0
    for ts in every:
        some = next(found[ts] for found in said.values() if ts in found)
        cells = ""
        for feed in names:
            one = said[feed].get(ts)
            undone += one is None or one["state"] != "done"
            cells += f"{_cell(one):<28}"
        seen = f"{_unix(some['since']) - began_s:.1f} s"
        sql = shorten(some["sql"], _SHOWN_SQL, placeholder="…")
        lines.append(f"{seen:>9}  {cells}{sql}")
    return lines, undone + (not every)


def _cell(change: Mapping[str, Any] | None) -> str:
    if change is None:
        return "-"
    if change["state"] != "done":
        return str(change["state"])
    since, begun, ended = (_unix(change[name]) for name in ("since", "begun", "ended"))
    return f"{begun - since:6.2f} s, {ended - begun:.2f} s"


def _unix(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
