"""Shards go from capture to capture, and on where one is lost with its disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.shard_load import ShardLoad
from tests.e2e.test_failover import captures_of
from tests.seeds import one_run_in
from tests.servers import Broker, Database
from tests.servers.database import database
from tests.servers.etcd import Etcd
from tests.waiting import until

pytestmark = pytest.mark.real
TABLES = ("a", "b")
COLUMNS = "(id INT PRIMARY KEY, v INT NOT NULL)"
# The topic is read from its beginning again and again: what comes faster makes only that longer.
_PAUSE_S = 0.08
SHARD_MODE = """
shard-mode = "pessimistic"
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Database]]:
    with database("mariadb-11.4") as one, database("mariadb-11.4") as two:
        yield {"n1": one, "n2": two}


class Moved:
    """An upstream of shards at one of two captures, and what is done with it."""

    def __init__(self, etcd: Etcd, folder: Path, name: str) -> None:
        self.captures = captures_of(etcd, folder, name)
        self.upstream = name
        self._config = folder / "feed.toml"
        for capture in self.captures:
            capture.start(ready=False)
        for capture in self.captures:
            capture.await_ready()

    def cli(self, *words: str) -> str:
        """Ask one that lives; what it answers."""
        asked = next(c for c in self.captures if c.running)
        done = asked.cli(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def register(self, nodes: dict[str, Database]) -> None:
        words = [w for name, node in nodes.items() for w in ("--node", f"{name}={node.uri()}")]
        self.cli("upstream", "create", "-u", self.upstream, "--kind", "shards", *words)

    def create(self, feed: str, sink: str, text: str) -> None:
        self._config.write_text(text)
        self.cli(
            *("changefeed", "create", "--upstream", self.upstream, "-c", feed),
            *("--sink-uri", sink, "--config", str(self._config)),
        )

    def place(self, feed: str) -> CaptureProcess | None:
        """Who delivers a changefeed; None while nobody does, or one begins anew."""
        with suppress(httpx.TransportError):
            asked = next(c for c in self.captures if c.running)
            task = asked.ask("GET", f"/changefeeds/{feed}")["task_status"]
            # One that was started again is another one.
            ids = {self.id_of(c): c for c in self.captures if c.running}
            return ids.get(task[0]["capture_id"]) if task else None
        return None

    def id_of(self, capture: CaptureProcess) -> str:
        return str(capture.ask("GET", "/status")["id"])

    def other(self, capture: CaptureProcess) -> CaptureProcess:
        return next(c for c in self.captures if c is not capture)

    def move(self, feed: str) -> CaptureProcess:
        """To the other capture; which that is."""
        has = until(lambda: self.place(feed), "somebody has it")
        to = self.other(has)
        self.cli("upstream", "move", "-u", self.upstream, "--capture", self.id_of(to))
        until(lambda: self.place(feed) is to, "it has moved", 90)
        return to

    def close(self) -> None:
        for capture in self.captures:
            capture.close()


@one_run_in(2)
def test_shards_move_and_are_taken_over_while_a_group_waits_and_a_node_joins(
    etcd: Etcd,
    nodes: dict[str, Database],
    mariadb: Database,
    broker: Broker,
    tmp_path: Path,
    fresh_name: str,
) -> None:
    schema, target = fresh_name, f"{fresh_name}_all"
    fleet = {**nodes, "n3": mariadb}
    for node in fleet.values():
        node.execute(f"CREATE DATABASE {schema}")
        node.execute(*(f"CREATE TABLE {schema}.{table} {COLUMNS}" for table in TABLES))
    mariadb.execute(f"CREATE DATABASE {target}", f"CREATE TABLE {target}.t {COLUMNS}")
    rules, wider = f'[filter]\nrules = ["{schema}.*"]\n', "ADD COLUMN w INT NOT NULL DEFAULT 5"
    route = f'[[sink.dispatchers]]\nmatcher = ["{schema}.*"]\n'
    route += f'target-schema = "{target}"\ntarget-table = "t"\n'
    topic = f"kafka://{broker.bootstrap}/{schema}?protocol=canal-json"
    moved = Moved(etcd, tmp_path, "shards-wait")

    def on_target() -> int:
        return int(mariadb.execute(f"SELECT COUNT(*) FROM {target}.t")[0][0])

    def wide() -> bool:
        columns = mariadb.execute(f"SHOW COLUMNS FROM {target}.t")
        return any(column[0] == "w" for column in columns)

    def waits() -> list[str]:
        """Tables that the group waits for."""
        asked = next(c for c in moved.captures if c.running)
        groups = asked.ask("GET", "/changefeeds/waits-mysql/shard-ddls")["items"]
        return [
            *(t for g in groups for t in g["missing"]),
            *(c["table"] for g in groups for c in g["changes"] if not c["came"]),
        ]

    def delivered() -> int:
        found = topics.read(broker.bootstrap, [schema])
        return sum(len(m.body["data"]) for m in found if not m.body["isDdl"])

    try:
        moved.register(nodes)
        moved.create("waits-kafka", topic, SHARD_MODE + rules)
        moved.create("waits-mysql", mariadb.uri(), SHARD_MODE + rules + route)
        load = ShardLoad(nodes, schema, TABLES, pause_s=_PAUSE_S)
        late = ShardLoad({"n3": mariadb}, schema, TABLES, pause_s=_PAUSE_S, first=9_000_000)
        with load:
            until(lambda: on_target() > 50, "it is delivered")
            nodes["n1"].execute(f"ALTER TABLE {schema}.a {wider}")
            until(lambda: len(waits()) == 3, "the group waits")
            has = moved.move("waits-mysql")
            until(lambda: len(waits()) == 3, "the group waits there too")
            moved.cli("upstream", "node", "add", "-u", moved.upstream, "--node", "n3", "--uri",
                      mariadb.uri())  # fmt: skip
            until(lambda: len(waits()) == 5, "it waits for the node that has come", 90)
            with late:
                had = delivered()
                until(lambda: late.changed["INSERT"] > 50, "the new node has changes")
                until(lambda: delivered() > had + 50, "changes come", 90)
                assert not wide()
                # Who has it dies, and comes back, and goes with its disk.
                has.kill()
                has.start()
                had = delivered()
                until(lambda: delivered() > had + 50, "changes come", 90)
                has = until(lambda: moved.place("waits-mysql"), "somebody has it", 90)
                has.kill_with_its_disk()
                until(lambda: moved.place("waits-mysql"), "it is taken over", 90)
                until(lambda: len(waits()) == 5, "the group waits after it, too", 90)
                for name, node in fleet.items():
                    for table in TABLES:
                        if (name, table) != ("n1", "a"):
                            node.execute(f"ALTER TABLE {schema}.{table} {wider}")
                until(wide, "all have come", 90)
                had = delivered()
                until(lambda: delivered() > had + 50, "changes come", 90)
        left = until(lambda: moved.place("waits-mysql"), "somebody has it")
        for feed in ("waits-kafka", "waits-mysql"):
            left.wait_checkpoint(feed, timeout_s=120)
    finally:
        moved.close()
    columns = "id, v, w"
    union = " UNION ALL ".join(f"SELECT {columns} FROM {schema}.{table}" for table in TABLES)
    rows = sorted(row for node in fleet.values() for row in node.execute(union))
    assert sorted(mariadb.execute(f"SELECT {columns} FROM {target}.t")) == rows
    counts = Counter(
        (m.body["type"], data["id"], data["v"])
        for m in topics.read(broker.bootstrap, [schema])
        if not m.body["isDdl"]
        for data in m.body["data"]
    )
    assert {change: n for change, n in counts.items() if n != 1} == {}, "delivered twice"
    assert sum(counts.values()) == sum((load.changed + late.changed).values()), "lost"
