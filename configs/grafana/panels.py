"""Panels and dashboards of Grafana as values: what is common to all of ours, and nothing else.

Sizes are Grafana's: a dashboard is 24 wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WIDTH = 24
_HEIGHT, _STAT_HEIGHT = 8, 4
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Query:
    """An expression and what each of its series is called."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One panel; ``width`` and ``height`` are its place's, ``kind`` is Grafana's type of it."""

    title: str
    text: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = _HEIGHT
    stacked: bool = False
    mappings: tuple[tuple[str, str, str], ...] = ()
    thresholds: tuple[tuple[float | None, str], ...] = ((None, "green"),)

    def to_json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """As Grafana stores it."""
        options = {v: {"text": t, "color": c, "index": i}
                   for i, (v, t, c) in enumerate(self.mappings)}  # fmt: skip
        steps = [{"value": v, "color": c} for v, c in self.thresholds]
        defaults: dict[str, Any] = {
            "unit": self.unit,
            "color": {"mode": "thresholds" if self.kind == "stat" else "palette-classic"},
            "thresholds": {"mode": "absolute", "steps": steps},
            "mappings": [{"type": "value", "options": options}] if options else [],
        }
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "lineWidth": 1,
                "fillOpacity": 20 if self.stacked else 5,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            }
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": [
                {
                    "refId": chr(ord("A") + n),
                    "datasource": _DATASOURCE,
                    "expr": query.expr,
                    "legendFormat": query.legend,
                    "instant": self.kind == "stat",
                    "range": self.kind != "stat",
                }
                for n, query in enumerate(self.queries)
            ],
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": _options(self.kind),
        }


def _options(kind: str) -> dict[str, Any]:
    if kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
    if kind == "state-timeline":
        return {"legend": legend, "showValue": "auto", "mergeValues": True, "rowHeight": 0.9}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def graph(title: str, text: str, unit: str, *queries: tuple[str, str], **more: Any) -> Panel:
    """Lines over time."""
    return Panel(title, text, unit, tuple(Query(*q) for q in queries), **more)


def stat(title: str, text: str, unit: str, expr: str, **more: Any) -> Panel:
    """One number, now."""
    query = (Query(expr, ""),)
    return Panel(title, text, unit, query, kind="stat", width=4, height=_STAT_HEIGHT, **more)


def states(title: str, text: str, *queries: tuple[str, str], **more: Any) -> Panel:
    """Bands of colour over time."""
    made = tuple(Query(*q) for q in queries)
    return Panel(title, text, "none", made, kind="state-timeline", **more)


@dataclass(frozen=True)
class Dashboard:
    """A dashboard; ``choices`` are its variables: ``(name, metric whose label has the values)``."""

    uid: str
    title: str
    text: str
    choices: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]

    def to_json(self) -> dict[str, Any]:
        """As Grafana stores it; panels fill rows from the left."""
        panels, y, number = list[dict[str, Any]](), 0, 1
        for title, row in self.rows:
            place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
            panels.append(
                {"id": number, "type": "row", "title": title, "collapsed": False,
                 "gridPos": place, "panels": []}
            )  # fmt: skip
            x, y, number, tallest = 0, y + 1, number + 1, 0
            for panel in row:
                if x + panel.width > WIDTH:
                    x, y, tallest = 0, y + tallest, 0
                panels.append(panel.to_json(number, x, y))
                x, number, tallest = x + panel.width, number + 1, max(tallest, panel.height)
            y += tallest
        return {
            "uid": f"tidegate-{self.uid}",
            "title": f"Tidegate: {self.title}",
            "description": self.text,
            "tags": ["tidegate"],
            "timezone": "browser",
            "schemaVersion": 39,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "templating": {"list": [_source(), *(_choice(*c) for c in self.choices)]},
            "annotations": {"list": []},
            "links": [
                {"type": "dashboards", "title": "Tidegate", "tags": ["tidegate"], "icon": "",
                 "tooltip": "", "url": "", "asDropdown": True, "includeVars": True,
                 "keepTime": True, "targetBlank": False}
            ],
            "panels": panels,
        }  # fmt: skip


def _source() -> dict[str, Any]:
    return {
        "name": "datasource",
        "type": "datasource",
        "label": "Prometheus",
        "query": "prometheus",
    }


def _choice(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "label": name,
        "datasource": _DATASOURCE,
        "query": f"label_values({metric}, {name})",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }
