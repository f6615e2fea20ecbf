"""A soak of schema changes: random DDL and rows, one log to a database and to a topic, kills.

Both families side by side, each into a server of its kind and into Kafka. At the end schema and
rows are equal by what the servers say, a consumer rebuilds the upstream from the topic alone, and
each change of a row is once in the topic and once in the target's own binlog.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import httpx

from cdc.base.ts import physical_ms
from tests import servers
from tests.consumer.canal_rebuild import rebuild
from tests.consumer.same import assert_same
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.soak.ddl_judge import of_binlog, of_topic, verdict
from tests.soak.ddl_load import SCHEMA, Change, Writer
from tests.soak.load_thread import LoadThread
from tests.soak.plan import (
    CATCH_UP_S,
    SETTINGS,
    Control,
    Fault,
    Kind,
    Plan,
    Result,
    Say,
    lacking,
    restart_idle,
    show_stuck,
    table,
)
from tests.soak.victims import BROKER, TARGET, Killer

_TABLES, _WRITERS, _PARTITIONS = 50, 2, 3
_LOOK_S, _NEAR_S = 1.0, 30.0
_RULES = [f"{SCHEMA}.*", f"{SCHEMA}_*.*"]
_CHARSET = "CHARACTER SET utf8mb4"


# Of all schema changes the server may refuse so many: the writers' model does not know all.
_REFUSED = 0.08


@dataclass
class _Side:
    """One upstream, its two changefeeds and where they go."""

    upstream: Database
    target: Database
    name: str
    writers: list[Writer]

    @property
    def feeds(self) -> tuple[str, str]:
        return f"{self.name}-database", f"{self.name}-topic"

    @property
    def topic(self) -> str:
        return f"shapes-{self.name}"


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _side(stack: ExitStack, plan: Plan, name: str) -> _Side:
    upstream = stack.enter_context(servers.database(name))
    target = stack.enter_context(servers.database(name, options=["--server-id=2"]))
    for server in (upstream, target):
        server.execute(f"CREATE DATABASE {SCHEMA} {_CHARSET}")
    writers = [Writer(upstream.connect, w, plan.seed) for w in range(1, _WRITERS + 1)]
    return _Side(upstream, target, name.replace(".", "-"), writers)


def _start(side: _Side, capture: CaptureProcess, broker: Broker) -> None:
    capture.register(side.name, side.upstream.uri())
    database, topic = side.feeds
    config = {"force_replicate": True}
    capture.create(database, side.name, f"{side.target.uri()}/", _RULES, config)
    sink = f"kafka://{broker.bootstrap}/{side.topic}?protocol=canal-json&write-timeout=2s"
    sink += f"&partition-num={_PARTITIONS}&enable-tidb-extension=true"
    rules = {"sink": {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}}
    capture.create(topic, side.name, sink, _RULES, config | rules)
    for writer in side.writers:
        writer.open(_TABLES // _WRITERS)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    broker = stack.enter_context(servers.broker())
    sides = [_side(stack, plan, name) for name in plan.upstreams]
    without_barrier = plan.control is Control.BARRIER
    module = "tests.soak.without_barrier" if without_barrier else "cdc.cli.entry"
    capture = CaptureProcess(folder, settings=SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    for side in sides:
        _start(side, capture, broker)
    say(f"{' and '.join(plan.upstreams)}, each to its like and to Kafka, SEED={plan.seed}")
    feeds = tuple(feed for side in sides for feed in side.feeds)
    around: dict[str, Broker | Database] = {BROKER: broker, TARGET: sides[0].target}
    killer = Killer(capture, around, _Newest(capture, feeds), plan.seed, say)
    pace = _Pace(_Newest(capture, feeds))
    pace.start()
    for side in sides:
        for writer in side.writers:
            writer.start(1.0 / plan.statements_per_s, pace.go)
    try:
        _kill(plan, killer, sides)
        killer.settle()
    except AssertionError as error:
        if plan.control is None:
            show_stuck(capture, feeds, say)
            raise
        say(f"stuck: {error}")
    pace.stop()
    for side in sides:
        for writer in side.writers:
            writer.stop()
    say(f"{time.monotonic() - began:7.1f} s  the load has ended")
    faults = _faults(plan, capture, sides)
    complete = not any(f.kind is Kind.LATE for f in faults)
    if faults and plan.control is None:
        show_stuck(capture, feeds, say)
    elif not faults:
        restart_idle(capture, killer.phases, feeds, say)
    say(f"{time.monotonic() - began:7.1f} s  delivered, {len(faults)} faults; counting changes")
    made, seen = _changes(sides, broker)
    if not faults:
        say(f"{time.monotonic() - began:7.1f} s  rebuilding the upstreams from their topics")
        faults = _rebuilt(sides, broker)
    if plan.control is None:
        faults += lacking(killer) + _refused(sides)
    lines = [*table(killer), *(_summary(side) for side in sides)]
    lines.append(f"the load stood still for {pace.held_s:.0f} s, until delivery was near")
    lines.append(f"{made.total()} row changes, {time.monotonic() - began:.0f} s")
    judged = verdict(made, seen)
    return Result(judged, killer.kills, killer.recovering, complete, tuple(lines), tuple(faults))


class _Newest:
    """Up to when all changefeeds have delivered everything, as Unix time; 0 while nobody says."""

    def __init__(self, capture: CaptureProcess, feeds: tuple[str, ...]) -> None:
        self._capture, self._feeds = capture, feeds

    def __call__(self) -> float:
        try:
            reached = [self._capture.feed(f)["checkpoint_ts"] for f in self._feeds]
        except (httpx.HTTPError, AssertionError):
            return 0.0  # A capture that has just been killed, or starts.
        return physical_ms(min(reached)) / 1000


class _Pace(LoadThread):
    """Lets writers go on while delivery is near: this soak is about right and wrong, not speed.

    What a machine cannot carry out beside its kills would pile up, and each recovery take longer.
    """

    def __init__(self, newest: _Newest) -> None:
        super().__init__("pace")
        self.go = threading.Event()
        self.go.set()
        self.held_s = 0.0
        self._newest = newest

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_S):
            newest = self._newest()
            # While a capture starts nobody knows; what was known last holds.
            if newest:
                (self.go.set if time.time() - newest < _NEAR_S else self.go.clear)()
            self.held_s += 0.0 if self.go.is_set() else _LOOK_S


def _kill(plan: Plan, killer: Killer, sides: list[_Side]) -> None:
    """Kill by the killer's dice, with a pause before those that are not aimed."""
    chosen = random.Random(plan.seed)
    began = time.monotonic()
    while (left := 60 * plan.minutes - (time.monotonic() - began)) > 0:
        if not killer.aims:
            time.sleep(min(left, plan.every_s * chosen.uniform(0.5, 1.5)))
        for side in sides:
            for writer in side.writers:
                writer.check()
        killer.strike()


