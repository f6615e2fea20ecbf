"""The text of schema changes as consumers get it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc.binlog.query import StatusVariables
from sink.codec.canal.ddl import ddl_message
from sink.codec.canal.settings import CanalSettings
from sink.dispatch.settings import DispatcherSettings
from sink.schema_change import SchemaChange
from tests.sink_kafka.changes import history

ROUTED = CanalSettings(
    dispatchers=(
        DispatcherSettings.model_validate(
            {"matcher": ["shop.*"], "target-schema": "copy", "target-table": "{table}_x"}
        ),
    )
)
TABLES = [
    "CREATE DATABASE shop",
    *(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT)" for name in ("a", "b", "other")),
]


def change(*statements: str, replicated: tuple[str, ...] = ("a", "b", "c", "d")) -> SchemaChange:
    found = history(*TABLES, *statements)[-1]
    kept = tuple(t for t in found.tables if t[1] in replicated)
    return replace(found, replicated=kept)


def said(one: SchemaChange, settings: CanalSettings | None = None) -> Any:
    return json.loads(ddl_message(one, one.replicated, settings or CanalSettings(), 1))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("CREATE TABLE c (id INT)", "CREATE"),
        ("RENAME TABLE a TO c", "RENAME"),
        ("ALTER TABLE a RENAME TO c", "RENAME"),
        ("ALTER TABLE a RENAME c, ADD x INT", "ALTER"),
        ("CREATE INDEX i ON a (k)", "CINDEX"),
        ("ALTER TABLE a ADD INDEX i (k)", "CINDEX"),
        ("ALTER TABLE a ADD INDEX i (k), ALGORITHM=INPLACE, LOCK=NONE", "CINDEX"),
        ("ALTER TABLE a DROP PRIMARY KEY", "DINDEX"),
        ("ALTER TABLE a ADD INDEX i (k), ADD x INT", "ALTER"),
        ("ALTER TABLE a MODIFY k BIGINT", "ALTER"),
        ("DROP TABLE a", "ERASE"),
        ("TRUNCATE a", "TRUNCATE"),
        ("CREATE DATABASE d", "QUERY"),
        ("ALTER DATABASE shop CHARACTER SET latin1", "QUERY"),
        ("DROP DATABASE shop", "QUERY"),
    ],
)
def test_the_type_is_canals(sql: str, kind: str) -> None:
    found = said(change(sql))
    assert (found["type"], found["sql"]) == (kind, sql)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("DROP TABLE IF EXISTS a, other", "DROP TABLE IF EXISTS `shop`.`a`"),
        ("RENAME TABLE a TO c, other TO e", "RENAME TABLE `shop`.`a` TO `shop`.`c`"),
        ("RENAME TABLE a TO x, b TO a, x TO b", "RENAME TABLE a TO x, b TO a, x TO b"),
        ("CREATE TABLE c (id INT) START TRANSACTION", "CREATE TABLE c (id INT)"),
        (
            "CREATE TABLE c (id INT) START TRANSACTION COMMENT 'x'",
            "CREATE TABLE c (id INT)   COMMENT 'x'",
        ),
    ],
)
def test_consumers_get_what_they_can_carry_out(sql: str, text: str) -> None:
    assert said(change(sql))["sql"] == text


def test_a_create_or_replace_that_failed_has_dropped_the_table() -> None:
    found = change("DROP TABLE a")
    session = replace(found.session, failed=True)
    failed = replace(
        found, sql="CREATE OR REPLACE TABLE a (x INT, x INT)", kind="create table", session=session
    )
    message = said(failed)
    assert (message["type"], message["sql"]) == ("ERASE", "DROP TABLE IF EXISTS `shop`.`a`")


def test_the_session_is_told() -> None:
    found = change("ALTER TABLE a ADD x INT")
    modes = 1 << 2 | 1 << 4 | 1 << 9 | 1 << 18 | 1 << 21 | 1 << 34
    told = replace(found, status=StatusVariables(sql_mode=modes, time_zone="+01:00"))
    context = said(told, CanalSettings(enable_tidb_extension=True))["_tidegate"]
    assert context["defaultDatabase"] == "shop"
    assert context["session"] == {
        "foreign_key_checks": 1,
        "sql_mode": "ANSI_QUOTES,IGNORE_BAD_TABLE_OPTIONS,ORACLE,STRICT_TRANS_TABLES,"
        "TIME_ROUND_FRACTIONAL",
        "explicit_defaults_for_timestamp": 1,
        "time_zone": "+01:00",
        "character_set_collations": "",
        "timestamp": found.time_s,
    }


@pytest.mark.parametrize(
    ("sql", "text", "named"),
    [
        ("ALTER TABLE a ADD x INT", "ALTER TABLE `copy`.`a_x` ADD x INT", ("copy", "a_x")),
        ("TRUNCATE shop.a", "TRUNCATE `copy`.`a_x`", ("copy", "a_x")),
        (
            "RENAME TABLE a TO c",
            "RENAME TABLE `copy`.`a_x` TO `copy`.`c_x`",
            ("copy", "a_x"),
        ),
        ("DROP TABLE a, b", "DROP TABLE `copy`.`a_x`, `copy`.`b_x`", ("copy", "a_x")),
        ("CREATE TABLE c LIKE b", "CREATE TABLE `copy`.`c_x` LIKE `copy`.`b_x`", ("copy", "c_x")),
        ("DROP DATABASE shop", "DROP DATABASE `copy`", ("copy", "")),
    ],
)
def test_routed_names(sql: str, text: str, named: tuple[str, str]) -> None:
    found = said(change(sql), ROUTED)
    assert found["sql"] == text
    assert (found["database"], found["table"]) == named
