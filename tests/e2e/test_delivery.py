"""Changes of real servers reach real topics, as every option of delivery says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.servers import Broker, Database
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.mark.parametrize("server", ["mariadb-11.4", "mysql-8.0", "mysql-9.7"])
def test_a_change_reaches_its_topic(
    capture: CaptureProcess,
    database: Callable[..., Database],
    broker: Broker,
    fresh_name: str,
    server: str,
) -> None:
    name = server.replace(".", "-")
    way = make_way(capture, database(server), broker, fresh_name, name)
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    way.create()
    way.execute("INSERT INTO t VALUES (1, 'one'), (2, NULL)")
    way.execute("UPDATE t SET v = 'eins' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    way.delivered()
    seen = [(m.body["type"], m.body["data"], m.body["old"]) for m in way.messages()]
    assert seen == [
        ("INSERT", [{"id": "1", "v": "one"}], None),
        ("INSERT", [{"id": "2", "v": None}], None),
        ("UPDATE", [{"id": "1", "v": "eins"}], [{"id": "1", "v": "one"}]),
        ("DELETE", [{"id": "2", "v": None}], None),
    ]
    capture.ask("DELETE", f"/changefeeds/{way.name}")


def test_partitions_by_table_index_value_ts_and_columns_and_topics_by_expression(way: Way) -> None:
    for table in ("by_table", "by_key", "by_ts", "by_column"):
        way.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, c INT)")
    rules = {"by_table": "table", "by_key": "index-value", "by_ts": "ts", "by_column": "columns"}
    dispatchers = [
        {
            "matcher": [f"{way.schema}.{table}"],
            "partition": mode,
            "topic": "{schema}_x_{table}",
            **({"columns": ["c"]} if mode == "columns" else {}),
        }
        for table, mode in rules.items()
    ]
    way.create(sink=way.sink(partition_num=3), config={"sink": {"dispatchers": dispatchers}})
    for i in range(40):
        way.execute(*(f"INSERT INTO {table} VALUES ({i}, {i % 5})" for table in rules))
    way.execute(*(f"UPDATE {table} SET c = c + 100 WHERE id < 20" for table in rules))
    way.delivered()

    places: dict[str, dict[int, set[int]]] = {}
    for table in rules:
        found = way.messages(f"{way.schema}_x_{table}")
        # An update that changes what places the row is a delete there and an insert here.
        again = 2 if table == "by_column" else 1
        assert sorted(topics.ids(found)) == sorted([*range(40), *[*range(20)] * again]), table
        assert {m.body["table"] for m in found} == {table}
        by: dict[int, set[int]] = defaultdict(set)
        key = "c" if table == "by_column" else "id"
        for m in found:
            for row in m.body["data"]:
                by[int(row[key])].add(m.partition)
        places[table] = by
    assert len({p for ps in places["by_table"].values() for p in ps}) == 1
    for table in ("by_key", "by_column"):
        assert all(len(ps) == 1 for ps in places[table].values()), "a key keeps its partition"
        assert len({p for ps in places[table].values() for p in ps}) > 1
    assert len({p for ps in places["by_ts"].values() for p in ps}) > 1


def test_at_least_once_needs_no_transactions(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    way.create(sink=way.sink(exactly_once=False))
    way.execute("INSERT INTO t VALUES (1), (2), (3)")
    way.delivered()
    assert topics.ids(way.messages(isolation="read_uncommitted")) == [1, 2, 3]
    ledger = topics.read(way.broker.bootstrap, ["tidegate-ledger"])
    assert not [m for m in ledger if way.name.encode() in m.key]


def test_pause_resume_update_and_remove(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    feed, capture = way.create("a"), way.capture
    way.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    way.delivered()
    capture.ask("POST", f"/changefeeds/{feed}/pause")
    until(lambda: not capture.feed(feed)["task_status"], "no capture is to run it")
    way.execute("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)")
    assert capture.feed(feed)["state"] == "stopped"
    assert topics.ids(way.messages()) == [1]
    rules = {"filter": {"rules": [f"{way.schema}.a", f"{way.schema}.b"]}}
    capture.ask("PUT", f"/changefeeds/{feed}", {"replica_config": rules})
    capture.ask("POST", f"/changefeeds/{feed}/resume")
    way.delivered()
    assert topics.ids(m for m in way.messages() if m.body["table"] == "a") == [1, 2]
    assert topics.ids(m for m in way.messages() if m.body["table"] == "b")[-1:] == [2]
    capture.ask("DELETE", f"/changefeeds/{feed}")
    way.execute("INSERT INTO a VALUES (3)")
    assert capture.api("GET", f"/changefeeds/{feed}").status_code == 404
    # One of the same name begins anew: it neither repeats the old one's rows nor skips its own.
    way.create("a")
    way.execute("INSERT INTO a VALUES (4)")
    way.delivered()
    assert topics.ids(m for m in way.messages() if m.body["table"] == "a") == [1, 2, 4]


def test_a_target_is_reached_and_not_passed(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    target = way.capture.tso() + (2500 << 18)
    feed = way.create(target_ts=target)
    way.execute("INSERT INTO t VALUES (1)")
    done = way.capture.wait_state(feed, "finished")
    assert done["checkpoint_ts"] == target
    way.execute("INSERT INTO t VALUES (2)")
    assert topics.ids(way.messages()) == [1]


def test_tables_without_a_key_are_refused_or_forced(way: Way) -> None:
    way.execute("CREATE TABLE nokey (id INT, v INT)")
    body = way.capture.body(way.name, way.upstream, way.sink(), [f"{way.schema}.*"])
    refused = way.capture.api("POST", "/changefeeds", body)
    assert refused.status_code == 400
    assert refused.json()["error_code"] == "TG:ErrTableIneligible"
    assert f"{way.schema}.nokey" in refused.json()["error_msg"]
    way.create(config={"force_replicate": True})
    way.execute("INSERT INTO nokey VALUES (1, 1), (1, 1)", "DELETE FROM nokey LIMIT 1")
    way.delivered()
    assert [m.body["type"] for m in way.messages()] == ["INSERT", "INSERT", "DELETE"]
