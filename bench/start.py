"""``start_*``: from ``cdc server`` until a row that waits for it can be read, after kill -9 too."""

from __future__ import annotations

import re
import signal
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench import ours
from bench.figures import Figure
from bench.ground import Ground, ground
from bench.ours import Ours
from bench.processes import cpu_by_kind
from bench.settings import Settings
from bench.topic import End

_CREATE = "CREATE TABLE bench.t2 (id INT AUTO_INCREMENT PRIMARY KEY)"
_READY = re.compile(r"capture \S+: ready")
_LIMIT_S, _PATIENCE_S, _POLL_S = 5.0, 120.0, 0.005
_STARTS = 5


def start(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """A capture with one changefeed is stopped, or killed, and started again, in turn.

    A row is inserted while it is gone. Seconds are those since ``cdc server`` was begun, processor
    time is that of all our processes until Spark is ready.
    """
    found: dict[str, list[float]] = {"stopped": [], "killed": [], "ready": [], "cpu": []}
    with ground(settings.server) as place:
        place.database.execute(_CREATE)
        with ours.streaming(
            place.database,
            place.broker,
            "ours",
            codec=settings.codec,
            tables=("bench.t*",),
            warm_rows=0,
        ) as feed:
            end = End(place.broker, "ours")
            _first_row(place, end, lambda: None)
            for _ in range(_STARTS if settings.whole else settings.runs):
                for how, stop in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
                    row_s, ready_s, cpu_s = _again(place, feed, end, stop)
                    print(f"start: {how}, row {row_s:.2f} s, ready {ready_s:.2f}, cpu {cpu_s:.2f}")
                    found[how].append(row_s)
                    found["ready"].append(ready_s)
                    found["cpu"].append(cpu_s)
            end.close()
    medians = {name: statistics.median(values) for name, values in found.items()}
    return [
        Figure.less("start_first_row", medians["stopped"], "s", "target", _LIMIT_S),
        Figure.less("start_first_row_killed", medians["killed"], "s", "target", _LIMIT_S),
        Figure("start_ready", round(medians["ready"], 2), "s"),
        Figure("start_cpu", round(medians["cpu"], 2), "processor s"),
    ], {"start": found}


def _again(place: Ground, feed: Ours, end: End, stop: int) -> tuple[float, float, float]:
    """Seconds to the row and to readiness, and processor seconds until then."""
    server = feed.server
    server.stop(stop)
    offset = server.log.stat().st_size
    began = time.monotonic()
    ready_s = cpu_s = 0.0

    def look() -> None:
        nonlocal ready_s, cpu_s
        if not ready_s and _READY.search(server.log.read_bytes()[offset:].decode()):
            ready_s = time.monotonic() - began
            assert server.process is not None
            cpu_s = sum(cpu_by_kind(server.process.pid).values())

    def run() -> None:
        nonlocal began
        began = time.monotonic()
        server.start(ready=False)

    came = _first_row(place, end, run, look)
    while not ready_s:
        look()
        time.sleep(_POLL_S)
    return came - began, ready_s, cpu_s


def _first_row(
    place: Ground, end: End, begin: Callable[[], None], look: Callable[[], None] = lambda: None
) -> float:
    """Insert a row, begin, and look until it can be read; when that was, by the monotonic clock."""
    before = sum(end.offsets())
    place.database.execute("INSERT INTO bench.t2 VALUES ()")
    begin()
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        look()
        if sum(end.offsets()) > before:
            return time.monotonic()
        time.sleep(_POLL_S)
    raise AssertionError("no row came")
