"""The filter through a whole capture: one changefeed with every kind of rule, and its errors."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.e2e.conftest import Way
from tests.waiting import until

pytestmark = pytest.mark.real


def _create(way: Way, config: dict[str, Any]) -> None:
    sink = way.sink(partition_num=1)
    way.capture.create(way.name, way.upstream, sink, [], config)


def _story(way: Way, table: str) -> list[str]:
    """What consumers see of a table, under the name that they know: ids, and words of DDL."""
    story = []
    for m in way.messages():
        if table in m.body["table"]:
            rows = m.body["data"] or ()
            story += [" ".join(m.body["sql"].split()[-3:])] if m.body["isDdl"] else []
            story += [f"{m.body['type'][0]}{row['id']}" for row in rows]
    return story


def _stopped(way: Way) -> dict[str, str]:
    found = way.capture.feed(way.name)["stopped_tables"]
    return {t["table"]: t["error"]["code"] for t in found}


def test_every_kind_of_rule(way: Way) -> None:
    columns = "(id INT PRIMARY KEY, v VARCHAR(20), age INT)"
    way.execute(*(f"CREATE TABLE {t} {columns}" for t in ("a", "b", "tmp_1")))
    rules = [
        {
            "matcher": [f"{way.schema}.a"],
            "ignore-event": ["delete", "drop column"],
            "ignore-sql": ["^truncate"],
            "ignore-insert-value-expr": "id >= 100",
            "ignore-update-new-value-expr": "v = 'hidden'",
        },
        {"matcher": [f"{way.schema}.b"], "ignore-delete-value-expr": "age > 5"},
    ]
    sink = {
        "dispatchers": [
            {"matcher": [f"{way.schema}.a"], "target-schema": "x", "target-table": "{table}_out"}
        ],
        "column-selectors": [{"matcher": [f"{way.schema}.a"], "columns": ["*", "!age"]}],
    }
    tables = [f"{way.schema}.*", f"!{way.schema}.tmp_*"]
    _create(way, {"filter": {"rules": tables, "event-filters": rules}, "sink": sink})
    way.execute(
        "INSERT INTO a VALUES (1, 'x', 1), (100, 'y', 2)", "INSERT INTO tmp_1 (id) VALUES (1)"
    )
    way.execute("UPDATE a SET v = 'hidden' WHERE id = 1", "UPDATE a SET age = 3 WHERE id = 1")
    way.execute("UPDATE a SET v = 'seen' WHERE id = 1", "ALTER TABLE a ENGINE = InnoDB")
    way.execute("ALTER TABLE a ADD COLUMN more INT", "INSERT INTO a VALUES (2, 'z', 1, 7)")
    # Ignored, and yet the rows behind it are read as the table then is.
    way.execute("ALTER TABLE a DROP COLUMN more", "INSERT INTO a VALUES (3, 'z', 1)")
    way.execute("DELETE FROM a WHERE id = 2", "TRUNCATE a", "DROP TABLE tmp_1")
    way.delivered()
    assert _story(way, "a_out") == ["I1", "U1", "COLUMN more INT", "I2", "I3"]
    messages = [m.body for m in way.messages() if m.body["table"] == "a_out"]
    assert {m["database"] for m in messages} == {"x"}
    assert "`x`.`a_out`" in next(m["sql"] for m in messages if m["isDdl"])
    assert [set(m["data"][0]) for m in messages if not m["isDdl"]][-2:] == [
        {"id", "v", "more"},
        {"id", "v"},
    ]
    assert _story(way, "tmp_1") == []
    assert _stopped(way) == {}
    # The expression's column goes: that table alone stops, before the change.
    way.execute("ALTER TABLE b DROP COLUMN age", "INSERT INTO a VALUES (4, 'w', 1)")
    until(lambda: _stopped(way), "the table stops")
    assert _stopped(way) == {f"{way.schema}.b": "TG:ErrExpressionColumnNotFound"}
    until(lambda: _story(way, "a_out")[-1] == "I4", "the other table goes on")


def test_names_that_meet_and_renames_into_the_rules(way: Way) -> None:
    other = f"{way.schema}_2"
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE tmp_b (id INT PRIMARY KEY)")
    way.execute(f"CREATE DATABASE {other}", f"CREATE TABLE {other}.c (id INT PRIMARY KEY)")
    rules = [f"{way.schema}.*", f"{other}.*", f"!{way.schema}.tmp_*"]
    sink = {"dispatchers": [{"matcher": rules[:2], "target-schema": "together"}]}
    _create(way, {"filter": {"rules": rules}, "sink": sink})
    way.execute("INSERT INTO a VALUES (1)", f"INSERT INTO {other}.c VALUES (1)")
    way.execute(f"CREATE TABLE {other}.a (id INT PRIMARY KEY)", "RENAME TABLE tmp_b TO b")
    until(lambda: len(_stopped(way)) == 2, "both tables stop")
    assert _stopped(way) == {
        f"{other}.a": "TG:ErrTableRouteConflict",
        f"{way.schema}.b": "TG:ErrSyncRenameTableFailed",
    }
    way.execute("INSERT INTO a VALUES (2)", f"INSERT INTO {other}.c VALUES (2)")
    until(lambda: "I2" in _story(way, "a"), "the others go on")
    until(lambda: "I2" in _story(way, "c"), "the others go on")
    way.execute(f"DROP DATABASE {other}")


def test_transactions_left_out_by_gtid_rows_and_schema_changes(way: Way) -> None:
    """The changefeed begins before them; the ignored change is still one of the tracked schema."""
    way.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    start_ts = way.capture.tso()
    # The binlog tells whole seconds: what commits in the one of start_ts may lie below it.
    time.sleep(1.1)
    ((row,),) = way.execute("INSERT INTO a VALUES (1)", "SELECT @@last_gtid")
    ((change,),) = way.execute("ALTER TABLE a ADD COLUMN hidden INT", "SELECT @@last_gtid")
    way.execute("INSERT INTO a VALUES (2, 7)", "ALTER TABLE a ADD COLUMN seen INT")
    way.execute("INSERT INTO a VALUES (3, 7, 8)")
    section = {"rules": [f"{way.schema}.*"], "ignore-txn-gtid": [row, change]}
    sink = way.sink(partition_num=1)
    way.create(sink=sink, start_ts=start_ts, config={"filter": section})
    way.delivered()
    assert _story(way, "a") == ["I2", "COLUMN seen INT", "I3"]
    listed = way.capture.cli("ddl", "list", "-c", way.name, "--all", "--json")
    assert f"ignore-txn-gtid has {change}" in listed.stdout


def _ids(way: Way, table: str, topic: str) -> list[int]:
    """The rows of a table in a topic, in their order."""
    return [
        int(row["id"])
        for m in way.messages(topic)
        if m.body["table"] == table and not m.body["isDdl"]
        for row in m.body["data"]
    ]


@pytest.mark.parametrize("killed", [False, True], ids=["runs", "killed"])
def test_a_configuration_that_changes_under_load_does_so_at_one_transaction(
    way: Way, *, killed: bool
) -> None:
    way.execute(*(f"CREATE TABLE {t} (id INT PRIMARY KEY)" for t in ("kept", "gone", "come")))
    rules = [f"{way.schema}.kept", f"{way.schema}.gone"]
    _create(way, {"filter": {"rules": rules}})
    route = {"matcher": [f"{way.schema}.*"], "topic": f"{way.schema}_new"}
    new = {
        "filter": {"rules": [f"{way.schema}.kept", f"{way.schema}.come"]},
        "sink": {"dispatchers": [route]},
    }
    before, after = way.schema, f"{way.schema}_new"
    with way.written("kept", "gone", "come") as ids:
        until(lambda: len(ids) > 20, "rows under the old configuration")
        # A topic that is written to is not read: its reader would never come to an end.
        way.delivered()
        answer = way.capture.ask("PUT", f"/changefeeds/{way.name}", {"replica_config": new})
        assert (answer["state"], answer["change"]["config"]["filter"]["rules"]) == (
            "normal",
            new["filter"]["rules"],
        )
        if killed:
            way.capture.kill()
            way.capture.start()
        until(lambda: way.capture.feed(way.name)["change"] is None, "it counts")
        known = len(ids)
        until(lambda: len(ids) > known + 20, "rows under the new configuration")
    way.delivered()
    first = len(_ids(way, "kept", before))
    # Every transaction has a row of each: none is lost, repeated, or partly old and partly new.
    assert 0 < first < len(ids)
    assert _ids(way, "kept", before) == _ids(way, "gone", before) == ids[:first]
    assert _ids(way, "kept", after) == _ids(way, "come", after) == ids[first:]
    assert not _ids(way, "come", before)
    assert not _ids(way, "gone", after)
    assert way.capture.feed(way.name)["state"] == "normal"
