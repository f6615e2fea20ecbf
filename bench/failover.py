"""``failover``: how soon another capture is the owner, and rows come, when the owner is gone.

The cluster of ``make cluster-demo``: three captures with data directories of their own, an etcd of
three members, a load into a topic and into a database. The owner, which has the upstream, is lost,
loses its disk as well, and is frozen past its session, each as often as there are runs. The limits
are the design's: two seconds behind a session's end another is the owner, eight behind it rows
that were written since are in both places.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import Any

from bench.figures import Figure
from bench.settings import Settings
from tests.soak.cluster import TTL_S, judge, set_up, strike
from tests.soak.plan import Plan

BLOWS = {
    "lost": "owner lost",
    "disk": "owner lost, and its disk",
    "frozen": "owner frozen past its session",
}
OWNER_S, ROWS_S = TTL_S + 2.0, TTL_S + 8.0
"""Within which another is the owner, and delivers."""
_CALM_S = 3.0
_ROWS_PER_S = 3000.0


def failover(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """Medians of each blow; ``--rows`` is how many row changes a second the load makes."""
    plan = Plan(server=settings.server, rows_per_s=float(settings.rows or _ROWS_PER_S))
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in BLOWS}
    with ExitStack() as stack:
        stage = set_up(stack, plan)
        for _ in range(settings.runs):
            for name, blow in BLOWS.items():
                time.sleep(_CALM_S)
                strike(stage, blow, print)
                took[name].append((stage.owner_s, stage.rows_s))
                print(
                    f"failover {name}: another owner after {stage.owner_s:.1f} s,"
                    f" newer rows in both places after {stage.rows_s:.1f} s"
                )
        verdict, complete, faults, _ = judge(stage)
        shown = (*verdict.lines(), *map(str, faults))
        assert (verdict.proven, complete, faults) == (True, True, []), shown
    figures = []
    for name, times in took.items():
        owner, rows = (statistics.median(column) for column in zip(*times, strict=True))
        figures += [
            Figure.less(f"failover_{name}_owner", owner, "s", "target", OWNER_S),
            Figure.less(f"failover_{name}_rows", rows, "s", "target", ROWS_S),
        ]
    return figures, {"failover": {"session_s": TTL_S, "owner_and_rows_s": took}}
