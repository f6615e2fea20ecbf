"""filter.event-filters: types, texts, schema-level DDL."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import InvalidError
from cdc.coord.feed_config import EventFilterConfig
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.ddl_types import ddl_types
from filter.events import EventFilter, EventVerdict

SESSION = Session(default_schema="test")


def events(*rules: dict[str, Any]) -> EventFilter:
    return EventFilter([EventFilterConfig(**rule) for rule in rules])


def ddl(found: EventFilter, sql: str, schema: str = "test", table: str = "t1") -> EventVerdict:
    return found.verdict_ddl(schema, table, ddl_types(read_ddl(sql, SESSION)).types, sql)


def test_types_of_rows() -> None:
    found = events(
        {"matcher": ["test.worker"], "ignore_event": ["insert"]},
        {"matcher": ["test.w*"], "ignore_event": ["delete", "all ddl"]},
        {"matcher": ["log.*"], "ignore_event": ["All  DML"]},
    )
    assert found.ignored_dml("test", "worker") == {"insert", "delete"}
    assert found.ignored_dml("test", "wages") == {"delete"}
    assert found.ignored_dml("log", "x") == {"insert", "update", "delete"}
    assert found.ignored_dml("test", "x") == frozenset()
    assert found.verdict_dml("test", "worker", "delete").rule == 1
    assert not found.verdict_dml("test", "worker", "update").ignored


def test_the_first_rule_that_ignores_decides() -> None:
    found = events(
        {"matcher": ["test.*"], "ignore_event": ["drop table"]},
        {"matcher": ["test.t1"], "ignore_sql": ["add column"]},
        {"matcher": ["test.t1"], "ignore_event": ["alter table"]},
    )
    verdict = ddl(found, "ALTER TABLE t1 ADD COLUMN a INT")
    assert (verdict.ignored, verdict.rule) == (True, 1)
    assert "add column" in verdict.why
    assert ddl(found, "DROP TABLE t1").rule == 0
    assert ddl(found, "ALTER TABLE t1 ADD a INT").rule == 2
    assert not ddl(found, "TRUNCATE t1").ignored


def test_ignore_sql_is_searched_without_case() -> None:
    found = events({"matcher": ["test.worker"], "ignore_sql": ["^drop", "add column"]})
    assert ddl(found, "DROP TABLE worker", table="worker").ignored
    assert ddl(found, "alter table worker ADD  COLUMN x int", table="worker").ignored is False
    assert ddl(found, "alter table worker ADD COLUMN x int", table="worker").ignored
    assert not ddl(found, "ALTER TABLE worker DROP COLUMN x", table="worker").ignored


def test_schema_level_ddl_is_matched_by_the_schema_alone() -> None:
    # TiCDC documents this as a trap: the rule is for one table.
    found = events({"matcher": ["test.t1"], "ignore_sql": ["^drop"]})
    assert ddl(found, "DROP DATABASE test", table="").ignored
    assert not ddl(found, "DROP DATABASE other", schema="other", table="").ignored
    assert not ddl(found, "DROP TABLE t2", table="t2").ignored


def test_a_multi_clause_alter_is_ignored_by_any_of_its_clauses() -> None:
    sql = "ALTER TABLE t1 MODIFY COLUMN a INT, ADD COLUMN b INT, DROP COLUMN c"
    for name in ("multi schema change", "alter table", "drop column", "add column", "all ddl"):
        assert ddl(events({"matcher": ["*.*"], "ignore_event": [name]}), sql).ignored, name
    assert not ddl(events({"matcher": ["*.*"], "ignore_event": ["rename table"]}), sql).ignored


# As TiCDC's documentation lists them, so that a lost one is seen.
TICDC_NAMES = (
    "all dml, all ddl, insert, update, delete, create schema, create database, drop schema,"
    " drop database, create table, drop table, rename table, truncate table, alter table,"
    " create view, drop view, add table partition, drop table partition,"
    " truncate table partition, modify schema charset and collate, recover table,"
    " rebase auto id, modify table comment, modify table charset and collate,"
    " exchange table partition, reorganize table partition, alter table partitioning,"
    " remove table partitioning, add column, drop column, modify column, set default value,"
    " add primary key, drop primary key, rename index, alter index visibility,"
    " alter ttl info, alter ttl remove, multi schema change, create index, drop index,"
    " add foreign key, drop foreign key, add fulltext index, create hybrid index"
).split(", ")


@pytest.mark.parametrize("name", TICDC_NAMES)
def test_every_name_of_ticdc_is_taken(name: str) -> None:
    events({"matcher": ["*.*"], "ignore_event": [name]})


@pytest.mark.parametrize(
    ("rule", "code", "place"),
    [
        (
            {"matcher": ["*.*"], "ignore_event": ["insert", "add colum"]},
            "TG:ErrInvalidIgnoreEventType",
            "filter.event-filters[0].ignore-event",
        ),
        (
            {"matcher": ["*.*"], "ignore_sql": ["ok", "(?=x)"]},
            "TG:ErrIgnoreSQLInvalid",
            "filter.event-filters[0].ignore-sql[1]",
        ),
        (
            {"matcher": ["a.b", "broken"]},
            "TG:ErrFilterRuleInvalid",
            "filter.event-filters[0].matcher[1]",
        ),
    ],
)
def test_broken_rules_are_refused_by_place(rule: dict[str, Any], code: str, place: str) -> None:
    with pytest.raises(InvalidError) as e:
        events(rule)
    assert (e.value.code, e.value.object) == (code, place)
    assert e.value.hint


def test_no_regular_expression_takes_forever() -> None:
    found = events({"matcher": ["*.*"], "ignore_sql": ["(a+)+(a+)+(a+)+$"]})
    assert not ddl(found, "DROP TABLE " + "a" * 5000 + "b").ignored
