"""A soak of faults: the network, the disks, the clocks and the processes around a capture fail.

One upstream, one log, two changefeeds of the same tables: to a topic and to a database. All three
servers stand behind proxies. Each fault comes once a round, in a new order; behind each both places
must show newer rows, and at the end both must hold every change once.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import psutil

from bench.fold import Fold, Verdict, judge
from bench.follow import Follower
from bench.target import Watcher, judge_target, wait_same
from bench.workload import Workload
from tests import servers
from tests.e2e.capture_process import CaptureProcess, until
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.servers.proxy import Proxy
from tests.soak import with_clock
from tests.soak.phases import PhaseLog
from tests.soak.plan import (
    CATCH_UP_S,
    SETTINGS,
    Fault,
    Kind,
    Plan,
    Result,
    Say,
    restart_idle,
    show_stuck,
)

TOPIC, DATABASE = "topic", "database"
_PARTITIONS, _BUCKETS = 3, 3
_SETTINGS = f"{SETTINGS}[source]\nsilence-s = 4.0\nbackoff-max-s = 2.0\n"
# Spark alone needs minutes to start where other runs share the machine.
_STUCK_S = 400.0
# How long a fault lasts that does not end by itself; a lease ends after 10 s.
_SHORT_S, _LONG_S, _FROZEN_S = 5.0, 12.0, 15.0
_SLOW_BYTES_S = 200_000
_STEP_MS = 3_600_000
_ROOM, _PAGE = 1 << 18, 1 << 12


@dataclass(frozen=True)
class _Break:
    """One fault: how it begins, how long it lasts, how it ends."""

    name: str
    begin: Callable[[], object]
    seconds: float = 0.0
    end: Callable[[], object] = lambda: None


@dataclass
class _Stage:
    """What fails, what writes, and who looks."""

    upstream: Database
    target: Database
    broker: Broker
    proxies: dict[str, Proxy]
    capture: CaptureProcess
    load: Workload
    fold: Fold
    follower: Follower
    watcher: Watcher
    restarts: int = 0

    def newest(self) -> float:
        """The older of the newest rows of both places; raises what went wrong."""
        self.follower.check()
        self.watcher.check()
        if self.load.stopping.is_set():
            self.load.stop()
        if not self.capture.running:
            # It ends when its lease is lost, or its disk is full: a supervisor starts it again.
            self.restarts += 1
            self.capture.start(ready=False)
        times = self.fold.times
        return min(times[-1] - self.fold.lags[-1] if times else 0.0, self.watcher.newest)

    def breaks(self, chosen: random.Random) -> Iterator[_Break]:
        """Every fault once, in a new order."""
        found = [*self._of_network(chosen), *self._of_processes(), *self._of_disks_and_clocks()]
        chosen.shuffle(found)
        yield from found

    def _of_network(self, chosen: random.Random) -> Iterator[_Break]:
        for name, proxy in self.proxies.items():
            count = chosen.randrange(1, 20_000)
            yield _Break(
                f"{name}: cut within a packet, after {count} bytes",
                lambda p=proxy, c=count: p.cut_after(c),
                _SHORT_S,
                proxy.go_on,
            )
            yield _Break(f"{name}: stalls", proxy.stall, _LONG_S, proxy.go_on)
            slow = lambda p=proxy: p.slow(_SLOW_BYTES_S)  # noqa: E731
            yield _Break(f"{name}: slow", slow, _LONG_S, proxy.go_on)
            yield _Break(f"{name}: half-open connections", proxy.lose)
            yield _Break(f"{name}: refused", proxy.refuse, _SHORT_S, proxy.go_on)

    def _of_processes(self) -> Iterator[_Break]:
        for name, one in self._servers().items():
            yield _Break(f"{name}: killed", one.kill, 0.0, one.start)
            yield _Break(f"{name}: restarted", one.stop, 0.0, one.start)
            yield _Break(
                f"{name}: hung",
                lambda s=one: s.signal(signal.SIGSTOP),
                _LONG_S,
                lambda s=one: s.signal(signal.SIGCONT),
            )
        start = lambda: self.capture.start(ready=False)  # noqa: E731
        yield _Break("capture: killed", self.capture.kill, 0.0, start)
        yield _Break(
            "capture: frozen past its lease",
            lambda: self._capture(signal.SIGSTOP),
            _FROZEN_S,
            lambda: self._capture(signal.SIGCONT),
        )
        yield _Break("Spark's JVM: killed", lambda: self._kill(self._jvms()))
        yield _Break("Spark's daemon: killed", lambda: self._kill(self.capture.daemons()))
        yield _Break("Spark's workers: killed", lambda: self._kill(self.capture.workers()))
        yield _Break(
            "Spark's workers: frozen, then killed",
            lambda: self._kill(self.capture.workers(), signal.SIGSTOP),
            _SHORT_S,
            lambda: self._kill(self.capture.workers()),
        )

    def _of_disks_and_clocks(self) -> Iterator[_Break]:
        yield _Break("capture: its disk is full", self._full, _LONG_S, self._room)
        yield _Break(
            "broker: its disk is full",
            lambda: self.broker.fill_disk(_ROOM, TOPIC),
            _LONG_S,
            self._restart_broker,
        )
        for name, step in (("an hour ahead", _STEP_MS), ("two hours back", -_STEP_MS)):
            yield _Break(
                f"capture: its clock is set {name}",
                lambda s=step: self.clock.write_text(str(s)),
                _SHORT_S,
            )

    @property
    def clock(self):  # type: ignore[no-untyped-def]
        """The file that sets the capture's clock."""
        return self.capture.folder / "clock"

    def _servers(self) -> dict[str, Database | Broker]:
        return {"upstream": self.upstream, "target": self.target, "broker": self.broker}

    def _capture(self, number: signal.Signals) -> None:
        if self.capture.running:
            os.kill(self.capture.pid, number)

    def _jvms(self) -> list[psutil.Process]:
        return [p for p in self.capture.family() if p.name() == "java"]

    def _kill(self, processes: list[psutil.Process], number: int = signal.SIGKILL) -> None:
        for one in processes:
            try:
                one.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def _full(self) -> None:
        """The capture's own process can write nothing behind a file's first page."""
        self._limit(_PAGE)

    def _room(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, most: int) -> None:
        if self.capture.running:
            hard = resource.prlimit(self.capture.pid, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(self.capture.pid, resource.RLIMIT_FSIZE, (most, hard))

    def _restart_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def refused(self) -> str:
        """What a changefeed says that has failed for good; nothing else of this may happen."""
        for feed in (TOPIC, DATABASE):
            try:
                found = self.capture.feed(feed)
            except (httpx.HTTPError, AssertionError):
                continue
            if found["state"] == "failed" or found.get("stopped_tables"):
                return f"{feed}: {found['error']} {found.get('stopped_tables')}"
        return ""


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _set_up(stack: ExitStack, plan: Plan) -> _Stage:
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    upstream = stack.enter_context(servers.database(plan.server))
    name = plan.target or plan.server
    target = stack.enter_context(servers.database(name, options=["--server-id=2"]))
    proxies = {n: stack.enter_context(Proxy()) for n in ("upstream", "broker", "target")}
    broker = stack.enter_context(servers.broker(advertised=proxies["broker"].port))
    for name, port in zip(proxies, (upstream.port, broker.port, target.port), strict=True):
        proxies[name].switch(port)
    family = upstream.kind if upstream.kind == target.kind else "both"
    without = ("a_point",) if target.kind == "mysql" else ()
    load = Workload(
        upstream.connect, family, rows_per_s=plan.rows_per_s, marked=True, without=without
    )
    load.prepare()
    load.make_tables(target.connect)
    capture = CaptureProcess(folder, settings=_SETTINGS, module=with_clock.__name__)
    os.environ[with_clock.VARIABLE] = str(folder / "clock")
    stack.callback(os.environ.pop, with_clock.VARIABLE, None)
    stack.callback(capture.close)
    capture.start()
    uri = "mysql://root@127.0.0.1:{}/?ssl-mode=disabled"
    capture.register("main", uri.format(proxies["upstream"].port))
    by_key = {"sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}}
    sink = f"kafka://127.0.0.1:{proxies['broker'].port}/{TOPIC}?protocol=canal-json"
    sink += f"&partition-num={_PARTITIONS}&write-timeout=3s&read-timeout=3s"
    capture.create(TOPIC, "main", sink, load.rules, by_key)
    sink = f"mysql://root@127.0.0.1:{proxies['target'].port}/?worker-count={_BUCKETS}"
    capture.create(DATABASE, "main", f"{sink}&read-timeout=5s&write-timeout=5s", load.rules)
    fold = Fold(load.tables)
    follower = Follower(broker.internal, TOPIC, fold)
    stack.callback(follower.close)
    watcher = Watcher(target.connect, load, every_s=0.05)
    stack.callback(watcher.close)
    return _Stage(upstream, target, broker, proxies, capture, load, fold, follower, watcher)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    stage = _set_up(stack, plan)
    chosen = random.Random(plan.seed)
    phases = PhaseLog(stage.capture.log)
    say(f"{plan.server}, to a topic and to a database, SEED={plan.seed}")
    stage.load.start()
    times: Counter[str] = Counter()
    _await_delivery(stage)
    stop_at = time.monotonic() + 60 * plan.minutes
    left: list[_Break] = []
    while time.monotonic() < stop_at:
        left = left or list(stage.breaks(chosen))
        one = left.pop()
        times[one.name.split(", after")[0]] += 1
        say(f"{time.monotonic() - began:7.1f} s  {one.name}, while {phases.now()}")
        try:
            _suffer(stage, one)
            took = _await_delivery(stage)
        except AssertionError as error:
            say(f"stuck: {error}; {stage.refused()}")
            show_stuck(stage.capture, (TOPIC, DATABASE), say)
            raise
        say(f"{time.monotonic() - began:7.1f} s    newer rows in both places after {took:.1f} s")
    missed = {one.name.split(", after")[0] for one in left} - times.keys()
    return _judged(stage, plan, phases, times, missed, began)


def _suffer(stage: _Stage, one: _Break) -> None:
    one.begin()
    try:
        time.sleep(one.seconds)
    finally:
        one.end()


def _await_delivery(stage: _Stage) -> float:
    """Wait until both places show a row written after this call; the seconds that it took."""
    now, began = time.time(), time.monotonic()
    until(lambda: stage.newest() > now, "newer rows in both places", _STUCK_S)
    return time.monotonic() - began


def _judged(
    stage: _Stage,
    plan: Plan,
    phases: PhaseLog,
    times: Counter[str],
    missed: set[str],
    began: float,
) -> Result:
    load = stage.load
    committed = load.stop()
    complete = stage.follower.wait(committed, CATCH_UP_S)
    same, _ = wait_same(load.connect, stage.target.connect, load, CATCH_UP_S)
    faults = [Fault(Kind.STOPPED, refused)] if (refused := stage.refused()) else []
    restart_idle(stage.capture, phases, (TOPIC, DATABASE))
    complete = stage.follower.wait(committed, CATCH_UP_S) and complete
    topic = judge(stage.fold, committed, load.connect, load.schema, load.tables)
    database = judge_target(load.connect, stage.target, committed, load)
    whole = Verdict(
        [*topic.tables, *database.tables],
        topic.lost + database.lost,
        topic.duplicated + database.duplicated,
        topic.disordered + database.disordered,
        topic.uncommitted + database.uncommitted,
        topic.examples + database.examples,
    )
    # A round takes some twelve minutes; a short run does what it comes to.
    if missed and plan.minutes >= 20:
        faults.append(Fault(Kind.LACKING, f"not done: {', '.join(sorted(missed))}"))
    lines = [f"{count} times {name}" for name, count in sorted(times.items())]
    lines.append(
        f"{times.total()} faults of {len(times)} kinds, {len(missed)} not come to; the capture"
        f" ended by itself {stage.restarts} times; {committed.rows} row changes in"
        f" {committed.transactions} transactions, {time.monotonic() - began:.0f} s"
    )
    return Result(whole, times.total(), 0, complete and same, tuple(lines), tuple(faults))
