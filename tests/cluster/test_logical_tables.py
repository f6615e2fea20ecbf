"""Logical tables of a cluster: parts are one table, and rows fit its definition at their place."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.logical.tables import LogicalTables
from cdc.merge.carriers import CARRIERS
from cdc.merge.items import Coordinator
from cdc.rows.agreement import check
from cdc.source import compaction
from cdc.source.cluster_merging import ClusterMerging
from cdc.source.merged_anew import begin_anew
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import position_of
from cdc.source.statements import History
from tests import seeds
from tests.changelog.logs import StillClock
from tests.cluster.coordinator import DistributedDatabase
from tests.cluster.sharded import PATTERN, ShardedDatabase
from tests.servers import Database
from tests.sink_binlog.replay import deliver, files_of, replay
from tests.source.pulling import Pulled

NAMES = ("n1", "n2")
COLUMNS = "cc, d, id, aa, e"
# Values that are stored otherwise in a part than in the table while they go over the parts.
RECODED = (
    "MODIFY d VARCHAR(300) CHARACTER SET utf16, ADD COLUMN e DECIMAL(7,1)",
    "MODIFY e DECIMAL(14,4), MODIFY d TEXT CHARACTER SET latin1, MODIFY a DECIMAL(20,2)",
)


@dataclass
class Recorded:
    sharded: ShardedDatabase
    kind: str
    logs: dict[str, Path]
    pattern: str = PATTERN


class MergedLog:
    """A merged log of logical tables over what was recorded."""

    def __init__(
        self,
        recorded: Recorded,
        folder: Path,
        after: tuple[int, dict[str, Any], dict[str, Any]] | None = None,
    ) -> None:
        """``after``: ts, schema and position of the log whose place it takes."""
        self.folder, self.recorded = folder, recorded
        folder.mkdir()
        logs = recorded.logs
        node_logs.save(folder, [NodeFolder(n, os.path.relpath(p, folder)) for n, p in logs.items()])
        begins, found = {}, []
        for name, path in logs.items():
            with closing(ChangeLog.open(path)) as log:
                begins[name] = log.state.first_ts
                found.append((name, log.snapshot_at(log.state.first_ts)))
        ts = min(begins.values())
        with self._writer() as writer:
            if after is not None:
                nodes = [(name, path, begins[name]) for name, path in logs.items()]
                begin_anew(writer, folder, *after, nodes)
                return
            writer.save_snapshot(ts, self._logical().united(found, ts))
            writer.begin(ts, position_of(begins))

    def _writer(self) -> LogWriter:
        settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
        return LogWriter.open(self.folder, settings, StillClock())

    def _logical(self) -> LogicalTables:
        return LogicalTables(
            self.folder, [self.recorded.pattern], self.recorded.kind.partition("-")[0]
        )

    def merge(self, steps: int = 1 << 30, batch_rows: int = 200_000) -> bool:
        """So many steps of a writer that is opened anew; whether there is more."""
        with ExitStack() as stack:
            writer = stack.enter_context(self._writer())
            nodes = [
                NodeLog(name, stack.enter_context(closing(ChangeLog.open(path))))
                for name, path in self.recorded.logs.items()
            ]
            coordinator = Coordinator(carrier=CARRIERS["commit-log"])
            merging = ClusterMerging(
                writer, nodes, 50_000, coordinator, batch_rows=batch_rows, logical=self._logical()
            )
            more = True
            while steps and more:
                more, steps = merging.step(), steps - 1
        return more

    def content(self) -> list[tuple[int, str, str, bytes]]:
        """Ts, table, TABLE_MAP and events of each row, and statements, in order."""
        with closing(ChangeLog.open(self.folder)) as log:
            lo, hi = log.state.first_ts, log.state.resolved_ts
            runs = log.runs(Position(lo), Position(hi))
            log.verify(runs)
            found = [(ts, "", "", event[19:-4]) for ts, event in log.statements(lo, hi)]
            for i in range(len(runs)):
                entry = log.tables[int(runs.table[i])]
                event = log.event(runs.slice(i, i + 1))
                name = f"{entry.schema}.{entry.name}"
                found.append((int(runs.commit_ts[i]), name, entry.map_body.hex(), event))
        return sorted(found, key=lambda one: one[0])


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def recorded(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recorded:
    """Return what two nodes have of a table that is changed in every way under load."""
    kind = request.param
    more = ["--innodb-lock-wait-timeout=20"]
    nodes = [database(kind, options=[f"--server-id={n}", *more]) for n in (51, 52)]
    cluster = DistributedDatabase(nodes, seeds.seed())
    cluster.create()
    sharded = ShardedDatabase(cluster, seeds.seed())
    columns = "id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7"
    sharded.over_parts("orders", f"CREATE TABLE {{part}} ({columns})")
    logs = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    with ExitStack() as stack:
        pulled = [
            stack.enter_context(Pulled(db, folder))
            for db, folder in zip(nodes, logs.values(), strict=True)
        ]
        cluster.beat()
        _changes(sharded)
        cluster.finish()
        for one in pulled:
            one.caught_up()
    return Recorded(sharded, kind, logs)


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
    target.execute(
        "CREATE TABLE mall.orders (id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7)"
    )
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
    made, wanted, kills = MergedLog(recorded, tmp_path / "log"), whole.content(), 0
    while made.merge(3, batch_rows=60 + 7 * kills):
        found = made.content()
        assert found == wanted[: len(found)]
        kills += 1
    assert made.content() == wanted
    assert kills > 3


def test_a_log_in_the_place_of_another_tells_the_same(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    """From any place, also between the changes of two parts, and behind a RENAME."""
    made, wanted, tried = MergedLog(recorded, tmp_path / "lost"), whole.content(), 0
    more = True
    while more:
        more = made.merge(5, batch_rows=60 + 7 * tried)
        with closing(ChangeLog.open(made.folder)) as log:
            ts, position = log.state.resolved_ts, log.state.position
            snapshot = compaction.at(log, ts)
        if "stand" not in position:
            continue
        tried += 1
        assert snapshot is not None
        again = MergedLog(recorded, tmp_path / f"anew-{tried}", (ts, snapshot, position))
        again.merge()
        assert again.content() == [one for one in wanted if one[0] > ts]
    assert tried > 2
