"""Rows of SELECT become the very bytes that the server itself logged when they were inserted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymysql
import pytest

from cdc.coord.messages import UpstreamInfo
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from cdc.snapshot.errors import SnapshotRowUnreadable
from cdc.snapshot.images import RowImages
from cdc.snapshot.rows_reader import RowBlock, read_rows
from cdc.snapshot.select_list import SESSION, can_be_prepared, select_list
from cdc.source.settings import SourceSettings
from processor import chunk_reading
from processor.chunk_reading import ChunkTask
from tests import seeds
from tests.codec.binlog_rows import canal_file, messages_of, table_of
from tests.codec.test_types import _JSON, _cases
from tests.snapshot.logged_rows import Logged, in_events, in_file, random_json, random_literals

Case = tuple[str, tuple[str, ...]]

_MEMBERS = ",".join(f"'m{i}'" for i in range(64))
_RANDOM = (
    "tinyint", "smallint unsigned", "mediumint", "mediumint unsigned", "int", "bigint",
    "bigint unsigned", "decimal(65,30)", "decimal(10,0)", "decimal(18,9)", "decimal(31,12)",
    "decimal(30,30)", "double", "float", "date", "datetime(6)", "datetime(3)", "timestamp(6) null",
    "time(6)", "time(5)", "time(1)", "time", "varbinary(20)", "binary(12)", "blob",
    "char(9) character set latin1", "varchar(9) character set binary",
)  # fmt: skip
_MORE: list[Case] = [
    (f"set({_MEMBERS})", ("'m0'", "'m63'", "'m0,m1,m62,m63'", str((1 << 64) - 1), str(1 << 63))),
    ("set('a','b','c','d','e','f','g','h','i')", ("'i'", "'a,i'")),
    (f"set({','.join(_MEMBERS.split(',')[:20])})", ("'m19'", "1048575")),
    (f"enum({','.join(repr(f'e{i}') for i in range(300))})", ("'e0'", "'e255'", "'e299'")),
    ("float", ("-0e0", "1e-45", "1.1754942e-38", "0.1", "16777217", "1e10", "-1e-10")),
    ("float(7,3)", ("1234.567", "-0.001", "0.1")),
    ("float(10,4) unsigned zerofill", ("1.5", "0.1")),
    ("double", ("-0e0", "0.1", "1e15", "1e16", "123456789012345678", "2.2250738585072014e-308",
                "2.2250738585072011e-308", "9007199254740993", "1e23", "8.5e-323")),
    ("double(10,2)", ("1234567.89", "-0.01", "0.1")),
    ("double(60,30)", ("0.1", "1e20", "1e-20")),
    ("double(60,3)", ("123456789012345678901234.5", "0.125")),
    ("double unsigned zerofill", ("1.5", "1e300")),
    ("bigint(100) unsigned zerofill", ("0", "7", "18446744073709551615")),
    ("decimal(10,3) unsigned zerofill", ("0", "7.5", "1234567.891")),
    ("decimal(9,3)", ("0", "-0.001", "-999999.999", "12.5")),
    ("decimal(65,0)", ("9" * 65, "-" + "9" * 65, "0", "1" + "0" * 64)),
    ("bit(8)", ("0", "255", "b'10100000'")),
    ("bit(33)", ("8589934591", "1")),
    ("char(255) character set utf8mb4", ("'é'", "repeat('😀', 255)", "'a  '", "'  '")),
    ("char(100) character set utf8mb3", ("'é'", "'a  '")),
    ("char(20) character set utf16", ("'a😀 '", "' '")),
    ("char(20) character set ucs2", ("'aé '",)),
    ("char(20) character set utf32", ("'aé '",)),
    ("char(20) character set big5", ("'中 '",)),
    ("char(20) character set gb18030" , ("'中文😀'",)),
    ("char(20) character set eucjpms", ("'日本 '",)),
    ("char(20) character set ujis", ("'日本 '",)),
    ("char(20) character set binary", ("x'610020'", "x'6100'", "x''")),
    ("varchar(20) character set ucs2", ("x'0061'", "'é  '")),
    ("binary(255)", ("repeat(x'01', 255)", "x''")),
    ("varbinary(255)", ("repeat(x'01', 255)", "x''")),
    ("varbinary(256)", ("repeat(x'01', 256)", "x'00'")),
    ("text", ("repeat('a', 250)", "repeat('a', 251)", "repeat('a', 65535)")),
    ("longblob", ("repeat(x'ff', 65536)",)),
    ("time(6)", ("'-00:00:00.000001'", "'-00:00:01'", "'838:59:58.999999'")),
    ("time(1)", ("'-00:00:00.5'", "'-12:00:00.9'")),
    ("timestamp(6) null", ("'1970-01-01 00:00:01.000001'", "'2026-10-25 01:30:00'")),
    ("datetime(6)", ("'0000-00-00 00:00:00.000001'", "'2026-00-10 00:00:00'")),
    ("int as (id * 2) virtual", ("default",)),
    ("int as (id * 2) stored", ("default",)),
    ("varchar(20) as (concat('v', id)) virtual", ("default",)),
    ("int not null default 3", ("1",)),
]  # fmt: skip
_OF_MARIADB: list[Case] = [
    ("year(2)", ("1970", "2069", "1999")),
    ("int invisible", ("1",)),
]
# Where the small form ends, and where what it holds makes a container large.
_EDGES = (
    "{}", "[]", "[[], {}]", '{"a": {"b": [1, 32767, 32768, -32768, -32769, 2147483648]}}',
    "1", "-1", "32768", "-2147483649", "2147483648", "4294967295", "4294967296",
    "9223372036854775807", "9223372036854775808",
    "18446744073709551615", "0.1", "-0.0", "1e300", "1.0", "1e15", "123456789012345680000",
    "null", "true", "false", '"x"', json.dumps("é\"\\\n\u0001" * 50),
    json.dumps({"b": 1, "aa": 2, "a": 3, "": 4, "é": 5, "ab": 6}),
    *(json.dumps(["x" * n]) for n in (127, 128, 16383, 16384, 65523, 65524, 65525, 65526, 65527)),
    json.dumps({"k": ["y" * 65510], "l": [70000, 1]}),
    json.dumps({"k": ["y" * 65530], "l": [70000, 1], "m": {"n": []}}),
    json.dumps([["z" * 40000], ["z" * 40000], [[["z" * 70000]]], 70000, 1.5, None]),
    json.dumps([1] * 21843), json.dumps([1] * 21844), json.dumps([70000] * 30000),
    "[" * 100 + "]" * 100, json.dumps({f"key{i}": i for i in range(9000)}),
)  # fmt: skip
_OF_MYSQL: list[Case] = [("int invisible", ("1",)), ("point srid 4326", ("null",))]

_SERVERS = ["mariadb-11.4", "mariadb-11.8", "mysql-8.0", "mysql-9.7"]


def cases_of(server: Any) -> list[Case]:
    """Types with literals of values."""
    rng = random.Random(seeds.seed())
    cases = [
        (kind, values)
        for kind, _, values in _cases(server)
        if kind != "json" or server.kind == "mariadb"
    ]
    cases += _MORE + (_OF_MARIADB if server.kind == "mariadb" else _OF_MYSQL)
    if server.kind == "mariadb":
        cases = [case for case in cases if "gb18030" not in case[0]]
    if server.kind == "mysql":
        documents = [*_EDGES, *(json.dumps(random_json(rng, 5, 5)) for _ in range(200))]
        documents += [json.dumps(random_json(rng, 2, 100)) for _ in range(8)]
        cases.append(("json", tuple(f"_utf8mb4 x'{text.encode().hex()}'" for text in documents)))
    return cases + [(kind, tuple(random_literals(rng, kind, 200))) for kind in _RANDOM]


def ours(
    connection: Any,
    table: Table,
    kind: str,
    columns: Sequence[str] = (),
    *,
    prepared: bool = False,
) -> Logged:
    """What we make of the table's rows, in the order of column ``id``."""
    chosen = ", ".join(columns or select_list(table, prepared=prepared))
    sql = f"SELECT {chosen} FROM {quoted(table.schema, table.name)} ORDER BY id"
    images = RowImages(table, kind, event_bytes=1 << 12)
    blocks = read_rows(connection, sql, 1 << 14, prepared=prepared)
    events = (e for block in blocks for e in images.events(block))
    return in_events(events)[table.full_name]


