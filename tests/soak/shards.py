"""A soak of shards: nine tables of three servers are one, and come to changes in any order.

Under load a table is altered at random, up to some changes ahead of the others; the capture is
killed in between. At the end all have come to all changes: the target must be the union, altered
once for each, and the topic must have each change of a row once.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.fold import TableResult, Verdict
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.shard_load import ShardLoad
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

_NODES = ("n1", "n2", "n3")
_TABLES = ("orders_1", "orders_2", "orders_3")
_TARGET, _TOPIC = "whole", "whole_orders"
_FEEDS = ("table", "topic")
_COLUMNS = "(id BIGINT PRIMARY KEY, v INT NOT NULL)"
_CONFIG = f"""
shard-mode = "pessimistic"
[filter]
rules = ["shop.orders_*"]
[[sink.dispatchers]]
matcher = ["shop.orders_*"]
target-schema = "{_TARGET}"
target-table = "orders"
partition = "index-value"
"""
_AHEAD = 3
_KILL_EVERY = 14  # statements
_PAUSE_S = 0.6
# The same, as different people write it.
_ADD = (
    "ADD COLUMN {0} INT NOT NULL DEFAULT {1}",
    "ADD ({0} INTEGER NOT NULL DEFAULT '{1}')",
    "add column `{0}` int(11) default {1} not null",
)
_DROP = ("DROP COLUMN {0}", "drop `{0}`")

Shard = tuple[str, str]


@dataclass
class _Stage:
    nodes: dict[str, Database]
    target: Database
    broker: Broker
    capture: CaptureProcess


@dataclass
class _Changes:
    """The group's changes, by their number, and how many of them each table has come to."""

    rng: random.Random
    texts: list[tuple[str, ...]] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    came: dict[Shard, int] = field(
        default_factory=lambda: {(n, t): 0 for n in _NODES for t in _TABLES}
    )

    def next(self, *, more: bool) -> tuple[Shard, str] | None:
        """A table and what it comes to; without ``more`` only what others have come to already."""
        least = min(self.came.values())
        able = [s for s, n in self.came.items() if n < len(self.texts)]
        if more:
            able = [s for s, n in self.came.items() if n < least + _AHEAD]
        if not able:
            return None
        shard = self.rng.choice(sorted(able))
        if self.came[shard] == len(self.texts):
            self._add()
        self.came[shard] += 1
        return shard, self.rng.choice(self.texts[self.came[shard] - 1])

    def _add(self) -> None:
        if len(self.columns) > 2 and self.rng.random() < 0.5:
            gone = self.columns.pop(self.rng.randrange(len(self.columns)))
            self.texts.append(tuple(text.format(gone) for text in _DROP))
            return
        name, value = f"c{len(self.texts)}", self.rng.randrange(100)
        self.columns.append(name)
        self.texts.append(tuple(text.format(name, value) for text in _ADD))


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _set_up(stack: ExitStack, plan: Plan) -> _Stage:
    folder, ours = data_folder(None, "soak")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    nodes = {
        name: stack.enter_context(servers.database(plan.server, options=[f"--server-id={n}"]))
        for n, name in enumerate(_NODES, 1)
    }
    target = stack.enter_context(servers.database(plan.target or plan.server))
    broker = stack.enter_context(servers.broker())
    for node in nodes.values():
        tables = (f"CREATE TABLE shop.{table} {_COLUMNS}" for table in _TABLES)
        node.execute("CREATE DATABASE shop", *tables)
    target.execute(f"CREATE DATABASE {_TARGET}", f"CREATE TABLE {_TARGET}.orders {_COLUMNS}")
    topics.create(broker.bootstrap, _TOPIC, partitions=3)
    barrier = plan.control is not Control.BARRIER
    module = "cdc.cli.entry" if barrier else "tests.soak.without_barrier"
    capture = CaptureProcess(folder, settings=SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    words = [w for name, db in nodes.items() for w in ("--node", f"{name}={db.uri()}")]
    _command(capture, "upstream", "create", "-u", "fleet", "--kind", "shards", *words)
    config = capture.folder / "shards.toml"
    config.write_text(_CONFIG)
    sinks = (
        f"mysql://root@127.0.0.1:{target.port}/?worker-count=2",
        f"kafka://{broker.bootstrap}/{_TOPIC}?protocol=canal-json",
    )
    for feed, sink in zip(_FEEDS, sinks, strict=True):
        where = ("--sink-uri", sink, "--config", str(config))
        _command(capture, "changefeed", "create", "-c", feed, "--upstream", "fleet", *where)
    return _Stage(nodes, target, broker, capture)


def _command(capture: CaptureProcess, *words: str) -> None:
    done = capture.cli(*words)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    stage = _set_up(stack, plan)
    changes = _Changes(random.Random(plan.seed))
    load = ShardLoad(stage.nodes, "shop", _TABLES, pause_s=0.01)
    say(f"nine tables of three {plan.server} are one, SEED={plan.seed}")
    kills, began = 0, time.monotonic()
    with load:
        number = 0
        while turn := changes.next(more=time.monotonic() - began < 60 * plan.minutes):
            (node, table), text = turn
            stage.nodes[node].execute(f"ALTER TABLE shop.{table} {text}")
            number += 1
            if number % _KILL_EVERY == 0 and kills < plan.kills:
                stage.capture.kill()
                stage.capture.start()
                kills += 1
            time.sleep(changes.rng.random() * _PAUSE_S)
    faults, complete = _ended(stage, plan, say)
    verdict, different = _judge(stage, load, changes, complete)
    statements = 9 * len(changes.texts)
    lines = (
        f"{len(changes.texts)} changes of nine tables, {statements} statements, {kills} kills",
    )
    return Result(verdict, kills, 0, complete, lines, (*faults, *different))


def _ended(stage: _Stage, plan: Plan, say: Say) -> tuple[list[Fault], bool]:
    """Wait until all is delivered, or a changefeed has stopped at what a retry does not mend."""
    end = stage.capture.tso()

    def over() -> bool:
        found = [stage.capture.feed(feed) for feed in _FEEDS]
        stopped = any(f["state"] == "failed" or f["stopped_tables"] for f in found)
        return stopped or all(f["checkpoint_ts"] >= end for f in found)

    try:
        until(over, "all is delivered", CATCH_UP_S)
    except AssertionError:
        if plan.control is None:
            show_stuck(stage.capture, _FEEDS, say)
        return [], False
    faults = []
    for feed in _FEEDS:
        found = stage.capture.feed(feed)
        if found["state"] == "failed" or found["stopped_tables"]:
            faults.append(Fault(Kind.STOPPED, f"{feed}: {found['error']}"))
    return faults, not faults


def _judge(
    stage: _Stage, load: ShardLoad, changes: _Changes, complete: bool
) -> tuple[Verdict, list[Fault]]:
    """What the target and the topic have, beside the union."""
    columns = ", ".join(["id", "v", *sorted(changes.columns)])
    union = sorted(
        row
        for node in stage.nodes.values()
        for table in _TABLES
        for row in node.execute(f"SELECT {columns} FROM shop.{table}")
    )
    faults: list[Fault] = []
    target: list[tuple[object, ...]] = []
    if complete:
        target = sorted(stage.target.execute(f"SELECT {columns} FROM {_TARGET}.orders"))
        if (altered := _altered(stage.target)) != len(changes.texts):
            faults.append(
                Fault(Kind.DIFFERENT, f"altered {altered} times for {len(changes.texts)} changes")
            )
    got: Counter[tuple[str, int, int]] = Counter()
    for message in topics.read(stage.broker.bootstrap, [_TOPIC]):
        body = message.body
        if body["type"] in ("INSERT", "UPDATE", "DELETE"):
            got.update((body["type"], int(row["id"]), int(row["v"])) for row in body["data"])
    different = len(set(target) ^ set(union)) if complete else 0
    whole = TableResult("orders", len(union), len(target), different, [])
    lost = sum(load.changed.values()) - len(got) if complete else 0
    return Verdict([whole], lost, sum(got.values()) - len(got), 0, 0, []), faults


def _altered(target: Database) -> int:
    """How often the target's table was altered, by the server's own binlogs."""
    found = 0
    for log in target.execute("SHOW BINARY LOGS"):
        events = target.execute(f"SHOW BINLOG EVENTS IN '{log[0]}'")
        found += sum(e[2] == "Query" and "ALTER TABLE" in str(e[-1]) for e in events)
    return found
