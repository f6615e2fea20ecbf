"""What our dashboards ask, and in what form a Grafana takes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as grafana

FOLDER = Path(__file__).parents[2] / "configs/grafana"
FILES = sorted(FOLDER.glob("*.json"))
_VARIABLE = re.compile(r"\$\{?(\w+)(?::\w+)?\}?")


def panels(dashboard: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels, those in rows too."""
    for panel in dashboard.get("panels", []):
        yield panel
        yield from panels(panel)


def asked(expr: str, window: str) -> str:
    """An expression as Grafana sends it where everything is chosen; ``window`` is of rates."""
    expr = re.sub(r"\$__(rate_interval|interval|range)\b", window, expr)
    return _VARIABLE.sub(".*", expr)


def queries() -> Iterator[tuple[str, str]]:
    """(dashboard/panel/series, expression) of every query."""
    for file in FILES:
        for panel in panels(json.loads(file.read_text())):
            for target in panel.get("targets", []):
                yield f"{file.stem}/{panel['title']}/{target['legendFormat']}", target["expr"]


def faults(dashboard: dict[str, Any]) -> list[str]:
    """What Grafana would not know, or would show wrong."""
    found = [f"unknown key {key}" for key in _lost(dashboard, _understood(dashboard))]
    names = {v["name"] for v in dashboard["templating"]["list"]}
    seen: set[int] = set()
    taken: dict[tuple[int, int], int] = {}
    for panel in panels(dashboard):
        number, place = panel["id"], panel["gridPos"]
        if number in seen:
            found.append(f"two panels {number}")
        seen.add(number)
        if place["x"] < 0 or place["x"] + place["w"] > 24:
            found.append(f"panel {number} is outside")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in taken:
                    found.append(f"panels {taken[x, y]} and {number} overlap")
                taken[x, y] = number
        references = [target["refId"] for target in panel.get("targets", [])]
        if len(references) != len(set(references)):
            found.append(f"panel {number} has a refId twice")
        for target in panel.get("targets", []):
            for name in _VARIABLE.findall(target["expr"]):
                if name not in names and not name.startswith("__"):
                    found.append(f"panel {number}: ${name} is not defined")
    return sorted(set(found))


def _understood(dashboard: dict[str, Any]) -> Any:
    known = grafana.Dashboard.from_json(dashboard)
    return json.loads(JSONEncoder(sort_keys=True).encode(known))


def _lost(given: Any, kept: Any, path: str = "") -> Iterator[str]:
    """What does not come back from Grafana's own types."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key in kept:
                yield from _lost(value, kept[key], f"{path}/{key}")
            elif value not in (None, [], {}, "", False):
                yield f"{path}/{key}"
    elif isinstance(given, list) and isinstance(kept, list):
        for n, (a, b) in enumerate(zip(given, kept, strict=True)):
            yield from _lost(a, b, f"{path}[{n}]")