def _faults(plan: Plan, capture: CaptureProcess, sides: list[_Side]) -> list[Fault]:
    """Wait until all is delivered; what stopped, what did not come, and what differs."""
    faults: list[Fault] = []
    wait_s = CATCH_UP_S + 60 * plan.minutes if plan.control is None else 60.0
    ts = capture.tso()
    for side in sides:
        for feed in side.feeds:
            faults += _delivered(capture, feed, ts, wait_s)
    if faults and plan.control is None:
        return faults
    for side in sides:
        try:
            assert_same(side.upstream, side.target, SCHEMA)
        except AssertionError as error:
            faults.append(Fault(Kind.DIFFERENT, f"{side.name}: {str(error)[:300]}"))
    return faults


def _delivered(capture: CaptureProcess, feed: str, ts: int, wait_s: float) -> list[Fault]:
    deadline = time.monotonic() + wait_s
    while (found := capture.feed(feed))["checkpoint_ts"] < ts:
        if found["stopped_tables"] or found["state"] == "failed":
            return [Fault(Kind.STOPPED, f"{feed}: {found['error']} {found['stopped_tables']}")]
        if time.monotonic() > deadline:
            said = f"{feed}: not in {wait_s:.0f} s: {found['checkpoint_time']} {found['error']}"
            return [Fault(Kind.LATE, said)]
        time.sleep(0.5)
    return []


def _refused(sides: list[_Side]) -> list[Fault]:
    """A server that refuses much is one to which little was done."""
    done = sum(w.kinds.total() for side in sides for w in side.writers)
    refused = sum(w.refused.total() for side in sides for w in side.writers)
    if refused <= max(3, _REFUSED * (done + refused)):
        return []
    return [Fault(Kind.LACKING, f"{refused} of {done + refused} schema changes were refused")]


def _changes(
    sides: list[_Side], broker: Broker
) -> tuple[Counter[Change], dict[str, Counter[Change]]]:
    """What the writers made, and what every place has; sides kept apart by their name."""
    made: Counter[Change] = Counter()
    seen: dict[str, Counter[Change]] = {"topic": Counter(), "database": Counter()}
    for side in sides:
        for writer in side.writers:
            made += _of(side, writer.made)
        seen["topic"] += _of(side, of_topic(topics.read(broker.bootstrap, [side.topic])))
        seen["database"] += _of(side, of_binlog(side.target))
    return made, seen


def _of(side: _Side, changes: Counter[Change]) -> Counter[Change]:
    return Counter({(f"{side.name} {c[0]}", *c[1:]): count for c, count in changes.items()})


def _rebuilt(sides: list[_Side], broker: Broker) -> list[Fault]:
    """Rebuild each upstream from its topic alone, and compare."""
    with ThreadPoolExecutor(len(sides)) as pool:
        return [
            fault for found in pool.map(partial(_rebuilt_one, broker), sides) for fault in found
        ]


def _rebuilt_one(broker: Broker, side: _Side) -> list[Fault]:
    side.target.execute(f"DROP DATABASE {SCHEMA}", f"CREATE DATABASE {SCHEMA} {_CHARSET}")
    parts: list[list[bytes]] = [[] for _ in range(_PARTITIONS)]
    for _, partition, _, _, value in topics.records(broker.bootstrap, [side.topic]):
        parts[partition].append(value or b"")
    try:
        with side.target.connect() as connection:
            rebuild(_interleaved(parts), _PARTITIONS, connection, watermarks=False)
        assert_same(side.upstream, side.target, SCHEMA)
    except Exception as error:
        said = f"{side.name}: topic: {type(error).__name__}: {str(error)[:300]}"
        return [Fault(Kind.DIFFERENT, said)]
    return []


def _interleaved(parts: list[list[bytes]]) -> Iterator[tuple[int, bytes]]:
    chosen = random.Random(len(parts[0]))
    left = [list(reversed(part)) for part in parts]
    while any(left):
        partition = chosen.choice([p for p, part in enumerate(left) if part])
        yield partition, left[partition].pop()


def _summary(side: _Side) -> str:
    kinds = sum((w.kinds for w in side.writers), Counter[str]())
    refused = sum((w.refused for w in side.writers), Counter[str]())
    listed = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return (
        f"{side.name}: {kinds.total()} schema changes ({listed}),"
        f" {refused.total()} refused by the server {dict(refused)}"
    )
