"""A dashboard as an SVG of what a Prometheus has answered: there is no Grafana where we test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

# Pixels of one of Grafana's units of place.
_ACROSS, _DOWN = 58, 26
_COLOURS = ("#3c78c8", "#d9822b", "#4a9c5d", "#b6509e", "#c0392b", "#00897b", "#8d6e63", "#7e57c2")
_NAMED = {"green": "#4a9c5d", "red": "#c0392b", "orange": "#d9822b", "blue": "#3c78c8"} | {
    "yellow": "#d4b106",
    "purple": "#7e57c2",
}
_BYTES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_THOUSANDS = (("M", 1e6), ("k", 1e3))
_ENDINGS = {
    "s": " s",
    "ops": "/s",
    "rowsps": " rows/s",
    "reqps": " requests/s",
    "percentunit": " %",
}


@dataclass(frozen=True)
class Series:
    """One line: what it is called, and its samples as (s since the epoch, value), by time."""

    name: str
    samples: Sequence[tuple[float, float]]


Answers = Callable[[str, str], Sequence[Series]]
"""All series of an expression and its legend's format, over the time that is drawn."""


def dashboard(stored: Mapping[str, Any], span: tuple[float, float], answers: Answers) -> str:
    """An SVG of a stored dashboard over ``span``, (first, last) in s since the epoch."""
    panels = stored["panels"]
    height = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) * _DOWN
    drawn = "\n".join(itertools.chain.from_iterable(_panel(p, span, answers) for p in panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * _ACROSS} {height}" '
        f'font-family="sans-serif" font-size="11" fill="#333">\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{drawn}\n</svg>\n'
    )


def _panel(panel: Mapping[str, Any], span: tuple[float, float], answers: Answers) -> Iterator[str]:
    at = panel["gridPos"]
    x, y = at["x"] * _ACROSS, at["y"] * _DOWN
    width, height = at["w"] * _ACROSS - 8, at["h"] * _DOWN - 8
    yield f'<g transform="translate({x + 4} {y + 4})">'
    if panel["type"] == "row":
        yield _text(0, 14, panel["title"], 'font-size="14" font-weight="bold"')
    else:
        yield f'<rect width="{width}" height="{height}" fill="none" stroke="#ddd"/>'
        yield _text(8, 15, panel["title"], 'font-weight="bold"')
        series = [
            s for t in panel["targets"] for s in answers(t["expr"], t["legendFormat"]) if s.samples
        ]
        if not series:
            yield _text(8, height / 2, "nothing: it has not happened", 'fill="#999"')
        elif panel["type"] == "stat":
            yield from _stat(panel, series, height)
        elif panel["type"] == "state-timeline":
            yield from _states(panel, series, span, width, height)
        else:
            yield from _lines(panel, series, span, width, height)
    yield "</g>"


def _stat(panel: Mapping[str, Any], series: Sequence[Series], height: int) -> Iterator[str]:
    value = shown(series[0].samples[-1][1], panel["fieldConfig"]["defaults"]["unit"])
    yield _text(8, height / 2 + 18, value, 'font-size="26"')


def _states(
    panel: Mapping[str, Any],
    series: Sequence[Series],
    span: tuple[float, float],
    width: int,
    height: int,
) -> Iterator[str]:
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    high = min(26.0, (height - 40) / len(series))
    for n, each in enumerate(series):
        top = 26 + n * high
        changes = [next(same) for _, same in itertools.groupby(each.samples, lambda at: at[1])]
        for (begin, value), (end, _) in itertools.pairwise([*changes, (span[1], 0.0)]):
            state = mapping["options"].get(f"{value:g}", {"color": "#999"})
            left, right = (_across(t, span, 8, width - 8) for t in (begin, end))
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}" '
                f'height="{high - 3:.1f}" fill="{_NAMED.get(state["color"], "#999")}"/>'
            )
        left = _across(changes[0][0], span, 8, width - 8)
        yield _text(left + 4, top + high / 2 + 2, each.name, 'fill="#fff"')
    told = ((s["text"], _NAMED[s["color"]]) for s in mapping["options"].values())
    yield from _legend(told, width, height)


def _lines(
    panel: Mapping[str, Any],
    series: Sequence[Series],
    span: tuple[float, float],
    width: int,
    height: int,
) -> Iterator[str]:
    unit = panel["fieldConfig"]["defaults"]["unit"]
    # Ts grow by what is nothing beside their size, so a scale from 0 would show nothing.
    values = [v for s in series for _, v in s.samples]
    low = min(values) if min(values) > 1e11 else min(0.0, *values)
    high = max(values) if max(values) > low else low + 1
    left, top, bottom = 84, 26, height - 26
    for value, y in ((high, top), (low, bottom)):
        yield f'<path d="M{left} {y}H{width - 8}" stroke="#eee"/>'
        yield _text(left - 4, y + 4, shown(value, unit), 'text-anchor="end" fill="#777"')
    coloured = list(zip(series, itertools.cycle(_COLOURS), strict=False))
    for each, colour in coloured:
        for run in _without_gaps(each.samples):
            points = " ".join(
                f"{_across(t, span, left, width - 8):.1f},"
                f"{bottom - (v - low) / (high - low) * (bottom - top):.1f}"
                for t, v in run
            )
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
    yield from _legend(((s.name, colour) for s, colour in coloured), width, height)


def _without_gaps(
    samples: Sequence[tuple[float, float]],
) -> Iterator[Sequence[tuple[float, float]]]:
    """Runs of samples at an even pace: where there was none, there is no line either."""
    pace = min((b - a for (a, _), (b, _) in itertools.pairwise(samples)), default=0.0)
    begin = 0
    for n, ((a, _), (b, _)) in enumerate(itertools.pairwise(samples), 1):
        if b - a > 1.5 * pace:
            yield samples[begin:n]
            begin = n
    yield samples[begin:]


def _legend(names: Iterator[tuple[str, str]], width: int, height: int) -> Iterator[str]:
    """As many names as there is room for, and how many more there are."""
    left = list(names)
    x = 8.0
    while left and x + 6.3 * len(left[0][0]) < width - 30:
        name, colour = left.pop(0)
        yield _text(x, height - 8, name, f'fill="{colour}"')
        x += 6.3 * len(name) + 14
    if left:
        yield _text(x, height - 8, f"+ {len(left)}", 'fill="#777"')


def _across(at: float, span: tuple[float, float], left: float, right: float) -> float:
    return left + (at - span[0]) / (span[1] - span[0]) * (right - left)


def _text(x: float, y: float, text: str, how: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {how}>{escape(text)}</text>'


def shown(value: float, unit: str) -> str:
    """A value as people read it, in one of Grafana's units that our panels have."""
    if unit in ("bytes", "Bps"):
        name, size = next(((n, s) for n, s in _BYTES if abs(value) >= s), ("B", 1))
        return f"{value / size:.3g} {name}" + ("/s" if unit == "Bps" else "")
    if unit == "percentunit":
        value *= 100
    name, size = next(((n, s) for n, s in _THOUSANDS if abs(value) >= s), ("", 1.0))
    return f"{value / size:.3g}{name}{_ENDINGS.get(unit, '')}"
