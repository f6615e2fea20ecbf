"""When a placement may change, and when it must, by a real target."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand
from cdc.schema.table import Table
from sink.contract import Layout
from sink.mysql import ledger
from sink.mysql.connection import SinkSession
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import TargetIncompatible
from sink.mysql.placement import BLOCKS, TARGET
from sink.mysql.settings import MysqlSettings
from sink.mysql.target import read_table
from tests.servers import Database

pytestmark = pytest.mark.real


@pytest.mark.parametrize("server", ["mariadb-11.4", "mysql-8.0"])
@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE a ADD UNIQUE KEY (v)",
        "ALTER TABLE a MODIFY id VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
        "ALTER TABLE a ADD CONSTRAINT f_{s} FOREIGN KEY (v) REFERENCES b (id)",
    ],
)
def test_a_change_of_keys_outgrows_a_layout_and_another_does_not(
    database: Callable[..., Database], fresh_name: str, server: str, change: str
) -> None:
    target = database(server)
    tables = [f"CREATE TABLE {n} (id INT PRIMARY KEY, v INT NOT NULL)" for n in "ab"]
    target.execute(f"CREATE DATABASE {fresh_name}")
    target.execute(*tables, database=fresh_name)
    settings = MysqlSettings.parse(f"{target.uri()}/?worker-count=3")
    driver = MysqlDriver(settings)

    def now() -> list[Table]:
        """Both sides have the same schema."""
        session = SinkSession(settings)
        try:
            return [read_table(session, fresh_name, name).table for name in "ab"]
        finally:
            session.close()

    before = driver.recover(FeedId("tests", fresh_name, 1), 1, 1, now(), Position(0)).layout
    assert set(before.placed.values()) == {BLOCKS}
    target.execute("ALTER TABLE a ADD COLUMN more INT", database=fresh_name)
    assert not driver.outgrown(before, now())
    target.execute(change.format(s=fresh_name), database=fresh_name)
    assert driver.outgrown(before, now())
    assert not driver.outgrown(Layout({TARGET: 1}, before.placed), now())
    assert not driver.outgrown(Layout({TARGET: 3}, {}), now())


def test_a_bucket_that_is_ahead_with_one_table_keeps_the_placement(
    database: Callable[..., Database], fresh_name: str
) -> None:
    """Else rows that it has would be another bucket's, which does not know that they came."""
    target = database("mariadb-11.4")
    target.execute(f"CREATE DATABASE {fresh_name}")
    target.execute("CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL)", database=fresh_name)
    settings = MysqlSettings.parse(f"{target.uri()}/?worker-count=2")
    feed, name = FeedId("tests", fresh_name, 1), f"{fresh_name}.a".lower()
    driver = MysqlDriver(settings)
    session = SinkSession(settings)
    tables = [read_table(session, fresh_name, "a").table]
    before = driver.recover(feed, 1, 1, tables, Position(50)).layout
    held = {name: Position(20)}
    session.run("BEGIN")
    ledger.write(session, feed, 0, 1, Stand(100))
    ledger.write(session, feed, 1, 1, Stand(100, held=held))
    session.run("COMMIT")
    session.run(f"ALTER TABLE {fresh_name}.a ADD UNIQUE KEY (v)")
    session.close()
    kept = driver.recover(feed, 2, 1, tables, Stand(100, held=held), begun=True)
    assert (kept.kept, kept.layout, kept.parted) == (True, before, {name})
    made = driver.recover(feed, 3, 1, tables, Stand(100), begun=True)
    assert not made.kept
    assert made.layout != before


@pytest.mark.parametrize("server", ["mariadb-11.4", "mysql-8.0"])
def test_whether_triggers_fire_is_never_chosen_by_a_difference_of_columns(
    database: Callable[..., Database], fresh_name: str, server: str
) -> None:
    target = database(server)
    target.execute(f"CREATE DATABASE {fresh_name}")
    target.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, v INT)",
        "CREATE TRIGGER audits AFTER INSERT ON a FOR EACH ROW SET @seen = NEW.id",
        database=fresh_name,
    )
    uri = f"{target.uri()}/?worker-count=1"
    driver = MysqlDriver(MysqlSettings.parse(uri))
    session = SinkSession(MysqlSettings.parse(uri))
    tables = [read_table(session, fresh_name, "a").table]
    mariadb = session.target.mariadb
    session.close()
    driver.verify(tables, mariadb=mariadb)
    target.execute("ALTER TABLE a MODIFY v BIGINT", database=fresh_name)
    with pytest.raises(TargetIncompatible, match="audits"):
        driver.verify(tables, mariadb=mariadb)
    MysqlDriver(MysqlSettings.parse(f"{uri}&apply=sql")).verify(tables, mariadb=mariadb)
    target.execute("DROP TRIGGER audits", database=fresh_name)
    driver.verify(tables, mariadb=mariadb)
