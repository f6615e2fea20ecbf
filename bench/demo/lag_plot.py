"""The lag of both ends over a run, drawn as the dashboards of docs/metrics.md are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bench.demo.report import Timed
from tests.prometheus.drawing import Series, dashboard

_EVERY_S = 0.5


def lag_plot(ends: Mapping[str, Timed], killed: float) -> str:
    """An SVG: by end the longest lag of each half second in which rows came; and the kill.

    ``killed`` is a Unix time. Raises ValueError where no end has seen a row.
    """
    drawn = {name: _longest(end) for name, end in ends.items()}
    seen = [sample for samples in drawn.values() for sample in samples]
    high = max(lag for _, lag in seen)
    drawn["kill -9"] = [(killed, 0.0), (killed, high)]
    span = (min(at for at, _ in seen), max(at for at, _ in seen))
    panel: dict[str, Any] = {
        "type": "timeseries",
        "title": f"Lag, commit to reader, over {span[1] - span[0]:.0f} s of load",
        "gridPos": {"x": 0, "y": 0, "w": 24, "h": 12},
        "targets": [{"expr": name, "legendFormat": ""} for name in drawn],
        "fieldConfig": {"defaults": {"unit": "s"}},
    }
    return dashboard({"panels": [panel]}, span, lambda name, _: [Series(name, drawn[name])])


def _longest(end: Timed) -> list[tuple[float, float]]:
    """(Unix time, seconds) of each stretch of time."""
    times, lags = np.asarray(end.times, float), np.asarray(end.lags, float)
    stretches, of_row = np.unique(np.floor(times / _EVERY_S), return_inverse=True)
    longest = np.zeros(len(stretches))
    np.maximum.at(longest, of_row, lags)
    return [(float(n * _EVERY_S), float(lag)) for n, lag in zip(stretches, longest, strict=True)]
