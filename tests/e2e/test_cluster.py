"""A distributed database of three servers becomes one topic and one table, whoever dies."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.cluster.coordinator import ACCOUNTS, START, DistributedDatabase
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess, until
from tests.e2e.conftest import CaptureMaker
from tests.seeds import seed
from tests.servers import Broker, Database
from tests.servers.database import database

pytestmark = pytest.mark.real

NODES, SPREAD = 3, 1000
WHOLE = NODES * ACCOUNTS * START
TARGET = "bank_whole"
CONFIG = f"""
shard-mode = "pessimistic"
[filter]
rules = ["*.*"]
[[sink.dispatchers]]
matcher = ["bank.accounts_*"]
target-schema = "{TARGET}"
target-table = "accounts"
partition = "index-value"
"""
Account = tuple[int, int]  # id, balance


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Database]]:
    with ExitStack() as stack:
        options = ["--innodb-lock-wait-timeout=20"]
        yield [
            stack.enter_context(database("mariadb-11.4", options=[f"--server-id={n}", *options]))
            for n in range(31, 31 + NODES)
        ]


class Reader:
    """Adds up the target's money, again and again."""

    def __init__(self, target: Database) -> None:
        self.sums: dict[int, int] = defaultdict(int)
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        with self._target.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.01):
                cursor.execute(f"SELECT SUM(balance) FROM {TARGET}.accounts")
                self.sums[int(cursor.fetchone()[0])] += 1


def _create(capture: CaptureProcess, feed: str, sink: str) -> None:
    config = capture.folder / "cluster.toml"
    config.write_text(CONFIG)
    done = capture.cli(
        *("changefeed", "create", "--upstream", "bank", "-c", feed),
        *("--sink-uri", sink, "--config", str(config)),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _money(nodes: list[Database]) -> list[Account]:
    found = []
    for n, node in enumerate(nodes):
        found += node.execute(f"SELECT id, balance FROM bank.accounts_{n}")
    return sorted((int(str(i)), int(str(balance))) for i, balance in found)


def test_no_state_of_a_target_is_torn(
    captures: CaptureMaker, nodes: list[Database], mysql: Database, broker: Broker
) -> None:
    cluster = DistributedDatabase(nodes, seed(), spread=SPREAD)
    cluster.create()
    capture = captures()
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    cluster.beat()
    done = capture.cli(
        *("upstream", "create", "-u", "bank", "--kind", "cluster", *words),
        *("--carrier", "commit-log"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = ", ".join(f"({id}, {balance})" for id, balance in _money(nodes))
    mysql.execute(
        f"CREATE DATABASE {TARGET}",
        f"CREATE TABLE {TARGET}.accounts (id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)",
        f"INSERT INTO {TARGET}.accounts VALUES {rows}",
    )
    topic = "bank_accounts"
    topics.create(broker.bootstrap, topic, partitions=3)
    _create(
        capture,
        "topic",
        f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&enable-tidb-extension=true",
    )
    _create(capture, "table", f"mysql://root@127.0.0.1:{mysql.port}/?transaction-atomicity=global")
    journal = cluster.journal
    with Reader(mysql) as reader:
        cluster.start(workers=4, pause_s=0.05)
        until(lambda: len(journal.distributed) > 300, "transactions")
        capture.kill()
        until(lambda: len(journal.distributed) > 600, "more transactions")
        capture.start()
        seen = len(journal.distributed)
        until(lambda: len(journal.distributed) > seen + 100, "more transactions")
        cluster.rest()
        for feed in ("topic", "table"):
            capture.wait_checkpoint(feed)
    money = _money(nodes)
    assert sum(balance for _, balance in money) == WHOLE
    assert sorted(mysql.execute(f"SELECT id, balance FROM {TARGET}.accounts")) == money
    # Whoever reads the target sees states of the whole, of which there were many.
    assert set(reader.sums) == {WHOLE}
    assert reader.sums[WHOLE] > 50

    transactions: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for message in topics.read(broker.bootstrap, [topic]):
        if message.body["type"] == "TIDB_WATERMARK":
            continue
        assert message.body["type"] == "UPDATE"
        ts = message.body["_tidb"]["commitTs"]
        for new, old in zip(message.body["data"], message.body["old"], strict=True):
            transactions[ts].append((int(new["id"]), int(old["balance"]), int(new["balance"])))
    balances = dict.fromkeys((id for id, _ in money), START)
    several = 0
    for ts in sorted(transactions):
        moved = transactions[ts]
        several += len({id // SPREAD for id, _, _ in moved}) > 1
        for id, before, after in moved:
            # Neither lost, nor twice, nor in another order.
            assert balances[id] == before
            balances[id] = after
        assert sum(balances.values()) == WHOLE
    assert sorted(balances.items()) == money
    assert several == len(journal.distributed.keys() - journal.heartbeats)

    shown = capture.ask("GET", "/upstreams/bank")
    assert (shown["kind"], shown["carrier"], shown["state"]) == ("cluster", "commit-log", "running")
    cluster.finish()
    nodes[1].stop()
    until(lambda: capture.ask("GET", "/upstreams/bank")["waits_for"] == "n2", "it says who")
    nodes[1].start()
    until(lambda: not capture.ask("GET", "/upstreams/bank")["waits_for"], "it goes on")
