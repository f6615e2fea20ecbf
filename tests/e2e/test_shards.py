"""Two servers with two tables each become one table of a database and one topic, whoever dies."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.shard_load import ShardLoad
from tests.servers import Broker, Database
from tests.servers.database import database
from tests.waiting import until

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

APART = f"""
shard-mode = "pessimistic"
[filter]
rules = ["{SCHEMA}.orders_*"]
[[sink.dispatchers]]
matcher = ["{SCHEMA}.orders_*"]
target-schema = "{TARGET}"
target-table = "apart"
extract-table = {{ table-regexp = "_(.)$", target-column = "c_table" }}
extract-source = {{ source-regexp = "n(.)", target-column = "c_source" }}
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


@pytest.fixture(scope="module")
def fleet(capture: CaptureProcess, nodes: dict[str, Database]) -> CaptureProcess:
    """Return the capture, which knows the nodes as one upstream."""
    words = [word for name, db in nodes.items() for word in ("--node", f"{name}={db.uri()}")]
    done = capture.cli("upstream", "create", "-u", "fleet", "--kind", "shards", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return capture


def _union(nodes: dict[str, Database], tables: Sequence[str] = TABLES) -> list[tuple[object, ...]]:
    query = " UNION ALL ".join(f"SELECT id, v FROM {SCHEMA}.{table}" for table in tables)
    return sorted(row for node in nodes.values() for row in node.execute(query))


def _create(
    capture: CaptureProcess,
    feed: str,
    sink: str,
    config_text: str = CONFIG,
    *more: str,
    upstream: str = "fleet",
) -> None:
    config = capture.folder / "shards.toml"
    config.write_text(config_text)
    done = capture.cli(
        *("changefeed", "create", "--upstream", upstream, "-c", feed),
        *("--sink-uri", sink, "--config", str(config), *more),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_target_is_the_union(
    fleet: CaptureProcess, nodes: dict[str, Database], mysql: Database, broker: Broker
) -> None:
    capture = fleet
    mysql.execute(f"CREATE DATABASE {TARGET}", f"CREATE TABLE {TARGET}.orders {COLUMNS}")
    topic = "fleet_orders"
    topics.create(broker.bootstrap, topic, partitions=3)
    _create(capture, "whole", f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2")
    _create(capture, "topic", f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json")
    with ShardLoad(nodes, SCHEMA, TABLES) as load:
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
    for feed in ("whole", "topic"):
        done = capture.cli(
            "changefeed", "verify", "-c", feed, *(["--whole"] if feed == "topic" else [])
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{TARGET}.orders" in done.stdout
    gone = next(iter(rows))
    mysql.execute(f"DELETE FROM {TARGET}.orders WHERE id = {gone}")
    done = capture.cli("changefeed", "verify", "-c", "whole")
    assert done.returncode == 1
    assert f"(id='{gone}'): is missing at the target" in done.stdout
    # Each row once, and all of a key in one partition.
    assert sorted(inserts) == sorted(load.inserted)
    assert {len(found) for found in partitions.values()} == {1}

    # A key that is in two shards is refused by name.
    key = max(k for k, _ in union if k < 1_000_000)
    nodes["n2"].execute(f"INSERT INTO {SCHEMA}.orders_1 VALUES ({key}, 0)")
    shown = capture.wait_state("whole", "warning", "failed")
    error = shown["error"] or shown["warning"]
    assert error["code"] == "TG:ErrShardKeyConflict"

    # Where columns say of which table a row is, it is another row.
    mysql.execute(
        f"CREATE TABLE {TARGET}.apart (id BIGINT, v INT NOT NULL, c_table VARCHAR(9),"
        " c_source VARCHAR(9), PRIMARY KEY (id, c_source, c_table))"
    )
    start = str(capture.feed("whole")["start_ts"])
    apart_topic = "fleet_apart"
    sinks = {
        "apart": f"mysql://root@127.0.0.1:{mysql.port}/",
        "apart-topic": f"kafka://{broker.bootstrap}/{apart_topic}?protocol=canal-json",
    }
    for feed, sink in sinks.items():
        _create(capture, feed, sink, APART, "--start-ts", start)
    # It is a row of its own, whatever comes of either.
    nodes["n2"].execute(f"UPDATE {SCHEMA}.orders_1 SET v = -1 WHERE id = {key}")
    gone = min(k for k, _ in union)
    nodes["n2"].execute(
        f"INSERT IGNORE INTO {SCHEMA}.orders_2 VALUES ({gone}, 0)",
        f"DELETE FROM {SCHEMA}.orders_2 WHERE id = {gone}",
    )
    for feed in sinks:
        capture.wait_checkpoint(feed)
    rows_of = {
        (*row, table[-1], node[-1])
        for node, server in nodes.items()
        for table in TABLES
        for row in server.execute(f"SELECT id, v FROM {SCHEMA}.{table}")
    }
    assert len({row[0] for row in rows_of}) < len(rows_of), "a key is in two tables"
    found = mysql.execute(f"SELECT id, v, c_table, c_source FROM {TARGET}.apart")
    assert (len(found), set(found)) == (len(rows_of), rows_of)
    # As a consumer that knows no more than what its messages say of their key.
    folded: dict[tuple[str, ...], dict[str, str]] = {}
    for message in topics.read(broker.bootstrap, [apart_topic]):
        for row in message.body["data"] or ():
            names = message.body["pkNames"]
            assert names == ["id", "c_table", "c_source"]
            folded[tuple(row[name] for name in names)] = row
            if message.body["type"] == "DELETE":
                del folded[tuple(row[name] for name in names)]
    assert {
        (int(r["id"]), int(r["v"]), r["c_table"], r["c_source"]) for r in folded.values()
    } == rows_of
    for feed, more in (("apart", []), ("apart-topic", ["--whole"])):
        done = capture.cli("changefeed", "verify", "-c", feed, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("equal") >= (4 if feed == "apart" else 1)
    _delete_in(broker, apart_topic, key)
    done = capture.cli("changefeed", "verify", "-c", "apart-topic", "--whole")
    assert done.returncode == 1
    assert f"(id='{key}', c_table='1', c_source='2'): is missing" in done.stdout


def _copied_again(capture: CaptureProcess, feed: str) -> None:
    """Order the rows of all tables, and wait until they are delivered."""
    words = ("-c", feed, "--tables", f"{SCHEMA}.orders_*", "--json")
    done = capture.cli("snapshot", "start", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    place = f"/changefeeds/{feed}/snapshots/{json.loads(done.stdout)['id']}"

    def ended() -> bool:
        shown = capture.ask("GET", place)
        assert shown["state"] != "failed", shown
        return shown["state"] == "delivered"

    until(ended, "the rows are delivered", 120)


def test_rows_of_shards_are_delivered_again(
    fleet: CaptureProcess, nodes: dict[str, Database], mysql: Database, broker: Broker
) -> None:
    capture, topic = fleet, "fleet_again"
    for i, (node, table) in enumerate(product(NODES, TABLES)):
        rows = ", ".join(f"({100 * i + j}, {j})" for j in range(10))
        nodes[node].execute(
            f"DELETE FROM {SCHEMA}.{table}", f"INSERT INTO {SCHEMA}.{table} VALUES {rows}"
        )
    mysql.execute(
        f"CREATE DATABASE IF NOT EXISTS {TARGET}", f"CREATE TABLE {TARGET}.again {COLUMNS}"
    )
    sink = f"mysql://root@127.0.0.1:{mysql.port}/"
    config = CONFIG.replace('"orders"', '"again"')
    kafka = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json"
    _create(capture, "again-topic", kafka, config, "--snapshot", "initial")
    _create(capture, "again", sink, config, "--snapshot", "initial")
    for feed in ("again", "again-topic"):
        capture.wait_checkpoint(feed)
    query, union = f"SELECT id, v FROM {TARGET}.again ORDER BY id", _union(nodes)
    assert len(union) == 40
    assert list(mysql.execute(query)) == union

    mysql.execute(
        f"DELETE FROM {TARGET}.again WHERE id IN (3, 305)",
        f"UPDATE {TARGET}.again SET v = -1 WHERE id = 207",
    )
    done = capture.cli("snapshot", "start", "-c", "again", "--tables", f"{SCHEMA}.orders_*")
    assert done.returncode == 1
    assert "TG:ErrSnapshotNotPossible" in done.stdout + done.stderr
    assert "safe-mode=true" in done.stdout + done.stderr
    capture.ask("POST", "/changefeeds/again/pause")
    capture.ask("PUT", "/changefeeds/again", {"sink_uri": f"{sink}?safe-mode=true"})
    capture.ask("POST", "/changefeeds/again/resume")
    for feed in ("again", "again-topic"):
        _copied_again(capture, feed)
    assert list(mysql.execute(query)) == union
    # What comes then is as exact as before.
    nodes["n1"].execute(f"UPDATE {SCHEMA}.orders_1 SET v = 77 WHERE id = 3")
    nodes["n2"].execute(f"DELETE FROM {SCHEMA}.orders_2 WHERE id = 305")
    for feed in ("again", "again-topic"):
        capture.wait_checkpoint(feed)
        words = ("-c", feed, *(["--whole"] if feed == "again-topic" else []))
        done = capture.cli("changefeed", "verify", *words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert list(mysql.execute(query)) == _union(nodes)
    inserted: list[int] = []
    for message in topics.read(broker.bootstrap, [topic]):
        if message.body["type"] == "INSERT":
            inserted += [int(row["id"]) for row in message.body["data"]]
    assert sorted(inserted) == sorted(2 * [key for key, _ in union])


def _delete_in(broker: Broker, topic: str, key: int) -> None:
    """Send the last message of a key in n2's orders_1 once more, as a DELETE."""
    given = {"id": str(key), "c_table": "1", "c_source": "2"}
    *_, last = (
        m
        for m in topics.read(broker.bootstrap, [topic])
        if any(row.items() >= given.items() for row in m.body["data"] or ())
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    body = last.body | {"type": "DELETE", "old": None}
    producer.produce(topic, json.dumps(body).encode(), partition=last.partition)
    assert producer.flush(30) == 0


CRATES = ("crates_1", "crates_2")


def _node(capture: CaptureProcess, verb: str, *words: str) -> None:
    """Have a node come or go."""
    done = capture.cli("upstream", "node", verb, "-u", "growing", *words)
    assert done.returncode == 0, done.stdout + done.stderr


def _refused(capture: CaptureProcess, name: str, uri: str = "") -> str:
    """Return why a node is not added, or without a URI not removed."""
    path, asked = "/upstreams/growing/nodes", {"name": name, "uri": uri}
    how = ("POST", path, asked) if uri else ("DELETE", f"{path}/{name}")
    answer = capture.api(*how)
    assert answer.status_code == 400
    return answer.text


def _members(capture: CaptureProcess) -> list[str]:
    """Return the nodes whose rows are merged."""
    return sorted(capture.ask("GET", "/upstreams/growing")["position"].get("nodes", {}))


def test_nodes_come_and_go_while_it_runs(
    capture: CaptureProcess, nodes: dict[str, Database], mysql: Database
) -> None:
    target, n1, n2 = "fleet_grown", nodes["n1"], nodes["n2"]
    for node in nodes.values():
        node.execute(*(f"CREATE TABLE {SCHEMA}.{table} {COLUMNS}" for table in CRATES))
    # The target does not have this one, though its database.
    n2.execute(f"CREATE TABLE {SCHEMA}.lids {COLUMNS}")
    mysql.execute(
        *(f"CREATE DATABASE {name}" for name in (target, SCHEMA)),
        f"CREATE TABLE {target}.crates {COLUMNS}",
    )
    mysql.execute("FLUSH BINARY LOGS")
    done = capture.cli(
        "upstream", "create", "-u", "growing", "--kind", "shards", "--node", f"n1={n1.uri()}"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    config = CONFIG.replace("orders", "crates").replace(TARGET, target)
    config = config.replace('rules = ["', f'rules = ["{SCHEMA}.lids", "')
    sink = f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2"
    _create(capture, "grown", sink, config, upstream="growing")

    with ShardLoad({"n1": n1}, SCHEMA, CRATES) as first:
        until(lambda: len(first.inserted) > 50, "rows of the first node")
        assert "the last" in _refused(capture, "n1")
        assert "are one server" in _refused(capture, "n3", n1.uri())
        _node(capture, "add", "--node", "n2", "--uri", n2.uri())
        with ShardLoad({"n2": n2}, SCHEMA, CRATES, first=5_000_000) as second:
            until(lambda: len(second.inserted) > 50, "rows of the second node")
            capture.kill()
            capture.start()
            until(lambda: _members(capture) == ["n1", "n2"], "both are merged", 120)
            # A change of all waits for the new node's tables.
            for node in nodes.values():
                for table in CRATES:
                    node.execute(f"ALTER TABLE {SCHEMA}.{table} ADD w INT NOT NULL DEFAULT 7")
            until(lambda: len(_altered(mysql, "crates")) == 1, "the change of all", 120)
    capture.wait_checkpoint("grown", timeout_s=120)
    _node(capture, "remove", "--node", "n1")
    with ShardLoad({"n2": n2}, SCHEMA, CRATES, first=8_000_000) as third:
        until(lambda: _members(capture) == ["n2"], "the first has left", 120)
        # What it has now is nobody's, and nobody waits for it.
        n1.execute(f"INSERT INTO {SCHEMA}.crates_1 (id, v) VALUES (77777777, 1)")
        for table in CRATES:
            n2.execute(f"ALTER TABLE {SCHEMA}.{table} ADD x INT NOT NULL DEFAULT 8")
        n2.execute(f"INSERT INTO {SCHEMA}.lids VALUES (1, 2)")
        until(lambda: len(_altered(mysql, "crates")) == 2, "the change of those that are left", 120)
        until(lambda: len(third.inserted) > 50, "rows behind it")
    capture.wait_checkpoint("grown", timeout_s=120)
    until(
        lambda: [n["name"] for n in capture.ask("GET", "/upstreams/growing")["nodes"]] == ["n2"],
        "it is forgotten",
        120,
    )
    assert "has been of it" in _refused(capture, "n1", n1.uri())
    union = [row for row in _union(nodes, CRATES) if row[0] != 77777777]
    assert len(union) > 150
    assert sorted(mysql.execute(f"SELECT id, v FROM {target}.crates")) == union
    assert mysql.execute(f"SELECT * FROM {SCHEMA}.lids") == [(1, 2)]
    capture.wait_state("grown", "normal")


PARCELS = ("parcels_1", "parcels_2")


def _ddls(capture: CaptureProcess, feed: str) -> list[Any]:
    done = capture.cli("ddl", "list", "-c", feed, "--all", "--json")
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def _waits(capture: CaptureProcess) -> tuple[int, list[str]]:
    """Return how many tables have come to a change, and which are missing."""
    groups = capture.ask("GET", "/changefeeds/sent/shard-ddls")["items"]
    return next(((sum(c["came"] for c in g["changes"]), g["missing"]) for g in groups), (0, []))


def _altered(target: Database, table: str) -> list[str]:
    """Return what has altered a table since the last flush, by the server's own binlog."""
    name = target.execute("SHOW BINARY LOGS")[-1][0]
    events = target.execute(f"SHOW BINLOG EVENTS IN '{name}'")
    statements = (str(event[-1]) for event in events if event[2] == "Query")
    return [s for s in statements if "ALTER TABLE" in s and f"`{table}`" in s]


def test_a_change_of_all_shards_is_carried_out_once(
    fleet: CaptureProcess, nodes: dict[str, Database], mysql: Database, broker: Broker
) -> None:
    capture, topic, target = fleet, "fleet_parcels", "fleet_sent"
    for node in nodes.values():
        node.execute(*(f"CREATE TABLE {SCHEMA}.{table} {COLUMNS}" for table in PARCELS))
    mysql.execute(f"CREATE DATABASE {target}", f"CREATE TABLE {target}.parcels {COLUMNS}")
    mysql.execute("FLUSH BINARY LOGS")
    topics.create(broker.bootstrap, topic, partitions=2)
    config = CONFIG.replace("orders", "parcels").replace(TARGET, target)
    sink = f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2"
    _create(capture, "sent", sink, config)
    kafka = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json"
    _create(capture, "sent-topic", kafka, config)

    def change(node: str, table: str, sql: str) -> None:
        count = len(load.inserted)
        nodes[node].execute(f"{sql.format(table)}", database=SCHEMA)
        until(lambda: len(load.inserted) > count + 30, "rows behind a change")

    with ShardLoad(nodes, SCHEMA, PARCELS) as load:
        until(lambda: len(load.inserted) > 100, "rows")
        change("n2", "parcels_1", "ALTER TABLE {} ADD COLUMN w INT NOT NULL DEFAULT 7")
        # One is two changes ahead.
        change("n2", "parcels_1", "ALTER TABLE {} MODIFY v BIGINT NOT NULL, ADD KEY (w)")
        change("n1", "parcels_2", "alter table {} add `w` int(11) default 7 not null")
        capture.kill()
        change("n2", "parcels_2", "ALTER TABLE fleet.{} ADD (w INTEGER NOT NULL DEFAULT '7')")
        change("n2", "parcels_2", "ALTER TABLE {} MODIFY v BIGINT NOT NULL, ADD KEY (w)")
        capture.start()
        late = "n1:fleet .parcels_1"
        until(lambda: _waits(capture) == (3, [late]), "changes that wait")
        assert not _altered(mysql, "parcels")
        # Other options count when the group has come through, and hold none of its tables.
        wider = {"sink_uri": sink.replace("worker-count=2", "worker-count=3")}
        assert capture.ask("PUT", "/changefeeds/sent", wider)["change"]["ts"] == 0
        change("n1", "parcels_1", "ALTER TABLE {} ADD COLUMN w INT NOT NULL DEFAULT 7")
        until(lambda: len(_altered(mysql, "parcels")) == 1, "the first change")
        change("n1", "parcels_1", "ALTER TABLE {} MODIFY v BIGINT NOT NULL, ADD KEY (w)")
        change("n1", "parcels_2", "ALTER TABLE {} MODIFY v BIGINT NOT NULL, ADD KEY (w)")
        for number, node in enumerate(nodes.values()):
            first = 5_000_000 * (number + 1)
            rows = (f"({first + i}, 9000000000, {i})" for i in range(10))
            node.execute(f"INSERT INTO {SCHEMA}.parcels_1 VALUES {', '.join(rows)}")
        until(lambda: capture.feed("sent")["change"] is None, "the options count")
        assert capture.feed("sent")["sink_uri"] == wider["sink_uri"]
    for feed in ("sent", "sent-topic"):
        capture.wait_checkpoint(feed)
    query = " UNION ALL ".join(f"SELECT id, v, w FROM {SCHEMA}.{table}" for table in PARCELS)
    union = sorted(row for node in nodes.values() for row in node.execute(query))
    assert sorted(mysql.execute(f"SELECT id, v, w FROM {target}.parcels")) == union
    assert len(_altered(mysql, "parcels")) == 2
    page = capture.ask("GET", "/changefeeds/sent/ddls?state=all")
    assert (page["executed"], [d["state"] for d in page["items"]]) == (2, ["done"] * 8)

    rows_of: dict[int, tuple[int, int]] = {}
    width: dict[int, int] = defaultdict(int)
    for message in topics.read(broker.bootstrap, [topic]):
        if message.body["type"] == "TIDB_WATERMARK":
            continue
        if message.body["isDdl"]:
            assert message.body["table"] == "parcels"
            width[message.partition] += 1
            continue
        for row in message.body["data"]:
            # No row crosses the change, in any partition.
            assert ("w" in row) == (width[message.partition] > 0)
            key = int(row["id"])
            if message.body["type"] == "DELETE":
                del rows_of[key]
            else:
                rows_of[key] = int(row["v"]), int(row.get("w", 7))
    assert width == {0: 2, 1: 2}
    assert sorted((key, *row) for key, row in rows_of.items()) == union

    # Changes that differ stop those that differ from the first, until somebody says what is meant.
    nodes["n1"].execute(f"ALTER TABLE {SCHEMA}.parcels_1 ADD x INT DEFAULT 0")
    nodes["n2"].execute(f"ALTER TABLE {SCHEMA}.parcels_2 ADD x INT DEFAULT 1")
    shown = capture.wait_state("sent", "warning")
    error = shown["error"] or shown["warning"]
    assert error["code"] == "TG:ErrShardDDLConflict"
    assert "DEFAULT 0" in error["message"]
    assert "DEFAULT 1" in error["message"]
    waiting = {d["state"]: d for d in _ddls(capture, "sent") if d["state"] in ("held", "waiting")}
    # Whichever came first by the servers' clocks is the group's.
    meant = "DEFAULT 0" if "DEFAULT 0" in waiting["waiting"]["sql"] else "DEFAULT 1"
    done = capture.cli("ddl", "approve", "-c", "sent", "--ts", str(waiting["held"]["ts"]))
    assert done.returncode == 0, done.stderr
    nodes["n1"].execute(f"ALTER TABLE {SCHEMA}.parcels_2 ADD x INT {meant}")
    nodes["n2"].execute(f"ALTER TABLE {SCHEMA}.parcels_1 ADD x INT {meant}")
    capture.wait_state("sent", "normal")
    capture.wait_checkpoint("sent")
    assert len(_altered(mysql, "parcels")) == 3
    assert meant in _altered(mysql, "parcels")[-1]


PALLETS = ("pallets_1", "pallets_2")


def test_rows_that_were_there_are_copied_from_all_nodes(
    fleet: CaptureProcess, nodes: dict[str, Database], mysql: Database
) -> None:
    capture, target, count = fleet, "fleet_stored", 4000
    for number, node in enumerate(nodes.values(), 1):
        node.execute(*(f"CREATE TABLE {SCHEMA}.{table} {COLUMNS}" for table in PALLETS))
        for n, table in enumerate(PALLETS):
            first = (10 * number + n) * 1_000_000
            rows = ", ".join(f"({first + i}, {i})" for i in range(count))
            node.execute(f"INSERT INTO {SCHEMA}.{table} VALUES {rows}")
    # They have columns from names, as the rows that come behind them.
    config = APART.replace("orders", "pallets").replace(TARGET, target)
    config += "[snapshot]\nchunk-rows = 500\nmax-rows-per-second = 8000\ncreate-tables = true\n"
    sink = f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2"

    def progress() -> dict[str, int]:
        return dict(capture.ask("GET", "/changefeeds/stored")["snapshot"] or {})

    with ShardLoad(nodes, SCHEMA, PALLETS) as load:
        _create(capture, "stored", sink, config, "--snapshot", "initial")
        until(lambda: progress().get("rows"), "rows are read")
        capture.kill()
        capture.start()
        until(lambda: progress().get("ts"), "all rows are copied", 120)
        made = len(load.inserted)
        until(lambda: len(load.inserted) > made + 50, "rows behind the copy")
    capture.wait_checkpoint("stored")
    union = sorted(
        (*row, table[-1], name[-1])
        for name, node in nodes.items()
        for table in PALLETS
        for row in node.execute(f"SELECT id, v FROM {SCHEMA}.{table}")
    )
    assert len(union) > 4 * count
    there = mysql.execute(f"SELECT id, v, c_table, c_source FROM {target}.apart")
    assert sorted(there) == union


BOXES = ("boxes_1", "boxes_2")


def _columns_of(target: Database, schema: str, table: str) -> dict[str, str]:
    found = target.execute(
        "SELECT column_name, column_type FROM information_schema.columns"
        f" WHERE table_schema = '{schema}' AND table_name = '{table}'"
    )
    return {str(name): str(kind) for name, kind in found}


def test_tables_change_as_each_of_them_likes(
    fleet: CaptureProcess, nodes: dict[str, Database], mysql: Database, broker: Broker
) -> None:
    capture, topic, target = fleet, "fleet_boxes", "fleet_loose"
    for node in nodes.values():
        node.execute(*(f"CREATE TABLE {SCHEMA}.{table} {COLUMNS}" for table in BOXES))
    nodes["n2"].execute(
        f"ALTER TABLE {SCHEMA}.boxes_2 ADD COLUMN y INT NOT NULL DEFAULT 5 FIRST",
        f"INSERT INTO {SCHEMA}.boxes_2 (id, v, y) VALUES (-3, 3, 33)",
        f"INSERT INTO {SCHEMA}.boxes_1 (id, v) VALUES (-4, 4)",
    )
    mysql.execute("FLUSH BINARY LOGS")
    topics.create(broker.bootstrap, topic, partitions=2)
    config = CONFIG.replace("orders", "boxes").replace(TARGET, target)
    config = config.replace("pessimistic", "optimistic")
    kafka = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json"
    _create(capture, "loose-topic", kafka, config)
    config += "[snapshot]\ncreate-tables = true\n"
    sink = f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=2"
    _create(capture, "loose", sink, config, "--snapshot", "initial")

    def change(node: str, table: str, action: str) -> None:
        count = len(load.inserted)
        nodes[node].execute(f"ALTER TABLE {SCHEMA}.{table} {action}")
        until(lambda: len(load.inserted) > count + 20, "rows behind a change")

    wide = "ADD COLUMN w INT NOT NULL DEFAULT 7"
    with ShardLoad(nodes, SCHEMA, BOXES) as load:
        until(lambda: "y" in _columns_of(mysql, target, "boxes"), "the table is made", 120)
        # The first that has it is enough, and a column comes before others.
        change("n1", "boxes_1", f"{wide} FIRST, ADD x INT")
        until(lambda: "w" in _columns_of(mysql, target, "boxes"), "a column of one table", 120)
        nodes["n1"].execute(f"INSERT INTO {SCHEMA}.boxes_1 (id, v, w, x) VALUES (-1, 1, 8, 9)")
        capture.kill()
        change("n2", "boxes_2", "MODIFY v BIGINT NOT NULL")
        nodes["n2"].execute(f"INSERT INTO {SCHEMA}.boxes_2 (id, v, y) VALUES (-2, 9000000000, 2)")
        change("n2", "boxes_2", wide)
        change("n1", "boxes_1", "DROP COLUMN x, ADD UNIQUE u (w, id)")
        capture.start()
        change("n2", "boxes_1", f"{wide}, ADD UNIQUE u (w, id)")
        change("n1", "boxes_2", f"{wide}, ADD UNIQUE u (w, id)")
    for feed in ("loose", "loose-topic"):
        capture.wait_checkpoint(feed)
    query = " UNION ALL ".join(f"SELECT id, v, w FROM {SCHEMA}.{table}" for table in BOXES)
    union = sorted(row for node in nodes.values() for row in node.execute(query))
    assert {(-1, 1, 8), (-2, 9000000000, 7), (-3, 3, 7), (-4, 4, 7)} <= set(union)
    assert sorted(mysql.execute(f"SELECT id, v, w FROM {target}.boxes")) == union
    assert sorted(mysql.execute(f"SELECT id, y FROM {target}.boxes WHERE id < 0")) == [
        *((-4, 5), (-3, 33), (-2, 2), (-1, 5))
    ]
    found = _columns_of(mysql, target, "boxes")
    assert {name: kind.partition("(")[0] for name, kind in found.items()} == {
        "id": "bigint",
        "v": "bigint",
        "w": "int",
        "y": "int",
    }
    # One adds, one widens, one drops; the key waits for the table that has none yet.
    assert len(_altered(mysql, "boxes")) == 3
    capture.wait_state("loose", "normal")

    rows_of: dict[int, tuple[int, int]] = {}
    changes = 0
    for message in topics.read(broker.bootstrap, [topic]):
        if message.body["type"] == "TIDB_WATERMARK":
            continue
        if message.body["isDdl"]:
            changes += 1
            continue
        for row in message.body["data"]:
            key = int(row["id"])
            if message.body["type"] == "DELETE":
                del rows_of[key]
            else:
                rows_of[key] = int(row["v"]), int(row.get("w", 7))
    assert changes == 2 * 3
    came = [row for row in union if row[0] not in (-3, -4)]
    assert sorted((key, *row) for key, row in rows_of.items()) == came
