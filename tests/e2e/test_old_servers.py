"""Whole changefeeds out of the oldest servers that the README names: rows, DDL, filters."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.capture_process import CaptureProcess
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema

pytestmark = pytest.mark.real

PAIRS = [("mysql-5.6", "mysql-8.0"), ("mysql-5.7", "mysql-8.0"), ("mariadb-10.4", "mariadb-11.4")]

TABLES = (
    "create table t (id int unsigned primary key, name varchar(20), n decimal(20,4),"
    " at datetime(3), kind enum('a','b'), raw varbinary(20), stamp timestamp null)"
    " default charset utf8mb4 collate utf8mb4_unicode_ci",
    "create table nokey (a int, b text character set latin1)",
    "create table some (id int primary key, age int) charset utf8mb4 collate utf8mb4_unicode_ci",
)
CHANGES = (
    "set time_zone = '+00:00'",
    "insert into t values (4294967295, 'é日本', -1.5, '2026-01-02 03:04:05.678', 'b', x'00ff',"
    " '2026-01-02 03:04:05'), (2, null, null, null, null, null, null)",
    "insert into nokey values (1, 'é'), (1, 'é'), (2, null)",
    "insert into some values (1, 1), (2, 20), (3, 3)",
    "alter table t add column more varchar(10) not null default 'x' after name, modify n double",
    "update t set more = 'y', n = 1e10 where id = 2",
    "delete from nokey where a = 1 limit 1",
    "update some set age = 30 where id = 2",
    "create table made like t",
    "insert into made (id, more) values (1, 'z')",
    "alter table made drop column kind, change raw raw2 varbinary(30), add key (name)",
    "insert into made (id, raw2) values (2, x'01')",
    "rename table made to renamed",
    "truncate table nokey",
    "insert into nokey values (9, 'end')",
    "begin",
    "insert into some values (4, 4)",
    "delete from some where id = 1",
    "commit",
)


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=[old for old, _ in PAIRS])
def test_a_whole_changefeed(
    old: str,
    new: str,
    capture: CaptureProcess,
    database: Callable[..., Database],
    fresh_name: str,
) -> None:
    source, target = database(old), database(new)
    source.execute(f"create database {fresh_name} character set utf8mb4")
    source.execute(*TABLES, database=fresh_name)
    same_schema(source, target, fresh_name)
    capture.register(old.replace(".", "-"), source.uri())
    feed = fresh_name.replace("_", "-")
    hidden = {"matcher": [f"{fresh_name}.some"], "ignore-insert-value-expr": "age > 2 and age < 10"}
    config = {
        "force-replicate": True,
        "filter": {"rules": [f"{fresh_name}.*"], "event-filters": [hidden]},
    }
    sink = f"mysql://root@127.0.0.1:{target.port}/"
    capture.create(feed, old.replace(".", "-"), sink, [], config)
    source.execute(*CHANGES, database=fresh_name)
    shown = capture.wait_checkpoint(feed, timeout_s=120)
    assert shown["state"] == "normal", shown
    # Inserts with an age between 2 and 10 are left out, and only they.
    some = target.execute(f"select id, age from {fresh_name}.some order by id")
    assert [tuple(row) for row in some] == [(2, 30)]
    source.execute(f"drop table {fresh_name}.some")
    capture.wait_checkpoint(feed, timeout_s=120)
    assert _columns(source, fresh_name) == _columns(target, fresh_name)
    assert content(target, fresh_name) == content(source, fresh_name)


def _columns(server: Database, schema: str) -> list[tuple[object, ...]]:
    """The columns as the server itself lists them; widths of integers are no part of a type."""
    rows = server.execute(
        "select table_name, column_name, ordinal_position, is_nullable, data_type,"
        " character_maximum_length, character_set_name, column_key"
        f" from information_schema.columns where table_schema = '{schema}' order by 1, 3"
    )
    return [tuple(row) for row in rows]
