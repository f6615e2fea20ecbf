"""All of the filter over rows of a real server: TiCDC's example, several rules, split UPDATEs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdc.base.errors import TidegateError
from cdc.coord.feed_config import FeedConfig
from cdc.rows.route import Route, RouteMode
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.passing import Passing
from tests.codec.binlog_rows import canal_file, messages_of, table_of

SCHEMA = "filter_passing"
SESSION = Session(mariadb=True, version=(11, 4, 0))


@pytest.fixture(scope="module")
def rows(database: Any) -> Any:
    """(binlog, tables): changes of ``worker`` and ``other``."""
    server = database("mariadb-11.4")
    server.execute(f"drop database if exists {SCHEMA}", f"create database {SCHEMA}")
    columns = "(id int primary key, name varchar(20), age int, gender varchar(10))"
    server.execute(
        f"create table worker {columns}", f"create table other {columns}", database=SCHEMA
    )
    server.execute("flush binary logs")
    server.execute(
        "insert into worker values (1, 'john', 20, 'male'), (100, 'x', 30, 'male')",
        "insert into worker values (2, 'lili', 40, 'f')",
        "insert into worker values (3, 'kid', 12, 'male'), (4, null, null, null)",
        "update worker set gender = 'male' where id = 2",
        "update worker set age = 13 where id = 3",
        "update worker set age = 21 where id = 1",
        "update worker set name = 'none' where id = 4",
        "update worker set id = 99 where id = 100",
        "delete from worker where name = 'john'",
        "delete from worker where id = 4",
        "insert into other values (1, 'john', 20, 'male')",
        database=SCHEMA,
    )
    names = ("worker", "other")
    tables = {f"{SCHEMA}.{n}": table_of(server, SCHEMA, n) for n in names}
    return server.binlogs()[-1].read_bytes(), tables


def passing(*rules: dict[str, Any]) -> Passing:
    return Passing(FeedConfig.model_validate({"filter": {"event_filters": list(rules)}}), SESSION)


def kept(found: Passing, rows: Any, route: Route | None = None) -> list[str]:
    file = canal_file(*rows, route=route)
    mask = found.keep(file.rows)
    if mask is not None:
        file = file._replace(rows=file.rows.only(mask))
    return [f"{m['table'][0]} {m['type'][0]} {m['data'][0]['id']}" for m in messages_of(file)]


EVERYTHING = [
    *("w I 1", "w I 100", "w I 2", "w I 3", "w I 4", "w U 2", "w U 3", "w U 1", "w U 4", "w U 99"),
    *("w D 1", "w D 4", "o I 1"),
]
DOCUMENTED = {
    "matcher": [f"{SCHEMA}.worker"],
    "ignore_insert_value_expr": "id >= 100",
    "ignore_update_old_value_expr": "age < 18 or name = 'lili'",
    "ignore_update_new_value_expr": "gender = 'male' and age > 18",
    "ignore_delete_value_expr": "name = 'john'",
}


def without(*gone: str) -> list[str]:
    return [row for row in EVERYTHING if row not in gone]


def test_nothing_is_looked_at_without_rules(rows: Any) -> None:
    assert kept(passing(), rows) == EVERYTHING
    assert passing().keep(canal_file(*rows).rows) is None


def test_the_documented_example(rows: Any) -> None:
    # An UPDATE goes if old or new says so; NULL keeps the row.
    gone = ["w I 100", "w U 2", "w U 3", "w U 1", "w U 99", "w D 1"]
    assert kept(passing(DOCUMENTED), rows) == without(*gone)
    more = {**DOCUMENTED, "ignore_event": ["insert"]}
    inserts = [row for row in EVERYTHING if row.startswith("w I")]
    assert kept(passing(more), rows) == without(*gone, *inserts)


def test_any_rule_may_ignore_a_row(rows: Any) -> None:
    found = passing(
        {"matcher": [f"{SCHEMA}.worker"], "ignore_insert_value_expr": "id = 1"},
        {"matcher": ["*.*"], "ignore_insert_value_expr": "id = 2"},
        {"matcher": ["*.other"], "ignore_event": ["all dml"]},
    )
    assert kept(found, rows) == without("w I 1", "w I 2", "o I 1")


def test_the_same_rows_pass_however_they_are_spread(rows: Any) -> None:
    route = Route(mode=RouteMode.COLUMNS, partitions=5, columns=(0,))
    for rules in ([{"matcher": ["*.*"], "ignore_event": ["insert", "delete"]}], [DOCUMENTED]):
        found = passing(*rules)
        plain = kept(found, rows)
        split = [row for row in EVERYTHING if row in plain or row == "w U 99"]
        expected: list[str] = []
        for row in split:
            if row != "w U 99":
                expected.append(row)
            elif row in plain:
                expected += ["w D 100", "w I 99"]
        assert kept(found, rows, route) == expected


def test_a_plan_that_changes_is_seen(rows: Any) -> None:
    found = passing(DOCUMENTED)
    first = canal_file(*rows).rows
    assert np.array_equal(found.keep(first), found.keep(first))  # type: ignore[arg-type]
    data, tables = rows
    other = {name: table for name, table in tables.items() if name.endswith("other")}
    assert kept(found, (data, other)) == ["o I 1"]


def table(name: str, columns: str) -> Any:
    return parse_create_table(f"create table {name} ({columns})", SESSION, schema="s")


TABLES = [
    table("a", "id int primary key, age int"),
    table("b", "id int primary key"),
    table("c", "id int primary key"),
    table("d", "id int primary key"),
]


def test_matched_tables_that_lack_a_column_are_named() -> None:
    rule = {"matcher": ["s.*", "!s.d"], "ignore_delete_value_expr": "age > 3"}
    with pytest.raises(TidegateError) as e:
        passing(rule).check(TABLES)
    assert e.value.code == "TG:ErrExpressionColumnNotFound"
    assert e.value.object == "s.b, s.c"
    assert e.value.position == "filter.event-filters[0].ignore-delete-value-expr"
    assert "age" in e.value.message
    assert e.value.hint
    passing({**rule, "matcher": ["s.a"]}).check(TABLES)


@pytest.mark.parametrize(
    ("key", "text", "code"),
    [
        ("ignore_insert_value_expr", "id >", "TG:ErrExpressionParseFailed"),
        ("ignore_update_new_value_expr", "no_such(id)", ""),
        ("ignore_update_only_columns", ["id", "x"], "TG:ErrExpressionColumnNotFound"),
    ],
)
def test_broken_expressions_are_refused_by_place(key: str, text: Any, code: str) -> None:
    with pytest.raises(TidegateError) as e:
        passing({"matcher": ["*.*"], key: text}).check(TABLES)
    assert e.value.position == f"filter.event-filters[0].{key.replace('_', '-')}"
    assert not code or e.value.code == code