@dataclass(frozen=True)
class Inserted:
    """Tables ``t0 …`` of one server, one a case, and what it logged of them."""

    server: Any
    cases: list[Case]
    logged: dict[str, Logged]
    tables: list[Table]


@pytest.fixture(scope="module", params=_SERVERS)
def inserted(database: Any, request: Any) -> Inserted:
    server = database(request.param)
    cases = cases_of(server)
    with server.connect() as connection, connection.cursor() as cursor:
        run = cursor.execute
        # Tests of a module may be apart, and its fixture made again.
        run("drop database if exists image_types")
        run("create database image_types character set utf8mb4")
        run("use image_types")
        run("set sql_mode = '', time_zone = '+00:00'")
        run("flush binary logs")
        for n, (kind, literals) in enumerate(cases):
            run(f"create table t{n} (id int primary key, v {kind})")
            values = literals if "not null" in kind or "as (" in kind else (*literals, "null")
            rows = ",".join(f"({i}, {value})" for i, value in enumerate(values))
            run(f"insert into t{n} (id, v) values {rows}")
    logged = in_file(server.binlogs()[-1])
    tables = [table_of(server, "image_types", f"t{n}") for n in range(len(cases))]
    return Inserted(server, cases, logged, tables)


def _session(server: Any, statements: Sequence[str] = SESSION) -> Any:
    connection = server.connect()
    with connection.cursor() as cursor:
        # What a careless account may have; SESSION must not care.
        cursor.execute("set time_zone = '+05:30', sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES'")
        cursor.execute("set sql_select_limit = 1, names latin1")
        for statement in statements:
            cursor.execute(statement)
    return connection


