"""Operators hold, approve and skip schema changes of a running changefeed, by the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e import topics
from tests.e2e.conftest import Way
from tests.waiting import until

pytestmark = pytest.mark.real


def _ddl(way: Way, *words: str) -> Any:
    done = way.capture.cli("ddl", words[0], "-c", way.name, *words[1:], "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _waiting(way: Way, sql: str, *states: str) -> Any:
    """Wait until the change is listed in one of the states; return it."""

    def look() -> Any:
        listed = _ddl(way, "list", "--all")
        return next((d for d in listed if sql in d["sql"] and d["state"] in states), None)

    return until(look, f"{sql} is {' or '.join(states)}")


def _ids(way: Way, table: str) -> list[int]:
    rows = [m for m in way.messages() if m.body["table"] == table and not m.body["isDdl"]]
    return topics.ids(rows)


def test_a_held_change_waits_for_its_operator_and_other_tables_do_not(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    way.create(config={"ddl_policy": "hold-destructive"})
    way.execute("INSERT INTO a VALUES (1)", "ALTER TABLE a ADD COLUMN v INT")
    way.execute("INSERT INTO a VALUES (2, 2)", "ALTER TABLE a DROP COLUMN v")
    way.execute("INSERT INTO a VALUES (3)", "INSERT INTO b VALUES (1)")
    held = _waiting(way, "DROP COLUMN v", "held")
    assert held["tables"] == [f"{way.schema}.a"]
    assert held["since"]
    assert held["why"]
    until(lambda: _ids(way, "b") == [1], "the other table goes on")
    until(lambda: _ids(way, "a") == [1, 2], "and this one up to the change")
    assert _waiting(way, "ADD COLUMN v", "done")
    way.capture.kill()
    way.capture.start()
    assert _waiting(way, "DROP COLUMN v", "held")["ts"] == held["ts"]
    assert _ids(way, "a") == [1, 2]
    _ddl(way, "approve", "--ts", str(held["ts"]), "--reason", "it is night")
    way.delivered()
    assert _ids(way, "a") == [1, 2, 3]
    assert _waiting(way, "DROP COLUMN v", "done")
    refused = way.capture.cli("ddl", "hold", "-c", way.name, "--ts", str(held["ts"]))
    assert "TG:ErrDDLNotPending" in refused.stderr


def test_a_skipped_change_is_left_out_and_stays_so(way: Way) -> None:
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    way.create(config={"ddl_policy": "hold-all"})
    way.execute("INSERT INTO a VALUES (1)", "ALTER TABLE a COMMENT 'x'", "INSERT INTO a VALUES (2)")
    way.execute("CREATE TABLE c (id INT PRIMARY KEY)", "INSERT INTO c VALUES (7)")
    held = _waiting(way, "COMMENT", "held")
    _ddl(way, "skip", "--ts", str(held["ts"]), "--yes")
    made = _waiting(way, "CREATE TABLE c", "held")
    _ddl(way, "approve", "--ts", str(made["ts"]))
    way.delivered()
    way.capture.kill()
    way.capture.start()
    way.execute("INSERT INTO a VALUES (3)")
    way.delivered()
    assert (_ids(way, "a"), _ids(way, "c")) == ([1, 2, 3], [7])
    sent = [m.body["sql"] for m in way.messages() if m.body["isDdl"]]
    assert set(sent) == {"CREATE TABLE c (id INT PRIMARY KEY)"}
