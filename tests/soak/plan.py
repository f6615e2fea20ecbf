"""What a soak is asked to do, what came of it, and the kills in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.fold import Verdict
from tests.e2e.capture_process import CaptureProcess
from tests.soak.victims import Killer

# Small windows and tasks: a kill then often falls between two commits of one window.
SETTINGS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 4.0
[processor]
window-bytes = 1048576
single-task-bytes = 16384
"""
CATCH_UP_S = 180.0
_SHOWN_LOG = 20_000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and by which dice. ``minutes`` 0: until all kills are done.

    ``upstreams`` and what follows are of the soak of schema changes, which goes by the time alone.
    """

    kills: int = 10
    minutes: float = 0.0
    seed: int = 1
    rows_per_s: float = 3000.0
    server: str = "mariadb-11.4"
    without_ledger: bool = False
    upstreams: tuple[str, ...] = ("mariadb-11.4", "mysql-8.0")
    every_s: float = 20.0
    statements_per_s: float = 8.0
    without_barrier: bool = False


@dataclass(frozen=True)
class Result:
    """What came of it; ``faults`` are what else was seen that must not be."""

    verdict: Verdict
    kills: int
    complete: bool
    lines: tuple[str, ...]
    faults: tuple[str, ...] = ()

    def passed(self, plan: Plan) -> bool:
        """Proven; or, of a negative control, seen to be wrong."""
        if plan.without_barrier:
            return bool(self.faults) or not self.verdict.proven
        if plan.without_ledger:
            repeats = self.verdict.duplicated > 0 and self.verdict.lost == 0
            return self.complete and (repeats or bool(self.faults))
        return self.complete and self.verdict.proven and not self.faults


def kill(plan: Plan, killer: Killer, say: Say) -> None:
    """Kill as the plan says."""
    began = time.monotonic()
    while killer.kills < plan.kills:
        if plan.minutes and time.monotonic() - began > 60 * plan.minutes:
            say(f"{plan.minutes:g} minutes are over")
            break
        what = killer.strike()
        if what:
            say(f"{time.monotonic() - began:7.1f} s  kill -9 {killer.kills:4}: {what}")


def table(killer: Killer) -> list[str]:
    """Kills by what was killed."""
    head = f"{'killed with -9':20} {'times':>6} {'median s':>8} {'longest':>8}"
    rows = [tally.row(name) for name, tally in killer.tallies.items()]
    return [f"{head}  until newer rows came", *rows]


def show_stuck(capture: CaptureProcess, feeds: tuple[str, ...], say: Say) -> None:
    """Changefeeds, stacks and the end of the log of a capture that does not go on."""
    if capture.running:
        for feed in feeds:
            say(f"changefeed {feed}: {capture.api('GET', f'/changefeeds/{feed}').text}")
        capture.show_stacks()
    say(capture.text()[-_SHOWN_LOG:])
