"""Sync points at real targets: what is written, once, by whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import Position
from sink.errors import FencedEpoch, SinkOptionNotSupported
from sink.mysql.driver import MysqlDriver
from sink.mysql.settings import MysqlSettings
from sink.mysql.sink import MysqlSink
from tests.servers import Database

FEED = FeedId("ours", "pointed", 3)
ALL = "select incarnation, primary_ts, secondary_position from tidegate.sync_points order by 1, 2"


@pytest.fixture(params=["mariadb-11.4", "mysql-8.0"])
def target(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Iterator[Database]:
    """A target without a ledger."""
    found = database(request.param)
    found.execute("drop database if exists tidegate")
    yield found
    found.execute("drop database if exists tidegate")


def test_points_are_written_with_the_position_and_go_with_time(target: Database) -> None:
    sink = MysqlSink(target.uri() + "/", {})
    settings = MysqlSettings.parse(target.uri() + "/")
    MysqlDriver(settings).recover(FEED, 1, 1, (), Position(0))
    sink.changer(FEED, 1).take_over()
    points = sink.sync_points(FEED, 1, 3600)
    name = "gtid_binlog_pos" if target.kind == "mariadb" else "gtid_executed"
    points.write(100)
    before = str(target.execute(f"select @@global.{name}")[0][0]).replace("\n", "")
    points.write(200)
    (_, first, at), second = target.execute(ALL)
    assert first == 100
    assert second == (3, 200, before)
    assert before
    # Again is once: what it says was true then.
    points.write(100)
    assert target.execute(ALL)[0] == (3, 100, at)
    target.execute(
        "update tidegate.sync_points set created_at = now() - interval 3601 second"
        " where primary_ts = 100"
    )
    points.write(300)
    assert [row[1] for row in target.execute(ALL)] == [200, 300]
    # Another incarnation's are still true; they go with the changefeed.
    newer = replace(FEED, incarnation=4)
    sink.changer(newer, 1).take_over()
    sink.sync_points(newer, 1, 3600).write(150)
    assert [row[:2] for row in target.execute(ALL)] == [(3, 200), (3, 300), (4, 150)]
    MysqlDriver(settings).forget(newer, 1)
    assert target.execute(ALL) == []


def test_whoever_was_replaced_writes_none(target: Database) -> None:
    """Its rows may have been followed by others: the position would be of another state."""
    sink = MysqlSink(target.uri() + "/", {})
    sink.changer(FEED, 1).take_over()
    old = sink.sync_points(FEED, 1, 3600)
    sink.changer(FEED, 2).take_over()
    with pytest.raises(FencedEpoch):
        old.write(100)
    assert target.execute(ALL) == []


def test_not_without_a_ledger_of_rows() -> None:
    sink = MysqlSink("mysql://root@127.0.0.1:1/?exactly-once=false", {})
    with pytest.raises(SinkOptionNotSupported, match="without the ledger"):
        sink.sync_points(FEED, 1, 3600)
