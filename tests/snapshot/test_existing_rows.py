"""Rows that a target's tables have already, before those that a changefeed begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.coord.messages import Report
from cdc.coord.snapshot_config import OnExisting
from cdc.schema.table import Table
from sink.mysql.connection import SinkSession
from sink.mysql.ddl.ledger import lock_name
from sink.mysql.settings import MysqlSettings
from sink.mysql.sink import MysqlSink
from sink.mysql.target import read_table
from tests.servers import Database
from tests.sink_mysql.replay import content
from tests.snapshot.test_copying import PAIRS, Way

pytestmark = pytest.mark.real

FEED = FeedId("i", "f", 1)


@pytest.fixture
def way(database: Callable[..., Database], fresh_name: str, tmp_path: Path) -> Iterator[Way]:
    """Return a way whose target has a row of its own, and a wrong one."""
    one, other = map(database, PAIRS[0])
    made = Way(one, other, fresh_name, tmp_path / "log")
    other.execute(
        "insert into still values (7, 'of the target')",
        "insert into numbers values (0, 'wrong', 1)",
        database=fresh_name,
    )
    yield made
    made.jobs.close()


def _begin(way: Way, existing: str | None) -> tuple[Report, Report]:
    """Copy, deliver until it is done or has failed; and begin once more, as after a crash."""
    way.config["snapshot"] |= {"on_existing": existing} if existing else {}
    way.info = way.info.model_copy(update={"config": way.config})
    with way.pulled as pulled:
        info = way.begun(way.copy())
        pulled.caught_up()
    found = []
    for epoch in (1, 2):
        running = way.running(info, epoch=epoch)
        error = None if existing else "TG:ErrTargetNotEmpty"
        found.append(running.ended() if error else running.done())
        running.stop()
        assert (found[-1].error.code if found[-1].error else None) == error
    return found[0], found[1]


def test_a_table_that_has_rows_is_named_before_anything_is_written(way: Way) -> None:
    before = content(way.target, way.schema)
    report, _ = _begin(way, None)
    assert report.error is not None
    assert report.error.object.startswith(f"{way.schema}.numbers at ")
    assert report.error.message == "the table has rows already: 1"
    assert content(way.target, way.schema) == before


def test_upserts_replace_rows_and_leave_others(way: Way) -> None:
    _begin(way, "upsert")
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert len(found.pop("still")) == 1
    assert not wanted.pop("still")
    assert found == wanted


def test_tables_are_emptied_once(way: Way) -> None:
    _begin(way, "truncate")
    assert content(way.target, way.schema) == content(way.source, way.schema)


def _sink(target: Database, **options: str) -> MysqlSink:
    asked = "&".join(f"{key.replace('_', '-')}={value}" for key, value in options.items())
    return MysqlSink(f"mysql://root@127.0.0.1:{target.port}/?{asked}", {})


def _tables(way: Way) -> dict[str, Table]:
    session = SinkSession(MysqlSettings.parse(f"mysql://root@127.0.0.1:{way.target.port}/"))
    try:
        names = ("numbers", "names", "pairs", "still")
        return {name: read_table(session, way.schema, name).table for name in names}
    finally:
        session.close()


def test_many_rows_are_not_counted_and_tables_without_any_are_no_matter(way: Way) -> None:
    first, tables = _sink(way.target).first_rows(None), _tables(way)
    first.check([tables["pairs"], tables["names"]])
    way.target.execute(
        "insert into names (name) select concat('n', a.i, b.i, c.i, d.i) from"
        + ", ".join(
            f" (select 0 i union select 1 union select 2 union select 3 union select 4"
            f" union select 5) {name}"
            for name in "abcd"
        ),
        database=way.schema,
    )
    with pytest.raises(TidegateError, match="more than 1,000") as refused:
        first.check(tables.values())
    assert refused.value.code == "TG:ErrTargetNotEmpty"
    # With safe-mode rows that are there are meant to be replaced.
    _sink(way.target, safe_mode="true").first_rows(None).check(tables.values())


def test_a_parent_is_emptied_though_its_children_point_at_it(way: Way) -> None:
    way.target.execute(
        "create table child (i int primary key, p int, foreign key (p) references still (id))",
        "insert into child values (1, 7)",
        database=way.schema,
    )
    sink = _sink(way.target)
    first = sink.first_rows(OnExisting.TRUNCATE)
    tables = list(_tables(way).values())
    first.prepare(FEED, tables)
    assert not content(way.target, way.schema)["still"]
    # Whoever has taken it over may have delivered rows.
    sink.driver().recover(FEED, 1, 1, tables, Position(1))
    way.target.execute("insert into still values (8, 'delivered')", database=way.schema)
    first.prepare(FEED, tables)
    assert len(content(way.target, way.schema)["still"]) == 1
    sink.driver().forget(FEED, 0)


def test_one_process_prepares_at_a_time(way: Way) -> None:
    first = _sink(way.target, read_timeout="2s").first_rows(OnExisting.TRUNCATE)
    with way.target.connect() as other, other.cursor() as cursor:
        cursor.execute("select get_lock(%s, 0)", (lock_name(FEED, 0),))
        with pytest.raises(TidegateError) as waited:
            first.prepare(FEED, list(_tables(way).values()))
    assert waited.value.code == "TG:ErrMysqlLockWait"
    assert len(content(way.target, way.schema)["still"]) == 1


def test_what_cannot_be_kept_apart_is_refused(way: Way) -> None:
    for existing in (OnExisting.FAIL, OnExisting.TRUNCATE):
        sink = _sink(way.target, exactly_once="false")
        with pytest.raises(TidegateError) as refused:
            sink.first_rows(existing)
        assert refused.value.code == "TG:ErrSinkOptionNotSupported"
    with pytest.raises(TidegateError) as refused:
        _sink(way.target, apply="rows").first_rows(OnExisting.UPSERT)
    assert refused.value.code == "TG:ErrSinkURIInvalid"
