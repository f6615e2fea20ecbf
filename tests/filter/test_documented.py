"""What TiCDC's documentation says about filters, statement by statement.

``ticdc-filter``, ``table-filter`` and ``ticdc-ddl`` of the TiDB documentation, v6.5 to v8.5.
"""

from __future__ import annotations

from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.schema.session import Session
from filter.decision import DdlFilter, Outcome
from filter.rules import TableRules

SESSION = Session(default_schema="test")


def outcome(sql: str, *rules: dict[str, Any]) -> Outcome:
    config = FeedConfig.model_validate({"filter": {"event_filters": list(rules)}})
    return DdlFilter(config).decide(sql, SESSION).outcome


@pytest.mark.parametrize(
    ("rules", "yes", "no"),
    [
        (["*.*"], ["a.b", "test.t"], ["mysql.user", "INFORMATION_SCHEMA.tables", "sys.x"]),
        (["test1.*"], ["test1.a"], ["test2.a", "test10.a"]),
        (["*.*", "!scm1.tbl2"], ["scm1.tbl1", "scm2.tbl2"], ["scm1.tbl2"]),
        (["scm1.tbl2", "scm1.tbl3"], ["scm1.tbl2", "scm1.tbl3"], ["scm1.tbl1"]),
        (["scm1.tidb_*"], ["scm1.tidb_x", "scm1.tidb_"], ["scm1.xtidb_x", "scm2.tidb_x"]),
        (["*.*", "!test.*"], ["a.t"], ["test.t"]),
        (["foo*.*", "bar*.*"], ["foo.a", "bar1.a"], ["xfoo.a"]),
        (["db1.tbl1", "db2.tbl2"], ["db1.tbl1", "DB2.TBL2"], ["db1.tbl2"]),
        (
            ["db[0-9].tbl[0-9a-f][0-9a-f]", "data.*", "*.backup_*"],
            ["db1.tbl0f", "data.x", "any.backup_1"],
            ["db1.tbl0g", "db12.tbl00", "any.backup"],
        ),
        (["*.*", "!*.Password", "!employees.salaries"], ["a.b"], ["x.password"]),
        (["!*.Password"], [], ["a.b", "a.Password"]),
        (["db\\.with\\.dots.*"], ["db.with.dots.t"], ["dbxwithxdots.t"]),
        (['"db.with.dots"."tbl\\1"'], ["db.with.dots.tbl\\1"], []),
        (['"foo""bar".`foo``bar`'], ['foo"bar.foo`bar'], []),
        (['foo\\"bar.foo\\`bar'], ['foo"bar.foo`bar'], []),
        (["/^db\\d{2,}$/./^tbl\\d{2,}$/"], ["db01.tbl22"], ["db1.tbl22", "xdb01.tbl22"]),
        (["/b/.*"], ["db01.t"], ["ac.t"]),
        (
            ["# this line is a comment", "", "employees.*", "  *.WorkOrder  "],
            ["employees.a", "x.WorkOrder"],
            ["x.a"],
        ),
        ([], ["a.b"], ["mysql.user"]),
    ],
)
def test_table_filter(rules: list[str], yes: list[str], no: list[str]) -> None:
    found = TableRules(rules)
    assert [n for n in yes if not found.matches(*n.rsplit(".", 1))] == []
    assert [n for n in no if found.matches(*n.rsplit(".", 1))] == []


@pytest.mark.parametrize(
    ("table", "passes", "rule"),
    [
        ("irrelevant.table", False, -1),
        ("employees.employees", True, 1),
        ("employees.dept_emp", False, 3),
        ("employees.departments", True, 5),
        ("else.departments", True, 5),
    ],
)
def test_the_last_matching_rule_decides(table: str, passes: bool, rule: int) -> None:
    text = ["# rule 1", "employees.*", "# rule 2", "!*.dep*", "# rule 3", "*.departments"]
    found = TableRules(text)
    assert found.matches(*table.split(".")) is passes
    assert found.decides(*table.split("."))[0] == rule


WORKER = {
    "matcher": ["test.worker"],
    "ignore_event": ["insert"],
    "ignore_sql": ["^drop", "add column"],
}


@pytest.mark.parametrize(
    ("sql", "ignored"),
    [
        ("DROP TABLE worker", True),
        ("drop table test.worker", True),
        ("ALTER TABLE worker ADD COLUMN a INT", True),
        ("ALTER TABLE worker DROP COLUMN a", False),
        ("TRUNCATE TABLE worker", False),
        ("DROP TABLE other", False),
        ("ALTER TABLE other ADD COLUMN a INT", False),
        # The trap: a schema-level DDL is matched by the schema alone.
        ("DROP DATABASE test", True),
        ("CREATE DATABASE test", False),
        ("DROP DATABASE test2", False),
    ],
)
def test_the_example_of_an_event_filter(sql: str, ignored: bool) -> None:
    assert outcome(sql, WORKER) is (Outcome.IGNORED if ignored else Outcome.DELIVER)


