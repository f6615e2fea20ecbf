"""A soak of a distributed database: its nodes and its capture are restarted, frozen and killed.

Servers under a coordinator of our own move money between each other, also in transactions that die
between PREPARE and COMMIT. One capture delivers them to a topic and to one table. No state of the
table may be torn, every transaction of several nodes must be in the topic once and whole.
Beside the bank a logical table gets and loses columns while it is written, its parts move from node
to node, and a node comes.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.fold import TableResult, Verdict
from cdc.logical.names import MARKED
from tests import servers
from tests.cluster import delivered
from tests.cluster.coordinator import OWN_TABLES, DistributedDatabase
from tests.cluster.sharded import PARTS, PATTERN, ShardedDatabase
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.servers import Broker, Database
from tests.servers.process import data_folder
from tests.soak.plan import (
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

NODES = range(2, 17)
_TOPIC, _ORDERS, _PARTITIONS = "bank_accounts", "mall_orders", 3
_FEEDS = ("topic", "table")
_UPSTREAM = "/upstreams/bank"
_PER_TRANSACTION = 10.0  # rows/s of a plan for one transaction/s
# Each goes over all nodes, in as many branches, and is load itself.
_HEARTBEAT_S = 0.0125  # for each node: 50 to 200 ms
_CALM_S = 4.0
_CHANGES = 5
# Where the logical table's parts are, and the bank's accounts, which are one table of all nodes.
_PATTERNS = (MARKED + PATTERN, "{schema}.{table}_#")
_CREATE = "CREATE TABLE {part} (id INT NOT NULL PRIMARY KEY, a INT)"
_CONFIG = f"""
[filter]
rules = ["*.*"]
[[sink.dispatchers]]
matcher = ["bank.accounts"]
target-schema = "{delivered.TARGET}"
target-table = "accounts"
partition = "index-value"
[[sink.dispatchers]]
matcher = ["mall.orders"]
topic = "{_ORDERS}"
partition = "index-value"
"""
_STUCK_S = 240.0
_SETTINGS = f"{SETTINGS}[source]\nsilence-s = 4.0\n[changelog]\nanchor-s = 1.0\n"
# What is taken away from the product, each in a process of the test's own.
_MODULES = {
    Control.SORT: "tests.soak.without_sort",
    Control.HOLES: "tests.soak.without_holes",
    Control.PART: "tests.soak.without_part",
    Control.HEARTBEAT: "tests.soak.without_heartbeat",
}


@dataclass
class _Stage:
    cluster: DistributedDatabase
    sharded: ShardedDatabase
    spare: Database | None
    capture: CaptureProcess
    broker: Broker
    target: Database
    chosen: random.Random
    columns: list[str] = field(default_factory=lambda: ["a"])
    made: int = 0

    def node(self) -> int:
        """Some node, counted from 0."""
        return self.chosen.randrange(len(self.cluster.nodes))

    def name(self, what: str) -> str:
        """One that nothing had before."""
        self.made += 1
        return what.format(self.made)

    def newer(self) -> None:
        """Wait until both places have what is committed now, unless the upstream has failed."""
        ts = self.capture.tso()

        def look() -> bool:
            state = self.capture.ask("GET", _UPSTREAM)["state"]
            assert state != "failed", "the upstream has failed"
            return all(self.capture.feed(feed)["checkpoint_ts"] >= ts for feed in _FEEDS)

        until(look, "both places have newer rows", _STUCK_S)

    def waits_for(self) -> str:
        """The node that holds back the others, "" if none does."""
        found: str = self.capture.ask("GET", _UPSTREAM)["waits_for"]
        return found


def _capture_killed(stage: _Stage) -> None:
    stage.capture.kill()
    time.sleep(stage.chosen.uniform(0.0, 2.0))
    stage.capture.start()


def _worker_killed(stage: _Stage) -> None:
    workers = stage.capture.workers()
    if workers:
        stage.chosen.choice(workers).kill()


def _node_restarted(stage: _Stage) -> None:
    node = stage.cluster.nodes[stage.node()]
    node.stop()
    time.sleep(stage.chosen.uniform(0.0, 2.0))
    node.start()


def _node_killed(stage: _Stage) -> None:
    node = stage.cluster.nodes[stage.node()]
    node.kill()
    time.sleep(stage.chosen.uniform(0.0, 2.0))
    node.start()


def _node_frozen(stage: _Stage) -> None:
    number = stage.node()
    node = stage.cluster.nodes[number]
    node.signal(signal.SIGSTOP)
    try:
        name = f"n{number + 1}"
        until(lambda: stage.waits_for() == name, f"{name}, which is frozen, is named", _STUCK_S)
    finally:
        node.signal(signal.SIGCONT)


def _node_and_capture(stage: _Stage) -> None:
    node = stage.cluster.nodes[stage.node()]
    node.stop()
    stage.capture.kill()
    node.start()
    stage.capture.start()


def _logs_lost(stage: _Stage) -> None:
    """All of them, with the order that was written over those of the nodes."""
    stage.capture.kill()
    shutil.rmtree(stage.capture.data_dir / "log" / "bank")
    time.sleep(stage.chosen.uniform(0.0, 2.0))
    stage.capture.start()


def _log_of_a_node_lost(stage: _Stage) -> None:
    stage.capture.kill()
    folder = stage.capture.data_dir / "log" / "bank" / "nodes"
    shutil.rmtree(folder / f"n{stage.node() + 1}")
    stage.capture.start()


def _schema_changes(stage: _Stage) -> None:
    sharded = stage.sharded
    sharded.renew()
    with sharded.writing("orders", stage.columns):
        for _ in range(_CHANGES):
            if len(stage.columns) > 1 and stage.chosen.random() < 0.5:
                gone = stage.columns.pop(stage.chosen.randrange(1, len(stage.columns)))
                sharded.shows(stage.columns)
                sharded.change("orders", f"ALTER TABLE orders DROP COLUMN {gone}", "", 0.05)
                continue
            came = stage.name("c{}")
            text = f"ALTER TABLE orders ADD COLUMN {came} INT DEFAULT {stage.made}"
            sharded.change("orders", text, "", 0.05)
            stage.columns.append(came)
            sharded.shows(stage.columns)


def _part_moves(stage: _Stage, node: int | None = None) -> None:
    sharded, part = stage.sharded, stage.chosen.randrange(PARTS)
    sharded.renew()
    others = [n for n in range(len(stage.cluster.nodes)) if n != sharded.node(part, "orders")]
    node = stage.chosen.choice(others) if node is None else node
    name = f"mall_{stage.name('{}')}{part:06d}.orders_{part:02d}"
    with sharded.writing("orders", stage.columns):
        time.sleep(0.3)
        move = f"ALTER TABLEGROUP tg1 MOVE PARTITIONS p{part} TO 'dn-{node}'"
        sharded.move("orders", part, node, name, move, 0.3)
        time.sleep(0.3)


def _node_comes(stage: _Stage) -> None:
    """It gets a part. Only once: later it is another that a part moves."""
    if stage.spare is None:
        _part_moves(stage)
        return
    cluster, (spare, stage.spare) = stage.cluster, (stage.spare, None)
    spare.execute(*OWN_TABLES)
    number = len(cluster.nodes)
    asked = ("--node", f"n{number + 1}", "--uri", spare.uri())
    _run(stage.capture, "upstream", "node", "add", "-u", "bank", *asked)
    cluster.nodes.append(spare)
    until(lambda: cluster.beaten == number + 1, "heartbeats go over it", _STUCK_S)
    _part_moves(stage, number)


Blow = Callable[[_Stage], None]

BLOWS: dict[str, Blow] = {
    "capture killed": _capture_killed,
    "Spark worker killed": _worker_killed,
    "a node restarted": _node_restarted,
    "a node frozen": _node_frozen,
    "a node killed": _node_killed,
    "a node restarted, capture killed": _node_and_capture,
    "capture killed, logs lost": _logs_lost,
    "capture killed, a node's log lost": _log_of_a_node_lost,
    "schema changes": _schema_changes,
    "a part moves": _part_moves,
    "a node comes": _node_comes,
}
"""Each lasts, and is put right again before it returns."""


def soak(plan: Plan, say: Say) -> Result:
    """Run it; servers and folders are gone afterwards."""
    with ExitStack() as stack:
        return _soak(stack, plan, say)


def _soak(stack: ExitStack, plan: Plan, say: Say) -> Result:
    began = time.monotonic()
    say(f"{plan.nodes} nodes of {plan.server}, to a topic and to a table, SEED={plan.seed}")
    stage = _set_up(stack, plan)
    met: Counter[str] = Counter()
    stopped: list[Fault] = []
    with delivered.Reader(stage.target) as reader:
        workers = max(4, plan.nodes // 2)
        stage.cluster.start(workers, pause_s=workers * _PER_TRANSACTION / plan.rows_per_s)
        try:
            _strike(stage, plan, met, began, say)
            stage.cluster.rest()
            stage.newer()
        except AssertionError as error:
            stopped = _why(stage, str(error))
            if plan.control is None:
                say(f"stuck: {error}")
                show_stuck(stage.capture, _FEEDS, say)
            stage.cluster.rest()
    return _judged(stage, reader.sums, stopped, met, began)


def _strike(stage: _Stage, plan: Plan, met: Counter[str], began: float, say: Say) -> None:
    left: list[str] = []
    blows = () if plan.control else tuple(BLOWS)
    # A control shows itself with rows enough; what is struck beside it proves nothing more.
    end = time.monotonic() + 60 * plan.minutes
    while time.monotonic() < end if plan.minutes else met.total() < plan.kills:
        time.sleep(stage.chosen.uniform(0.0, _CALM_S))
        if blows:
            left = left or stage.chosen.sample(blows, len(blows))
            name = left.pop()
            met[name] += 1
            say(f"{time.monotonic() - began:7.1f} s  {name}")
            BLOWS[name](stage)
        stage.newer()


def _set_up(stack: ExitStack, plan: Plan) -> _Stage:
    more = ["--innodb-lock-wait-timeout=20"]
    nodes = [
        stack.enter_context(servers.database(plan.server, options=[f"--server-id={n}", *more]))
        for n in range(1, 2 + plan.nodes)
    ]
    spare = nodes.pop()
    target = stack.enter_context(servers.database(plan.target or plan.server))
    broker = stack.enter_context(servers.broker())
    cluster = DistributedDatabase(nodes, plan.seed, spread=delivered.SPREAD, enduring=True)
    cluster.create()
    sharded = ShardedDatabase(cluster, plan.seed)
    sharded.over_parts("orders", _CREATE)
    stack.callback(cluster.end)
    folder, ours = data_folder(None, "cluster-db")
    if ours:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    module = plan.module(_MODULES)
    capture = CaptureProcess(folder, settings=_SETTINGS, module=module)
    stack.callback(capture.close)
    capture.start()
    cluster.beat(_HEARTBEAT_S * plan.nodes)
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    words += [w for pattern in _PATTERNS for w in ("--logical-tables", pattern)]
    kind = ("--kind", "cluster", "--carrier", "commit-log")
    _run(capture, "upstream", "create", "-u", "bank", *kind, *words)
    delivered.make_target(target, delivered.money(nodes))
    target.execute("CREATE DATABASE mall", _CREATE.format(part="mall.orders"))
    for topic in (_TOPIC, _ORDERS):
        topics.create(broker.bootstrap, topic, partitions=_PARTITIONS)
    config = capture.folder / "cluster.toml"
    config.write_text(_CONFIG)
    sinks = (
        f"kafka://{broker.bootstrap}/{_TOPIC}?protocol=canal-json&enable-tidb-extension=true",
        f"mysql://root@127.0.0.1:{target.port}/?transaction-atomicity=global",
    )
    for feed, sink in zip(_FEEDS, sinks, strict=True):
        where = ("--sink-uri", sink, "--config", str(config))
        _run(capture, "changefeed", "create", "-c", feed, "--upstream", "bank", *where)
    return _Stage(cluster, sharded, spare, capture, broker, target, random.Random(plan.seed))


def _run(capture: CaptureProcess, *words: str) -> None:
    done = capture.cli(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def _why(stage: _Stage, error: str) -> list[Fault]:
    """What has stopped, by its code: the upstream, or a changefeed."""
    if not stage.capture.running:
        return [Fault(Kind.STOPPED, error)]
    found = [stage.capture.ask("GET", _UPSTREAM), *map(stage.capture.feed, _FEEDS)]
    codes = [str(f["error"]["code"]) for f in found if f.get("error")]
    return [Fault(Kind.STOPPED, code) for code in codes] or [Fault(Kind.LATE, error)]


def _judged(
    stage: _Stage, sums: dict[int, int], stopped: list[Fault], met: Counter[str], began: float
) -> Result:
    cluster = stage.cluster
    money = delivered.money(cluster.nodes[: cluster.banks])
    whole = delivered.whole(cluster.banks)
    shown = dict(stage.target.execute(f"SELECT id, balance FROM {delivered.TARGET}.accounts"))
    found = delivered.replay(cluster, topics.read(stage.broker.bootstrap, [_TOPIC]))
    journal = cluster.journal
    made = len(journal.distributed.keys() - journal.heartbeats - journal.others)
    tables = []
    for name, there in (("table", shown), ("topic", found.balances)):
        result = TableResult(name, len(money), len(there))
        for account, balance in money:
            if there.get(account) != balance:
                result.note(f"account {account}: {there.get(account)} for {balance}")
        tables.append(result)
    orders, wrong = _orders_of(stage)
    tables += orders
    torn = sum(count for total, count in sums.items() if total != whole) + found.torn
    faults = [*stopped]
    if torn:
        faults.append(Fault(Kind.TORN, f"{torn} states of {sum(sums.values())}, {found.torn} ts"))
    if not sums.get(whole):
        faults.append(Fault(Kind.LACKING, "nobody has read the target"))
    if not journal.rolled_back:
        faults.append(Fault(Kind.LACKING, "nothing was rolled back"))
    lost, more = max(0, made - found.distributed), max(0, found.distributed - made)
    verdict = Verdict(tables, lost, more, found.misplaced + wrong, 0, [])
    lines = [f"{name:32} {times:5}" for name, times in met.most_common()]
    lines += [
        f"{len(journal.others)} transactions of the logical table, with the marks of its changes",
        f"{found.transactions} transactions in the topic, {found.distributed} of several nodes, of"
        f" {made} that were committed; {journal.rolled_back} rolled back; the table was read"
        f" {sum(sums.values())} times; {time.monotonic() - began:.0f} s",
    ]
    return Result(verdict, met.total(), 0, not stopped, tuple(lines), tuple(faults))


def _orders_of(stage: _Stage) -> tuple[list[TableResult], int]:
    """The logical table at both places, and how many messages were of rows as they were not."""
    rows = stage.sharded.rows("orders", "*")
    there = sorted(stage.target.execute("SELECT * FROM mall.orders"), key=repr)
    of_target = TableResult("orders, table", len(rows), len(there))
    for row in set(rows).symmetric_difference(there):
        of_target.note(f"{row} is only at one place")
    known: dict[int, str | None] = {}
    wrong = 0
    messages = [m.body for m in topics.read(stage.broker.bootstrap, [_ORDERS])]
    messages = [m for m in messages if m["type"] in ("INSERT", "UPDATE", "DELETE")]
    for message in sorted(messages, key=lambda m: int(m["_tidb"]["commitTs"])):
        for row in message["data"]:
            id = int(row["id"])
            wrong += (message["type"] == "INSERT") == (id in known)
            if message["type"] == "DELETE":
                known.pop(id, None)
            else:
                known[id] = row["a"]
    wanted = dict(stage.sharded.rows("orders", "id, CAST(a AS CHAR)"))
    of_topic = TableResult("orders, topic", len(wanted), len(known))
    for id in wanted.keys() | known.keys():
        if wanted.get(id) != known.get(id):
            of_topic.note(f"{id} is {known.get(id)} for {wanted.get(id)}")
    return [of_target, of_topic], wrong
