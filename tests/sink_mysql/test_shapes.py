"""Tables and transactions of every shape: keys, foreign keys, generated columns, sizes."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import ErrorKind
from sink.mysql.errors import TargetDuplicateKey, TargetRowMissing, TargetRowTooLarge
from tests.seeds import drawn
from tests.sink_mysql.replay import Replay, changed_twice, content, same_schema

_PAIRS = [
    ("mariadb-11.4", "mariadb-11.8"),
    ("mysql-8.0", "mysql-9.7"),
    ("mariadb-11.4", "mysql-8.0"),
    ("mysql-8.0", "mariadb-11.4"),
]
_WIDE = ", ".join(f"c{i} tinyint default {i % 100}" for i in range(300))
_TABLES = (
    "create table nokey (a int, b varchar(20))",
    "create table uniq (id int primary key, u int, unique key (u))",
    "create table auto (id int auto_increment primary key, v int)",
    "create table gen (id int primary key, a int, b int as (a * 2) stored, c int as (a + 1))",
    f"create table wide (id int primary key, {_WIDE})",
    "create table parent (id int primary key, v int)",
    "create table child (id int primary key, p int, foreign key (p) references parent (id)"
    " on delete cascade on update cascade)",
    "create table grandchild (id int primary key, c int, foreign key (c) references child (id)"
    " on delete cascade)",
    "create table `od d näme` (`i d` int primary key, `sélect` varchar(10))",
    "create table bulk (id int primary key, v varchar(200))",
    "create table large (id int primary key, v longblob)",
)
_CHANGES = (
    "insert into nokey values (1, 'x'), (1, 'x'), (1, 'x'), (2, null), (null, null)",
    "delete from nokey where a = 1 limit 1",
    "update nokey set b = 'y' where a = 1 limit 1",
    "insert into uniq values (1, 10), (2, 20), (3, null)",
    "start transaction", "update uniq set u = null where id = 1",
    "update uniq set u = 10 where id = 2", "update uniq set u = 20 where id = 1", "commit",
    "update uniq set id = 100 where id = 3",
    "insert into auto (v) values (1)", "insert into auto values (0, 7)",
    "insert into gen (id, a) values (1, 5), (2, null)", "update gen set a = 9 where id = 1",
    "delete from gen where id = 2",
    "insert into wide (id) values (1), (2)", "update wide set c299 = 1, c0 = null where id = 1",
    "insert into parent values (1, 1), (2, 2), (3, 3)",
    "insert into child values (10, 1), (11, 1), (12, 2), (13, 3)",
    "insert into grandchild values (100, 10), (101, 12)",
    # The cascades of these are in no binlog of InnoDB: the target must repeat them.
    "delete from parent where id = 1", "update parent set id = 30 where id = 3",
    "set foreign_key_checks = 0", "insert into child values (20, 999)",
    "delete from parent where id = 2", "set foreign_key_checks = 1",
    "insert into `od d näme` values (1, 'é')",
    "insert into large values (1, repeat('x', 3000000)), (2, '')",
    "update large set v = repeat('y', 2000000)", "delete from large where id = 2",
)  # fmt: skip


def _source(source: Any, schema: str) -> None:
    with source.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run("set sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
        run(f"create database {schema} charset utf8mb4 collate utf8mb4_general_ci")
        run(f"use {schema}")
        for sql in _TABLES:
            run(sql)
        run("flush binary logs")
        values = ", ".join(f"({i}, repeat('{i % 10}', {i % 200}))" for i in range(3000))
        for sql in (
            *_CHANGES,
            f"insert into bulk values {values}",
            "update bulk set id = id + 5000",
        ):
            run(sql)


@pytest.mark.parametrize(("one", "other"), drawn(_PAIRS, names=2))
def test_every_shape(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    _source(source, fresh_name)
    expected = content(source, fresh_name)
    assert len(expected["child"]) == 3
    assert len(expected["bulk"]) == 3000
    replay = Replay.of(source, fresh_name)
    # Each row in a statement of its own, a few, and as many as fit.
    for limit, at_least in ((1, 6000), (5000, 100), (None, 1)):
        target.execute(f"drop database if exists {fresh_name}")
        same_schema(source, target, fresh_name)
        assert replay.deliver(target, limit) >= at_least
        got = content(target, fresh_name)
        for name, rows in expected.items():
            assert got[name] == rows, name


@pytest.mark.parametrize(
    ("one", "other"), [("mysql-8.0", "mysql-9.7"), ("mariadb-11.4", "mysql-8.0")]
)
def test_a_row_without_a_key_is_changed_twice(
    database: Any, fresh_name: str, one: str, other: str
) -> None:
    """MySQL hashes all before images of an event of such a table, and walks an index once."""
    source, target = database(one), database(other)
    source.execute(
        f"create database {fresh_name}",
        f"create table {fresh_name}.t (id int, n int, c int, key (c, n))",
        "flush binary logs",
    )
    source.execute(*changed_twice("t"), database=fresh_name)
    same_schema(source, target, fresh_name)
    Replay.of(source, fresh_name).deliver(target)
    assert content(target, fresh_name) == content(source, fresh_name)


def test_what_the_target_logs_can_be_applied_again(database: Any, fresh_name: str) -> None:
    """A chain of replicas: nothing is lost between what we apply and what the target logs."""
    source, target = database("mysql-8.0"), database("mysql-9.7")
    _source(source, fresh_name)
    same_schema(source, target, fresh_name)
    target.execute("flush binary logs")
    Replay.of(source, fresh_name).deliver(target)
    again = Replay.of(target, fresh_name)
    same_schema(source, target, fresh_name)
    again.deliver(target)
    assert content(target, fresh_name) == content(source, fresh_name)


def test_a_row_over_the_targets_limit(database: Any, fresh_name: str) -> None:
    source = database("mariadb-11.4")
    target = database("mariadb-11.8", options=["--max-allowed-packet=1M"])
    source.execute(
        f"create database {fresh_name}",
        f"create table {fresh_name}.t (id int primary key, v longblob)",
        "flush binary logs",
        f"insert into {fresh_name}.t values (1, repeat('x', 700000)), (7, repeat('x', 900000))",
    )
    same_schema(source, target, fresh_name)
    with pytest.raises(TargetRowTooLarge) as e:
        Replay.of(source, fresh_name).deliver(target)
    assert "id=7" in e.value.object
    assert "max_allowed_packet" in e.value.hint
    assert content(target, fresh_name) == {"t": []}


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_a_target_that_diverged(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    for sql, found, error, key in (
        (
            "insert into t values (7, 7), (1, 1), (8, 8), (9, 9)",
            "insert into t values (1, 2)",
            TargetDuplicateKey,
            1,
        ),
        ("delete from t where id = 3", "delete from t where id = 3", TargetRowMissing, 3),
    ):
        source.execute(f"drop database if exists {fresh_name}", f"create database {fresh_name}")
        source.execute(
            "create table t (id int primary key, v int)",
            "insert into t values (3, 3), (5, 5)",
            "flush binary logs",
            sql,
            database=fresh_name,
        )
        target.execute(f"drop database if exists {fresh_name}")
        same_schema(source, target, fresh_name)
        target.execute("insert into t values (3, 3), (5, 5)", found, database=fresh_name)
        before = content(target, fresh_name)
        with pytest.raises(error) as e:
            Replay.of(source, fresh_name).deliver(target)
        assert e.value.kind is ErrorKind.DEFINITE
        assert e.value.to_dict()["object"] == f"{fresh_name}.t, row id={key}"
        assert "ts" in e.value.position
        assert content(target, fresh_name) == before
        assert target.execute("select ts from tidegate.ledger") == [(None,)]
