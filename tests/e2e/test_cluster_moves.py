"""A distributed database goes from capture to capture, and on when one is lost with its logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sink.file.reader import messages, tables
from tests import servers
from tests.cluster import delivered
from tests.cluster.coordinator import DistributedDatabase
from tests.e2e.moving import Moving
from tests.e2e.test_failover import captures_of
from tests.e2e.topics import Message
from tests.seeds import seed
from tests.servers import Database
from tests.servers.database import database
from tests.servers.etcd import Etcd
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with servers.etcd() as made:
        yield made


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Database]]:
    with ExitStack() as stack:
        options = ["--innodb-lock-wait-timeout=20"]
        yield [
            stack.enter_context(database("mariadb-11.4", options=[f"--server-id={n}", *options]))
            for n in (41, 42)
        ]


def _read(root: Path) -> list[Message]:
    found = [m for folder in tables(root) for m in messages(folder)] if root.exists() else []
    bodies = [json.loads(message) for message in found]
    return [Message("", 0, 0, b"", body) for body in bodies if not body["isDdl"]]


def test_a_cluster_moves_and_is_taken_over(
    etcd: Etcd, nodes: list[Database], tmp_path: Path
) -> None:
    cluster = DistributedDatabase(nodes, seed(), spread=delivered.SPREAD)
    cluster.create()
    root, journal = tmp_path / "out", cluster.journal
    moving = Moving(captures_of(etcd, tmp_path, "cluster-moves"), "moving", "moving-bank")
    first = moving.captures[0]

    def goes_on() -> None:
        """What is committed from now on is delivered."""
        seen = len(journal.distributed)
        until(lambda: len(journal.distributed) > seen + 50, "transactions")
        before = len(_read(root))
        until(lambda: len(_read(root)) > before + 100, "they are delivered", 90)

    try:
        moving.start()
        cluster.beat()
        words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
        done = first.cli(
            *("upstream", "create", "-u", "moving", "--kind", "cluster", *words),
            *("--carrier", "commit-log"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        config = tmp_path / "feed.toml"
        config.write_text('[filter]\nrules = ["*:bank.accounts_*"]\n')
        sink = f"file://{root}?protocol=canal-json&enable-tidb-extension=true&flush-interval=100ms"
        done = first.cli(
            *("changefeed", "create", "--upstream", "moving", "-c", "moving-bank"),
            *("--sink-uri", sink, "--config", str(config)),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        cluster.start(workers=3, pause_s=0.05)
        goes_on()
        behind = moving.move().data_dir / "log" / "moving"
        goes_on()
        until(lambda: not behind.exists(), "its logs there, of all nodes, are removed")
        left = moving.lose()
        goes_on()
        cluster.rest()
        left.wait_checkpoint("moving-bank")
        cluster.finish()
    finally:
        cluster.stop.set()
        cluster.silence.set()
        for capture in moving.captures:
            capture.close()
    money = delivered.money(nodes)
    verdict = delivered.replay(cluster, _read(root))
    assert (verdict.torn, verdict.misplaced) == (0, 0)
    assert sorted(verdict.balances.items()) == money
    assert verdict.distributed == len(journal.distributed.keys() - journal.heartbeats)
