"""Every type of real servers: the message holds what the server selects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codec.binlog_rows import canal_file, messages_of, table_of
from tests.codec.verbose import in_tools_form, normal, tool_values

_VECTORS = ("vector_to_string", "vec_totext")
Case = tuple[str, str, tuple[str, ...]]

PLAIN, NUMBER, TEXT, BYTES, DOUBLE, FLOAT = "plain", "number", "text", "bytes", "double", "float"
_TEXTS = ("''", "'plain'", "'a\"b\\\\c\\n\\t/'", "'<&>'", "x'01'")
_GBK = ("''", "'plain'", "'中文'")
_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}


def _common() -> list[Case]:
    cases: list[Case] = []
    for name, bits in _INTEGERS.items():
        top = 1 << (bits - 1)
        cases.append((name, PLAIN, ("0", "1", "-1", str(-top), str(top - 1))))
        unsigned = (
            "0",
            "9",
            "10",
            "99999999",
            "100000000",
            str(top - 1),
            str(top),
            str(2 * top - 1),
        )
        fit = tuple(v for v in unsigned if int(v) < 2 * top)
        cases.append((f"{name} unsigned", PLAIN, fit))
    many = "9" * 35 + "." + "9" * 30
    cases += [
        ("int(8) unsigned zerofill", NUMBER, ("7", "123")),
        ("decimal(65,30)", PLAIN, ("0", many, "-" + many, "0.000000000000000000000000000001")),
        ("decimal(14,2)", PLAIN, ("0", "-0.01", "999999999999.99", "-123456789.10")),
        ("decimal(1,0)", PLAIN, ("0", "-9", "9")),
        ("decimal(9,9)", PLAIN, ("0.123456789", "-0.000000001")),
        ("float", FLOAT, ("0", "1.5", "-3.4028235e38", "1.17549435e-38", "0.1", "16777216")),
        ("double", DOUBLE, ("0", "0.1", "-1.7976931348623157e308", "5e-324", "1e22", "123456.789")),
        ("bit(1)", NUMBER, ("0", "1")),
        ("bit(13)", NUMBER, ("0", "5", "8191")),
        ("bit(64)", NUMBER, ("0", "18446744073709551615")),
        ("date", PLAIN, ("'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2026-00-00'")),
        ("year", PLAIN, ("0", "1901", "2155")),
        ("enum('x','y','é')", NUMBER, ("'x'", "'é'", "''")),
        ("set('a','b','c')", NUMBER, ("''", "'a,c'", "'a,b,c'")),
        ("char(20)", TEXT, (*_TEXTS, "'é😀'", "'trailing  '")),
        ("char(200)", TEXT, ("''", "'é'")),
        ("varchar(300)", TEXT, (*_TEXTS, "'é😀'", "repeat('é', 300)")),
        ("varchar(20)", TEXT, _TEXTS),
        ("text", TEXT, ("repeat('ab', 30000)", "'x'")),
        ("mediumtext", TEXT, ("repeat('z', 70000)",)),
        ("longtext", TEXT, ("'😀'",)),
        ("tinytext", TEXT, ("'tiny'",)),
        ("varchar(50) character set latin1", TEXT, ("'plain'", "'ümlaut €'")),
        ("varchar(50) character set gbk", TEXT, _GBK),
        ("char(50) character set sjis", TEXT, ("'日本'", "'a'")),
        ("varchar(50) character set utf16", TEXT, ("'a😀é'", "''")),
        ("text character set ucs2", TEXT, ("'aé'",)),
        ("varchar(50) character set utf8mb3", TEXT, ("'aé'",)),
        ("varchar(50) character set ascii", TEXT, ("'abc'",)),
        ("binary(8)", BYTES, ("x'00'", "x'0102030405060708'", "x'2000'", "'a'")),
        ("varbinary(300)", BYTES, ("x''", "x'00ff22 5c'".replace(" ", ""), "x'0507'")),
        ("blob", BYTES, ("x'0000'", "x'ff'", "repeat(x'80', 40000)")),
        ("tinyblob", BYTES, ("x'01'",)),
        ("longblob", BYTES, ("x'02'",)),
        ("geometry", BYTES, ("ST_GeomFromText('POINT(1 2)')",)),
        ("point", BYTES, ("ST_GeomFromText('POINT(-1 2.5)')",)),
    ]
    for fsp in range(7):
        fraction = f".{'987654'[:fsp]}" if fsp else ""
        times = (f"'-838:59:59{'.' + '0' * fsp if fsp else ''}'", f"'12:34:56{fraction}'",
                 f"'-00:00:01{fraction}'", "'00:00:00'")  # fmt: skip
        stamps = (f"'1970-01-01 00:00:01{fraction}'", f"'2038-01-19 03:14:07{fraction}'",
                  "'0000-00-00 00:00:00'")  # fmt: skip
        dates = (
            f"'9999-12-31 23:59:59{fraction}'",
            "'0000-00-00 00:00:00'",
            "'2026-01-02 03:04:05'",
        )
        cases += [
            (f"time({fsp})", PLAIN, times),
            (f"timestamp({fsp}) null", PLAIN, stamps),
            (f"datetime({fsp})", PLAIN, dates),
        ]
    return cases


_JSON = (
    "'null'", "'{}'", "'[]'", "'{\"a\": [1, 2.5, \"x\\\\\"\", true, null], \"b\": {\"c\": -1}}'",
    "'\"é😀\"'", "'18446744073709551615'", "'1e300'", "cast(cast('12.30' as decimal(5,2)) as json)",
    "cast(cast('2026-01-02 03:04:05.678' as datetime(3)) as json)",
    "json_array(cast('10:11:12' as time), cast('2026-01-02' as date), x'00ff')",
)  # fmt: skip
_MYSQL: list[Case] = [("json", PLAIN, _JSON)]
_MYSQL_9: list[Case] = [("vector(3)", "vector_to_string", ("string_to_vector('[1, 2.5, -3e10]')",))]
_MARIADB_11_7: list[Case] = [("vector(3) null", "vec_totext", ("vec_fromtext('[1, 2.5, -3e10]')",))]
_MARIADB: list[Case] = [
    ("json", TEXT, ("'{\"a\":1}'", "'[]'")),
    ("uuid", PLAIN, ("'123e4567-e89b-12d3-a456-426655440000'", "uuid()",
                     "'00000000-0000-0000-0000-000000000000'")),
    ("inet6", PLAIN, ("'::'", "'2001:db8::ff00:42:8329'", "'::ffff:1.2.3.4'", "'ff00::'")),
    ("inet4", PLAIN, ("'0.0.0.0'", "'255.255.255.255'", "'10.0.0.0'")),
]  # fmt: skip


def _select(kind: str) -> str:
    return {
        PLAIN: "cast(v as char)",
        NUMBER: "cast(v+0 as char)",
        TEXT: "convert(v using utf8mb4)",
        BYTES: "hex(v)",
        DOUBLE: "v",
        FLOAT: "v + 0e0",
    }.get(kind, f"{kind}(v)")


def _expected(kind: str, value: Any) -> str | None:
    if value is None:
        return None
    if kind == BYTES:
        return bytes.fromhex(value).decode("latin-1")
    if kind == DOUBLE:
        return np.format_float_positional(np.float64(value), trim="-")
    if kind == FLOAT:
        return np.format_float_positional(np.float32(value), trim="-")
    if isinstance(value, bytes):
        value = value.decode()
    if kind in _VECTORS:
        return json.dumps(json.loads(value, parse_int=float))
    if kind == NUMBER:
        return str(int(Decimal(value)))
    return str(value)


def _cases(server: Any) -> list[Case]:
    version = server.version
    if server.kind == "mysql":
        return (
            _common()
            + (_MYSQL if version >= (5, 7) else [])
            + (_MYSQL_9 if version >= (9, 0) else [])
        )
    since = {"uuid": (10, 7), "inet4": (10, 10), "inet6": (10, 5)}
    own = [case for case in _MARIADB if version >= since.get(case[0], (10, 0))]
    return _common() + own + (_MARIADB_11_7 if version >= (11, 7) else [])


_SERVERS = [
    "mariadb-10.4", "mariadb-10.11", "mariadb-11.4", "mariadb-11.8",
    "mysql-5.6", "mysql-5.7", "mysql-8.0", "mysql-9.7",
]  # fmt: skip


@dataclass(frozen=True)
class Written:
    """Tables ``t0 …`` of one server, one a case: what it selects, and what our messages hold."""

    server: Any
    cases: list[Case]
    path: Path
    selected: dict[str, list[str | None]]
    ours: dict[str, list[str | None]]


@pytest.fixture(scope="module", params=_SERVERS)
def written(database: Any, request: Any) -> Written:
    server = database(request.param)
    cases = _cases(server)
    setup = "set sql_mode='', time_zone='+00:00', names utf8mb4"
    selected: dict[str, list[str | None]] = {}
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        run = cursor.execute
        run("create database codec_types character set utf8mb4")
        for statement in (setup, "use codec_types", "flush binary logs"):
            run(statement)
        for n, (kind, how, literals) in enumerate(cases):
            run(f"create table t{n} (id int primary key, v {kind})")
            for i, literal in enumerate((*literals, "null")):
                run(f"insert into t{n} values ({i}, {literal})")
            run(f"select {_select(how)} from t{n} order by id")
            selected[f"t{n}"] = [_expected(how, row[0]) for row in cursor.fetchall()]
    path = server.binlogs()[-1]
    tables = {
        f"codec_types.t{n}": table_of(server, "codec_types", f"t{n}") for n in range(len(cases))
    }
    ours: dict[str, list[str | None]] = {}
    for message in messages_of(canal_file(path, tables)):
        assert (message["database"], message["type"]) == ("codec_types", "INSERT")
        ours.setdefault(message["table"], []).append(message["data"][0]["v"])
    return Written(server, cases, path, selected, ours)


def test_every_type_against_select(written: Written) -> None:
    for n, (kind, how, _) in enumerate(written.cases):
        got = written.ours[f"t{n}"]
        if how in _VECTORS:
            got = [None if v is None else json.dumps(json.loads(v, parse_int=float)) for v in got]
        assert got == written.selected[f"t{n}"], kind


def test_every_type_against_the_servers_tool(written: Written, database: Any) -> None:
    """The tool reads the same images; types that it cannot print are those we know of."""
    mariadb = written.server.kind == "mariadb"
    # The tool of MySQL 5.6 prints the groups of nine digits of a decimal with dots between them.
    server = database("mysql-8.0") if written.server.name == "mysql-5.6" else written.server
    shown = tool_values(server, written.path)
    unprinted = set()
    for n, (kind, _, _) in enumerate(written.cases):
        for ours, theirs in zip(written.ours[f"t{n}"], shown[f"t{n}"], strict=True):
            if theirs is None:
                unprinted.add(kind)
                continue
            text, name = theirs
            assert in_tools_form(ours, kind, name, mariadb) == normal(text), kind
    assert unprinted <= {"geometry", "point"}
