"""Logical tables of a cluster: parts are one table, and rows fit its definition at their place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.changelog import node_logs
from cdc.changelog.reader import ChangeLog
from cdc.rows.agreement import check
from cdc.source.statements import History
from tests.cluster.logical_log import (
    CREATE,
    MergedLog,
    Recorded,
    killed_at_steps,
    record,
    replaced_at_steps,
)
from tests.cluster.sharded import ShardedDatabase
from tests.servers import Database
from tests.sink_binlog.replay import deliver, files_of, replay

COLUMNS = "cc, d, id, aa, e"
# Values that are stored otherwise in a part than in the table while they go over the parts.
RECODED = (
    "MODIFY d VARCHAR(300) CHARACTER SET utf16, ADD COLUMN e DECIMAL(7,1)",
    "MODIFY e DECIMAL(14,4), MODIFY d TEXT CHARACTER SET latin1, MODIFY a DECIMAL(20,2)",
)


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def recorded(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recorded:
    """Return what two nodes have of a table that is changed in every way under load."""
    return record(request.param, database, tmp_path_factory, _changes)


def _changes(sharded: ShardedDatabase) -> None:
    pause_s = 0.05
    with sharded.writing("orders", ["a", "b"]):
        sharded.change("orders", "ALTER TABLE orders ADD COLUMN c BIGINT DEFAULT 3", "", pause_s)
        sharded.shows(["a", "b", "c"])
        sharded.change(
            "orders",
            "/*+TDDL:x()*/ ALTER TABLE orders ADD COLUMN d VARCHAR(20) DEFAULT 'x' FIRST",
            "ALTER TABLE {part} ADD COLUMN d VARCHAR(20) DEFAULT 'x' FIRST",
            pause_s,
        )
        sharded.shows(["d", "a", "b", "c"])
        sharded.change("orders", "ALTER TABLE orders MODIFY a BIGINT, ADD KEY (a)", "", pause_s)
        sharded.change("orders", "ALTER TABLE orders MODIFY d VARCHAR(300)", "", pause_s)
        for number, change in enumerate(RECODED):
            sharded.change("orders", f"ALTER TABLE orders {change}", "", pause_s)
            if not number:
                sharded.shows(["d", "a", "b", "c", "e"])
        # Who writes is told before the first part loses it.
        sharded.shows(["d", "a", "c", "e"])
        sharded.change("orders", "ALTER TABLE orders DROP COLUMN b", "", pause_s)
        sharded.shows(["d"])
        sharded.change("orders", "ALTER TABLE orders RENAME COLUMN a TO aa", "", pause_s)
        sharded.shows(["d", "aa"])
        sharded.change("orders", "ALTER TABLE orders CHANGE c cc BIGINT FIRST", "", pause_s)
        sharded.shows(["d", "aa", "cc"])
        sharded.change(
            "items",
            "CREATE TABLE items (id INT NOT NULL PRIMARY KEY, a INT, GLOBAL INDEX g (a)"
            " DBPARTITION BY HASH (a)) DBPARTITION BY HASH (id)",
            "CREATE TABLE {part} (id INT NOT NULL PRIMARY KEY, a INT)",
        )
        sharded.mark("items", "CREATE GLOBAL INDEX g2 ON items (a)")
        sharded.mark("items", "CREATE SEQUENCE s", 0)
        sharded.change(
            "rates",
            "CREATE TABLE rates (id INT NOT NULL PRIMARY KEY) BROADCAST",
            "CREATE TABLE {part} (id INT NOT NULL PRIMARY KEY)",
        )
        sharded.everywhere("rates", "INSERT INTO {part} VALUES (1), (2)")
        sharded.everywhere("rates", "DELETE FROM {part} WHERE id = 2")
        with sharded.still():
            sharded.mark("orders", "RENAME TABLE orders TO sales")


def _expected(sharded: ShardedDatabase) -> list[tuple[object, ...]]:
    return sharded.rows("orders", COLUMNS)


@pytest.fixture(scope="module")
def whole(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> MergedLog:
    """Return a log that was merged in one go."""
    made = MergedLog(recorded, tmp_path_factory.mktemp("whole") / "log")
    made.merge()
    return made


def test_a_server_that_follows_the_log_has_what_all_parts_have(
    recorded: Recorded, whole: MergedLog, database: Callable[..., Database], tmp_path: Path
) -> None:
    with closing(ChangeLog.open(whole.folder)) as log:
        start_ts = log.state.first_ts
    deliver(whole.folder, f"binlog://{tmp_path / 'out'}", ["mall.*"], start_ts)
    target = database(recorded.kind)
    target.execute("DROP DATABASE IF EXISTS mall", "CREATE DATABASE mall")
    target.execute(CREATE.format(part="mall.orders"))
    replay(target, files_of(tmp_path / "out"))
    wanted = _expected(recorded.sharded)
    assert len(wanted) > 100
    found = target.execute(f"SELECT {COLUMNS} FROM mall.sales")
    assert sorted(found, key=repr) == wanted
    assert target.execute("SELECT * FROM mall.items") == []
    assert target.execute("SELECT * FROM mall.rates") == [(1,)]
    target.execute("DROP DATABASE mall")


def test_each_row_is_of_the_definition_at_its_place(recorded: Recorded, whole: MergedLog) -> None:
    with closing(ChangeLog.open(whole.folder)) as log:
        history = History(log, log.state.first_ts)
        told = [s.sql for s in history.refresh(log.state.resolved_ts)]
        runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
        copied = 0
        for i in range(len(runs)):
            ts, entry = int(runs.commit_ts[i]), log.tables[int(runs.table[i])]
            table = history.versions.table(entry.schema, entry.name, ts)
            assert table is not None
            check(table, TableMap.parse(entry.map_body))
            copied += node_logs.place_of(int(runs.segment[i])) is None
    assert told == [
        "ALTER TABLE orders ADD COLUMN c BIGINT DEFAULT 3",
        "ALTER TABLE orders ADD COLUMN d VARCHAR(20) DEFAULT 'x' FIRST",
        "ALTER TABLE orders MODIFY a BIGINT, ADD KEY (a)",
        "ALTER TABLE orders MODIFY d VARCHAR(300)",
        *(f"ALTER TABLE orders {change}" for change in RECODED),
        "ALTER TABLE orders DROP COLUMN b",
        "ALTER TABLE orders RENAME COLUMN a TO aa",
        "ALTER TABLE orders CHANGE c cc BIGINT FIRST",
        "CREATE TABLE items (id INT NOT NULL PRIMARY KEY, a INT)",
        "CREATE TABLE rates (id INT NOT NULL PRIMARY KEY)",
        "RENAME TABLE orders TO sales",
    ]
    # Only rows from beside a change are written anew.
    assert 10 < copied < len(runs)


def test_a_kill_at_any_step_changes_nothing(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    killed_at_steps(recorded, whole, tmp_path / "log")


def test_a_log_in_the_place_of_another_tells_the_same(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    """From any place, also between the changes of two parts, and behind a RENAME."""
    replaced_at_steps(recorded, whole, tmp_path)
