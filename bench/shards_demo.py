"""The demo of shards: ``python -m bench.shards_demo``; 0 only if all is proven.

Two MariaDB with four tables each become one table of a third server and one topic. Under load the
eight tables come to the same two changes of their schema, in another order on each server, by hand,
by gh-ost and by pt-online-schema-change, and the capture is killed in the middle. Meanwhile the
changefeeds are asked who waits for whom.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import httpx

from bench.narration import command, exit_code, tell
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.shard_load import ShardLoad
from tests.servers import Broker, Database, schema_tools
from tests.servers.process import data_folder
from tests.waiting import until

_SERVER = "mariadb-11.8"
_NODES = ("n1", "n2")
_TABLES = tuple(f"orders_{i}" for i in range(1, 5))
_COLUMNS = "(id BIGINT PRIMARY KEY, v INT NOT NULL)"
_TARGET, _TOPIC, _PARTITIONS = "whole", "whole_orders", 3
_FEEDS = ("table", "topic")
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
_FIRST = "ADD COLUMN w INT NOT NULL DEFAULT 7"
_SECOND = "MODIFY v BIGINT NOT NULL, ADD KEY by_w (w)"
_PAUSE_S, _CALM_S, _CATCH_UP_S = 0.7, 3.0, 180.0


@dataclass
class _Stage:
    nodes: dict[str, Database]
    capture: CaptureProcess
    broker: Broker
    target: Database
    load: ShardLoad
    began_s: float

    def note(self, line: str) -> None:
        """Print what happens with its time."""
        tell(f"[{time.monotonic() - self.began_s:6.1f} s] {line}")


def _set_up(stack: ExitStack) -> _Stage:
    began = time.monotonic()
    tell("starting three MariaDB 11.8, two of them the shards; Kafka 4.1; one capture")
    nodes = {
        name: stack.enter_context(servers.database(_SERVER, options=[f"--server-id={n}"]))
        for n, name in enumerate(_NODES, 1)
    }
    target = stack.enter_context(servers.database(_SERVER))
    broker = stack.enter_context(servers.broker())
    for node in nodes.values():
        tables = (f"CREATE TABLE shop.{table} {_COLUMNS}" for table in _TABLES)
        node.execute("CREATE DATABASE shop", *tables)
    target.execute(f"CREATE DATABASE {_TARGET}", f"CREATE TABLE {_TARGET}.orders {_COLUMNS}")
    target.execute("FLUSH BINARY LOGS")
    topics.create(broker.bootstrap, _TOPIC, partitions=_PARTITIONS)
    folder, _ = data_folder(None, "shards-demo")
    capture = CaptureProcess(folder)
    stack.callback(capture.close)
    capture.start()
    words = [w for name, db in nodes.items() for w in ("--node", f"{name}={db.uri()}")]
    command(capture, "upstream", "create", "-u", "fleet", "--kind", "shards", *words)
    config = capture.folder / "shards.toml"
    config.write_text(_CONFIG)
    sinks = (
        f"mysql://root@127.0.0.1:{target.port}/?worker-count=2",
        f"kafka://{broker.bootstrap}/{_TOPIC}?protocol=canal-json",
    )
    for feed, sink in zip(_FEEDS, sinks, strict=True):
        where = ("--sink-uri", sink, "--config", str(config))
        command(capture, "changefeed", "create", "-c", feed, "--upstream", "fleet", *where)
    load = ShardLoad(nodes, "shop", _TABLES, pause_s=0.004)
    return _Stage(nodes, capture, broker, target, load, began)


@dataclass
class _Watch:
    """Notes whom the group waits for, whenever that changes."""

    stage: _Stage
    seen: set[str] = field(default_factory=set)

    def __enter__(self) -> _Watch:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        last = ""
        while not self._stop.wait(0.1):
            try:
                answer = self.stage.capture.api("GET", f"/changefeeds/{_FEEDS[0]}/shard-ddls")
            except (httpx.HTTPError, OSError):
                continue
            if answer.is_success and (line := self._line(answer.json()["items"])) != last:
                last = line
                self.stage.note(f"    {line}")

    def _line(self, groups: list[dict[str, object]]) -> str:
        if not groups:
            return "no table waits"
        (group,) = groups
        changes, missing = group["changes"], group["missing"]
        assert isinstance(changes, list)
        assert isinstance(missing, list)
        came = [c for c in changes if c["came"]]
        self.seen.update(missing)
        ahead = sum(c["later"] for c in changes)
        more = f", {ahead} later statements behind these" if ahead else ""
        late = ", ".join(name.replace(" ", "") for name in missing) or "none"
        return f"{len(came)} of 8 tables have come and wait{more}; missing: {late}"


def _by_gh_ost(stage: _Stage, node: str, table: str, alter: str) -> None:
    """Run it; nobody writes at its swap, where the upstream itself can lose a row."""
    flag, output = stage.capture.folder / "postpone", stage.capture.folder / "gh-ost.txt"
    flag.touch()
    run = schema_tools.gh_ost().start(
        "--host=127.0.0.1", f"--port={stage.nodes[node].port}", "--user=root", "--database=shop",
        f"--table={table}", f"--alter={alter}", "--allow-on-master", "--execute",
        "--skip-metadata-lock-check", "--default-retries=20", "--initially-drop-socket-file",
        f"--serve-socket-file={stage.capture.folder / 'socket'}",
        f"--postpone-cut-over-flag-file={flag}", output=output,
    )  # fmt: skip
    try:
        until(
            lambda: run.poll() is not None or "postponing cut-over" in output.read_text(),
            "gh-ost has copied the table",
            120,
        )
        with stage.load.paused():
            flag.unlink()
            if run.wait(60):
                raise RuntimeError(output.read_text()[-3000:])
    finally:
        run.kill()
        run.wait()


def _by_pt_osc(stage: _Stage, node: str, table: str, alter: str) -> None:
    done = schema_tools.pt_osc().run(
        f"h=127.0.0.1,P={stage.nodes[node].port},u=root,D=shop,t={table}", f"--alter={alter}",
        "--execute", "--no-version-check", "--recursion-method=none",
        "--no-check-replication-filters", "--chunk-time=0.1",
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stdout[-3000:])


def _by_hand(stage: _Stage, node: str, table: str, alter: str) -> None:
    stage.nodes[node].execute(f"ALTER TABLE shop.{table} {alter}")


_NAMES = {_by_gh_ost: "by gh-ost", _by_pt_osc: "by pt-osc", _by_hand: "by hand"}
_TOOLS = {("n1", "orders_1"): _by_gh_ost, ("n2", "orders_2"): _by_pt_osc}


def _change_all(stage: _Stage, alter: str, order: Sequence[tuple[str, str]], kill: bool) -> None:
    """Every table comes to the same change, one after the other."""
    for number, (node, table) in enumerate(order):
        how = _TOOLS.get((node, table), _by_hand) if alter == _FIRST else _by_hand
        stage.note(f"{node}: ALTER TABLE {table} {alter}   {_NAMES[how]}")
        how(stage, node, table, alter)
        if kill and number == len(order) // 2:
            stage.note("kill -9 of the capture")
            stage.capture.kill()
            stage.capture.start()
            stage.note("the capture is back")
        time.sleep(_PAUSE_S)


def _altered(target: Database) -> int:
    """How often the target's table was altered, by the server's own binlog."""
    name = target.execute("SHOW BINARY LOGS")[-1][0]
    events = target.execute(f"SHOW BINLOG EVENTS IN '{name}'")
    return sum(e[2] == "Query" and "ALTER TABLE" in str(e[-1]) for e in events)


@dataclass
class _Topic:
    """What an ordinary consumer makes of the topic."""

    got: Counter[str] = field(default_factory=Counter)
    distinct: set[tuple[str, int, int]] = field(default_factory=set)
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    changes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    crossed: int = 0

    def take(self, message: topics.Message) -> None:
        """Take one message in; a row must have the form that its partition has come to."""
        body = message.body
        if body["isDdl"]:
            self.changes[message.partition] += 1
            return
        for row in body["data"]:
            key, v, kind = int(row["id"]), int(row["v"]), str(body["type"])
            self.got[kind] += 1
            self.distinct.add((kind, key, v))
            self.crossed += ("w" in row) is not (self.changes[message.partition] > 0)
            if kind == "DELETE":
                self.rows.pop(key, None)
            else:
                self.rows[key] = v, int(row.get("w", 7))


def _judge(stage: _Stage, waited_for: set[str]) -> bool:
    """Print what the target has, and whether it is what was promised."""
    union = sorted(
        row
        for node in stage.nodes.values()
        for table in _TABLES
        for row in node.execute(f"SELECT id, v, w FROM shop.{table}")
    )
    target = sorted(stage.target.execute(f"SELECT id, v, w FROM {_TARGET}.orders"))
    altered, topic = _altered(stage.target), _Topic()
    for message in topics.read(stage.broker.bootstrap, [_TOPIC]):
        if message.body["type"] != "TIDB_WATERMARK":
            topic.take(message)
    made = sum(stage.load.changed.values())
    lost, twice = made - len(topic.distinct), sum(topic.got.values()) - len(topic.distinct)
    fold = sorted((key, *row) for key, row in topic.rows.items()) == union
    tell(f"{len(union):,} rows in 8 tables, after {made:,} changes of rows under way")
    tell(f"table: {'' if target == union else 'NOT '}the union; altered {altered} times for 16")
    tell(f"topic: lost {lost}, duplicated {twice}; its fold is {'' if fold else 'NOT '}the union;")
    shown = ", ".join(f"{n} in partition {p}" for p, n in sorted(topic.changes.items()))
    tell(f"       schema changes {shown}; {topic.crossed} rows beside the form they are in")
    same = target == union and fold and stage.load.changed == topic.got and not topic.crossed
    once = altered == 2 and set(topic.changes.values()) == {2} and len(waited_for) > 1
    return same and once and not lost and not twice


def _run(stack: ExitStack, seed: int) -> bool:
    stage = _set_up(stack)
    rng = random.Random(seed)
    tables = [(node, table) for node in _NODES for table in _TABLES]
    with stage.load, _Watch(stage) as watch:
        stage.note("under load")
        time.sleep(_CALM_S)
        for alter, kill in ((_FIRST, True), (_SECOND, False)):
            _change_all(stage, alter, rng.sample(tables, len(tables)), kill)
        time.sleep(_CALM_S)
    for feed in _FEEDS:
        stage.capture.wait_checkpoint(feed, timeout_s=_CATCH_UP_S)
    proven = _judge(stage, watch.seen)
    tell(f"{time.monotonic() - stage.began_s:.0f} s")
    return proven


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if no row was lost or repeated, and each change was carried out once."""
    parser = argparse.ArgumentParser(prog="python -m bench.shards_demo")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    return exit_code(lambda stack: _run(stack, chosen.seed))


if __name__ == "__main__":
    sys.exit(main())
