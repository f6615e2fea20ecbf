"""``start_*``: from ``cdc server`` until a row that waits for it can be read, after kill -9 too."""

from __future__ import annotations

import signal
import statistics
import time
from typing import Any

from bench import ours
from bench.figures import Figure
from bench.ground import Ground, ground
from bench.processes import cpu_by_kind
from bench.settings import Settings
from bench.topic import End
from tests.api.server_process import READY, CdcServer

_CREATE = "CREATE TABLE bench.t2 (id INT AUTO_INCREMENT PRIMARY KEY)"
_LIMIT_S, _PATIENCE_S, _POLL_S = 5.0, 120.0, 0.005
_STARTS = 5


def start(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """A capture with one changefeed is stopped, or killed, and started again, in turn.

    A row is inserted while it is gone. Seconds are those since ``cdc server`` was begun, processor
    time is that of all our processes until Spark is ready.
    """
    found: dict[str, list[float]] = {"stopped": [], "killed": [], "ready": [], "cpu": []}
    with (
        ground(settings.server) as place,
        ours.of_another(place.database, place.broker, _CREATE, settings.codec) as feed,
    ):
        end = End(place.broker, "ours")
        _wait(end, _insert(place, end), feed.server, 0)
        for _ in range(_STARTS if settings.whole else settings.runs):
            for how, stop in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
                row_s, ready_s, cpu_s = _again(place, feed.server, end, stop)
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


def _again(place: Ground, server: CdcServer, end: End, stop: int) -> tuple[float, float, float]:
    """Seconds to the row and to readiness, and processor seconds until then."""
    server.stop(stop)
    offset = server.log.stat().st_size
    before = _insert(place, end)
    began = time.monotonic()
    server.start(ready=False)
    came, ready, cpu_s = _wait(end, before, server, offset)
    return came - began, ready - began, cpu_s


def _insert(place: Ground, end: End) -> int:
    """Insert a row; the end of the topic before it."""
    before = sum(end.offsets())
    place.database.execute("INSERT INTO bench.t2 VALUES ()")
    return before


def _wait(end: End, before: int, server: CdcServer, offset: int) -> tuple[float, float, float]:
    """When a row can be read, and when Spark is ready, by the monotonic clock, and what processor
    seconds that has taken; ``offset``: where the server's log begins.
    """
    assert server.process is not None
    deadline = time.monotonic() + _PATIENCE_S
    came = ready = cpu_s = 0.0
    while time.monotonic() < deadline:
        if not ready and READY.search(server.log.read_bytes()[offset:].decode()):
            ready = time.monotonic()
            cpu_s = sum(cpu_by_kind(server.process.pid).values())
        if not came and sum(end.offsets()) > before:
            came = time.monotonic()
        if came and ready:
            return came, ready, cpu_s
        time.sleep(_POLL_S)
    raise AssertionError("no row came")
