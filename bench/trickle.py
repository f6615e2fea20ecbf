"""``trickle_cpu`` and ``trickle_lag``: what little costs, transactions of one row at 20 and 400/s.

The load and its reader are those of ``lag``. Processor is that of all our processes (capture, JVM,
workers), or of the Connect worker, from the first statement to the last row's arrival.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench import debezium, load, ours
from bench.figures import Figure
from bench.ground import Ground, ground
from bench.lag import steady, warm_debezium
from bench.processes import cpu_by_process, cpu_since
from bench.settings import Settings
from bench.topic import End

_RATES = (20, 400)


def trickle(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Half a minute of each rate, ours and then Debezium's."""
    seconds = settings.seconds or 30.0
    with ground(settings.server) as place:
        found = {"ours": _ours(place, seconds, settings)}
        if settings.peers:
            found["debezium"] = _debezium(place, seconds)
    figures = []
    for rate in _RATES:
        mine = found["ours"][rate]
        if settings.peers:
            name, peer = f"Debezium {debezium.VERSION}", found["debezium"][rate]
        else:
            name, peer = "target", {"cpu": 100.0, "p50": 0.25}
        cpu, p50 = mine["cpu"], mine["p50"]
        figures += [
            Figure.less(f"trickle_cpu_{rate}", cpu, "% of a core", name, peer["cpu"]),
            Figure.less(f"trickle_lag_{rate}", p50, "s", name, peer["p50"]),
        ]
    return figures, {"trickle": found}


def _ours(place: Ground, seconds: float, settings: Settings) -> dict[int, dict[str, float]]:
    with ours.streaming(place.database, place.broker, "ours", codec=settings.codec) as feed:
        process = feed.server.process
        assert process is not None
        pid = process.pid
        end = End(place.broker, "ours")
        found = {}
        for rate in _RATES:
            load.empty(place.database)
            before = cpu_by_process(pid)
            found[rate] = _steady(
                place, "ours", end, seconds, rate, lambda b=before: sum(cpu_since(b, pid).values())
            )
            feed.check()
        end.close()
    return found


def _debezium(place: Ground, seconds: float) -> dict[int, dict[str, float]]:
    with warm_debezium(place, "debezium_trickle") as (worker, end):
        found = {}
        for rate in _RATES:
            load.empty(place.database)
            began = worker.cpu_s
            found[rate] = _steady(
                place, worker.topic, end, seconds, rate, lambda b=began: worker.cpu_s - b
            )
            worker.check()
    return found


def _steady(
    place: Ground, topic: str, end: End, seconds: float, rate: int, used_s: Callable[[], float]
) -> dict[str, float]:
    """Lags at a rate, and ``cpu``: percent of a core since ``used_s`` was made."""
    began = time.monotonic()
    lags = steady(place.database, place.broker, topic, end.offsets(), seconds, rate, 1)
    return lags | {"cpu": 100 * used_s() / (time.monotonic() - began)}
