"""Figures: what was measured, the peer beside it, written as JSON and shown as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"
LATEST = OUT / "latest.json"
RUNS = OUT / "runs.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of ``latest.json``.

    ``value`` is the median of the runs. ``peer_value`` is the peer's median or, where the peer is a
    limit (``target``), that limit. ``ratio`` above 1 is good: ours over the peer's where more is
    better, the peer's over ours where less is.
    """

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    ratio: float | None = None

    @classmethod
    def more(cls, name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
        """A figure of which more is better."""
        ratio = _round(value / peer_value) if peer_value else None
        return cls(name, _round(value), unit, peer, _round(peer_value), ratio)

    @classmethod
    def less(cls, name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
        """A figure of which less is better."""
        ratio = _round(peer_value / value) if value else None
        return cls(name, _round(value), unit, peer, _round(peer_value), ratio)


def _round(value: float) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    digits = 3 - math.floor(math.log10(abs(value)))
    return round(value, max(0, digits))


def store(figures: Iterable[Figure], runs: dict[str, Any]) -> list[Figure]:
    """Put figures into ``latest.json`` over older ones of the same name; returns all of it."""
    OUT.mkdir(exist_ok=True)
    known = [Figure(**f) for f in json.loads(LATEST.read_text())] if LATEST.exists() else []
    merged = {f.name: f for f in known} | {f.name: f for f in figures}
    LATEST.write_text(json.dumps([asdict(f) for f in merged.values()], indent=1) + "\n")
    older = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    RUNS.write_text(json.dumps(older | runs, indent=1) + "\n")
    return list(merged.values())


def show(figures: Iterable[Figure], console: Console) -> None:
    """Print figures as a table."""
    table = Table(title="tidegate bench")
    for head in ("figure", "value", "unit", "peer", "peer's value", "ratio"):
        table.add_column(head, justify="left" if head in ("figure", "unit", "peer") else "right")
    for f in figures:
        table.add_row(
            f.name,
            _text(f.value),
            f.unit,
            f.peer or "",
            _text(f.peer_value),
            "" if f.ratio is None else f"{f.ratio:.2f}",
        )
    console.print(table)


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
