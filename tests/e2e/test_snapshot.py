"""Rows that were there before a changefeed, through a real capture, whatever dies meanwhile."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from cdc.server.new_tables import LARGE_ROWS
from tests.e2e.capture_process import SMALL_WINDOWS, CaptureProcess
from tests.e2e.conftest import CaptureMaker, Way, make_way
from tests.seeds import drawn
from tests.servers import Broker, Database
from tests.sink_mysql.replay import content
from tests.snapshot.test_copying import ROWS, TABLES, Changes, fill
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def own(captures: CaptureMaker) -> CaptureProcess:
    """Return a capture whose windows are small."""
    return captures(settings=SMALL_WINDOWS)


@pytest.fixture
def way(own: CaptureProcess, mariadb: Database, broker: Broker, fresh_name: str) -> Iterator[Way]:
    """Return a way of this test alone, with rows that are there already."""
    made = make_way(own, mariadb, broker, fresh_name, "main")
    made.execute(*TABLES)
    fill(mariadb, fresh_name)
    yield made
    if own.running:
        own.api("DELETE", f"/changefeeds/{made.name}")


def _create(way: Way, sink: str, mode: str = "initial", more: str = "") -> None:
    config = way.capture.folder / "snapshot.toml"
    rules = f'[filter]\nrules = ["{way.schema}.*"]\n'
    config.write_text(f"{rules}[snapshot]\nchunk-rows = 500\n{more}\n")
    done = way.capture.cli(
        *("changefeed", "create", "--upstream", way.upstream, "-c", way.name),
        *("--sink-uri", sink, "--config", str(config), "--snapshot", mode),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _progress(way: Way) -> dict[str, int]:
    info = way.capture.ask("GET", f"/changefeeds/{way.name}")
    return dict(info["snapshot"] or {})


def _read_rows(way: Way) -> float:
    """Return how many rows were read for the changefeed that copies, as metrics have it."""
    text = httpx.get(f"{way.capture.url}/metrics", trust_env=False).text
    name = f'tidegate_changefeed_snapshot_read_rows{{changefeed="{way.name}",snapshot="initial"}}'
    return max((float(line.split()[-1]) for line in text.splitlines() if name in line), default=0)


def test_rows_reach_another_server_though_all_dies(
    way: Way, database: object, fresh_name: str
) -> None:
    target: Database = database("mariadb-11.8")  # type: ignore[operator]
    sink = f"mysql://root@127.0.0.1:{target.port}/?worker-count=2"
    with Changes(way.database, fresh_name) as changes:
        _create(way, sink, more="create-tables = true\nmax-rows-per-second = 3000")
        first = until(lambda: _read_rows(way), "rows are read, and metrics say so")
        way.capture.kill()
        way.capture.start()
        # The capture reads all anew; what only a worker was reading is read again.
        until(lambda: 0 < _read_rows(way) != first, "rows are read")
        until(way.capture.workers, "there are workers")[0].kill()
        until(lambda: _progress(way).get("ts"), "all rows are copied", 120)
        until(way.capture.workers, "there are workers")[0].kill()
        more = changes.made + 50
        until(lambda: changes.made > more, "changes follow")
    way.delivered()
    assert content(target, fresh_name) == content(way.database, fresh_name)


@pytest.mark.parametrize("mode", drawn(["initial", "only"]))
def test_indexes_of_a_large_table_come_behind_its_rows(
    way: Way, database: object, fresh_name: str, mode: str
) -> None:
    target: Database = database("mariadb-11.8")  # type: ignore[operator]
    rows = (f"({i}, 'name {i * 7919 % 1000}', {i % 77})" for i in range(LARGE_ROWS))
    big = (
        "big (id int primary key, a varchar(40), b int, unique key u (a, id), key a (a), key b (b))"
    )
    way.execute(f"create table {big}", f"insert into big values {', '.join(rows)}")
    indexes = _indexes(way.database, fresh_name)
    _create(way, f"mysql://root@127.0.0.1:{target.port}/", mode, more="create-tables = true")
    until(lambda: _progress(way).get("ts"), "all rows are copied", 120)
    # What the table has must be there when a statement changes it.
    way.execute(
        "insert into big values (-1, 'more', 0)", "alter table big drop key b, add key c (b, a)"
    )
    if mode == "only":
        until(lambda: way.capture.feed(way.name)["state"] == "finished", "it has finished")
        assert _indexes(target, fresh_name) == indexes
    else:
        way.delivered()
        assert content(target, fresh_name) == content(way.database, fresh_name)
        assert _indexes(target, fresh_name) == _indexes(way.database, fresh_name) != indexes
    assert f"{fresh_name}.big has its indexes" in way.capture.text()
    assert f"{fresh_name}.numbers has its indexes" not in way.capture.text()


def _indexes(server: Database, schema: str) -> list[tuple[object, ...]]:
    return server.execute(
        "select table_name, index_name, seq_in_index, column_name, non_unique"
        f" from information_schema.statistics where table_schema = '{schema}' order by 1, 2, 3"
    )


def test_each_row_comes_once_and_before_its_changes(way: Way) -> None:
    before = {name: len(rows) for name, rows in content(way.database, way.schema).items()}
    with Changes(way.database, way.schema) as changes:
        _create(way, way.sink(partition_num=2, enable_tidb_extension=True))
        until(lambda: _progress(way).get("ts"), "all rows are copied", 120)
        snapshot_ts = _progress(way)["ts"]
        more = changes.made + 50
        until(lambda: changes.made > more, "changes follow")
    way.delivered()
    assert before["numbers"] == 3000
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    copied = 0
    for message in way.messages():
        body = message.body
        if body["type"] not in ("INSERT", "UPDATE", "DELETE"):
            continue
        kept = rows[body["table"]]
        for row in body["data"]:
            name = json.dumps([row[column] for column in body["pkNames"]])
            if body["_tidb"]["commitTs"] <= snapshot_ts:
                copied += 1
                assert body["type"] == "INSERT"
                assert name not in kept, f"{name} is copied twice"
            if body["type"] == "DELETE":
                assert kept.pop(name, None) is not None, f"{name} was never there"
                continue
            if body["type"] == "UPDATE":
                old = {**row, **body["old"][0]}
                was = json.dumps([old[column] for column in body["pkNames"]])
                assert kept.pop(was, None) is not None, f"{was} was never there"
            assert name not in kept, f"{name} is inserted twice"
            kept[name] = json.dumps(row)
    assert copied > 8000
    now = {name: len(found) for name, found in content(way.database, way.schema).items()}
    assert {name: len(rows[name]) for name in now} == now


def test_debezium_says_which_rows_were_read(way: Way) -> None:
    _create(way, way.sink(protocol="debezium", debezium_disable_schema=True))
    until(lambda: _progress(way).get("ts"), "all rows are copied", 120)
    way.execute("INSERT INTO still VALUES (1, 'later')", "UPDATE still SET v = 'x' WHERE id = 1")
    way.delivered()
    found: dict[str, list[tuple[str, str, object]]] = defaultdict(list)
    for body in (m.body for m in way.messages()):
        said = (body["op"], body["source"]["snapshot"], body["before"])
        found[body["source"]["table"]].append(said)
    # Tables lie in partitions of their own.
    assert [said[:2] for said in found.pop("still")] == [("c", "false"), ("u", "false")]
    assert found == {t: [("r", "true", None)] * ROWS for t in ("numbers", "names", "pairs")}


def _snapshot(way: Way, *tables: str, more: tuple[str, ...] = ()) -> str:
    """Start one for tables of the schema; its number."""
    patterns = [a for table in tables for a in ("--tables", f"{way.schema}.{table}")]
    done = way.capture.cli("snapshot", "start", "-c", way.name, *patterns, *more, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return str(json.loads(done.stdout)["id"])


def _say(way: Way, verb: str, number: str) -> None:
    done = way.capture.cli("snapshot", verb, "-c", way.name, "--id", number)
    assert done.returncode == 0, done.stdout + done.stderr


def _shown(way: Way, number: str) -> dict[str, Any]:
    return dict(way.capture.ask("GET", f"/changefeeds/{way.name}/snapshots/{number}"))


def _over(way: Way, number: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found = _shown(way, number)
        assert found["state"] != "failed", found
        return found if found["state"] == "delivered" else None

    return dict(until(ended, "the rows are delivered", 120))


def _name(body: dict[str, Any], row: dict[str, Any]) -> str:
    return json.dumps([row[column] for column in body["pkNames"]])


def test_rows_of_single_tables_come_between_changes_though_all_dies(way: Way) -> None:
    _create(way, way.sink(partition_num=2, enable_tidb_extension=True), mode="none")
    way.capture.ask("POST", f"/changefeeds/{way.name}/pause")
    number = _snapshot(way, "numbers", "names")
    _say(way, "pause", number)
    way.capture.ask("POST", f"/changefeeds/{way.name}/resume")
    until(lambda: _shown(way, number)["state"] == "paused", "it is paused")
    with Changes(way.database, way.schema) as changes:
        assert not _shown(way, number)["rows"]
        _say(way, "resume", number)
        until(lambda: _shown(way, number)["rows"], "rows are read")
    way.capture.kill()
    way.capture.start()
    with Changes(way.database, way.schema) as changes:
        until(lambda: _shown(way, number)["state"] == "delivering", "all is copied", 120)
        until(way.capture.workers, "there are workers")[0].kill()
        found = _over(way, number)
        more = changes.made + 50
        until(lambda: changes.made > more, "changes follow")
    way.delivered()
    assert found["table_names"] == [f"{way.schema}.names", f"{way.schema}.numbers"]
    base_ts, ts = found["base_ts"], found["ts"]
    before: dict[str, dict[str, str]] = defaultdict(dict)
    copied: dict[str, dict[str, str]] = defaultdict(dict)
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for message in way.messages():
        body = message.body
        if body["type"] not in ("INSERT", "UPDATE", "DELETE"):
            continue
        at, table = body["_tidb"]["commitTs"], body["table"]
        for row in body["data"]:
            name = _name(body, row)
            if at <= base_ts:
                assert not copied[table], "a change of before the rows comes behind them"
                if body["type"] == "UPDATE":
                    before[table].pop(_name(body, {**row, **body["old"][0]}), None)
                if body["type"] == "DELETE":
                    before[table].pop(name, None)
                else:
                    before[table][name] = json.dumps(row)
            elif at <= ts:
                # The others may have changes of these moments.
                assert body["type"] == "INSERT"
                assert not rows[table], "a row comes behind later changes"
                assert name not in copied[table], f"{name} is copied twice"
                copied[table][name] = json.dumps(row)
            else:
                kept = rows[table] or rows[table].update(copied[table]) or rows[table]
                if table == "pairs":
                    continue
                if body["type"] == "DELETE":
                    assert kept.pop(name, None) is not None, f"{name} was never there"
                    continue
                if body["type"] == "UPDATE":
                    was = _name(body, {**row, **body["old"][0]})
                    assert kept.pop(was, None) is not None, f"{was} was never there"
                assert name not in kept, f"{name} is inserted twice"
                kept[name] = json.dumps(row)
    now = content(way.database, way.schema)
    for table in ("numbers", "names"):
        # What changed before is in the rows as it then was, and what was deleted is not.
        assert before[table].items() <= copied[table].items()
        assert len(rows[table]) == len(now[table])
    assert len(copied["numbers"]) > 1000
    assert not copied["pairs"]
    assert not copied["still"]
    folder = next(way.capture.data_dir.rglob(f"copied/{way.name}"))
    until(lambda: not list(folder.rglob("rows")), "the room of the rows is given back")


def test_only_the_rows_that_are_there(way: Way) -> None:
    _create(way, way.sink(), mode="only")
    until(
        lambda: way.capture.ask("GET", f"/changefeeds/{way.name}")["state"] == "finished",
        "it has finished",
    )
    way.execute("INSERT INTO still VALUES (1, 'later')")
    until(
        lambda: not list(way.capture.data_dir.rglob(f"snapshot/{way.name}")),
        "the room of the rows is given back",
    )
    found = way.messages()
    rows = [m for m in found if m.body["type"] != "TIDB_WATERMARK"]
    assert len(rows) == sum(map(len, content(way.database, way.schema).values())) - 1
    assert {m.body["type"] for m in rows} == {"INSERT"}