def _differences(made: Logged, theirs: Logged) -> Iterator[tuple[str, object, object]]:
    for what in ("types", "metadata", "nullable", "flags"):
        yield what, getattr(made.stored, what), getattr(theirs.stored, what)
    yield "codes", made.codes, theirs.codes
    at = next(
        (i for i, (a, b) in enumerate(zip(made.images, theirs.images, strict=False)) if a != b), 0
    )
    yield "images", made.images[at : at + 40].hex(), theirs.images[at : at + 40].hex()
    yield "length", len(made.images), len(theirs.images)


@pytest.mark.parametrize("prepared", [False, True], ids=["text", "binary"])
def test_images_are_those_that_the_server_logged(inserted: Inserted, prepared: bool) -> None:
    differing = []
    with _session(inserted.server) as connection:
        for table, (kind, _) in zip(inserted.tables, inserted.cases, strict=True):
            binary = prepared and can_be_prepared(table)
            made = ours(connection, table, inserted.server.kind, prepared=binary)
            for what, a, b in _differences(made, inserted.logged[table.full_name]):
                if a != b:
                    differing.append(f"{kind[:60]}: {what} {a} is {b}")
    assert not differing, "\n".join(differing)


_PLAIN_COLUMNS = [
    ("float", "v"), ("float", "v + 0e0"), ("float(7,3)", "v"), ("double(10,2)", "v"),
    (f"set({_MEMBERS})", "v"), (f"set({_MEMBERS})", "v + 0e0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expression"), _PLAIN_COLUMNS)
def test_a_plainer_expression_loses_something(
    inserted: Inserted, kind: str, expression: str
) -> None:
    """Controls: what ``select_list`` does is needed, and the comparison above would see it."""
    # MariaDB 11.8 stores no -0, which alone an addition would lose.
    negative_zero = any(
        inserted.logged[table.full_name].images[1:9] == bytes(7) + b"\x80"
        for table, (found, _) in zip(inserted.tables, inserted.cases, strict=True)
        if found == "float"
    )
    loses = negative_zero or (kind, expression) != ("float", "v + 0e0")
    with _session(inserted.server) as connection:
        differing = _kinds_that_differ(inserted, connection, ("id", expression), kind)
    assert (kind in differing) == loses


