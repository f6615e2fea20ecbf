"""A soak of a cluster: captures and what they stand on are lost, frozen and cut off.

Three captures with data directories of their own share an etcd of three members. One upstream goes
to a topic and to a database. Whatever is done to them, both places must show newer rows in time,
and at the end both must hold every change once.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from bench.fold import Verdict
from bench.workload import Committed
from tests import servers
from tests.servers.etcd import Etcd
from tests.servers.process import data_folder
from tests.soak.cluster_captures import Captures
from tests.soak.decisions import Decisions
from tests.soak.places import FEEDS, UPSTREAM, Places, start_servers
from tests.soak.plan import (
    CATCH_UP_S,
    SETTINGS,
    Control,
    Fault,
    Kind,
    Plan,
    Result,
    Say,
    show_stuck,
)
from tests.waiting import until

TTL_S = 5
_MODULES = {Control.EPOCH: "tests.soak.without_epoch", Control.GUARD: "tests.soak.without_guard"}
_SETTINGS = f"{SETTINGS}[changelog]\nanchor-s = 2.0\n[source]\nsilence-s = 4.0\n"
_STUCK_S = 240.0
# Roles change while it is asked: it is not the owner any more, or the other one has just gone.
_BETWEEN = re.compile(
    "ErrNotOwner|ErrNoOtherCapture|ErrServerUnreachable|ErrCaptureUnreachable|ErrCaptureNotExist"
)
_CALM_S = 3.0


@dataclass
class Cluster:
    """What is struck, and where changes go.

    ``owner_s`` and ``rows_s``: seconds from the last blow until another capture was the owner (0
    where that was not waited for), and until both places showed rows that were written after it.
    """

    places: Places
    captures: Captures
    etcd: Etcd
    chosen: random.Random
    control: Control | None = None
    owner_s: float = 0.0
    rows_s: float = 0.0
    began: float = 0.0

    def struck(self) -> None:
        """The blow is done: what is measured begins here."""
        self.began, self.owner_s, self.rows_s = time.time(), 0.0, 0.0

    def moved(self, n: int) -> None:
        """Wait until another capture than ``n`` is the owner."""
        self.captures.await_owner(_STUCK_S, besides=n)
        self.owner_s = time.time() - self.began

    def newer(self) -> None:
        """Wait until both places show what was written since the blow; each blow ends so."""
        newer = self.places.await_newer(_STUCK_S, self.began, self.captures.supervise)
        self.rows_s = newer - self.began

    def another_goes_on(self) -> None:
        """Wait until a moment of what another one does: taking over, delivering, long since so."""
        dice = self.chosen.random()
        if self.control is None and dice < 0.6:
            time.sleep(self.chosen.uniform(0.0, 2.0))
        elif self.control is None and dice < 0.8:
            self.newer()
        else:
            # What is frozen may hold the topic's readers up, never those of the database.
            self.places.await_newer_rows(_STUCK_S, self.began)
            time.sleep(self.chosen.uniform(0.0, 2.0))

    def owner(self) -> int:
        """The number of the owner."""
        return self.captures.await_owner(_STUCK_S)

    def stands_by(self) -> int:
        """The number of one that is not the owner."""
        owner = self.owner()
        return self.chosen.choice([n for n in range(len(self.captures.all)) if n != owner])

    def nap(self) -> None:
        """Wait for less than a session lasts, or more."""
        time.sleep(self.chosen.uniform(0.1, 2 * TTL_S))


def _lost(stage: Cluster, *, disk: bool) -> None:
    n = stage.owner()
    stage.captures.lose(n, disk=disk)
    stage.struck()
    stage.moved(n)
    stage.newer()
    stage.captures.back(n)


def _killed_and_back(stage: Cluster) -> None:
    n = stage.owner()
    stage.captures.all[n].kill()
    stage.struck()
    stage.captures.back(n)
    stage.newer()


def _frozen(stage: Cluster, *, spark: bool) -> None:
    n = stage.owner()
    stage.captures.freeze(n, spark=spark)
    try:
        stage.struck()
        stage.moved(n)
        stage.another_goes_on()
    finally:
        stage.captures.thaw(n, spark=spark, workers_first_s=stage.chosen.choice((0.0, 1.0)))
    stage.newer()


def _naps(stage: Cluster) -> None:
    n = stage.owner() if stage.chosen.random() < 0.8 else stage.stands_by()
    spark = stage.chosen.random() < 0.5
    stage.captures.freeze(n, spark=spark)
    try:
        stage.struck()
        stage.nap()
    finally:
        stage.captures.thaw(n, spark=spark)
    stage.newer()


def _cut_off(stage: Cluster) -> None:
    n = stage.owner()
    stage.captures.cut_off(n)
    try:
        stage.struck()
        stage.moved(n)
        stage.newer()
    finally:
        stage.captures.reconnect(n)


def _resigns(stage: Cluster) -> None:
    # Those that were struck before may still be on their way: alone it would be refused.
    n = stage.captures.await_another(_STUCK_S)
    done = stage.captures.all[n].cli("owner", "resign")
    assert done.returncode == 0 or _BETWEEN.search(done.stderr), done.stderr
    stage.struck()
    if done.returncode == 0:
        stage.moved(n)
    stage.newer()


def restarted(stage: Cluster, n: int) -> str:
    """Drain a capture, as is done before its host goes away, and start it again.

    Returns what the owner said if it refused to drain it; nothing else changes then.
    """
    drained = stage.captures.all[n].ask("GET", "/status")["id"]
    done = stage.captures.all[stage.owner()].cli("capture", "drain", drained)
    stage.struck()
    if done.returncode == 0:
        stage.moved(n)
    stage.newer()
    stage.captures.terminate(n)
    stage.captures.back(n)
    return done.stderr if done.returncode else ""


def _drained(stage: Cluster) -> None:
    # Those that were struck before may still be on their way: alone it would be refused.
    refused = restarted(stage, stage.captures.await_another(_STUCK_S))
    assert not refused or _BETWEEN.search(refused), refused


def _upstream_moved(stage: Cluster) -> None:
    # Those that were struck before may still be on their way: there must be one to move to.
    owner = stage.captures.all[stage.captures.await_another(_STUCK_S)]
    found = owner.ask("GET", "/captures")["items"]
    others = [c["id"] for c in found if not c["upstreams"] and not c["is_drained"]]
    if others:
        to = stage.chosen.choice(others)
        done = owner.cli("upstream", "move", "-u", "main", "--capture", to)
        assert done.returncode == 0 or _BETWEEN.search(done.stderr), done.stderr
    stage.struck()
    stage.newer()


def _terminated(stage: Cluster) -> None:
    n = stage.owner()
    stage.struck()
    stage.captures.terminate(n)
    stage.moved(n)
    stage.newer()
    stage.captures.back(n)


def _stand_by_killed(stage: Cluster) -> None:
    n = stage.stands_by()
    stage.captures.lose(n, disk=stage.chosen.random() < 0.5)
    stage.struck()
    stage.newer()
    stage.captures.back(n)


def _member_killed(stage: Cluster) -> None:
    member = stage.chosen.choice([stage.etcd.leader(), *stage.etcd.members])
    member.kill()
    stage.struck()
    try:
        stage.newer()
    finally:
        stage.etcd.restart(member)


def _member_frozen(stage: Cluster) -> None:
    member = stage.etcd.leader()
    member.signal(signal.SIGSTOP)
    try:
        stage.struck()
        stage.nap()
        stage.newer()
    finally:
        member.signal(signal.SIGCONT)


def _server_killed(stage: Cluster) -> None:
    places = stage.places
    server = stage.chosen.choice([places.upstream, places.target, places.broker])
    server.kill()
    stage.struck()
    server.start()
    stage.newer()


def _worker_killed(stage: Cluster) -> None:
    workers = stage.captures.all[stage.owner()].workers()
    if workers:
        stage.chosen.choice(workers).kill()
    stage.struck()
    stage.newer()


Blow = Callable[[Cluster], None]

BLOWS: dict[str, Blow] = {
    "owner lost": lambda s: _lost(s, disk=False),
    "owner lost, and its disk": lambda s: _lost(s, disk=True),
    "owner killed, and back": _killed_and_back,
    "owner frozen past its session": lambda s: _frozen(s, spark=False),
    "owner's host frozen": lambda s: _frozen(s, spark=True),
    "some capture frozen for a while": _naps,
    "owner cut off from the store": _cut_off,
    "owner resigns": _resigns,
    "owner drained, and stopped": _drained,
    "owner terminated": _terminated,
    "upstream moved": _upstream_moved,
    "stand-by lost": _stand_by_killed,
    "member of etcd killed": _member_killed,
    "leader of etcd frozen": _member_frozen,
    "a server killed": _server_killed,
    "Spark worker killed": _worker_killed,
}
"""Each is struck, lasts, and is put right again before it returns."""


def set_up(stack: ExitStack, plan: Plan) -> Cluster:
    """Start everything, the load too; both places have rows then."""
    folder, ours = data_folder(None, "cluster")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    between = start_servers(stack, plan)
    etcd = stack.enter_context(servers.etcd(count=3))
    module = plan.module(_MODULES)
    captures = Captures(stack, folder, etcd, _SETTINGS, ttl_s=TTL_S, module=module)
    captures.start()
    between.create(captures.all[captures.await_owner()])
    places = between.look(stack)
    places.load.start()
    stage = Cluster(places, captures, etcd, random.Random(plan.seed), plan.control)
    stage.struck()
    stage.newer()
    return stage


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    say(f"{plan.server}, three captures, to a topic and to a database, SEED={plan.seed}")
    stage = set_up(stack, plan)
    decisions = Decisions(stage.captures.store, UPSTREAM, FEEDS)
    stack.callback(decisions.close)
    took: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    met: Counter[str] = Counter()
    left: list[str] = []
    blows = [name for name in BLOWS if plan.only in name]
    while sum(map(len, took.values())) < plan.kills:
        if plan.minutes and time.monotonic() - began > 60 * plan.minutes:
            say(f"{plan.minutes:g} minutes are over")
            break
        left = left or stage.chosen.sample(blows, len(blows))
        name = left.pop()
        time.sleep(stage.chosen.uniform(0.0, _CALM_S))
        phase = stage.captures.phases[stage.owner()].now()
        met[phase] += 1
        say(f"{time.monotonic() - began:7.1f} s  {name}, while {phase}")
        strike(stage, name, say)
        took[name].append((stage.owner_s, stage.rows_s))
        owner = f"another owner after {stage.owner_s:.1f} s, " if stage.owner_s else ""
        say(f"{time.monotonic() - began:7.1f} s    {owner}newer rows after {stage.rows_s:.1f} s")
    result = _judged(stage, took, met, began)
    decisions.close()
    return replace(result, faults=(*result.faults, *decisions.faults()))


def strike(stage: Cluster, name: str, say: Say) -> None:
    """One of ``BLOWS``; says what is known of a cluster that does not go on."""
    try:
        BLOWS[name](stage)
    except AssertionError as error:
        say(f"stuck: {error}")
        for capture in stage.captures.all:
            show_stuck(capture, FEEDS, say)
        raise


def _judged(
    stage: Cluster, took: dict[str, list[tuple[float, float]]], met: Counter[str], began: float
) -> Result:
    verdict, complete, faults, committed = judge(stage)
    lines = [f"{'':32} {'times':>5}  another owner  newer rows in both places, s: median, longest"]
    for name, times in took.items():
        owners, rows = [o for o, _ in times if o], [r for _, r in times]
        moved = f"{statistics.median(owners):6.1f} {max(owners):6.1f}" if owners else " " * 13
        lines.append(
            f"{name:32} {len(times):5}  {moved}  {statistics.median(rows):6.1f} {max(rows):6.1f}"
        )
    blows = sum(map(len, took.values()))
    lines.append(
        f"{blows} blows, {', '.join(f'{n} while {p}' for p, n in met.most_common())}; captures"
        f" ended by themselves {stage.captures.ended} times; {committed.rows} row changes in"
        f" {committed.transactions} transactions, {time.monotonic() - began:.0f} s"
    )
    return Result(verdict, blows, 0, complete, tuple(lines), tuple(faults))


def judge(stage: Cluster) -> tuple[Verdict, bool, list[Fault], Committed]:
    """End the load, have another owner take over an idle cluster, and judge both places.

    Returns also whether all had come in time, what a changefeed has failed at, and the load.
    """
    committed = stage.places.load.stop()
    stage.captures.supervise()
    complete = stage.places.await_all(committed)
    n = stage.owner()
    stage.captures.lose(n)
    after = stage.captures.await_owner(_STUCK_S, besides=n)
    for feed in FEEDS:
        until(lambda f=feed: stage.captures.idles(f), f"{feed} idles", CATCH_UP_S)
    complete = stage.places.await_all(committed) and complete
    found = (stage.captures.all[after].feed(feed) for feed in FEEDS)
    faults = [Fault(Kind.STOPPED, str(f["error"])) for f in found if f["state"] != "normal"]
    return stage.places.judge(committed), complete, faults, committed
