"""What a soak is asked to do, what came of it, and the kills in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bench.fold import Verdict
from tests import seeds
from tests.e2e.capture_process import CaptureProcess
from tests.soak.phases import PhaseLog
from tests.soak.victims import Killer
from tests.waiting import until

# Small windows and tasks: a kill then often falls between two commits of one window. The log says
# what each changefeed is doing, which kills are aimed by.
SETTINGS = """log-level = "debug"
[owner]
error-backoff-first = 0.5
error-backoff-max = 4.0
[processor]
window-bytes = 1048576
single-task-bytes = 16384
spark-start-after-s = 0
"""
CATCH_UP_S = 180.0
_SHOWN_LOG = 20_000
_CDC = "cdc.cli.entry"

Say = Callable[[str], None]


def new_seed() -> int:
    """The run's seed: ``SEED``, or one that no run had."""
    return seeds.seed()


class Kind(StrEnum):
    """What can be wrong with what was delivered, or with the run itself."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    DISORDERED = "disordered"
    UNCOMMITTED = "uncommitted"
    DIFFERENT = "different"
    TORN = "torn"
    LEDGER = "ledger"
    STOPPED = "stopped"
    LATE = "late"
    LACKING = "lacking"
    SHOWN = "shown"
    UNHELD = "unheld"


@dataclass(frozen=True)
class Fault:
    """One thing that must not be."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class Control(StrEnum):
    """A negative control: what is taken away from the product."""

    LEDGER = "ledger"
    ROWS = "rows"
    ATOMICITY = "atomicity"
    BARRIER = "barrier"
    SORT = "sort"
    HOLES = "holes"
    PART = "part"
    HEARTBEAT = "heartbeat"
    TOUCHED = "touched"
    PLACE = "place"
    MASK = "mask"
    EPOCH = "epoch"
    GUARD = "guard"


@dataclass(frozen=True)
class Expected:
    """What a control must show; whatever else it shows must be ``allowed`` as its consequence."""

    must: frozenset[Kind]
    allowed: frozenset[Kind] = frozenset()


_OTHER_ROWS = Expected(
    frozenset({Kind.DIFFERENT, Kind.STOPPED, Kind.DISORDERED}),
    frozenset({Kind.LOST, Kind.DUPLICATED, Kind.LATE}),
)
_NOT_COMING = frozenset({Kind.LATE, Kind.LOST, Kind.DIFFERENT, Kind.LACKING})

EXPECTED = {
    # A repeated INSERT is refused by a target, and what lies behind it does not come.
    Control.LEDGER: Expected(
        frozenset({Kind.DUPLICATED}),
        frozenset({Kind.STOPPED, Kind.LOST, Kind.DIFFERENT, Kind.TORN, Kind.LEDGER}),
    ),
    Control.ROWS: Expected(frozenset({Kind.LOST}), frozenset({Kind.DISORDERED, Kind.DIFFERENT})),
    Control.ATOMICITY: Expected(frozenset({Kind.TORN})),
    # Rows meet a table as it is not any more: refused, or in the wrong columns.
    Control.BARRIER: Expected(
        frozenset({Kind.STOPPED, Kind.DIFFERENT}), frozenset({Kind.LOST, Kind.LATE})
    ),
    # A cluster's order that is not proven stops the upstream, and what is behind it does not come.
    # Branches stand apart, so that there are fewer transactions of several nodes.
    Control.SORT: Expected(frozenset({Kind.TORN}), frozenset({Kind.LOST})),
    Control.HOLES: Expected(frozenset({Kind.STOPPED}), _NOT_COMING),
    Control.PART: Expected(frozenset({Kind.STOPPED}), _NOT_COMING),
    Control.HEARTBEAT: Expected(frozenset({Kind.STOPPED}), _NOT_COMING),
    # Answers have the sink's URI as it was given.
    Control.MASK: Expected(frozenset({Kind.SHOWN})),
    # What was sent and not yet committed is, by those who wake, though others have delivered it.
    Control.EPOCH: Expected(
        frozenset({Kind.DUPLICATED}), frozenset({Kind.DISORDERED, Kind.DIFFERENT, Kind.LATE})
    ),
    # Who was replaced says still where another log could begin; ledgers keep rows from showing it.
    Control.GUARD: Expected(frozenset({Kind.UNHELD}), frozenset({Kind.STOPPED, Kind.LATE})),
    # A row as it was read, though it has changed since: too many, too few, or refused.
    Control.TOUCHED: _OTHER_ROWS,
    # A row as it is behind changes that come later.
    Control.PLACE: _OTHER_ROWS,
}