def _kinds_that_differ(
    inserted: Inserted, connection: Any, columns: Sequence[str] = (), only: str = ""
) -> set[str]:
    found = set()
    for table, (kind, _) in zip(inserted.tables, inserted.cases, strict=True):
        if only in ("", kind):
            try:
                made = ours(connection, table, inserted.server.kind, columns)
                same = made.images == inserted.logged[table.full_name].images
            except SnapshotRowUnreadable:
                connection = _session(inserted.server)
                same = False
            if not same:
                found.add(kind)
    return found


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("sql_mode", "char(20)"),
        ("time_zone", "timestamp(6) null"),
        ("character_set_results", "varchar(300)"),
        ("sql_select_limit", "int"),
    ],
)
def test_each_statement_of_the_session_is_needed(inserted: Inserted, word: str, kind: str) -> None:
    without = [statement for statement in SESSION if word not in statement]
    assert len(without) == len(SESSION) - 1
    with _session(inserted.server, without) as connection:
        assert kind in _kinds_that_differ(inserted, connection, only=kind)


@pytest.mark.parametrize("prepared", [False, True], ids=["text", "binary"])
def test_a_table_that_was_changed_meanwhile_is_an_error_by_name(
    mysql: Any, schema_name: str, prepared: bool
) -> None:
    with _session(mysql) as connection, connection.cursor() as cursor:
        cursor.execute(f"create database {schema_name}")
        cursor.execute(f"use {schema_name}")
        cursor.execute("create table t (id int primary key, v smallint)")
        table = table_of(mysql, schema_name, "t")
        cursor.execute("alter table t modify v int")
        cursor.execute("insert into t values (1, 32767)")
        assert ours(connection, table, "mysql", prepared=prepared).images
        cursor.execute("insert into t values (2, 32768)")
        with pytest.raises(SnapshotRowUnreadable, match="smallint") as caught:
            ours(connection, table, "mysql", prepared=prepared)
        assert caught.value.object == f"{schema_name}.t.v"


_DECIMALS = ("12.30", "0.5", "12.5", "7", "-0.000", "123456789012345678901234567890.10", "9" * 60)


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7"])
def test_messages_of_json_whose_text_does_not_tell_its_types(
    database: Any, schema_name: str, name: str
) -> None:
    server = database(name)
    literals = (*_JSON, *(f"json_array(cast('{d}' as decimal(65,{_scale(d)})))" for d in _DECIMALS))
    with _session(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"create database {schema_name}")
        cursor.execute(f"use {schema_name}")
        cursor.execute("flush binary logs")
        cursor.execute("create table t (id int primary key, v json)")
        for i, literal in enumerate(literals):
            cursor.execute(f"insert into t values ({i}, {literal})")
        table = table_of(server, schema_name, "t")
        sql = f"select {', '.join(select_list(table))} from t order by id"
        images = RowImages(table, server.kind)
        made = [e for block in read_rows(connection, sql) for e in images.events(block)]
    tables = {table.full_name: table}
    theirs = messages_of(canal_file(server.binlogs()[-1], tables))
    found = messages_of(canal_file(b"\xfebin" + b"".join(made), tables))
    assert [m["data"] for m in found] == [m["data"] for m in theirs]
    assert len(found) == len(literals)


def _scale(text: str) -> int:
    return len(text.partition(".")[2])


@pytest.mark.parametrize("error", [1461, 1295, 1047, 1317])
def test_rows_are_read_as_text_where_nothing_can_be_prepared(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    table = parse_create_table(
        "CREATE TABLE t (id int primary key, f float)", Session(), schema="s"
    )
    asked: list[tuple[str, bool]] = []

    def reading(_: Any, sql: str, *, prepared: bool = False) -> Iterator[RowBlock]:
        asked.append((sql, prepared))
        if prepared:
            raise pymysql.err.OperationalError(error, "no")
        yield RowBlock(np.empty(0, np.uint8), 1)

    monkeypatch.setattr(chunk_reading, "read_rows", reading)
    task = ChunkTask(UpstreamInfo(name="u", uri=""), SourceSettings(), table, "1 = 1", 1, "")
    if error == 1317:
        with pytest.raises(pymysql.err.OperationalError):
            list(chunk_reading._blocks(None, task))
        return
    assert [block.rows for block in chunk_reading._blocks(None, task)] == [1]
    place = "FROM `s`.`t` WHERE 1 = 1"
    assert asked == [
        (f"SELECT `id`, `f` {place}", True),
        (f"SELECT `id`, `f` * 1e0 {place}", False),
    ]
