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

from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.servers.proxy import Proxy
from tests.soak import with_clock
from tests.soak.phases import PhaseLog
from tests.soak.places import FEEDS, TOPIC, Places, start_servers
from tests.soak.plan import (
    SETTINGS,
    Fault,
    Kind,
    Plan,
    Result,
    Say,
    restart_idle,
    show_stuck,
)

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
    """What fails, and where its changes go."""

    places: Places
    proxies: dict[str, Proxy]
    capture: CaptureProcess
    restarts: int = 0

    def supervise(self) -> None:
        """It ends when its lease is lost, or its disk is full: a supervisor starts it again."""
        if not self.capture.running:
            self.restarts += 1
            self.capture.start(ready=False)

    def await_newer(self) -> float:
        """Wait until both places show a row written after this call; the seconds that it took."""
        began = time.time()
        return self.places.await_newer(_STUCK_S, began, self.supervise) - began

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
            lambda: self.places.broker.fill_disk(_ROOM, TOPIC),
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
        places = self.places
        return {"upstream": places.upstream, "target": places.target, "broker": places.broker}

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
        self.places.broker.kill()
        self.places.broker.start()

    def refused(self) -> str:
        """What a changefeed says that has failed for good; nothing else of this may happen."""
        for feed in FEEDS:
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
    proxies = {n: stack.enter_context(Proxy()) for n in ("upstream", "broker", "target")}
    between = start_servers(stack, plan, proxies)
    capture = CaptureProcess(folder, settings=_SETTINGS, module=with_clock.__name__)
    os.environ[with_clock.VARIABLE] = str(folder / "clock")
    stack.callback(os.environ.pop, with_clock.VARIABLE, None)
    stack.callback(capture.close)
    capture.start()
    between.create(capture)
    return _Stage(between.look(stack), proxies, capture)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    stage = _set_up(stack, plan)
    chosen = random.Random(plan.seed)
    phases = PhaseLog(stage.capture.log)
    say(f"{plan.server}, to a topic and to a database, SEED={plan.seed}")
    stage.places.load.start()
    times: Counter[str] = Counter()
    stage.await_newer()
    stop_at = time.monotonic() + 60 * plan.minutes
    left: list[_Break] = []
    while time.monotonic() < stop_at:
        left = left or list(stage.breaks(chosen))
        one = left.pop()
        times[one.name.split(", after")[0]] += 1
        say(f"{time.monotonic() - began:7.1f} s  {one.name}, while {phases.now()}")
        try:
            _suffer(one)
            took = stage.await_newer()
        except AssertionError as error:
            say(f"stuck: {error}; {stage.refused()}")
            show_stuck(stage.capture, FEEDS, say)
            raise
        say(f"{time.monotonic() - began:7.1f} s    newer rows in both places after {took:.1f} s")
    missed = {one.name.split(", after")[0] for one in left} - times.keys()
    return _judged(stage, plan, phases, times, missed, began, say)


def _suffer(one: _Break) -> None:
    one.begin()
    try:
        time.sleep(one.seconds)
    finally:
        one.end()


def _judged(
    stage: _Stage,
    plan: Plan,
    phases: PhaseLog,
    times: Counter[str],
    missed: set[str],
    began: float,
    say: Say,
) -> Result:
    committed = stage.places.load.stop()
    complete = stage.places.await_all(committed)
    faults = [Fault(Kind.STOPPED, refused)] if (refused := stage.refused()) else []
    restart_idle(stage.capture, phases, FEEDS, say)
    complete = stage.places.await_all(committed) and complete
    # A round takes some twelve minutes; a short run does what it comes to.
    if missed and plan.minutes >= 20:
        faults.append(Fault(Kind.LACKING, f"not done: {', '.join(sorted(missed))}"))
    lines = [f"{count} times {name}" for name, count in sorted(times.items())]
    lines.append(
        f"{times.total()} faults of {len(times)} kinds, {len(missed)} not come to; the capture"
        f" ended by itself {stage.restarts} times; {committed.rows} row changes in"
        f" {committed.transactions} transactions, {time.monotonic() - began:.0f} s"
    )
    whole = stage.places.judge(committed)
    return Result(whole, times.total(), 0, complete, tuple(lines), tuple(faults))
