"""Schema changes through a whole capture: in their place, once, and nobody else waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.conftest import Way
from tests.waiting import until

pytestmark = pytest.mark.real


def _story(way: Way, table: str, column: str = "id") -> list[str]:
    """What a consumer of the topic's one partition sees of a table: ids, and words of DDL."""
    story: list[str] = []
    for m in way.messages():
        if m.body["type"] == "TIDB_WATERMARK" or table not in (m.body["table"], ""):
            continue
        if m.body["isDdl"]:
            story.append(m.body["sql"].split()[0])
        else:
            story += [row[column] for row in m.body["data"]]
    return story


def _ddls(way: Way) -> Any:
    return way.capture.ask("GET", f"/changefeeds/{way.name}/ddls")


def test_a_schema_change_comes_between_the_rows_of_its_table(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create(sink=way.sink(partition_num=1))
    way.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    way.execute("ALTER TABLE a ADD COLUMN more INT DEFAULT 7")
    way.execute("INSERT INTO a VALUES (2, 2)", "INSERT INTO b VALUES (2)")
    way.execute("ALTER TABLE a RENAME COLUMN more TO most", "UPDATE a SET most = 9 WHERE id = 1")
    way.delivered()
    assert _story(way, "a") == ["1", "ALTER", "2", "ALTER", "1"]
    assert _story(way, "b") == ["1", "2"]
    last = [m for m in way.messages() if m.body["table"] == "a" and not m.body["isDdl"]][-1]
    assert last.body["data"][0]["most"] == "9"
    found = way.capture.feed(way.name)
    assert (found["state"], found["stopped_tables"]) == ("normal", [])


def test_a_new_table_is_picked_up_with_its_first_row(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE gone (id INT PRIMARY KEY)")
    way.create(sink=way.sink(partition_num=1))
    way.execute("INSERT INTO gone VALUES (1)")
    way.execute("CREATE TABLE fresh (id INT PRIMARY KEY)", "INSERT INTO fresh VALUES (1)")
    way.execute("DROP TABLE gone", "CREATE TABLE gone (id CHAR(9) PRIMARY KEY)")
    way.execute("INSERT INTO gone VALUES ('x')", "INSERT INTO a VALUES (2)")
    way.execute("RENAME TABLE gone TO t, fresh TO gone, t TO fresh")
    way.execute("INSERT INTO fresh VALUES ('y')", "INSERT INTO gone VALUES (3)")
    way.delivered()
    assert _story(way, "a") == ["2"]
    rows = [
        (m.body["table"], m.body["data"][0]["id"]) for m in way.messages() if not m.body["isDdl"]
    ]
    assert [r for r in rows if r[0] == "gone"] == [("gone", "1"), ("gone", "x"), ("gone", "3")]
    assert [r for r in rows if r[0] == "fresh"] == [("fresh", "1"), ("fresh", "y")]


def test_restarts_between_schema_changes_repeat_nothing(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create(sink=way.sink(partition_num=1))
    for i in range(3):
        way.execute(f"ALTER TABLE a ADD COLUMN c{i} INT", f"INSERT INTO a (id) VALUES ({i})")
        way.execute(f"INSERT INTO b VALUES ({i})")
        way.capture.kill()
        way.capture.start()
    way.delivered()
    assert _story(way, "a") == ["ALTER", "0", "ALTER", "1", "ALTER", "2"]
    assert _story(way, "b") == ["0", "1", "2"]


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE {s}.other (id INT PRIMARY KEY)",
        "ALTER TABLE {s}.apart ADD COLUMN c INT",
        "CREATE DATABASE {s}_2",
        "CREATE VIEW {s}.v AS SELECT 1",
        "CREATE USER '{s}'",
        "ANALYZE TABLE {s}.apart",
        "DROP TABLE {s}.apart",
    ],
)
def test_a_ddl_of_what_is_not_replicated_passes_by(way: Way, ddl: str) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE apart (id INT PRIMARY KEY)")
    way.create("a", sink=way.sink(partition_num=1))
    way.execute(
        "INSERT INTO a VALUES (1)",
        ddl.format(s=way.schema[:30]) if "USER" in ddl else ddl.format(s=way.schema),
        "INSERT INTO a VALUES (2)",
    )
    way.delivered()
    assert _story(way, "a") == ["1", "2"]
    found = way.capture.feed(way.name)
    assert (found["state"], found["stopped_tables"], found["error"]) == ("normal", [], None)


def test_a_held_change_stops_its_table_and_no_other(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create(sink=way.sink(partition_num=1), config={"ddl-policy": "hold-destructive"})
    way.execute("INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN more INT")
    way.execute("INSERT INTO a VALUES (2, 2)", "TRUNCATE TABLE a", "INSERT INTO a VALUES (3, 3)")
    way.execute("INSERT INTO b VALUES (1)")
    until(lambda: _story(way, "b") == ["1"], "the other table goes on")
    until(lambda: _story(way, "a") == ["1", "ALTER", "2"], "the change that loses nothing ran")
    (held,) = until(lambda: _ddls(way)["items"], "the change is shown")
    assert (held["state"], held["tables"]) == ("held", [f"{way.schema}.a"])

    way.capture.kill()
    way.capture.start()
    way.execute("INSERT INTO b VALUES (2)")
    until(lambda: _story(way, "b") == ["1", "2"], "the other table goes on after the restart")
    time.sleep(1)
    assert _story(way, "a") == ["1", "ALTER", "2"]
    way.capture.ask("POST", f"/changefeeds/{way.name}/ddls/{held['ts']}/approve", {})
    way.delivered()
    assert _story(way, "a") == ["1", "ALTER", "2", "TRUNCATE", "3"]
    assert _story(way, "b") == ["1", "2"]


def test_a_statement_that_is_not_understood_stops_its_table_alone(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create(sink=way.sink(partition_num=1))
    way.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    # The binlog has no word of what happens to the table.
    way.execute(
        "SET sql_log_bin = 0", "ALTER TABLE a ADD COLUMN more INT", "SET sql_log_bin = 1",
        "INSERT INTO a VALUES (2, 2)", "INSERT INTO b VALUES (2)",
    )  # fmt: skip

    def stopped() -> Any:
        found = way.capture.feed(way.name)
        return found if found["stopped_tables"] else None

    found = until(stopped, "the table stops")
    (stop,) = found["stopped_tables"]
    assert (stop["table"], stop["error"]["code"]) == (f"{way.schema}.a", "TG:ErrSchemaMismatch")
    assert "2 columns" in stop["error"]["message"] or "1 column" in stop["error"]["message"]
    assert stop["error"]["hint"]
    assert (found["state"], found["checkpoint_ts"]) == ("warning", stop["ts"] - 1)
    until(lambda: _story(way, "b") == ["1", "2"], "the other table goes on")
    assert _story(way, "a") == ["1"]

    # The operator gives the table up; nothing of the other one is lost or repeated.
    rules = {"filter": {"rules": [f"{way.schema}.b"]}}
    for method, path, body in (
        ("POST", "/pause", None),
        ("PUT", "", {"replica_config": rules}),
        ("POST", "/resume", None),
    ):
        way.capture.ask(method, f"/changefeeds/{way.name}{path}", body)
    way.execute("INSERT INTO b VALUES (4)")
    way.delivered()
    done = way.capture.wait_state(way.name, "normal")
    assert not done["stopped_tables"]
    assert (_story(way, "a"), _story(way, "b")) == (["1"], ["1", "2", "4"])
