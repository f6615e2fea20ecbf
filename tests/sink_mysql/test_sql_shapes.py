"""Tables and transactions of every shape as SQL text; modes, sizes, repeated delivery."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymysql
import pytest

from cdc.base.errors import ErrorKind
from sink.mysql.errors import (
    TargetColumnMissing,
    TargetIncompatible,
    TargetRowTooLarge,
    TargetValueRejected,
)
from tests.sink_mysql.replay import Replay, content, same_schema
from tests.sink_mysql.sql_replay import SqlTarget, deliver
from tests.sink_mysql.test_shapes import _source

_PAIRS = [("mariadb-11.4", "mysql-8.0"), ("mysql-9.7", "mariadb-11.4")]
_MODES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,PAD_CHAR_TO_FULL_LENGTH"

_QUOTED = "`q\"\\'; --`"


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_every_shape(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    _source(source, fresh_name)
    with source.connect(database=fresh_name) as connection, connection.cursor() as cursor:
        for sql in (
            "create table self (id int primary key, p int, foreign key (p) references self (id))",
            "insert into self values (1, null), (2, 1), (3, 2)",
            "delete from self order by id desc",
            "create table pair (a varchar(10), b float, v int, primary key (a, b))",
            "insert into pair values ('x', 0.1, 1), ('y', 0.2, 2), ('X ', 0.3, 3), ('z', -0.1, 4)",
            "update pair set v = v + 1",
            "update pair set b = b + 1 where a = 'z'",
            "delete from pair where v < 4",
        ):
            cursor.execute(sql)
    expected = content(source, fresh_name)
    assert len(expected["pair"]) == 2
    replay = Replay.of(source, fresh_name)
    # Some rows in a statement, and some that do not fit into one of this size.
    same_schema(source, target, fresh_name)
    assert deliver(replay, target, 3000) > 100
    got = content(target, fresh_name)
    for name, rows in expected.items():
        assert got[name] == rows, name


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_safe_mode_may_repeat(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    source.execute(
        f"create database {fresh_name}",
        f"use {fresh_name}",
        "create table one (id int primary key, v int)",
        "create table two (id int primary key, u int unique, v int)",
        "create table child (id int primary key, t int, foreign key (t) references two (id)"
        " on delete cascade)",
        "flush binary logs",
        "insert into one values (1, 1), (2, 2), (3, 3), (4, 4)",
        "insert into two values (1, 10, 1), (2, 20, 2), (3, 30, 3)",
        "insert into child values (1, 1), (2, 2)",
        "update one set v = v + 10",
        "update one set id = id + 10 where id > 2",
        "delete from one where id = 1",
        "update two set u = null where id = 1",
        "update two set u = 10 where id = 2",
        "update two set u = 20, v = 7 where id = 1",
        "update two set id = 33 where id = 3",
        "delete from two where id = 33",
        "insert into two values (3, 30, 4)",
    )
    expected = content(source, fresh_name)
    replay = Replay.of(source, fresh_name)
    same_schema(source, target, fresh_name)
    for _ in range(2):
        deliver(replay, target, safe_mode=True)
        assert content(target, fresh_name) == expected
    # Rows that were there before, and rows that are gone.
    target.execute(
        f"use {fresh_name}",
        "delete from one where id = 2",
        "insert into one values (1, 99)",
        "insert into two values (33, 31, 0)",
    )
    deliver(replay, target, safe_mode=True)
    assert content(target, fresh_name) == expected


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_a_missing_row_is_counted(database: Any, fresh_name: str, name: str) -> None:
    server = database(name)
    for sql, wanted in (
        ("update t set v = 5 where id < 3", 4),
        ("update t set id = 9 where id = 3", 1),
        ("delete from t where id < 4", 3),
        ("delete from n where v = 2", 1),
    ):
        server.execute(
            f"drop database if exists {fresh_name}",
            f"create database {fresh_name}",
            f"use {fresh_name}",
            "create table t (id int primary key, v int)",
            "create table n (id int, v int)",
            "insert into t values (1, 1), (2, 2), (3, 3)",
            "insert into n values (2, 2)",
            "flush binary logs",
            sql,
        )
        replay = Replay.of(server, fresh_name)
        server.execute(
            f"delete from {fresh_name}.t",
            f"delete from {fresh_name}.n",
            f"insert into {fresh_name}.t values (1, 1)",
        )
        there = SqlTarget(replay, server)
        [(statement, batch)] = there.batches()
        assert batch.matched == wanted
        assert there.session.run(statement) < wanted
        there.session.close()


def _texts(random: np.random.Generator, n: int) -> list[str]:
    letters = [*"ab'\"\\\0\n\r\x1a%_`é中😀;-- /*", "''", "\\'", "x'27'"]
    return ["".join(random.choice(letters, random.integers(0, 40))) for _ in range(n)]


@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0", "mysql-9.7"])
def test_hostile_bytes_in_every_mode(database: Any, fresh_name: str, name: str) -> None:
    """Random text and bytes, keys of them too, whatever mode the session is in."""
    server = database(name)
    random = np.random.default_rng(5)
    columns = "t varchar(200), b varbinary(200), l varchar(200) character set latin1"
    server.execute(
        f"create database {fresh_name} character set utf8mb4 collate utf8mb4_bin",
        f"use {fresh_name}",
        f"create table k (id int, {columns}, primary key (id, t))",
        f"create table n (id int, {columns})",
        f"create table {_QUOTED} (`c\"\\'` varchar(200), `select` int, primary key (`c\"\\'`))",
        "flush binary logs",
    )
    with server.connect(database=fresh_name) as connection, connection.cursor() as cursor:
        rows = [
            (i, text, random.bytes(int(random.integers(0, 60))), random.bytes(i))
            for i, text in enumerate(_texts(random, 200))
        ]
        for table in "kn":
            insert = f"insert into {table} values (%s, %s, _binary %s, unhex(%s))"
            cursor.executemany(insert, [(i, t, b, x.hex()) for i, t, b, x in rows])
            cursor.execute(f"update {table} set b = concat(b, x'5c27'), t = concat(t, '\\\\')")
            cursor.execute(f"delete from {table} where id % 5 = 0")
        cursor.executemany(
            f"insert into {_QUOTED} values (%s, 1)",
            [(f"{i}{t}",) for i, t in enumerate(rows[3][1])],
        )
        cursor.execute(f"update {_QUOTED} set `select` = 2")
    replay = Replay.of(server, fresh_name)
    expected = content(server, fresh_name)
    [[before]] = server.execute("select @@global.sql_mode")
    try:
        server.execute(f"set global sql_mode = '{_MODES}'")
        for mode in ("", f",{_MODES.replace(',PAD_CHAR_TO_FULL_LENGTH', '')}"):
            for table in ("k", "n", _QUOTED):
                server.execute(f"delete from {fresh_name}.{table}")
            there = SqlTarget(replay, server)
            there.session.run(f"set session sql_mode = concat(@@sql_mode, '{mode}')")
            there.deliver()
            assert content(server, fresh_name) == expected
    finally:
        server.execute(f"set global sql_mode = '{before}'")


def test_the_comparison_sees_a_dropped_escape(database: Any, fresh_name: str) -> None:
    server = database("mariadb-11.4")
    server.execute(
        f"create database {fresh_name}",
        f"create table {fresh_name}.t (id int primary key, v varchar(20))",
        "flush binary logs",
        f"insert into {fresh_name}.t values (1, 'it''s'), (3, 'a\\\\')",
    )
    replay = Replay.of(server, fresh_name)
    server.execute(f"delete from {fresh_name}.t")
    there = SqlTarget(replay, server)
    [(statement, _)] = there.batches()
    assert b"(3,_utf8mb4 x'615C')" in statement
    for escaped, dropped in ((b"it''s", b"it's"), (b"_utf8mb4 x'615C'", b"'a\\'")):
        with pytest.raises(pymysql.err.ProgrammingError):
            there.session.run(statement.replace(escaped, dropped))
    assert there.session.run(statement) == 2
    there.session.close()


def test_a_row_over_the_targets_limit(database: Any, fresh_name: str) -> None:
    source = database("mariadb-11.4")
    target = database("mariadb-11.8", options=["--max-allowed-packet=1M"])
    source.execute(
        f"create database {fresh_name}",
        f"create table {fresh_name}.t (id int primary key, v longblob, w int)",
        "flush binary logs",
        f"insert into {fresh_name}.t values (1, repeat('x', 900000), 0), (2, repeat(x'ff', 400000),"
        " 0), (7, repeat(x'ff', 700000), 0)",
    )
    same_schema(source, target, fresh_name)
    there = SqlTarget(Replay.of(source, fresh_name), target)
    got = []
    with pytest.raises(TargetRowTooLarge) as e:
        got += there.batches(100_000)
    assert "id=7" in e.value.object
    assert "max_allowed_packet" in e.value.hint
    there.session.close()


_HERE = (
    "create table t (id int primary key, a int, b varchar(20) character set latin1,"
    " c enum('x','y','z'), d set('p','q','r'), e smallint unsigned, f datetime, g int,"
    " h int as (a * 2) stored, i float)"
)
_THERE = (
    "create table t (extra int default 7, i double, e bigint, d set('r','q','p'), c enum('z','x'),"
    " b longtext character set utf8mb4, a bigint, id bigint primary key, f datetime(3), h int,"
    " g int as (a + 1), made timestamp default current_timestamp on update current_timestamp)"
)


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_other_definitions(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    values = "(1, 5, 'ü€', 'x', 'p,r', 7, '2026-01-02 03:04:05', 1, default, 0.1)"
    more = "(2, 6, 'ab', 'z', '', 65535, null, 2, default, null)"
    source.execute(
        f"create database {fresh_name} character set utf8mb4", f"use {fresh_name}", _HERE,
        "flush binary logs", f"insert into t values {values}, {more}",
        "update t set a = 50, d = 'q,p', c = 'z' where id = 1", "delete from t where id = 2",
    )  # fmt: skip
    target.execute(f"create database {fresh_name} character set utf8mb4", f"use {fresh_name}")
    target.execute(_THERE, database=fresh_name)
    replay = Replay.of(source, fresh_name)
    deliver(replay, target)
    found = target.execute(
        f"select id, a, b, c, d, e, cast(f as char), g, h, i, extra from {fresh_name}.t"
    )
    assert found == [
        (1, 50, "ü€", "z", "q,p", 7, "2026-01-02 03:04:05.000", 51, 100, 0.10000000149011612, 7)
    ]
    for change, error in (
        ("alter table t drop column made, drop column b", TargetColumnMissing),
        ("alter table t add column must int not null", TargetIncompatible),
        ("alter table t modify d set('q','r')", TargetValueRejected),
    ):
        target.execute(f"drop table {fresh_name}.t")
        target.execute(_THERE, database=fresh_name)
        target.execute(change, database=fresh_name)
        with pytest.raises(error) as e:
            deliver(replay, target)
        assert e.value.kind is ErrorKind.DEFINITE
        assert f"{fresh_name}.t" in e.value.object
    target.execute(f"drop table {fresh_name}.t")
    target.execute(_THERE.replace("e bigint", "e tinyint"), database=fresh_name)
    with pytest.raises(pymysql.err.DataError):
        deliver(replay, target)


def test_rows_share_statements(database: Any, fresh_name: str) -> None:
    server = database("mysql-8.0")
    server.execute(
        f"create database {fresh_name}", f"use {fresh_name}",
        "create table t (id int primary key, v int)",
        "create table u (id int primary key, v int unique)",
        "flush binary logs",
        "insert into t values (1, 1), (2, 2)", "insert into t values (3, 3)",
        "insert into u values (1, 1)", "update t set v = v + 1", "update t set id = id + 10",
        "update u set v = 2", "delete from t", "delete from u",
    )  # fmt: skip
    there = SqlTarget(Replay.of(server, fresh_name), server)
    found = [(sql.split()[0].decode(), b.rows, b.matched) for sql, b in there.batches()]
    assert found == [
        ("INSERT", 3, 3), ("INSERT", 1, 1), ("INSERT", 3, 6), ("UPDATE", 1, 1), ("UPDATE", 1, 1),
        ("UPDATE", 1, 1), ("UPDATE", 1, 1), ("DELETE", 3, 3), ("DELETE", 1, 1),
    ]  # fmt: skip
    assert b"ON DUPLICATE KEY UPDATE" in there.batches()[2][0]
    there.session.close()