def test_rows_of_the_example() -> None:
    config = FeedConfig.model_validate({"filter": {"event_filters": [WORKER]}})
    events = DdlFilter(config).events
    assert events.ignored_dml("test", "worker") == {"insert"}
    assert events.ignored_dml("test", "other") == frozenset()


EXAMPLES = {
    "create schema": "CREATE DATABASE test",
    "create database": "CREATE SCHEMA test",
    "drop schema": "DROP DATABASE test",
    "drop database": "DROP SCHEMA test",
    "create table": "CREATE TABLE t (id INT PRIMARY KEY)",
    "drop table": "DROP TABLE t",
    "rename table": "RENAME TABLE t TO u",
    "truncate table": "TRUNCATE TABLE t",
    "alter table": "ALTER TABLE t ADD COLUMN a INT",
    "add table partition": "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (9))",
    "drop table partition": "ALTER TABLE t DROP PARTITION p",
    "truncate table partition": "ALTER TABLE t TRUNCATE PARTITION p",
    "create view": "CREATE VIEW v AS SELECT 1",
    "drop view": "DROP VIEW v",
    "modify schema charset and collate": "ALTER DATABASE test COLLATE utf8mb4_bin",
    "rebase auto id": "ALTER TABLE t AUTO_INCREMENT = 100",
    "modify table comment": "ALTER TABLE t COMMENT = 'x'",
    "modify table charset and collate": "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",
    "exchange table partition": "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
    "reorganize table partition": "ALTER TABLE t REORGANIZE PARTITION p INTO "
    "(PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (9))",
    "alter table partitioning": "ALTER TABLE t PARTITION BY HASH (id)",
    "remove table partitioning": "ALTER TABLE t REMOVE PARTITIONING",
    "add column": "ALTER TABLE t ADD COLUMN a INT",
    "drop column": "ALTER TABLE t DROP COLUMN a",
    "modify column": "ALTER TABLE t MODIFY COLUMN a BIGINT",
    "set default value": "ALTER TABLE t ALTER a SET DEFAULT 1",
    "add primary key": "ALTER TABLE t ADD PRIMARY KEY (a)",
    "drop primary key": "ALTER TABLE t DROP PRIMARY KEY",
    "rename index": "ALTER TABLE t RENAME INDEX a TO b",
    "alter index visibility": "ALTER TABLE t ALTER INDEX a INVISIBLE",
    "alter ttl info": "ALTER TABLE t TTL_ENABLE = 'OFF'",
    "multi schema change": "ALTER TABLE t MODIFY COLUMN a INT, ADD COLUMN b INT, DROP COLUMN c",
    "create index": "CREATE INDEX i ON t (a)",
    "drop index": "DROP INDEX i ON t",
    "add foreign key": "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)",
    "drop foreign key": "ALTER TABLE t DROP FOREIGN KEY f",
    "add fulltext index": "ALTER TABLE t ADD FULLTEXT INDEX (b)",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_event_type_ignores_its_statement(name: str) -> None:
    sql = EXAMPLES[name]
    assert outcome(sql, {"matcher": ["test.*"], "ignore_event": [name]}) is Outcome.IGNORED
    assert outcome(sql, {"matcher": ["test.*"], "ignore_event": ["all ddl"]}) is Outcome.IGNORED
    assert outcome(sql, {"matcher": ["other.*"], "ignore_event": [name]}) is Outcome.DELIVER


def _alike(name: str, sql: str) -> bool:
    """Whether the other name means this statement too, by the documentation's words."""
    own = EXAMPLES[name]
    if own.replace("SCHEMA", "DATABASE") == sql.replace("SCHEMA", "DATABASE"):
        return True
    if name == "alter table":
        return sql.startswith("ALTER TABLE") or " INDEX i ON" in sql
    multi = EXAMPLES["multi schema change"]
    return sql == multi and name in ("modify column", "add column", "drop column")


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_event_type_ignores_more(name: str) -> None:
    rule = {"matcher": ["test.*"], "ignore_event": [name]}
    wrong = [
        sql
        for sql in EXAMPLES.values()
        if (outcome(sql, rule) is Outcome.IGNORED) is not _alike(name, sql)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["all dml", "insert", "update", "delete"])
def test_types_of_rows_ignore_no_ddl(name: str) -> None:
    assert outcome("DROP TABLE t", {"matcher": ["*.*"], "ignore_event": [name]}) is Outcome.DELIVER
