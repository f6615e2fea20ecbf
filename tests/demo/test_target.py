"""The judge of a target database: it must see what came twice, or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from bench.applied import applied, parse
from bench.fold import Verdict
from bench.target import Watcher, judge_target, wait_same
from bench.workload import WORKER_SHIFT, Committed, Workload
from bench.workload_tables import tables
from tests.servers import Database
from tests.waiting import until

_PLACE = {b"`shop`.`tags`": ("tags", b"###   @4=")}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def story(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Workload, Committed]]:
    """A server with a workload that has ended, which is its own target."""
    server: Database = request.getfixturevalue(request.param)
    schema = f"shop_{secrets.token_hex(4)}"
    without = ("a_point",) if server.kind == "mysql" else ()
    load = Workload(
        server.connect, server.kind, schema=schema, workers=2, rows_per_s=2000, without=without
    )
    load.prepare()
    watcher = Watcher(server.connect, load)
    load.start()
    try:
        until(lambda: load.stopping.is_set() or len(watcher.lags) > 300, "orders are seen", 120)
        # It was not faster than it was told to be, and goes on no faster than it was.
        assert 0 < load.hold() == 2 * load.rate <= 2000
        committed = load.stop()
        watcher.close()
        assert max(watcher.lags) < 120
        assert watcher.newest > watcher.times[0] - 1
        yield server, load, committed
    finally:
        load.stopping.set()
        server.execute(f"DROP DATABASE {schema}", "DROP DATABASE IF EXISTS load_numbers")


def _judged(story: tuple[Database, Workload, Committed]) -> Verdict:
    server, load, committed = story
    return judge_target(server.connect, server, committed, load)


def test_a_complete_target_is_proven(story: tuple[Database, Workload, Committed]) -> None:
    server, load, committed = story
    found = _judged(story)
    assert found.proven, found.lines()
    assert [t.upstream > 0 for t in found.tables] == [True] * 5
    assert wait_same(server.connect, server.connect, load, 0)[0]
    lacking = Committed()
    lacking.add(1, [("tags", 10**6, 10**6 + 3)], 3)
    lacking.ranges.update({k: list(v) for k, v in committed.ranges.items() if k != ("tags", 1)})
    found = judge_target(server.connect, server, lacking, load)
    assert (found.lost, found.uncommitted) == (3, committed_numbers(committed, "tags", 1))
    assert not found.proven


def committed_numbers(committed: Committed, table: str, worker: int) -> int:
    """How many numbers of a table a worker has committed."""
    return sum(end - first for first, end in committed.ranges[table, worker])


def test_a_change_that_came_twice_is_seen_though_rows_are_equal(
    story: tuple[Database, Workload, Committed],
) -> None:
    server, load, _ = story
    name = f"{load.schema}.customers"
    ((key, note),) = server.execute(f"SELECT id, note FROM {name} LIMIT 1")
    assert note is None
    server.execute(
        f"UPDATE {name} SET note = 'again' WHERE id = {key}",
        f"UPDATE {name} SET note = NULL WHERE id = {key}",
    )
    found = _judged(story)
    assert all(t.equal for t in found.tables)
    assert (found.lost, found.duplicated) == (0, 2)
    assert not found.proven


def _row(kind: str, number: int) -> list[bytes]:
    version = 1 << WORKER_SHIFT | number
    part = [b"###   @1='x /* VARSTRING(160) */'", f"###   @4={version} /* LONGINT */".encode()]
    shown = {
        "INSERT INTO": [b"### SET", *part],
        "UPDATE": [b"### WHERE", part[0], b"###   @4=7", b"### SET", *part],
        "DELETE FROM": [b"### WHERE", *part],
    }
    return [f"### {kind} `shop`.`tags`".encode(), *shown[kind]]


def test_only_committed_transactions_count() -> None:
    lines = [
        *_row("INSERT INTO", 1),
        *_row("UPDATE", 2),
        b"COMMIT/*!*/;",
        *_row("INSERT INTO", 3),
        b"ROLLBACK /* added by mysqlbinlog */ /*!*/;",
        b"### INSERT INTO `tidegate`.`ledger`",
        b"### SET",
        b"###   @4=9",
        *_row("DELETE FROM", 2),
        b"COMMIT/*!*/;",
        *_row("INSERT INTO", 4),
    ]
    base = 1 << WORKER_SHIFT
    assert list(parse([line + b"\n" for line in lines], _PLACE)) == [
        [("tags", base | 1, False), ("tags", base | 2, False)],
        [("tags", base | 2, True)],
    ]


def test_a_row_that_the_tool_gives_up_is_an_error() -> None:
    lines = [
        *_row("INSERT INTO", 1)[:3],
        b"###   @2=!! Don't know how to handle column type=255 meta=4 (00)",
    ]
    with pytest.raises(RuntimeError, match="gave a row"):
        list(parse([line + b"\n" for line in lines], _PLACE))


def test_a_point_is_what_mysqls_tool_gives_up(mysql: Database, schema_name: str) -> None:
    mysql.execute(
        f"CREATE DATABASE {schema_name}",
        f"CREATE TABLE {schema_name}.tags (tag INT, a_point POINT, num INT, ver BIGINT)",
        "FLUSH BINARY LOGS",
        f"INSERT INTO {schema_name}.tags VALUES (1, ST_GeomFromText('POINT(1 2)'), 1, 1)",
    )
    tags = next(t for t in tables("mysql") if t.name == "tags")
    with pytest.raises(RuntimeError, match="gave a row"):
        applied(mysql, schema_name, [tags])
