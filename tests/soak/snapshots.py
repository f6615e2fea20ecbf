"""A soak of row snapshots: rounds of kills while rows are copied and delivered, under load.

In each round three changefeeds begin with the rows of five tables: into a topic, into files, and
into a database that has no table yet; workers, Spark and the capture are killed at any moment until
all rows are delivered. Then each end is compared with the upstream, and the history of each key is
looked at. With several servers their tables of one name are one, and each server alters its own.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.fold import TableResult, Verdict
from bench.snapshot_ends import judge
from bench.snapshot_load import SCHEMA, Load, fill
from sink.file import reader
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
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

_MODULES = {
    Control.TOUCHED: "tests.soak.without_touched",
    Control.PLACE: "tests.soak.before_log",
}
_ROWS = 60_000
# More would keep a round from its end: what a capture was reading it reads anew.
_KILLS_OF_ROUND = 4
_LONGEST_WAIT_S = 5.0
# Far enough apart that no key is of two servers.
_KEYS_OF_SERVER = 10_000_000
_ENDED = ("failed", "removed")


@dataclass
class _Ground:
    upstreams: tuple[Database, ...]
    target: Database
    broker: Broker
    capture: CaptureProcess
    loads: tuple[Load, ...]
    rng: random.Random
    say: Say
    feeds: tuple[str, ...] = ()
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def kill(self) -> None:
        """Kill somebody, and see that the capture is there again."""
        states = "/".join(f"{self.shown(f).get('state', '?')}" for f in self.feeds)
        name, victims = self.rng.choice(
            (
                ("worker", self.capture.workers),
                ("worker", self.capture.workers),
                ("daemon", self.capture.daemons),
                ("capture", list[Any]),
            )
        )
        if name == "capture":
            self.capture.kill()
            self.capture.start()
        elif found := victims():
            with suppress(Exception):
                self.rng.choice(found).kill()
        else:
            return
        self.kills[f"{name} while {states}"] += 1
        self.say(f"kill -9 of {name}; rows are {states}")

    def shown(self, feed: str) -> dict[str, Any]:
        """How far the rows of a changefeed are; empty while nobody answers."""
        with suppress(httpx.HTTPError, OSError):
            answer = self.capture.api("GET", f"/changefeeds/{feed}")
            if answer.is_success:
                body = answer.json()
                if body["state"] in _ENDED or body["stopped_tables"]:
                    fault = Fault(Kind.STOPPED, f"{feed}: {body['error']}")
                    if fault not in self.faults:
                        self.faults.append(fault)
                    return {"state": "stopped"}
                return dict(body["snapshot"] or {})
        return {}

    def delivered(self) -> bool:
        """Whether the rows of all are delivered, or one of them goes on no more."""
        states = [self.shown(feed).get("state") for feed in self.feeds]
        return "stopped" in states or all(state == "delivered" for state in states)


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    folder, ours = data_folder(None, "snapshot-soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    upstreams = tuple(
        stack.enter_context(servers.database(plan.server, options=[f"--server-id={n}"]))
        for n in range(1, plan.servers + 1)
    )
    target = stack.enter_context(servers.database(plan.target or plan.server))
    broker = stack.enter_context(servers.broker())
    module = plan.module(_MODULES)
    capture = CaptureProcess(folder, settings=SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    _register(capture, upstreams)
    loads = tuple(_load(plan, number, upstream) for number, upstream in enumerate(upstreams))
    ground = _Ground(upstreams, target, broker, capture, loads, random.Random(plan.seed), say)
    say(
        f"{plan.servers} {plan.server} to {target.name}, Kafka and files, {_ROWS} rows,"
        f" SEED={plan.seed}"
    )
    verdicts: list[Verdict] = []
    complete = True
    try:
        for number in itertools.count(1):
            verdict, whole = _round(ground, number, plan.kills, folder)
            verdicts.append(verdict)
            complete &= whole
            left = ground.kills.total() < plan.kills
            over = plan.minutes and time.monotonic() - began > 60 * plan.minutes
            if not left or over or ground.faults or not verdict.proven:
                break
    except AssertionError as error:
        say(f"stuck: {error}")
        show_stuck(capture, ground.feeds, say)
        raise
    lines = [f"{name:45} {count:4}" for name, count in sorted(ground.kills.items())]
    lines.append(
        f"{len(verdicts)} rounds, {ground.kills.total()} kills,"
        f" {sum(load.made for load in loads)} transactions, {time.monotonic() - began:.0f} s"
    )
    return Result(
        _all(verdicts), ground.kills.total(), 0, complete, tuple(lines), tuple(ground.faults)
    )


def _register(capture: CaptureProcess, upstreams: tuple[Database, ...]) -> None:
    if len(upstreams) == 1:
        capture.register("main", upstreams[0].uri())
        return
    nodes = (f"--node=n{number}={db.uri()}" for number, db in enumerate(upstreams, 1))
    done = capture.cli("upstream", "create", "-u", "main", "--kind", "shards", *nodes)
    assert not done.returncode, done.stdout + done.stderr


def _load(plan: Plan, number: int, upstream: Database) -> Load:
    first = number * _KEYS_OF_SERVER
    most = fill(upstream, _ROWS // plan.servers, first)
    return Load(upstream, most, plan.seed + number, first)


def _round(ground: _Ground, number: int, most: int, folder: Path) -> tuple[Verdict, bool]:
    """Copy all rows with kills; what each end then has, and whether all has come."""
    schema, topic, files = f"round_{number}", f"rows_{number}", folder / f"files_{number}"
    ground.feeds = (f"table-{number}", f"topic-{number}", f"files-{number}")
    files.mkdir()
    topics.create(ground.broker.bootstrap, topic)
    with ExitStack() as loads:
        for load in ground.loads:
            loads.enter_context(load)
        _create(ground, schema, topic, files)
        change = "ADD COLUMN note VARCHAR(9) DEFAULT 'new'" if number % 2 else "DROP COLUMN note"
        altered_at = ground.rng.randrange(_KILLS_OF_ROUND)
        for kill in range(_KILLS_OF_ROUND):
            time.sleep(ground.rng.random() * _LONGEST_WAIT_S)
            if kill == altered_at:
                _alter(ground, change)
            if ground.delivered() or ground.kills.total() >= most:
                break
            ground.kill()
        until(ground.delivered, "all rows are delivered", CATCH_UP_S)
        if kill < altered_at:
            _alter(ground, change)
    for load in ground.loads:
        if load.failed is not None:
            raise load.failed
    whole = not ground.faults and all(_caught_up(ground, feed) for feed in ground.feeds)
    if ground.faults:
        # What has stopped need not even have a table.
        return Verdict([], 0, 0, 0, 0, []), False
    ends = {
        "topic": (m.body for m in topics.read(ground.broker.bootstrap, [topic])),
        "files": (json.loads(m) for table in reader.tables(files) for m in reader.messages(table)),
    }
    verdict = judge(ground.upstreams, ground.target, schema, ends)
    ground.say(
        f"round {number}: lost {verdict.lost}, duplicated {verdict.duplicated},"
        f" {verdict.disordered} histories broken"
    )
    for feed in ground.feeds:
        ground.capture.api("DELETE", f"/changefeeds/{feed}")
    topics.delete(ground.broker.bootstrap, topic)
    ground.target.execute(f"DROP DATABASE IF EXISTS {schema}")
    shutil.rmtree(files)
    return verdict, whole


def _alter(ground: _Ground, change: str) -> None:
    for upstream in ground.upstreams:
        upstream.execute(f"ALTER TABLE accounts {change}", database=SCHEMA)


def _create(ground: _Ground, schema: str, topic: str, files: Path) -> None:
    sinks = (
        f"mysql://root@127.0.0.1:{ground.target.port}/?worker-count=2",
        f"kafka://{ground.broker.bootstrap}/{topic}?protocol=canal-json",
        f"file://{files}?protocol=canal-json&flush-interval=200ms",
    )
    snapshot = {"mode": "initial", "chunk-rows": 1000, "max-rows-per-second": _ROWS // 6}
    config: dict[str, Any] = {"force-replicate": True, "snapshot": snapshot}
    if len(ground.upstreams) > 1:
        config["shard-mode"] = "pessimistic"
    to_target = {
        "sink": {"dispatchers": [{"matcher": ["*.*"], "target-schema": schema}]},
        "snapshot": snapshot | {"create-tables": True},
    }
    for feed, sink, more in zip(ground.feeds, sinks, (to_target, {}, {}), strict=True):
        ground.capture.create(feed, "main", sink, [f"{SCHEMA}.*"], config | more)


def _caught_up(ground: _Ground, feed: str) -> bool:
    """Whether all that was committed came to its end; not if it goes on no more."""
    end = ground.capture.tso()

    def over() -> bool:
        stopped = ground.shown(feed).get("state") == "stopped"
        return stopped or ground.capture.feed(feed)["checkpoint_ts"] >= end

    with suppress(AssertionError):
        until(over, f"{feed} comes to its end", CATCH_UP_S)
        return not ground.faults
    return False


def _all(verdicts: list[Verdict]) -> Verdict:
    """One judgement of all rounds: each table once, with what differed in any."""
    tables: dict[str, TableResult] = {}
    for result in itertools.chain.from_iterable(v.tables for v in verdicts):
        known = tables.setdefault(result.name, TableResult(result.name))
        known.upstream += result.upstream
        known.downstream += result.downstream
        known.different += result.different
        known.examples += result.examples
    return Verdict(
        list(tables.values()),
        sum(v.lost for v in verdicts),
        sum(v.duplicated for v in verdicts),
        sum(v.disordered for v in verdicts),
        0,
        [e for v in verdicts for e in v.examples],
    )
