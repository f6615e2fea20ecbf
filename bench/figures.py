"""Figures: what was measured, the peer beside it, written as JSON and shown as a table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"
LATEST = OUT / "latest.json"
RUNS = OUT / "runs.json"
PARTIAL = OUT / "partial.json"
PARTIAL_RUNS = OUT / "partial_runs.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of ``latest.json``, where its provenance stands beside it.

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


def store(
    figures: Iterable[Figure], runs: dict[str, Any], provenance: Mapping[str, Any], *, whole: bool
) -> list[Figure]:
    """Put figures over older ones of the same name; returns all figures of that file.

    Those of a whole run go into ``latest.json``, with the single runs into ``runs.json``; those of
    a partial one (fewer rows or runs, another server, no peers) into ``partial.json``, since nobody
    would see that they are none of the others' kind.
    """
    OUT.mkdir(exist_ok=True)
    into, single = (LATEST, RUNS) if whole else (PARTIAL, PARTIAL_RUNS)
    known = json.loads(into.read_text()) if into.exists() else []
    merged = {f["name"]: f for f in known}
    merged |= {f.name: {**asdict(f), "provenance": dict(provenance)} for f in figures}
    into.write_text(json.dumps(list(merged.values()), indent=1) + "\n")
    older = json.loads(single.read_text()) if single.exists() else {}
    single.write_text(json.dumps(older | runs, indent=1) + "\n")
    names = {f.name for f in fields(Figure)}
    return [Figure(**{k: v for k, v in f.items() if k in names}) for f in merged.values()]


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
