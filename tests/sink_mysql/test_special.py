"""Columns and changes that are special, by both ways, between and within families.

Both servers run in modes that change how text is read, which neither way may depend on.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sink_mysql import sql_replay
from tests.sink_mysql.replay import Replay, content, same_schema

_PAIRS = [
    ("mariadb-11.4", "mariadb-11.8"),
    ("mysql-8.0", "mysql-9.7"),
    ("mariadb-11.4", "mysql-8.0"),
    ("mysql-8.0", "mariadb-11.4"),
]
_MODES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,ALLOW_INVALID_DATES"
_TABLES = (
    "create table hidden (id bigint unsigned primary key, a int invisible default 7, b varchar(9))",
    "create table made (v int as (a + 1) virtual, id int primary key, a int,"
    " s int as (a * 2) stored, w varchar(20) as (concat(b, 'x')) virtual, b varchar(9))",
    "create table nokey (a int unsigned, t varchar(40), d datetime(3), hid int invisible)",
    "create table days (id int primary key, d date, t datetime, s timestamp null)",
    r"""create table "tä""b'l\e" ("c""o'l\" int primary key, "öl" varchar(40))""",
    "create table two (id int primary key, u int unique, v int unique)",
    "create table a (id int primary key)",
    "create table b (id int primary key, a int, foreign key (a) references a (id)"
    " on update cascade on delete cascade)",
    "create table c (id int primary key, b int, foreign key (b) references b (id)"
    " on update cascade on delete set null)",
    "create table d (id int primary key, c int, foreign key (c) references c (id))",
)
_CHANGES = (
    "insert into hidden (id, b) values (18446744073709551615, 'x'), (9223372036854775808, '😀')",
    "insert into hidden (id, a, b) values (0, null, null), (3, 5, 'y')",
    "update hidden set a = 9 where id >= 3", "delete from hidden where id = 9223372036854775808",
    "insert into made (id, a, b) values (1, 5, 'q'), (2, null, null), (3, 7, '''\\')",
    "update made set a = 6, b = null where id = 1", "update made set id = 30 where id = 3",
    "delete from made where id = 2",
    "insert into nokey (a, t, d, hid) values (4294967295, '\\''\"', '0000-00-00', 1),"
    " (4294967295, '\\''\"', '0000-00-00', 1), (0, '😀', '2026-02-31 01:02:03.004', null)",
    "update nokey set t = '\\\\' where t = '😀'",
    "delete from nokey where a = 4294967295 limit 1",
    "insert into days values (1, '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00'),"
    " (2, '2026-02-31', '2026-00-10 00:00:01', null), (3, '0001-01-01', '9999-12-31', null)",
    "update days set d = '2026-00-00' where id = 3", "delete from days where d = '2026-02-31'",
    r'''insert into "tä""b'l\e" values (1, '\'), (2, '"'), (3, '😀`')''',
    r'''update "tä""b'l\e" set "öl" = 'x\' where "c""o'l\" = 1''',
    r'''delete from "tä""b'l\e" where "c""o'l\" = 2''',
    "insert into two values (1, 10, 100), (2, 20, 200), (3, 30, 300)",
    # Both unique keys of two rows change places, over values that are nobody's.
    "start transaction", "update two set u = null, v = null where id = 1",
    "update two set u = 10, v = 100 where id = 2", "update two set u = 20, v = 200 where id = 1",
    "commit", "update two set u = u + 1 order by u desc",
    "insert into a values (1), (2), (3)", "insert into b values (11, 1), (12, 2), (13, 3)",
    "insert into c values (21, 11), (22, 12), (23, 13)", "insert into d values (31, 21), (32, 22)",
    # What cascades is in no binlog of InnoDB: the target's own foreign keys repeat it.
    "update a set id = 100 where id = 1", "update b set id = 120 where id = 12",
    "delete from a where id = 2", "delete from d where id = 31", "delete from a where id = 100",
)  # fmt: skip


@pytest.mark.parametrize("way", ["rows", "sql"])
@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_special(database: Any, fresh_name: str, one: str, other: str, way: str) -> None:
    source, target = database(one), database(other)
    with source.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run(f"set sql_mode = '{_MODES}', time_zone = '+00:00'")
        run(f"create database {fresh_name} character set utf8mb4 collate utf8mb4_general_ci")
        run(f"use {fresh_name}")
        for sql in _TABLES:
            run(sql)
        run("flush binary logs")
        for sql in _CHANGES:
            run(sql)
    expected = content(source, fresh_name)
    assert [len(expected[name]) for name in ("hidden", "made", "nokey", "two", "b", "c")] == [
        *(3, 2, 2, 3, 1, 3)
    ]
    same_schema(source, target, fresh_name)
    replay = Replay.of(source, fresh_name)
    ((mode,),) = target.execute("select @@global.sql_mode")
    target.execute(f"set global sql_mode = '{_MODES}'")
    try:
        if way == "rows":
            replay.deliver(target)
        else:
            sql_replay.deliver(replay, target)
    finally:
        target.execute(f"set global sql_mode = '{mode}'")
    got = content(target, fresh_name)
    for name, rows in expected.items():
        assert got[name] == rows, name
