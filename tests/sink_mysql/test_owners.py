"""Whose ledger it is: installations and incarnations that share a target, and rows of before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import START, Position
from sink.errors import FencedEpoch
from sink.mysql.ddl import ledger as ddl_ledger
from sink.mysql.deliverer import TARGET, MysqlDeliverer
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlLedgerInvalid
from sink.mysql.settings import MysqlSettings
from sink.mysql.sink import MysqlSink
from sink.schema_change import Recorded
from tests.servers import Database

OURS = FeedId("aaaa", "copy", 5)
THEIRS = FeedId("bbbb", "copy", 7)
AT = (TARGET, 0)


@pytest.fixture
def settings(mariadb: Database) -> Iterator[MysqlSettings]:
    """A target without a ledger."""
    mariadb.execute("drop database if exists tidegate")
    yield MysqlSettings.parse(f"{mariadb.uri()}/?worker-count=1")
    mariadb.execute("drop database if exists tidegate")


def deliver(settings: MysqlSettings, feed: FeedId, epoch: int, ts: int) -> MysqlDeliverer:
    """Recover, and commit a window that has no rows."""
    MysqlDriver(settings).recover(feed, epoch, 1, (), START)
    made = MysqlDeliverer(settings, feed, epoch, binlog=False)
    made.begin()
    made.commit({AT: Position(ts)})
    return made


def test_installations_with_one_id_share_no_entry(settings: MysqlSettings) -> None:
    driver = MysqlDriver(settings)
    running = deliver(settings, OURS, 3, 100)
    assert driver.recover(THEIRS, 9, 1, (), START).positions == {}
    assert set(driver.admit(OURS)) == {OURS, THEIRS}
    driver.forget(THEIRS, 1)
    running.begin()
    running.commit({AT: Position(200)})
    running.close()
    assert driver.delivered(OURS) == {AT: Position(200)}
    assert set(driver.admit(THEIRS)) == {OURS}


def test_a_new_incarnation_ends_the_old_one(settings: MysqlSettings) -> None:
    driver, newer = MysqlDriver(settings), replace(OURS, incarnation=6)
    old = deliver(settings, OURS, 3, 100)
    # Whatever its epoch is.
    assert driver.recover(newer, 1, 1, (), START).positions == {}
    with pytest.raises(FencedEpoch):
        old.begin()
    with pytest.raises(FencedEpoch):
        driver.recover(OURS, 99, 1, (), START)
    assert set(driver.admit(OURS)) == {newer}


def test_the_end_of_an_incarnation_leaves_its_successor(settings: MysqlSettings) -> None:
    """A changefeed is removed, and made anew before its ledger could be cleared."""
    driver, newer = MysqlDriver(settings), replace(OURS, incarnation=6)
    deliver(settings, newer, 3, 100).close()
    driver.forget(OURS, 1)
    assert driver.delivered(newer) == {AT: Position(100)}


def test_schema_changes_belong_to_one_installation(settings: MysqlSettings) -> None:
    from sink.mysql.connection import SinkSession

    uri = f"mysql://{settings.user}@{settings.host}:{settings.port}/"
    ours, theirs = (MysqlSink(uri, {}).changer(feed, 1) for feed in (OURS, THEIRS))
    assert ours.take_over() == theirs.take_over() == {}
    session = SinkSession(settings)
    try:
        ddl_ledger.end(session, OURS, 1, 50, Recorded.DONE)
        assert theirs.take_over() == {}
        assert ours.take_over() == {50: Recorded.DONE}
        MysqlDriver(settings).forget(THEIRS, 1)
        assert ours.take_over() == {50: Recorded.DONE}
        newer = MysqlSink(uri, {}).changer(replace(OURS, incarnation=6), 1)
        assert newer.take_over() == {}
        with pytest.raises(FencedEpoch):
            ddl_ledger.end(session, OURS, 1, 60, Recorded.DONE)
    finally:
        session.close()
    with pytest.raises(FencedEpoch):
        ours.take_over()
    names = {ddl_ledger.lock_name(feed, 50) for feed in (OURS, replace(OURS, incarnation=6))}
    assert names != {ddl_ledger.lock_name(THEIRS, 50)}
    assert len(names) == 1


@pytest.mark.parametrize("table", ["ledger", "placement", "ddl"])
def test_a_ledger_of_an_earlier_version_is_refused(
    settings: MysqlSettings, mariadb: Database, table: str
) -> None:
    mariadb.execute(
        "create database tidegate",
        f"create table tidegate.{table} (changefeed varchar(255) primary key, ts bigint)",
    )
    with pytest.raises(MysqlLedgerInvalid, match="earlier version"):
        MysqlDriver(settings).admit(OURS)
