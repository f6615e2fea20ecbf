"""Every type, edge value and character set arrives byte for byte, between and within families."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codec.test_types import _cases
from tests.seeds import seed
from tests.sink_mysql.replay import Replay, content, same_schema

# Types that one family has alone, or stores in a form of its own.
_OWN = ("json", "uuid", "inet4", "inet6", "vector")
_PAIRS = [
    ("mariadb-11.4", "mariadb-11.8"),
    ("mysql-8.0", "mysql-9.7"),
    ("mariadb-11.4", "mysql-8.0"),
    ("mysql-8.0", "mariadb-11.4"),
]
# One of them in each run.
_OTHERS = [
    ("mariadb-11.8", "mariadb-10.11"),
    ("mysql-9.7", "mysql-8.0"),
    ("mariadb-11.4", "mysql-9.7"),
    ("mysql-9.7", "mariadb-11.4"),
]


def _kinds(source: Any, target: Any) -> list[tuple[str, tuple[str, ...]]]:
    theirs = {kind for kind, _, _ in _cases(target)}
    return [
        (kind, literals)
        for kind, _, literals in _cases(source)
        if kind in theirs and (source.kind == target.kind or kind.split("(")[0] not in _OWN)
    ]


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_every_type_is_byte_equal(database: Any, fresh_name: str, one: str, other: str) -> None:
    _arrives(database, fresh_name, one, other)


def test_so_with_another_pair_in_each_run(database: Any, fresh_name: str) -> None:
    _arrives(database, fresh_name, *_OTHERS[seed() % len(_OTHERS)])


def _arrives(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    kinds = _kinds(source, target)
    assert len(kinds) > 60
    with source.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run("set sql_mode='', time_zone='+00:00'")
        run(f"create database {fresh_name} character set utf8mb4 collate utf8mb4_general_ci")
        run(f"use {fresh_name}")
        for n, (kind, _) in enumerate(kinds):
            run(f"create table t{n} (id int primary key, v {kind})")
        run("flush binary logs")
        for n, (_, literals) in enumerate(kinds):
            for i, literal in enumerate((*literals, "null")):
                run(f"insert into t{n} values ({i}, {literal})")
            # Every value once as a changed one, and once as that of a row that goes.
            run(f"update t{n} set id = id + 100")
            run(f"insert into t{n} select id + 100, v from t{n}")
            run(f"delete from t{n} where id >= 200 order by id desc limit 1")
    same_schema(source, target, fresh_name)
    Replay.of(source, fresh_name).deliver(target)
    expected = content(source, fresh_name)
    assert all(len(rows) >= 3 for rows in expected.values())
    got = content(target, fresh_name)
    for n, (kind, _) in enumerate(kinds):
        assert got[f"t{n}"] == expected[f"t{n}"], kind
