"""What the filter makes of a schema change, as the owner judges it."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter
from owner.ddl import EVERY, Ddl, DDLAction, FeedScope, Judged, destructive, judge
from owner.shard_part import ShardRole
from owner.target_ties import TargetTies
from sink.schema_change import SchemaChange

SESSION = Session(default_schema="shop")
CONFIG = {
    "filter": {
        "rules": ["shop.*", "crm.*", "!shop.tmp_*"],
        "ignore_txn_start_ts": [7],
        "event_filters": [
            {"matcher": ["shop.a"], "ignore_event": ["drop table"]},
            {"matcher": ["shop.a"], "ignore_delete_value_expr": "age > 3"},
        ],
    },
    "sink": {"dispatchers": [{"matcher": ["*.*"], "target_schema": "x"}]},
}


def _schema() -> Catalog:
    catalog = Catalog()
    for sql in (
        *("CREATE DATABASE shop", "CREATE DATABASE crm"),
        *(f"CREATE TABLE {t} (id INT PRIMARY KEY, age INT)" for t in ("a", "b", "tmp_1", "crm.c")),
    ):
        catalog = apply(catalog, read_ddl(sql, SESSION))
    # The target has no views and sequences.
    return catalog.with_other("shop", "numbers")


BEFORE = _schema()


def _ddl(sql: str, ts: int = 5, before: Catalog = BEFORE) -> Ddl:
    seen = read_ddl(sql, SESSION)
    change = SchemaChange(
        ts=ts,
        sql=sql,
        kind=seen.kind,
        tables=seen.tables,
        schemas=seen.schemas,
        replicated=(),
        session=SESSION,
        status=StatusVariables(),
        time_s=0,
        before=before,
        after=apply(before, seen),
    )
    return Ddl(ts, sql, seen, None, change)


def judged(sql: str, ts: int = 5) -> Judged | None:
    scope = FeedScope(DdlFilter(FeedConfig.model_validate(CONFIG)))
    return judge(_ddl(sql, ts), scope, 0)


@pytest.mark.parametrize(
    ("sql", "action", "replicated"),
    [
        ("ALTER TABLE b ADD c INT", DDLAction.EXECUTE, [("shop", "b")]),
        ("DROP TABLE a", DDLAction.IGNORE, None),
        ("DROP TABLE a, b", DDLAction.EXECUTE, [("shop", "b")]),
        ("DROP TABLE tmp_1, b", DDLAction.EXECUTE, [("shop", "b")]),
        ("ALTER TABLE b ENGINE = InnoDB", DDLAction.IGNORE, None),
        ("DROP TABLE tmp_1", None, None),
        ("DROP TABLE numbers", None, None),
        ("DROP TABLE numbers, b", DDLAction.EXECUTE, [("shop", "b")]),
        ("RENAME TABLE numbers TO digits", None, None),
        ("ALTER TABLE numbers RENAME TO digits", None, None),
        ("CREATE TABLE d (id INT)", DDLAction.EXECUTE, [("shop", "d")]),
    ],
)
def test_what_is_done(sql: str, action: DDLAction | None, replicated: Any) -> None:
    found = judged(sql)
    assert (found.action if found else None) == action
    if found is not None:
        assert found.error is None
        assert bool(found.why) is (action is DDLAction.IGNORE)
    if replicated is not None:
        assert found is not None
        assert list(found.replicated) == replicated


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("RENAME TABLE tmp_1 TO d", "TG:ErrSyncRenameTableFailed"),
        ("CREATE TABLE c (id INT)", "TG:ErrTableRouteConflict"),
        ("RENAME TABLE b TO crm.a", "TG:ErrTableRouteConflict"),
        ("ALTER TABLE a DROP COLUMN age", "TG:ErrExpressionColumnNotFound"),
        ("ALTER TABLE a IMPORT TABLESPACE", "TG:ErrUnloggedRows"),
    ],
)
def test_what_stops_its_table(sql: str, code: str) -> None:
    found = judged(sql)
    assert found is not None
    assert found.error is not None
    assert found.error.code == code
    assert found.error.hint
    assert sql in found.error.message


def test_a_table_that_leaves_the_rules_is_said() -> None:
    found = judged("RENAME TABLE b TO tmp_b")
    assert found is not None
    assert found.action is DDLAction.EXECUTE
    assert "shop.tmp_b" in found.why


@pytest.mark.parametrize("sql", ["RENAME TABLE tmp_1 TO d, b TO e", "DROP TABLE b"])
def test_a_change_of_an_ignored_transaction_is_ignored(sql: str) -> None:
    found = judged(sql, ts=7)
    assert found is not None
    assert found.action is DDLAction.IGNORE
    assert "ignore-txn-start-ts" in found.why


@pytest.mark.parametrize(
    ("sql", "lost"),
    [
        ("/*Mine*/ TRUNCATE TABLE a", True),
        ("ALTER TABLE p TRUNCATE PARTITION p0", True),
        ("ALTER TABLE p /*M*/ TRUNCATE/* c */PARTITION p0", True),
        ("ALTER TABLE p EXCHANGE -- c\n PARTITION p0 WITH TABLE q", True),
        ("ALTER TABLE p COMMENT 'TRUNCATE PARTITION'", False),
        ("CREATE OR REPLACE TABLE a (id INT PRIMARY KEY)", True),
        ("CREATE /*c*/ OR REPLACE TABLE a LIKE q", True),
        ("CREATE OR REPLACE TABLE not_there (id INT)", False),
        ("CREATE OR REPLACE DATABASE shop", True),
        ("CREATE OR REPLACE DATABASE not_there", False),
        ("CREATE OR REPLACE INDEX i ON a (age)", False),
        ("DROP SCHEMA shop", True),
        ("CREATE TABLE IF NOT EXISTS a (id INT)", False),
        ("ALTER TABLE a DROP COLUMN age", True),
        ("ALTER TABLE a DROP age, ADD COLUMN age BIGINT", True),
        ("ALTER TABLE a DROP age, RENAME TO d", True),
        ("ALTER TABLE p DROP PARTITION p0", True),
        ("ALTER TABLE p DROP PARTITION IF EXISTS p0, p7", True),
        ("ALTER TABLE p DROP PARTITION IF EXISTS p7", False),
        ("ALTER TABLE p CONVERT PARTITION p0 TO TABLE d", True),
        ("ALTER TABLE p REMOVE PARTITIONING", False),
        ("ALTER TABLE h COALESCE PARTITION 1", False),
        (
            "ALTER TABLE p REORGANIZE PARTITION p0 INTO (PARTITION n0 VALUES LESS THAN (9))",
            False,
        ),
        ("ALTER TABLE p ADD PARTITION (PARTITION p1 VALUES LESS THAN (9))", False),
        ("ALTER TABLE a DROP IF EXISTS nothing", False),
        ("ALTER TABLE a RENAME COLUMN age TO years", False),
        ("ALTER TABLE a CHANGE age years BIGINT", False),
    ],
)
def test_what_loses_rows_or_columns(sql: str, lost: bool) -> None:
    parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5))"
    catalog = apply(BEFORE, read_ddl(f"CREATE TABLE p (id INT PRIMARY KEY) {parts}", SESSION))
    catalog = apply(catalog, read_ddl("CREATE TABLE q (id INT PRIMARY KEY)", SESSION))
    by_hash = "PARTITION BY HASH (id) PARTITIONS 3"
    catalog = apply(catalog, read_ddl(f"CREATE TABLE h (id INT PRIMARY KEY) {by_hash}", SESSION))
    assert destructive(_ddl(sql, before=catalog)) is lost


SHARDED = {
    "shard_mode": "pessimistic",
    "filter": {"rules": ["shop.*", "crm.*"]},
    "sink": {"dispatchers": [{"matcher": ["shop.a", "shop.b*"], "target_table": "one"}]},
}


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("ALTER TABLE a ADD c INT", ShardRole.CHANGE),
        ("CREATE INDEX i ON b (age)", ShardRole.CHANGE),
        ("ALTER TABLE a ADD c DATETIME DEFAULT NOW()", "TG:ErrShardChangeRefused"),
        ("ALTER TABLE a ADD c CHAR(36) DEFAULT (UUID())", "TG:ErrShardChangeRefused"),
        ("ALTER TABLE a ADD c INT AUTO_INCREMENT UNIQUE", "TG:ErrShardChangeRefused"),
        ("DROP TABLE b", ShardRole.LEAVE),
        ("DROP TABLE a, b", ShardRole.LEAVE),
        ("DROP TABLE a, crm.c", "TG:ErrShardChangeRefused"),
        ("TRUNCATE TABLE b", "TG:ErrShardChangeRefused"),
        ("ALTER TABLE b TRUNCATE PARTITION p0", "TG:ErrShardChangeRefused"),
        ("RENAME TABLE b TO d", "TG:ErrShardChangeRefused"),
        ("RENAME TABLE crm.c TO b2", "TG:ErrShardChangeRefused"),
        ("RENAME TABLE b TO b2", ShardRole.MOVE),
        ("ALTER TABLE b RENAME TO b2", ShardRole.MOVE),
        ("ALTER TABLE b RENAME TO b2, ADD c INT", "TG:ErrShardChangeRefused"),
        ("CREATE TABLE b2 LIKE a", ShardRole.JOIN),
        ("CREATE TABLE IF NOT EXISTS a (id INT)", ShardRole.NOTHING),
        ("CREATE OR REPLACE TABLE a (id INT)", "TG:ErrShardChangeRefused"),
        ("ALTER TABLE crm.c ADD c INT", None),
        ("ALTER TABLE a ENGINE = InnoDB", None),
    ],
)
def test_what_a_change_is_to_a_shard_group(sql: str, what: ShardRole | str | None) -> None:
    scope = FeedScope(DdlFilter(FeedConfig.model_validate(SHARDED)))
    found = judge(_ddl(sql), scope, 0)
    assert found is not None
    if isinstance(what, ShardRole):
        assert found.error is None
        assert found.shard is not None
        assert found.shard.role is what
        executes = what in (ShardRole.CHANGE, ShardRole.FIRST)
        assert (found.action is DDLAction.EXECUTE) is executes
        assert bool(found.why) is not executes
    else:
        assert (found.error.code if found.error else None) == what


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("CREATE DATABASE fresh", DDLAction.EXECUTE),
        ("CREATE DATABASE more", DDLAction.IGNORE),
        ("DROP DATABASE crm", DDLAction.EXECUTE),
        ("DROP DATABASE shop", "TG:ErrShardChangeRefused"),
        ("DROP DATABASE part", DDLAction.IGNORE),
    ],
)
def test_databases_of_shard_groups_stay_at_the_target(sql: str, what: str) -> None:
    catalog = BEFORE
    for one in ("CREATE DATABASE part", "CREATE TABLE part.z (id INT PRIMARY KEY, age INT)"):
        catalog = apply(catalog, read_ddl(one, SESSION))
    rules = [
        {"matcher": ["shop.a", "part.*", "more.*"], "target_schema": "all", "target_table": "one"}
    ]
    config = {
        **SHARDED,
        "filter": {"rules": ["shop.*", "crm.*", "part.*", "more.*", "fresh.*"]},
        "sink": {"dispatchers": rules},
    }
    found = judge(_ddl(sql, before=catalog), _scope(config), 0)
    assert found is not None
    assert (found.error.code if found.error else found.action) == what
    assert EVERY not in found.tables


def _scope(config: Any) -> FeedScope:
    return FeedScope(DdlFilter(FeedConfig.model_validate(config)))


def test_ties_of_the_target_are_of_the_tables_that_have_these_names_there() -> None:
    names = DdlFilter(FeedConfig.model_validate(SHARDED)).targets
    ties, found = (("shop.one", "shop.tmp_1"), ("shop.gone", "shop.one")), TargetTies(names)
    wanted = (("shop.a", "shop.tmp_1"), ("shop.b", "shop.tmp_1"))
    assert found.upstream(ties, BEFORE, ()) == wanted
    # A change that waits is about a table that is gone at the end of the log.
    assert found.upstream(ties, BEFORE, [("shop", "gone")]) == (
        *wanted,
        ("shop.gone", "shop.a"),
        ("shop.gone", "shop.b"),
    )
    plain = TargetTies()
    assert plain.upstream(ties, BEFORE, ()) is ties
