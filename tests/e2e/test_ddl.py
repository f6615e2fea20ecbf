"""A schema change of a replicated table stops that table at its place; all others go on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e import topics
from tests.e2e.capture_process import until
from tests.e2e.conftest import Way

pytestmark = pytest.mark.real


def _stopped(way: Way) -> Any:
    def look() -> Any:
        found = way.capture.feed(way.name)
        return found if found["stopped_tables"] else None

    return until(look, "a table stops")


def _of(way: Way, table: str) -> list[int]:
    return topics.ids(m for m in way.messages() if m.body["table"] == table)


def test_a_ddl_stops_its_table_and_a_restart_keeps_it_so(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create()
    way.execute("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
    way.execute("ALTER TABLE a ADD COLUMN more INT")
    way.execute("INSERT INTO a VALUES (2, 2)", "INSERT INTO b VALUES (2)")
    found = _stopped(way)
    (stop,) = found["stopped_tables"]
    assert (stop["table"], stop["error"]["code"]) == (f"{way.schema}.a", "TG:ErrDDLNotSupported")
    assert "ADD COLUMN more" in stop["error"]["message"]
    assert stop["error"]["hint"]
    assert found["state"] == "warning"
    assert found["checkpoint_ts"] == stop["ts"] - 1
    until(lambda: _of(way, "b") == [1, 2], "the other table goes on")
    assert _of(way, "a") == [1]

    way.capture.kill()
    way.capture.start()
    way.execute("INSERT INTO a VALUES (3, 3)", "INSERT INTO b VALUES (3)")
    until(lambda: _of(way, "b") == [1, 2, 3], "the other table goes on after the restart")
    again = _stopped(way)
    assert [s["ts"] for s in again["stopped_tables"]] == [stop["ts"]]
    assert again["checkpoint_ts"] == stop["ts"] - 1
    assert _of(way, "a") == [1]

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
    assert (_of(way, "a"), _of(way, "b")) == ([1], [1, 2, 3, 4])


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
    way.create("a")
    way.execute(
        "INSERT INTO a VALUES (1)",
        ddl.format(s=way.schema[:30]) if "USER" in ddl else ddl.format(s=way.schema),
        "INSERT INTO a VALUES (2)",
    )
    way.delivered()
    assert _of(way, "a") == [1, 2]
    found = way.capture.feed(way.name)
    assert (found["state"], found["stopped_tables"], found["error"]) == ("normal", [], None)


def test_a_new_table_that_the_rules_match_stops_alone(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE gone (id INT PRIMARY KEY)")
    way.create()
    way.execute("INSERT INTO a VALUES (1)", "INSERT INTO gone VALUES (1)")
    way.execute("CREATE TABLE fresh (id INT PRIMARY KEY)", "INSERT INTO fresh VALUES (1)")
    way.execute("DROP TABLE gone", "CREATE TABLE gone (other CHAR(9) PRIMARY KEY)")
    way.execute("INSERT INTO gone VALUES ('x')", "INSERT INTO a VALUES (2)")
    until(lambda: _of(way, "a") == [1, 2], "the table without a DDL goes on")

    def both() -> Any:
        found = way.capture.feed(way.name)["stopped_tables"]
        return found if len(found) == 2 else None

    stopped = until(both, "both tables are shown")
    assert {s["table"] for s in stopped} == {f"{way.schema}.fresh", f"{way.schema}.gone"}
    assert {s["error"]["code"] for s in stopped} == {"TG:ErrDDLNotSupported"}
    assert (_of(way, "gone"), _of(way, "fresh")) == ([1], [])
