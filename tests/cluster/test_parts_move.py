"""Parts of a logical table that move between nodes while rows are written: each row comes once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cdc.changelog.reader import ChangeLog
from cdc.logical.errors import MarkRefused
from cdc.logical.names import MARKED
from cdc.logical.topology import AwaitedParts
from cdc.source.statements import History
from tests.cluster.coordinator import Session
from tests.cluster.logical_log import (
    CREATE,
    MergedLog,
    Recorded,
    killed_at_steps,
    record,
    replaced_at_steps,
)
from tests.cluster.sharded import PATTERN, ShardedDatabase
from tests.servers import Database
from tests.sink_binlog.replay import deliver, files_of, replay

pytestmark = pytest.mark.real

_MOVE = "ALTER TABLEGROUP tg1 MOVE PARTITIONS p1 TO 'dn-0'"
_PAUSE_S = 0.3


@pytest.fixture(scope="module", params=["mariadb-11.4", "mysql-8.0"])
def recorded(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    tmp_path_factory: pytest.TempPathFactory,
) -> Recorded:
    """Return what two nodes have of a table whose parts move under load."""
    return record(request.param, database, tmp_path_factory, _moves, MARKED + PATTERN)


def _moves(sharded: ShardedDatabase) -> None:
    with sharded.writing("orders", ["a", "b"]):
        time.sleep(_PAUSE_S)
        # With its database, under the name that it has.
        sql = "MOVE DATABASE mall_000002_GROUP TO 'n2'"
        sharded.move("orders", 2, 1, "mall_000002.orders_02", sql, _PAUSE_S, database=True)
        with _astride(sharded, 3 * _PAUSE_S):
            sharded.move("orders", 1, 0, "mall_000101.orders_01", _MOVE, _PAUSE_S)
        sharded.change("orders", "ALTER TABLE orders ADD COLUMN c BIGINT DEFAULT 3", "", 0.05)
        sharded.shows(["a", "b", "c"])
        # Back, under the name of before; one that comes to nothing; one that its name hides.
        sharded.move("orders", 1, 1, "mall_000001.orders_01", _MOVE, _PAUSE_S)
        sharded.prepare_move("orders", 3, 0, "mall_000103.orders_03")
        time.sleep(_PAUSE_S)
        sharded.give_up_move("orders", 3)
        name = "mall_000000.orders_$1a2b_00"
        sql = "ALTER TABLE orders PARTITION BY HASH (id) PARTITIONS 4"
        sharded.move("orders", 0, 1, name.replace("_000000", "_000200"), sql, _PAUSE_S)
        sharded.over_parts("items", CREATE)
        sql = "CREATE TABLE items (id INT NOT NULL PRIMARY KEY, a INT, b INT NOT NULL DEFAULT 7)"
        sharded.mark("items", sql, 1, sharded.topology("items"))
        sharded.everywhere("items", "INSERT INTO {part} (id) VALUES ({number})")
        sharded.everywhere("items", "UPDATE {part} SET a = id + 1")
        sharded.everywhere("items", "DELETE FROM {part}")
        sharded.change("rates", "CREATE TABLE rates (id INT)", "CREATE TABLE {part} (id INT)")


@contextmanager
def _astride(sharded: ShardedDatabase, seconds: float) -> Iterator[None]:
    """A transaction that one node has prepared, and commits behind what is done meanwhile."""
    session = Session(sharded.cluster, 1)
    row = "INSERT INTO bank.astride VALUES (1)"
    parts = [(0, [row]), (1, [f"DO SLEEP({seconds})", row])]
    for number in (0, 1):
        sharded.cluster.nodes[number].execute("CREATE TABLE bank.astride (id INT)")
    with ThreadPoolExecutor(1) as pool:
        ends = pool.submit(session.across, parts)
        time.sleep(0.1)
        yield
        ends.result()
    session.close()


@pytest.fixture(scope="module")
def whole(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> MergedLog:
    """Return a log that was merged in one go."""
    made = MergedLog(recorded, tmp_path_factory.mktemp("whole") / "log")
    made.merge()
    return made


def _replayed(
    log: MergedLog, database: Callable[..., Database], folder: Path
) -> list[tuple[object, ...]]:
    """The rows that a server has which follows a log; a row that comes twice stops it."""
    with closing(ChangeLog.open(log.folder)) as reader:
        start_ts = reader.state.first_ts
    deliver(log.folder, f"binlog://{folder / 'out'}", ["mall.*"], start_ts)
    target = database(log.recorded.kind)
    target.execute("DROP DATABASE IF EXISTS mall", "CREATE DATABASE mall")
    target.execute(CREATE.format(part="mall.orders"))
    try:
        replay(target, files_of(folder / "out"))
        assert target.execute("SELECT * FROM mall.items") == []
        assert target.execute("SELECT * FROM mall.rates") == []
        return sorted(target.execute("SELECT * FROM mall.orders"), key=repr)
    finally:
        target.execute("DROP DATABASE mall")


def test_each_row_of_parts_that_move_comes_once(
    recorded: Recorded, whole: MergedLog, database: Callable[..., Database], tmp_path: Path
) -> None:
    rows = recorded.sharded.rows("orders", "*")
    assert len(rows) > 100
    assert _replayed(whole, database, tmp_path) == rows
    with closing(ChangeLog.open(whole.folder)) as log:
        history = History(log, log.state.first_ts)
        told = [s.sql for s in history.refresh(log.state.resolved_ts)]
        logical = log.state.position["logical"]
    assert [sql.partition("(")[0] for sql in told] == [
        "ALTER TABLE orders ADD COLUMN c BIGINT DEFAULT 3",
        "CREATE TABLE items ",
        "CREATE TABLE rates ",
    ]
    # Its name says that it is an index.
    assert logical["told"] == [[["n2", "mall_000200", "orders_$1a2b_00"], ["mall", "orders"]]]


def test_a_kill_at_any_step_changes_nothing(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    made = killed_at_steps(recorded, whole, tmp_path / "log")
    with closing(ChangeLog.open(made.folder)) as log:
        # What came to nothing was dropped, and is not waited for.
        assert log.state.position["logical"]["awaited"] == []


def test_a_log_in_the_place_of_another_tells_the_same(
    recorded: Recorded, whole: MergedLog, tmp_path: Path
) -> None:
    """Also where it reads again that a part was made, and not the mark that has told of it."""
    replaced_at_steps(recorded, whole, tmp_path)


def test_rows_of_parts_that_come_are_seen_where_nobody_waits_for_their_mark(
    recorded: Recorded,
    whole: MergedLog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The negative control: how many come twice is a matter of how fast the load was."""
    monkeypatch.setattr(AwaitedParts, "holds", lambda *_: False)
    made = MergedLog(recorded, tmp_path / "log")
    made.merge()
    assert len(made.content()) > len(whole.content())


def test_parts_that_are_told_by_names_must_not_move(recorded: Recorded, tmp_path: Path) -> None:
    by_names = Recorded(recorded.sharded, recorded.kind, recorded.logs)
    with pytest.raises(MarkRefused, match="it may move rows between parts"):
        MergedLog(by_names, tmp_path / "log").merge()