@dataclass(frozen=True)
class Plan:
    """How long, how fast, and by which dice. ``minutes`` 0: until all kills are done.

    ``target`` is the server of the MySQL sink, by itself the same as ``server``. ``upstreams`` and
    the two behind it are of the soak of schema changes, which goes by the time alone. ``only``
    is what blows at a cluster must have in their name. ``nodes``: of a distributed database.
    ``servers``: whose tables row snapshots copy.
    """

    kills: int = 10
    minutes: float = 0.0
    seed: int = field(default_factory=new_seed)
    rows_per_s: float = 3000.0
    server: str = "mariadb-11.4"
    target: str = ""
    control: Control | None = None
    upstreams: tuple[str, ...] = ("mariadb-11.4", "mysql-8.0")
    every_s: float = 20.0
    statements_per_s: float = 8.0
    only: str = ""
    nodes: int = 4
    servers: int = 1

    def module(self, without: Mapping[Control, str]) -> str:
        """What a capture runs: ``cdc``, or by ``without`` what the control has taken away."""
        return without[self.control] if self.control else _CDC


@dataclass(frozen=True)
class Result:
    """What came of it; ``faults`` are what was seen beside the verdict and must not be."""

    verdict: Verdict
    kills: int
    recovering: int
    complete: bool
    lines: tuple[str, ...]
    faults: tuple[Fault, ...] = ()

    def kinds(self) -> frozenset[Kind]:
        """All that is wrong."""
        v = self.verdict
        counts = {
            Kind.LOST: v.lost,
            Kind.DUPLICATED: v.duplicated,
            Kind.DISORDERED: v.disordered,
            Kind.UNCOMMITTED: v.uncommitted,
            Kind.DIFFERENT: sum(t.different for t in v.tables),
            Kind.LATE: not self.complete,
        }
        return frozenset(k for k, count in counts.items() if count) | {f.kind for f in self.faults}

    def passed(self, plan: Plan) -> bool:
        """Proven; or, of a negative control, seen to be wrong as it must be, and only so."""
        kinds = self.kinds()
        if plan.control is None:
            return not kinds
        expected = EXPECTED[plan.control]
        return bool(kinds & expected.must) and kinds <= expected.must | expected.allowed


def kill(plan: Plan, killer: Killer, say: Say) -> None:
    """Kill as the plan says."""
    began = time.monotonic()
    while killer.strikes < plan.kills:
        if plan.minutes and time.monotonic() - began > 60 * plan.minutes:
            say(f"{plan.minutes:g} minutes are over")
            break
        killer.strike()


def lacking(killer: Killer) -> list[Fault]:
    """What the kills of a run do not show."""
    return [Fault(Kind.LACKING, text) for text in killer.lacking()]


def table(killer: Killer) -> list[str]:
    """Kills by what was killed, and what they interrupted."""
    head = f"{'killed with -9':20} {'times':>6} {'median s':>8} {'longest':>8}"
    rows = [tally.row(name) for name, tally in killer.tallies.items()]
    fell = f"{killer.recovering} of {killer.kills} kills fell into taking over, fencing or planning"
    return [f"{head}  until newer rows came, and while it was", *rows, fell]


def restart_idle(
    capture: CaptureProcess, phases: PhaseLog, feeds: tuple[str, ...], say: Say
) -> None:
    """Kill an idle capture and wait until its changefeeds idle again: they have nothing to do."""
    capture.kill()
    capture.start()
    for feed in feeds:
        what = f"{feed} idles after its restart"
        try:
            until(lambda f=feed: phases.of(f) == "idle", what, CATCH_UP_S)
        except AssertionError as error:
            say(f"stuck: {error}")
            show_stuck(capture, feeds, say)
            raise


def show_stuck(capture: CaptureProcess, feeds: tuple[str, ...], say: Say) -> None:
    """Changefeeds, stacks and the end of the log of a capture that does not go on."""
    if capture.running:
        for feed in feeds:
            say(f"changefeed {feed}: {capture.api('GET', f'/changefeeds/{feed}').text}")
        capture.show_stacks()
    say(capture.text()[-_SHOWN_LOG:])
