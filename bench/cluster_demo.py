"""The demo of a cluster: ``python -m bench.cluster_demo``; exit code 0 only if all is proven.

Three captures with data directories of their own, an etcd of three members, and a load that goes to
Kafka and to a database. The owner, which has the upstream, is lost, loses its disk, is frozen
past its session and wakes; a member of etcd is killed; the upstream is moved to another capture; at
last all captures are restarted one after another.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack

from bench.failover import OWNER_S, ROWS_S
from bench.narration import exit_code
from tests.soak.cluster import TTL_S, Cluster, judge, restarted, set_up, strike
from tests.soak.plan import Plan

_BLOWS = (
    "owner lost",
    "member of etcd killed",
    "owner lost, and its disk",
    "owner frozen past its session",
    "upstream moved",
)
_LAG_S = 5.0
_CALM_S = 3.0


def _say(line: str) -> None:
    print(line, flush=True)


def _judge_times(stage: Cluster, name: str) -> bool:
    """Print what a blow cost, and whether it is within what was promised."""
    in_time = stage.owner_s <= OWNER_S and stage.rows_s <= ROWS_S
    owner = f"{stage.owner_s:4.1f} s" if stage.owner_s else "stays"
    late = "" if in_time else "  LATE"
    _say(f"{name:32} another owner {owner:>7}, rows in both places {stage.rows_s:5.1f} s{late}")
    return in_time


def _rolling_restart(stage: Cluster) -> bool:
    """Restart all captures, each drained before; print the longest lag that rows had meanwhile."""
    began = time.time()
    for n, capture in enumerate(stage.captures.all):
        refused = restarted(stage, n)
        assert not refused, refused
        capture.await_ready()
    time.sleep(_CALM_S)
    fold, watcher = stage.places.fold, stage.places.watcher
    lags = [_longest(fold.times, fold.lags, began), _longest(watcher.times, watcher.lags, began)]
    took = time.time() - began
    _say(f"all three restarted, drained before, in {took:.0f} s")
    _say(f"longest lag meanwhile: topic {lags[0]:.1f} s, database {lags[1]:.1f} s")
    return max(lags) <= _LAG_S


def _longest(times: Iterable[float], lags: Iterable[float], since: float) -> float:
    return max(lag for at, lag in zip(list(times), list(lags), strict=False) if at >= since)


def _run(stack: ExitStack, plan: Plan) -> bool:
    began = time.monotonic()
    _say("starting two MariaDB 11.4, Kafka 4.1, an etcd of three members and three captures")
    stage = set_up(stack, plan)
    _say(f"under load after {time.monotonic() - began:.0f} s; a session lasts {TTL_S} s")
    in_time = []
    for name in _BLOWS:
        time.sleep(_CALM_S)
        strike(stage, name, _say)
        in_time.append(_judge_times(stage, name))
        for n, capture in enumerate(stage.captures.all):
            if n not in stage.captures.down:
                capture.await_ready()
    in_time.append(_rolling_restart(stage))
    verdict, complete, faults, committed = judge(stage)
    _say(f"{committed.rows:,} row changes in {committed.transactions:,} transactions")
    for line in (*verdict.lines(), *map(str, faults)):
        _say(line)
    _say(f"{time.monotonic() - began:.0f} s")
    if not all(in_time):
        _say("slower than promised, see above")
    return verdict.proven and complete and not faults and all(in_time)


def main() -> int:
    """Run the demo; 0 if nothing was lost or repeated, and all came in time."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster_demo")
    parser.add_argument("--rate", type=float, default=3000, help="row changes a second")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return exit_code(lambda stack: _run(stack, Plan(seed=chosen.seed, rows_per_s=chosen.rate)))


if __name__ == "__main__":
    sys.exit(main())
