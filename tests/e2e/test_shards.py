"""Two servers with two tables each become one table of a database and one topic, whoever dies."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess, until
from tests.e2e.conftest import CaptureMaker
from tests.seeds import seed
from tests.servers import Broker, Database
from tests.servers.database import database

pytestmark = pytest.mark.real

SCHEMA, TARGET = "fleet", "fleet_whole"
NODES, TABLES = ("n1", "n2"), ("orders_1", "orders_2")
COLUMNS = "(id BIGINT PRIMARY KEY, v INT NOT NULL)"
CONFIG = f"""
shard-mode = "pessimistic"
[filter]
rules = ["{SCHEMA}.orders_*"]
[[sink.dispatchers]]
matcher = ["{SCHEMA}.orders_*"]
target-schema = "{TARGET}"
target-table = "orders"
partition = "index-value"
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Database]]:
    with database("mariadb-11.4") as one, database("mariadb-11.4") as two:
        found = dict(zip(NODES, (one, two), strict=True))
        for node in found.values():
            node.execute(
                f"CREATE DATABASE {SCHEMA}",
                *(f"CREATE TABLE {SCHEMA}.{table} {COLUMNS}" for table in TABLES),
            )
        yield found


class Load:
    """Inserts, updates and deletes on every node, each with keys of its own."""

    def __init__(self, nodes: dict[str, Database]) -> None:
        self.inserted: set[int] = set()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(node, number * 1_000_000))
            for number, node in enumerate(nodes.values())
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, node: Database, first: int) -> None:
        rng, key = random.Random(f"{seed()} {first}"), first
        with node.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.003):
                key += 1
                table = rng.choice(TABLES)
                cursor.execute(f"INSERT INTO {SCHEMA}.{table} VALUES ({key}, 0)")
                self.inserted.add(key)
                older = rng.randrange(first, key + 1)
                cursor.execute(f"UPDATE {SCHEMA}.{table} SET v = v + 1 WHERE id = {older}")
                if key % 7 == 0:
                    cursor.execute(f"DELETE FROM {SCHEMA}.{table} WHERE id = {older}")


def _union(nodes: dict[str, Database]) -> list[tuple[object, ...]]:
    query = " UNION ALL ".join(f"SELECT id, v FROM {SCHEMA}.{table}" for table in TABLES)
    return sorted(row for node in nodes.values() for row in node.execute(query))


def _create(capture: CaptureProcess, feed: str, sink: str) -> None:
    config = capture.folder / "shards.toml"
    config.write_text(CONFIG)
    done = capture.cli(
        *("changefeed", "create", "--upstream", "fleet", "-c", feed),
        *("--sink-uri", sink, "--config", str(config)),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_target_is_the_union(
    captures: CaptureMaker, nodes: dict[str, Database], mysql: Database, broker: Broker
) -> None:
    capture = captures()
    words = [word for name, db in nodes.items() for word in ("--node", f"{name}={db.uri()}")]
    done = capture.cli("upstream", "create", "-u", "fleet", "--kind", "shards", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    mysql.execute(f"CREATE DATABASE {TARGET}", f"CREATE TABLE {TARGET}.orders {COLUMNS}")
    topic = "fleet_orders"
    topics.create(broker.bootstrap, topic, partitions=3)
    _create(capture, "whole", f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2")
    _create(capture, "topic", f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json")
    with Load(nodes) as load:
        until(lambda: len(load.inserted) > 400, "rows")
        capture.kill()
        until(lambda: len(load.inserted) > 800, "more rows")
        capture.start()
        until(lambda: len(load.inserted) > 1200, "more rows")
    for feed in ("whole", "topic"):
        capture.wait_checkpoint(feed)
    union = _union(nodes)
    assert len(union) > 500
    assert sorted(mysql.execute(f"SELECT id, v FROM {TARGET}.orders")) == union

    partitions: dict[int, set[int]] = defaultdict(set)
    rows: dict[int, int] = {}
    inserts: list[int] = []
    for message in topics.read(broker.bootstrap, [topic]):
        if message.body["type"] == "TIDB_WATERMARK":
            continue
        assert (message.body["database"], message.body["table"]) == (TARGET, "orders")
        for row in message.body["data"]:
            key = int(row["id"])
            partitions[key].add(message.partition)
            if message.body["type"] == "DELETE":
                del rows[key]
            else:
                rows[key] = int(row["v"])
            if message.body["type"] == "INSERT":
                inserts.append(key)
    assert sorted(rows.items()) == union
    # Each row once, and all of a key in one partition.
    assert sorted(inserts) == sorted(load.inserted)
    assert {len(found) for found in partitions.values()} == {1}

    # A key that is in two shards is refused by name.
    key = max(k for k, _ in union if k < 1_000_000)
    nodes["n2"].execute(f"INSERT INTO {SCHEMA}.orders_1 VALUES ({key}, 0)")
    shown = capture.wait_state("whole", "warning", "failed")
    error = shown["error"] or shown["warning"]
    assert error["code"] == "TG:ErrShardKeyConflict"
