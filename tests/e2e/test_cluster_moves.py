"""A distributed database goes from capture to capture, and on when one is lost with its logs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.contract import Store
from cdc.coord.keys import Keys
from cdc.coord.log_begin import begin_of, needed_ts
from cdc.coord.messages import Anchor, UpstreamInfo
from cdc.coord.opening import open_store
from cdc.coord.stored import read
from sink.file.reader import messages, tables
from tests.cluster import delivered
from tests.cluster.coordinator import DistributedDatabase
from tests.e2e.moving import Moving
from tests.e2e.test_failover import captures_of
from tests.e2e.topics import Message
from tests.seeds import seed
from tests.servers import Database
from tests.servers.database import database
from tests.servers.etcd import Etcd
from tests.threads import running
from tests.waiting import until

pytestmark = pytest.mark.real


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


def _overlap(db: Database, over: threading.Event) -> None:
    """XA transactions, each prepared before the one before it ends; the last one ends, too."""
    with ExitStack() as stack:
        two = [stack.enter_context(db.connect()).cursor() for _ in range(2)]
        n = 0
        while not over.wait(0.02):
            for text in (
                f"XA START 'held-{n}'",
                f"UPDATE bank.held SET n = {n} WHERE id = {n % 2}",
                f"XA END 'held-{n}'",
                f"XA PREPARE 'held-{n}'",
            ):
                two[n % 2].execute(text)
            if n:
                two[(n - 1) % 2].execute(f"XA COMMIT 'held-{n - 1}'")
            n += 1
        if n:
            two[(n - 1) % 2].execute(f"XA COMMIT 'held-{n - 1}'")


class Begins:
    """Where the logs of an upstream could begin anew, as the store has it."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._keys = store, Keys()
        entry = store.get(self._keys.upstream_info(name))
        assert entry is not None
        self._info = read(entry, UpstreamInfo)

    def now(self) -> Sequence[Anchor]:
        """Anchors of the nodes, for what its changefeeds need now."""
        needed = needed_ts(self._store, self._keys)[self._info.name]
        begin = begin_of(self._store, self._keys, self._info, needed)
        return list(begin.nodes.values()) if begin is not None else []


def test_a_cluster_moves_and_is_taken_over(
    etcd: Etcd, nodes: list[Database], tmp_path: Path
) -> None:
    cluster = DistributedDatabase(nodes, seed(), spread=delivered.SPREAD)
    cluster.create()
    root, journal = tmp_path / "out", cluster.journal
    over = threading.Event()
    for db in nodes:
        db.execute("CREATE TABLE bank.held (id INT PRIMARY KEY, n INT)")
        db.execute("INSERT INTO bank.held VALUES (0, 0), (1, 0)")
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
        with running([partial(_overlap, db, over) for db in nodes], over):
            cluster.start(workers=3, pause_s=0.05)
            goes_on()
            behind = moving.move().data_dir / "log" / "moving"
            goes_on()
            until(lambda: not behind.exists(), "its logs there, of all nodes, are removed")
            # Something is prepared at every moment, and the nodes keep little of their binlogs.
            files = []
            for db in nodes:
                db.execute("FLUSH BINARY LOGS")
                files.append(db.execute("SHOW MASTER STATUS")[0][0])
            store_url = f"{etcd.address}/cluster-moves"
            with closing(open_store(store_url, tmp_path, SystemClock())) as store:
                begins = Begins(store, "moving")

                def later() -> bool:
                    found = begins.now()
                    pairs = zip(found, files, strict=False)
                    return len(found) == 2 and all(a.position["file"] >= f for a, f in pairs)

                until(later, "logs that begin anew need none of what is before", 60)
                assert all(anchor.prepared for anchor in begins.now())
            for db, file in zip(nodes, files, strict=True):
                db.execute(f"PURGE BINARY LOGS TO '{file}'")
            left = moving.lose()
            goes_on()
        cluster.rest()
        left.wait_checkpoint("moving-bank")
        cluster.finish()
    finally:
        cluster.end()
        for capture in moving.captures:
            capture.close()
    money = delivered.money(nodes)
    verdict = delivered.replay(cluster, _read(root))
    assert (verdict.torn, verdict.misplaced) == (0, 0)
    assert sorted(verdict.balances.items()) == money
    assert verdict.distributed == len(journal.distributed.keys() - journal.heartbeats)
