"""The table of metrics in docs/metrics.md, out of the program; run, it writes the page anew."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from prometheus_client import Metric

from cdc.base import measures
from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.coord.messages import (
    DdlEntries,
    DdlEntry,
    ErrorInfo,
    FeedInfo,
    FeedStatus,
    RowsAgain,
    SnapshotProgress,
    TableRead,
    TableReadState,
    UpstreamStatus,
)
from cdc.server.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
BEGIN, END = "<!-- metrics -->", "<!-- end of metrics -->"
_UNITS = {"_seconds": "s", "_bytes": "bytes", "_ts": "ms since the epoch"}
_READ = SnapshotProgress(
    rows_expected=2,
    rows_per_second=1.0,
    reads=[TableRead(name="s.t", state=TableReadState.READING)],
)
_ERROR = ErrorInfo(code="TG:ErrX", kind="transient", message="m", time_ms=1)


def every_metric() -> Metrics:
    """Metrics of a capture that has one of everything."""
    clock, parts = SystemClock(), Parts()
    parts.make("owner", lambda: False, threading.Event())
    made = Metrics(clock, parts, Path("."))
    ts = clock.now_ms() << 18
    info = FeedInfo(id="f", upstream="u", sink_uri="kafka://h/t", start_ts=ts, error=_ERROR)
    info = info.model_copy(update={"again": RowsAgain(order="1", main_ts=ts)})
    status = FeedStatus(checkpoint_ts=ts, resolved_ts=ts, barrier_ts=ts, tables={"s.t": ts - 1})
    ddls = DdlEntries(pending=[DdlEntry(ts=ts, sql="", since_ms=1)])
    made.observe_feed(info, status, ddls, {"1": _READ})
    made.keep_feeds({"f"}, 1)
    made.capture.upstreams = lambda: {"held": 1}
    made.observe_upstream("u", UpstreamStatus(resolved_ts=ts, anchored_ts=ts, error=_ERROR))
    return made


def families() -> dict[str, tuple[str, tuple[str, ...], str]]:
    """By name: type, labels, meaning."""
    found = {f.name: f for f in every_metric().registry.collect() if f.name.startswith("tidegate_")}
    known: dict[str, tuple[str, tuple[str, ...], str]] = {}
    for made in measures.made():
        (family,) = made.describe()
        known[_shown(family)] = (family.type, tuple(made._labelnames), family.documentation)
    for family in found.values():
        if _shown(family) not in known:
            labels = tuple(family.samples[0].labels) if family.samples else ()
            known[_shown(family)] = (family.type, labels, family.documentation)
    return dict(sorted(known.items()))


def samples() -> set[str]:
    """The names of all samples: a histogram has three kinds."""
    names = set()
    for name, (kind, _, _) in families().items():
        names |= (
            {f"{name}_{part}" for part in ("bucket", "sum", "count")}
            if kind == "histogram"
            else {name}
        )
    return names


def _shown(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def table() -> str:
    """The table as Markdown."""
    lines = ["| name | type | labels | unit | |", "| --- | --- | --- | --- | --- |"]
    for name, (kind, labels, text) in families().items():
        stem = re.sub("_total$", "", name)
        unit = next((u for end, u in _UNITS.items() if stem.endswith(end)), "")
        text = text.removesuffix(", in milliseconds since the epoch")
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {unit} | {text} |")
    return "\n".join(lines)


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}")
