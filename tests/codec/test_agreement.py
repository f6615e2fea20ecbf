"""Tables that are delivered and tables that are refused by name: images, schemas, old formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc.rows.agreement import SchemaMismatch, SystemVersionedTable
from cdc.rows.batch import RowImageNotFull
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.schema.table import Table
from sink.codec.canal.settings import CanalSettings
from tests.codec.binlog_rows import canal_file, messages_of, table_of

BOTH = ("mariadb-11.4", "mysql-8.0")
Execute = Callable[..., Any]


@contextmanager
def file_of(server: Any, schema: str) -> Iterator[tuple[Execute, Callable[[], Path]]]:
    """A session in a new schema with a file of its own; the second gives its path."""
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:

        def run(*statements: str) -> tuple[Any, ...]:
            for statement in statements:
                cursor.execute(statement)
            return tuple(cursor.fetchall())

        run("set sql_mode='', names utf8mb4", f"create database {schema} character set utf8mb4")
        run(f"use {schema}", "flush binary logs")
        yield run, lambda: server.binlogs()[-1]


def rows(path: Path, *tables: Table, **settings: Any) -> list[tuple[str, Any, Any]]:
    found = canal_file(path, {t.full_name: t for t in tables}, CanalSettings(**settings))
    return [(m["type"], m["old"] and m["old"][0], m["data"][0]) for m in messages_of(found)]


@pytest.mark.parametrize("image", ["minimal", "noblob"])
@pytest.mark.parametrize("name", BOTH)
def test_images_without_all_columns(name: str, image: str, database: Any, fresh_name: str) -> None:
    """Named with table, file and offset; a table whose images are whole all the same passes."""
    server = database(name)
    with file_of(server, fresh_name) as (run, path):
        run("create table t (id int primary key, a int, b text)")
        run("create table plain (id int primary key, a int)", "insert into plain values (1, 1)")
        run("insert into t values (1, 1, 'x')", f"set binlog_row_image = '{image}'")
        run("update t set a = 2", "update plain set a = 2", "delete from t")
    t, plain = (table_of(server, fresh_name, n) for n in ("t", "plain"))
    with pytest.raises(RowImageNotFull, match=rf"ErrRowImageNotFull\] {fresh_name}\.t: .*:\d+\)"):
        rows(path(), t)
    if image == "noblob":
        row = {"id": "1", "a": "1"}
        assert rows(path(), plain) == [("INSERT", None, row), ("UPDATE", row, row | {"a": "2"})]
    else:
        with pytest.raises(RowImageNotFull, match="binlog_row_image = FULL"):
            rows(path(), plain)


@pytest.mark.parametrize("name", ["mariadb-10.4", *BOTH, "mysql-9.7"])
def test_generated_and_invisible_columns(name: str, database: Any, fresh_name: str) -> None:
    """Stored and invisible ones are delivered; a virtual one is left out, wherever it stands."""
    server = database(name)
    with file_of(server, fresh_name) as (run, path):
        run(
            "create table t (gone varchar(9) as (concat(a, '!')) virtual, id int primary key,"
            " kept int as (id + 1) stored, a varchar(5), secret int invisible default 7,"
            " last_ int as (id * 2) virtual)"
        )
        run("insert into t (id, a) values (1, 'é')", "update t set a = null, secret = 8")
    first = {"id": "1", "kept": "2", "a": "é", "secret": "7"}
    after = first | {"a": None, "secret": "8"}
    got = rows(path(), table_of(server, fresh_name, "t"))
    assert got == [("INSERT", None, first), ("UPDATE", first, after)]


@pytest.mark.parametrize("name", BOTH)
def test_timestamps_in_the_zone_of_the_option(name: str, database: Any, fresh_name: str) -> None:
    """TIMESTAMP moves with the zone as the server shows it there; DATETIME does not."""
    server = database(name)
    stamps = [
        "1970-01-01 00:00:01",
        "2026-03-29 00:59:59",
        "2026-10-25 01:00:00",
        "2038-01-19 03:14:07",
    ]
    with file_of(server, fresh_name) as (run, path):
        run("set time_zone = '+00:00'")
        run("create table t (id int primary key, s timestamp(3) null, d datetime(3))")
        for i, stamp in enumerate(stamps):
            run(f"insert into t values ({i}, '{stamp}.5', '{stamp}')")
        shown = {}
        for zone, offset in (("Etc/GMT-3", "+03:00"), ("Asia/Kolkata", "+05:30")):
            run(f"set time_zone = '{offset}'")
            shown[zone] = run("select cast(s as char), cast(d as char) from t order by id")
    table = table_of(server, fresh_name, "t")
    for zone, expected in shown.items():
        got = rows(path(), table, time_zone=zone)
        assert tuple((r["s"], r["d"]) for _, _, r in got) == expected
    summer = [r["s"] for _, _, r in rows(path(), table, time_zone="Europe/Berlin")]
    assert summer[1:3] == ["2026-03-29 01:59:59.500", "2026-10-25 02:00:00.500"]


@pytest.mark.parametrize("name", ["mariadb-10.4", "mariadb-11.4"])
def test_temporal_formats_before_mysql_5_6(name: str, database: Any, fresh_name: str) -> None:
    """With mysql56_temporal_format=OFF, next to columns that were made with it ON."""
    server = database(name)
    columns = ", ".join(
        f"t{n} time({n}), d{n} datetime({n}), s{n} timestamp({n}) null" for n in range(7)
    )
    values = ", ".join(["'-23:59:58.987654'", "'2026-01-02 03:04:05.123456'"] * 1)
    row = ", ".join([f"{values}, '2026-06-07 08:09:10.654321'"] * 7)
    with file_of(server, fresh_name) as (run, path):
        run("set time_zone = '+00:00'", "set global mysql56_temporal_format = 0")
        try:
            run(f"create table old (id int primary key, {columns})")
        finally:
            run("set global mysql56_temporal_format = 1")
        run(f"create table new (id int primary key, {columns})")
        shown = {}
        for table in ("old", "new"):
            run(f"insert into {table} values (1, {row})", f"insert into {table} (id) values (2)")
            names = [f"cast({c}{n} as char)" for n in range(7) for c in "tds"]
            shown[table] = run(f"select {', '.join(names)} from {table} order by id")
    assert shown["old"] == shown["new"]
    for table, expected in shown.items():
        got = rows(path(), table_of(server, fresh_name, table))
        assert tuple(tuple(list(r.values())[1:]) for _, _, r in got) == expected


@pytest.mark.parametrize("name", ["mariadb-10.4", "mariadb-11.8"])
def test_mariadbs_own_kinds_of_table(name: str, database: Any, fresh_name: str) -> None:
    """COMPRESSED columns and hidden history are refused by name; declared history is delivered."""
    server = database(name)
    with file_of(server, fresh_name) as (run, path):
        run("set time_zone = '+00:00'")
        run("create table squeezed (id int primary key, v varchar(100) compressed)")
        run("create table hidden_ (id int primary key, v int) with system versioning")
        run(
            "create table shown (id int primary key, v int, s timestamp(6) generated always as row"
            " start, e timestamp(6) generated always as row end, period for system_time (s, e))"
            " with system versioning"
        )
        run(
            "insert into squeezed values (1, repeat('a', 100))", "insert into hidden_ values (1, 1)"
        )
        run(
            "insert into shown (id, v) values (1, 1), (2, 2)", "update shown set v = 3 where id = 1"
        )
        run("delete from shown where id = 2")
        expected = run(
            "select id, v, cast(s as char), cast(e as char) from shown for system_time all"
        )
    squeezed, hidden, shown = (
        table_of(server, fresh_name, n) for n in ("squeezed", "hidden_", "shown")
    )
    with pytest.raises(ColumnTypeNotSupported, match=rf"{fresh_name}\.squeezed\.v: .*COMPRESSED"):
        rows(path(), squeezed)
    with pytest.raises(SystemVersionedTable, match=rf"{fresh_name}\.hidden_: .*row_start"):
        rows(path(), hidden)
    folded: dict[tuple[str, str], tuple[Any, ...]] = {}
    for kind, old, row in rows(path(), shown):
        if kind == "UPDATE":
            del folded[old["id"], old["e"]]
        folded[row["id"], row["e"]] = (int(row["id"]), int(row["v"]), row["s"], row["e"])
    assert sorted(folded.values()) == sorted(expected)


@pytest.mark.parametrize("name", [*BOTH, "mariadb-11.8", "mysql-9.7"])
def test_character_sets_are_compared(name: str, database: Any, fresh_name: str) -> None:
    """Every character set and both families' way to count geometries; a wrong one is named."""
    server = database(name)
    skipped = {"binary", "utf8"}
    charsets = [r[0] for r in server.execute("show character set") if r[0] not in skipped]
    with file_of(server, fresh_name) as (run, path):
        parts = [f"c{i} varchar(5) character set {c}, g{i} point" for i, c in enumerate(charsets)]
        run(f"create table t (id int primary key, {', '.join(parts)}, b blob)")
        run("create table u (a varchar(5), g point, b varchar(5), c text character set latin1)")
        run("insert into t (id) values (1)", "insert into u values ('a', null, 'b', 'c')")
    t, u = (table_of(server, fresh_name, n) for n in ("t", "u"))
    assert len(rows(path(), t, u)) == 2
    for at, (column, wrong) in enumerate([("a", "gbk"), ("c", "cp1250")]):
        changed = tuple(replace(c, charset=wrong) if c.name == column else c for c in u.columns)
        with pytest.raises(
            SchemaMismatch, match=rf"column {column} is of character set {wrong}"
        ) as e:
            rows(path(), replace(u, columns=changed))
        assert re.search(r"utf8mb4 in the binlog|latin1 in the binlog", str(e.value)), at


@pytest.mark.parametrize("name", BOTH)
def test_members_are_compared(name: str, database: Any, fresh_name: str) -> None:
    """Rows hold numbers of members: another list of them would be another value."""
    server = database(name)
    with file_of(server, fresh_name) as (run, path):
        run(
            "create table t (id int primary key, e enum('a','ß','c d ') character set latin1,"
            " s set('x','y','日') character set utf8mb4, n int)"
        )
        run("insert into t values (1, 'ß', 'x,日', 1)")
    t = table_of(server, fresh_name, "t")
    assert len(rows(path(), t)) == 1
    for column in ("e", "s"):
        changed = tuple(
            replace(c, members=(*c.members[1:], c.members[0])) if c.name == column else c
            for c in t.columns
        )
        with pytest.raises(SchemaMismatch, match=rf"column {column} is .* its members are"):
            rows(path(), replace(t, columns=changed))
