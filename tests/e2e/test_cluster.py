"""A distributed database of three servers becomes one topic and one table, whoever dies."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from cdc.base.vtso import VTso
from cdc.logical.names import MARKED
from tests.cluster import delivered
from tests.cluster.coordinator import DistributedDatabase
from tests.cluster.sharded import PARTS, PATTERN, ShardedDatabase
from tests.e2e import topics
from tests.e2e.capture_process import SETTINGS, CaptureProcess
from tests.e2e.conftest import CaptureMaker
from tests.seeds import one_run_in, seed
from tests.servers import Broker, Database
from tests.servers.database import database
from tests.sink_binlog.replay import files_of, replay
from tests.waiting import until

pytestmark = pytest.mark.real

NODES = 3


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[Database]]:
    with ExitStack() as stack:
        options = ["--innodb-lock-wait-timeout=20"]
        yield [
            stack.enter_context(database("mariadb-11.4", options=[f"--server-id={n}", *options]))
            for n in range(31, 31 + NODES)
        ]


@pytest.fixture
def of_nodes(nodes: list[Database]) -> Iterator[Callable[..., DistributedDatabase]]:
    """Return what makes a distributed database of the nodes, whose load ends with the test."""
    with ExitStack() as stack:

        def make(**how: Any) -> DistributedDatabase:
            made = DistributedDatabase(nodes, seed(), **how)
            stack.callback(made.end)
            return made

        yield make


# A database that the target does not have yet.
COPY = "bank_copy"
COPIED = f"{delivered.CONFIG.replace(delivered.TARGET, COPY)}[snapshot]\ncreate-tables = true\n"


def _create(
    capture: CaptureProcess, feed: str, sink: str, *more: str, text: str = delivered.CONFIG
) -> None:
    config = capture.folder / "cluster.toml"
    config.write_text(text)
    done = capture.cli(
        *("changefeed", "create", "--upstream", "bank", "-c", feed),
        *("--sink-uri", sink, "--config", str(config), *more),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_state_of_a_target_is_torn(
    captures: CaptureMaker,
    nodes: list[Database],
    of_nodes: Callable[..., DistributedDatabase],
    mysql: Database,
    broker: Broker,
) -> None:
    cluster = of_nodes(spread=delivered.SPREAD)
    cluster.create()
    capture = captures(settings=f"{SETTINGS}[changelog]\nanchor-s = 0.5\n")
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    cluster.beat()
    done = capture.cli(
        *("upstream", "create", "-u", "bank", "--kind", "cluster", *words),
        *("--carrier", "commit-log"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    delivered.make_target(mysql, delivered.money(nodes))
    topic = "bank_accounts"
    topics.create(broker.bootstrap, topic, partitions=3)
    _create(
        capture,
        "bank-topic",
        f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&enable-tidb-extension=true",
    )
    began, files = delivered.money(nodes), capture.folder / "binlogs"
    _create(capture, "bank-files", f"binlog://{files}")
    _create(
        capture, "bank-table", f"mysql://root@127.0.0.1:{mysql.port}/?transaction-atomicity=global"
    )
    journal = cluster.journal
    with delivered.Reader(mysql) as reader:
        cluster.start(workers=4, pause_s=0.05)
        until(lambda: len(journal.distributed) > 300, "transactions")
        capture.kill()
        # And its logs are lost: those of the nodes, and the order that was written over them.
        shutil.rmtree(capture.data_dir / "log" / "bank")
        until(lambda: len(journal.distributed) > 600, "more transactions")
        capture.start()
        anew = "upstream bank: its log is made anew"
        until(lambda: anew in capture.text(), "its log is made anew")
        # What is copied while money moves between nodes is as torn as its reading, and mended.
        sink = f"mysql://root@127.0.0.1:{mysql.port}/"
        _create(capture, "bank-copy", sink, "--snapshot", "initial", text=COPIED)
        seen = len(journal.distributed)
        until(lambda: len(journal.distributed) > seen + 100, "more transactions")
        cluster.rest()
        for feed in ("bank-topic", "bank-table", "bank-files", "bank-copy"):
            capture.wait_checkpoint(feed)
        # It begins where nothing more was committed, and Spark may only be starting.
        until(
            lambda: (_copied(capture, "bank-copy") or {}).get("state") == "delivered",
            "all rows are there",
        )
        # Nothing is written to the journal while it is read.
        cluster.finish()
    money = delivered.money(nodes)
    whole = delivered.whole(NODES)
    assert sum(balance for _, balance in money) == whole
    for schema in (delivered.TARGET, COPY):
        assert sorted(mysql.execute(f"SELECT id, balance FROM {schema}.accounts")) == money
    # Whoever reads the target sees states of the whole, of which there were many.
    assert set(reader.sums) == {whole}
    assert reader.sums[whole] > 50

    messages = topics.read(broker.bootstrap, [topic])
    rows = [m.body for m in messages if m.body["type"] == "UPDATE"]
    # Each row says what the coordinator calls its transaction, in its order.
    place = {VTso.parse(row["_tidegate"]["vtso"]): row["_tidb"]["commitTs"] for row in rows}
    assert [place[name] for name in sorted(place)] == sorted(set(place.values()))
    for row in rows:
        name = VTso.parse(row["_tidegate"]["vtso"])
        nodes_of = journal.distributed[name.transaction][1] if not name.sequence else [name.node]
        assert row["_tidegate"]["branches"] == len(nodes_of)
    verdict = delivered.replay(cluster, messages)
    assert (verdict.torn, verdict.misplaced) == (0, 0)
    assert sorted(verdict.balances.items()) == money
    assert verdict.distributed == len(journal.distributed.keys() - journal.heartbeats)

    # Its binlog is that of one server, with the coordinator's name of each transaction.
    listed = files_of(files)
    named = re.findall(rb"# CTS::(\d{54})", b"".join(file.read_bytes() for file in listed))
    assert all(a < b for a, b in pairwise(named))
    places = [VTso.parse(name.decode()) for name in named]
    assert {p.transaction: p.tso for p in places if not p.sequence} == {
        transaction: tso
        for transaction, (tso, _) in journal.distributed.items()
        if transaction not in journal.heartbeats
    }
    with database("mariadb-11.4") as other:
        delivered.make_target(other, began)
        replay(other, listed)
        assert (
            sorted(other.execute(f"SELECT id, balance FROM {delivered.TARGET}.accounts")) == money
        )

    shown = capture.ask("GET", "/upstreams/bank")
    assert (shown["kind"], shown["carrier"], shown["state"]) == ("cluster", "commit-log", "running")
    nodes[1].stop()
    until(lambda: capture.ask("GET", "/upstreams/bank")["waits_for"] == "n2", "it says who")
    nodes[1].start()
    until(lambda: not capture.ask("GET", "/upstreams/bank")["waits_for"], "it goes on")


def test_parts_of_a_logical_table_are_one_table_and_change_once(
    captures: CaptureMaker,
    nodes: list[Database],
    of_nodes: Callable[..., DistributedDatabase],
    mysql: Database,
) -> None:
    cluster = of_nodes()
    cluster.create()
    sharded = ShardedDatabase(cluster, seed())
    columns = "id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7"
    sharded.over_parts("orders", f"CREATE TABLE {{part}} ({columns})")
    capture = captures()
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    cluster.beat()
    done = capture.cli(
        *("upstream", "create", "-u", "mall", "--kind", "cluster", *words),
        *("--carrier", "commit-log", "--logical-tables", PATTERN),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    mysql.execute("DROP DATABASE IF EXISTS mall", "CREATE DATABASE mall")
    mysql.execute(f"CREATE TABLE mall.orders ({columns})")
    config = capture.folder / "mall.toml"
    config.write_text('[filter]\nrules = ["mall.*"]\n')
    create = (
        *("changefeed", "create", "--upstream", "mall", "-c", "mall-table"),
        *("--sink-uri", f"mysql://root@127.0.0.1:{mysql.port}/", "--config", str(config)),
    )
    done = capture.cli(*create)
    assert done.returncode == 0, done.stdout + done.stderr
    with sharded.writing("orders", ["a", "b"], pause_s=0.05):
        sharded.change("orders", "ALTER TABLE orders ADD COLUMN c BIGINT", "", 0.1)
        sharded.shows(["a", "c"])
        sharded.change("orders", "ALTER TABLE orders DROP COLUMN b", "", 0.1)
    cluster.rest()
    capture.wait_checkpoint("mall-table")
    cluster.finish()
    wanted = sharded.rows("orders", "*")
    assert len(wanted) > 20
    assert sorted(mysql.execute("SELECT * FROM mall.orders"), key=repr) == wanted


COLUMNS = "id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7"
EVERYWHERE = "broadcast:{schema}_#.{table}"
LOGICAL = """
[filter]
rules = ["mall.*"]
[snapshot]
create-tables = true
chunk-rows = 400
max-rows-per-second = 4000
"""


@one_run_in(2)
def test_rows_of_parts_are_copied_while_parts_change(
    captures: CaptureMaker,
    nodes: list[Database],
    of_nodes: Callable[..., DistributedDatabase],
    mysql: Database,
    broker: Broker,
) -> None:
    """They come in the definition of the logical table, once, and so does what all parts have."""
    cluster = of_nodes()
    cluster.create()
    sharded = ShardedDatabase(cluster, seed())
    sharded.over_parts("orders", f"CREATE TABLE {{part}} ({COLUMNS})")
    sharded.over_parts("items", "CREATE TABLE {part} (id INT PRIMARY KEY, a DECIMAL(10,2))")
    for part in range(PARTS):
        # Of ids that no writer takes, each in the part that has it.
        ids = f"-{PARTS} * (CAST(seq AS SIGNED) + 1) - {PARTS - part}"
        cluster.nodes[sharded.node(part)].execute(
            f"USE mall_{part:06d}",
            f"INSERT INTO {sharded.part('orders', part)} SELECT {ids}, seq, 1 FROM seq_1_to_3000",
            f"INSERT INTO {sharded.part('items', part)} VALUES ({part}, {part}.25)",
            "CREATE TABLE regions (id INT PRIMARY KEY, name TEXT)",
            "INSERT INTO regions VALUES (1, 'north'), (2, 'south')",
        )
    capture = captures()
    words = [w for n, db in enumerate(nodes, 1) for w in ("--node", f"n{n}={db.uri()}")]
    cluster.beat()
    done = capture.cli(
        *("upstream", "create", "-u", "mall", "--kind", "cluster", *words),
        *("--carrier", "commit-log"),
        *("--logical-tables", MARKED + PATTERN, "--logical-tables", EVERYWHERE),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    mysql.execute("DROP DATABASE IF EXISTS mall")
    config = capture.folder / "mall.toml"
    config.write_text(LOGICAL)
    # All parts have it, and the table does not yet.
    sharded.over_parts("items", "ALTER TABLE {part} MODIFY a DECIMAL(10,0)")
    with sharded.writing("orders", ["a", "b"], pause_s=0.05):
        done = capture.cli(
            *("changefeed", "create", "--upstream", "mall", "-c", "mall-copy"),
            *("--sink-uri", f"mysql://root@127.0.0.1:{mysql.port}/", "--config", str(config)),
            *("--snapshot", "initial"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: (_copied(capture) or {}).get("rows", 0) > 1000, "rows are read")
        # Not all parts have it while others are read, and none of what was read counts then.
        sharded.change("orders", "ALTER TABLE orders ADD COLUMN c BIGINT DEFAULT 5", "", 0.3)
        sharded.shows(["a", "b", "c"])
        # Its rows are on two nodes for a while, and are copied once.
        move = "ALTER TABLEGROUP tg1 MOVE PARTITIONS p1 TO 'dn-1'"
        sharded.move("orders", 0, 1, "mall_000100.orders_00", move, 1.0)
        until(lambda: "wait for a schema change of parts" in capture.text(), "items wait")
        assert not (_copied(capture) or {})["ended"]
        sharded.mark("items", "ALTER TABLE items MODIFY a DECIMAL(10,0)")
        until(lambda: (_copied(capture) or {}).get("ended"), "all rows are read", 60)
        sharded.shows(["a", "c"])
        sharded.change("orders", "ALTER TABLE orders DROP COLUMN b", "", 0.1)
        # It is compared behind that change, though it may not have come to the target yet.
        assert _verified(capture, "mall-copy") == (0, "")
        topics.create(broker.bootstrap, "mall_orders", partitions=2)
        config.write_text(LOGICAL.replace("create-tables = true\n", ""))
        done = capture.cli(
            *("changefeed", "create", "--upstream", "mall", "-c", "mall-topic"),
            *("--sink-uri", f"kafka://{broker.bootstrap}/mall_orders?protocol=canal-json"),
            *("--config", str(config), "--snapshot", "initial"),
        )
        assert done.returncode == 0, done.stdout + done.stderr
    cluster.rest()
    for feed in ("mall-copy", "mall-topic"):
        capture.wait_checkpoint(feed)
    rows = sharded.rows("orders", "*")
    assert len(rows) > 12_000
    assert sorted(mysql.execute("SELECT * FROM mall.orders"), key=repr) == rows
    assert sorted(mysql.execute("SELECT * FROM mall.items")) == sharded.rows("items", "*")
    assert mysql.execute("SELECT * FROM mall.regions ORDER BY id") == [(1, "north"), (2, "south")]
    # A row of a part that the target has lost, one that it has otherwise, and one of nobody.
    (gone,), (other,) = rows[0][:1], rows[-1][:1]
    mysql.execute(
        f"DELETE FROM mall.orders WHERE id = {gone}",
        f"UPDATE mall.orders SET a = -7 WHERE id = {other}",
        "INSERT INTO mall.orders VALUES (0, 0, 0)",
        "DELETE FROM mall.regions WHERE id = 2",
    )
    code, said = _verified(capture, "mall-copy")
    assert code == 1
    different = re.findall(r"(mall\.\w+) +different +\d+ +\d+ +(\d+)", said)
    assert different == [("mall.orders", "3"), ("mall.regions", "1")]
    done = capture.cli("changefeed", "verify", "-c", "mall-copy", "--repair", "--yes")
    assert done.returncode == 1
    until(lambda: _verified(capture, "mall-copy") == (0, ""), "it is repaired")
    assert sorted(mysql.execute("SELECT * FROM mall.orders"), key=repr) == rows
    assert _verified(capture, "mall-topic", "--whole") == (0, "")
    # One that a server has changed without a word is found in the topic, too.
    cluster.nodes[sharded.node(1, "orders")].execute(
        "SET SESSION sql_log_bin = 0", f"DELETE FROM {sharded.part('orders', 1)} LIMIT 1"
    )
    code, said = _verified(capture, "mall-topic", "--whole")
    assert code == 1
    assert "mall.orders" in said
    cluster.finish()


def _verified(capture: CaptureProcess, feed: str, *more: str) -> tuple[int, str]:
    """Its exit code, and what it says where that is not 0."""
    done = capture.cli("changefeed", "verify", "-c", feed, *more)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, (done.stdout + done.stderr) if done.returncode else ""


def _copied(capture: CaptureProcess, feed: str = "mall-copy") -> dict[str, Any] | None:
    found: dict[str, Any] | None = capture.ask("GET", f"/changefeeds/{feed}")["snapshot"]
    return found
