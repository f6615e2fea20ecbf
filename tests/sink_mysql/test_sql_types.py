"""Every type, edge value and character set arrives byte for byte as SQL text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.codec.test_types import _cases
from tests.seeds import drawn, seed
from tests.sink_mysql.replay import Replay, content, same_schema
from tests.sink_mysql.sql_replay import deliver

_OWN = ("uuid", "inet4", "inet6", "json")
_PAIRS = [
    ("mariadb-11.4", "mysql-8.0"),
    ("mysql-9.7", "mariadb-11.4"),
    ("mysql-8.0", "mysql-9.7"),
]
# One of them in each run.
_OTHERS = [
    ("mariadb-10.11", "mariadb-11.4"),
    ("mysql-9.7", "mysql-8.0"),
    ("mariadb-11.4", "mysql-9.7"),
]
_MORE = [
    ("enum('x','0','00')", ("'x'", "'0'", "''")),
    ("enum('a''b','c\\\\d','é')", ("'a''b'", "2", "''")),
    ("set('1','2''','é')", ("''", "1", "7")),
    (f"set({','.join(repr(f'm{i}') for i in range(64))})", ("18446744073709551615", "1")),
    ("float", ("1.1", "-0e0", "1e-45", "3.3e38", "0.3")),
    ("float(7,3)", ("1234.567", "-0.001")),
    ("double", ("-0e0", "2.2250738585072014e-308", "1.1", "-1e-310", "0.30000000000000004")),
    ("date", ("'2026-02-31'", "'2026-00-10'")),
    ("datetime(3)", ("'2026-02-31 01:02:03.004'", "'2026-00-00 00:00:00'")),
    ("varchar(40)", (r"'\\'", r"'\''", "x'00'", r"'a\\\'b'", r"'''\\'''", "'😀''é'", "'\u2028'")),
    ("text", (r"repeat('ab\\', 100)", "repeat('''', 99)", "repeat('é😀', 500)")),
    ("varbinary(40)", (r"'\\'", "x'27'", "x'2700275c'", "x'c3'")),
    ("blob", ("repeat('''', 99)", "repeat(x'5c27', 99)", "repeat(x'00', 33)")),
    ("varchar(40) character set gbk", ("_gbk x'815c'", "_gbk x'a1a2815c27'", "'a''b'")),
    ("varchar(40) character set sjis", ("_sjis x'835c'", "_sjis x'5c'", "_sjis x'835c27'")),
    ("varchar(40) character set latin1", ("_latin1 x'e95c27'", "'plain'", "_latin1 x'80'")),
    ("varchar(40) character set swe7", ("'Jenny'", "'AB'")),
    ("varchar(40) character set koi8r", ("'Привет'",)),
    ("varchar(40) character set ujis", ("'日本'",)),
    ("varchar(40) character set big5", ("_big5 x'a45c'",)),
    ("varchar(40) character set utf32", ("'a😀'",)),
    ("varchar(40) character set utf16le", ("'a😀'",)),
    ("geometry", ("ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))')",
                  "ST_GeomFromText('POINT(10 20)', 4326)")),
]  # fmt: skip
_JSON_EXACT = (
    "json_array(cast(5 as unsigned), 5, -5, 1e0, 1.5, 12.30, true, false, null)",
    "cast(cast(7 as unsigned) as json)",
    "cast(cast(-12.30 as decimal(10,4)) as json)",
    "json_array(cast(repeat('9', 65) as decimal(65)), -cast(repeat('8', 64) as decimal(65)))",
    "json_object('it''s', json_object('\\\\', json_array()), 'é😀', cast('10:11:12.5' as time(6)))",
    "json_array(x'00ff27', json_object(), cast('2026-01-02' as date),"
    " cast('2026-01-02 03:04:05.000001' as datetime(6)), cast('-10:11:12.5' as time(6)))",
    "json_array(0.1e0, 123456789.123e0, 5e-324, 1.7976931348623157e308, -0e0)",
    "json_array(18446744073709551615, 9223372036854775808, -9223372036854775808)",
    "json_object('k', json_array(cast(1.10 as decimal(5,2)), 'x'), 'l', repeat('y', 70000))",
)


def _kinds(source: Any, target: Any) -> list[tuple[str, tuple[str, ...]]]:
    theirs = {kind for kind, _, _ in _cases(target)}
    found = [
        (kind, literals)
        for kind, _, literals in _cases(source)
        if kind in theirs and (source.kind == target.kind or kind.split("(")[0] not in _OWN)
    ]
    found += _MORE
    if source.kind == target.kind == "mysql":
        found.append(("json", _JSON_EXACT))
    return found


def _fill(source: Any, schema: str, kinds: list[tuple[str, tuple[str, ...]]]) -> None:
    """Tables with a key (t…) and without one (n…), each value inserted, changed and deleted."""
    with source.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        run("set sql_mode='ALLOW_INVALID_DATES', time_zone='+00:00'")
        run(f"create database {schema} character set utf8mb4 collate utf8mb4_general_ci")
        run(f"use {schema}")
        for n, (kind, _) in enumerate(kinds):
            run(f"create table t{n} (id int primary key, v {kind})")
            run(f"create table n{n} (id int, v {kind})")
        run("flush binary logs")
        for n, (_, literals) in enumerate(kinds):
            for i, literal in enumerate((*literals, "null")):
                run(f"insert into t{n} values ({i}, {literal})")
            run(f"insert into n{n} select id, v from t{n}")
            run(f"insert into n{n} select id + 50, v from t{n}")
            # Every value once as a changed one, and once as that of a row that goes.
            run(f"update t{n} set id = id + 100")
            run(f"insert into t{n} select id + 100, null from t{n}")
            run(f"update t{n} join n{n} on t{n}.id = n{n}.id + 200 set t{n}.v = n{n}.v")
            run(f"update n{n} set id = id + 100 where id >= 50")
            run(f"delete from n{n} where id < 50")
            run(f"delete from t{n} where id in (200, 201)")


@pytest.mark.parametrize(("one", "other"), drawn(_PAIRS, names=2))
def test_every_type_is_byte_equal(database: Any, fresh_name: str, one: str, other: str) -> None:
    _arrives(database, fresh_name, one, other)


def test_so_with_another_pair_in_each_run(database: Any, fresh_name: str) -> None:
    _arrives(database, fresh_name, *_OTHERS[seed() % len(_OTHERS)])


def _arrives(database: Any, fresh_name: str, one: str, other: str) -> None:
    source, target = database(one), database(other)
    kinds = _kinds(source, target)
    _fill(source, fresh_name, kinds)
    replay = Replay.of(source, fresh_name)
    expected = content(source, fresh_name)
    types = _json_types(source, fresh_name, kinds)
    same_schema(source, target, fresh_name)
    deliver(replay, target)
    got = content(target, fresh_name)
    for n, (kind, _) in enumerate(kinds):
        for name in (f"t{n}", f"n{n}"):
            assert len(expected[name]) >= 2
            assert got[name] == expected[name], (name, kind)
    assert _json_types(target, fresh_name, kinds) == types


def _json_types(server: Any, schema: str, kinds: list[Any]) -> list[Any]:
    """The types inside of JSON documents, which their text does not show."""
    if server.kind != "mysql":
        return []
    last = len(kinds) - 1
    if kinds[last][0] != "json":
        return []
    paths = ", ".join(f"json_type(json_extract(v, '$[{i}]'))" for i in range(9))
    return server.execute(f"select id, json_type(v), {paths} from {schema}.t{last} order by id")
