"""Which event types a statement has, and what is discarded."""

from __future__ import annotations

import pytest

from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.table import Column, Index, Table
from filter.ddl_types import ddl_types
from filter.event_types import ALL

SESSION = Session(default_schema="shop")
MARIADB = Session(mariadb=True, version=(11, 4, 5), default_schema="shop")
ALTER = {"alter table", "all ddl"}


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("CREATE DATABASE a", {"create database", "create schema"}),
        ("drop schema if exists a", {"drop database", "drop schema"}),
        ("ALTER DATABASE a CHARACTER SET utf8mb4", {"modify schema charset and collate"}),
        ("CREATE TABLE t (id int)", {"create table"}),
        ("CREATE TABLE t LIKE u", {"create table"}),
        ("DROP TABLE a, b", {"drop table"}),
        ("TRUNCATE t", {"truncate table"}),
        ("RENAME TABLE a TO b", {"rename table"}),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", {"create view"}),
        ("DROP VIEW v, w", {"drop view"}),
        ("CREATE UNIQUE INDEX i ON t (a)", {"create index", "alter table"}),
        ("CREATE FULLTEXT INDEX i ON t (a)", {"add fulltext index", "alter table"}),
        ("DROP INDEX i ON t", {"drop index", "alter table"}),
    ],
)
def test_statements(sql: str, types: set[str]) -> None:
    found = ddl_types(read_ddl(sql, SESSION))
    assert found.types == types | {"all ddl"}
    assert not found.discarded


@pytest.mark.parametrize(
    ("clause", "kind"),
    [
        ("ADD COLUMN a INT UNIQUE FIRST", "add column"),
        ("ADD a INT", "add column"),
        ("DROP a", "drop column"),
        ("MODIFY a BIGINT", "modify column"),
        ("CHANGE a b INT", "modify column"),
        ("RENAME COLUMN a TO b", "modify column"),
        ("ALTER a SET DEFAULT 1", "set default value"),
        ("ALTER COLUMN a DROP DEFAULT", "set default value"),
        ("ADD INDEX (a)", "create index"),
        ("ADD CONSTRAINT u UNIQUE KEY (a)", "create index"),
        ("ADD FULLTEXT KEY f (a)", "add fulltext index"),
        ("ADD PRIMARY KEY (a)", "add primary key"),
        ("ADD CONSTRAINT FOREIGN KEY (a) REFERENCES p (id)", "add foreign key"),
        ("DROP KEY i", "drop index"),
        ("DROP PRIMARY KEY", "drop primary key"),
        ("DROP INDEX `PRIMARY`", "drop primary key"),
        ("DROP FOREIGN KEY f", "drop foreign key"),
        ("RENAME INDEX a TO b", "rename index"),
        ("ALTER INDEX i INVISIBLE", "alter index visibility"),
        ("RENAME TO u", "rename table"),
        ("RENAME u", "rename table"),
        ("COMMENT='x'", "modify table comment"),
        ("AUTO_INCREMENT=100", "rebase auto id"),
        ("DEFAULT CHARSET latin1", "modify table charset and collate"),
        ("CONVERT TO CHARACTER SET utf8mb4", "modify table charset and collate"),
        ("ADD PARTITION (PARTITION p1 VALUES LESS THAN (9))", "add table partition"),
        ("ADD PARTITION PARTITIONS 3", "add table partition"),
        ("DROP PARTITION p0, p1", "drop table partition"),
        ("TRUNCATE PARTITION p0, p1", "truncate table partition"),
        ("COALESCE PARTITION 2", "reorganize table partition"),
        (
            "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (5), "
            "PARTITION b VALUES LESS THAN (9))",
            "reorganize table partition",
        ),
        ("EXCHANGE PARTITION p0 WITH TABLE u", "exchange table partition"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "alter table partitioning"),
        ("REMOVE PARTITIONING", "remove table partitioning"),
    ],
)
def test_clauses(clause: str, kind: str) -> None:
    found = ddl_types(read_ddl(f"ALTER TABLE t {clause}", SESSION))
    assert found.types == {kind, *ALTER}
    assert found.name == kind
    assert list(found.clauses) == [frozenset((kind, "alter table"))]
    assert found.tables == (("shop", "t"),)
    assert not found.discarded


def test_a_multi_clause_alter_counts_as_each_clause_and_as_multi_schema_change() -> None:
    sql = "ALTER TABLE t MODIFY COLUMN a INT, ADD COLUMN b INT, DROP COLUMN c, ALGORITHM=INPLACE"
    found = ddl_types(read_ddl(sql, SESSION))
    assert found.types == {
        *("modify column", "add column", "drop column", "multi schema change"),
        *ALTER,
    }
    assert found.name == "multi schema change"
    assert len(found.clauses) == 3


@pytest.mark.parametrize(
    "clauses", ["ADD COLUMN (a INT, b INT)", "ADD a INT COMMENT 'x, y', ADD b INT"]
)
def test_several_columns_are_several_clauses(clauses: str) -> None:
    found = ddl_types(read_ddl(f"ALTER TABLE t {clauses}", SESSION))
    assert found.types == {"add column", "multi schema change", *ALTER}


def test_how_an_alter_is_done_is_no_clause() -> None:
    found = ddl_types(read_ddl("ALTER TABLE t ADD a INT, ALGORITHM=INSTANT, LOCK=NONE", SESSION))
    assert found.name == "add column"


def test_a_comment_on_a_clause_is_not_read_as_one() -> None:
    found = ddl_types(
        read_ddl("ALTER TABLE t /* DROP COLUMN x, */ ADD a INT -- , RENAME TO u", SESSION)
    )
    assert found.types == {"add column", *ALTER}


def test_an_executable_comment_is_read() -> None:
    found = ddl_types(read_ddl("ALTER TABLE t ADD a INT /*!50100 , DROP b */", SESSION))
    assert "drop column" in found.types


def test_only_the_table_says_what_a_constraint_was() -> None:
    index = Index("u", ("a",), unique=True)
    table = Table("shop", "t", (Column("a", "int", "int(11)"),), (index,))
    sql = "ALTER TABLE t DROP CONSTRAINT u"
    assert "drop index" in ddl_types(read_ddl(sql, SESSION), table).types
    assert "drop foreign key" in ddl_types(read_ddl(sql, SESSION)).types


@pytest.mark.parametrize(
    "sql",
    [
        *("CREATE TEMPORARY TABLE t (a INT)", "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW x"),
        *("CREATE PROCEDURE p() BEGIN END", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1"),
        *("ALTER TABLE t ENGINE=InnoDB", "ALTER TABLE t ORDER BY a, b", "ALTER TABLE t FORCE"),
        *("ALTER TABLE t DISABLE KEYS", "ALTER TABLE t ROW_FORMAT=DYNAMIC KEY_BLOCK_SIZE=8"),
        *("ALTER TABLE t OPTIMIZE PARTITION p0", "ANALYZE TABLE t", "GRANT SELECT ON *.* TO u"),
        *("LOCK TABLES t WRITE", "ALTER DATABASE a READ ONLY = 1", "ALTER TABLE t ALGORITHM=COPY"),
    ],
)
def test_discarded(sql: str) -> None:
    assert ddl_types(read_ddl(sql, SESSION)).discarded


def test_a_sequence_is_discarded() -> None:
    assert ddl_types(read_ddl("CREATE SEQUENCE s", MARIADB)).discarded


def test_a_clause_outside_the_allow_list_goes_with_one_inside() -> None:
    found = ddl_types(read_ddl("ALTER TABLE t ENGINE=InnoDB, ADD a INT", SESSION))
    assert not found.discarded
    assert found.types == {"add column", "multi schema change", *ALTER}


@pytest.mark.parametrize(
    "clause", ["IMPORT TABLESPACE", "DISCARD TABLESPACE", "IMPORT PARTITION p0 TABLESPACE"]
)
def test_rows_that_the_binlog_does_not_have_are_named(clause: str) -> None:
    assert ddl_types(read_ddl(f"ALTER TABLE t {clause}", SESSION)).unlogged


@pytest.mark.parametrize(
    ("sql", "other"),
    [
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", ("shop", "u")),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x.`u v` WITHOUT VALIDATION", ("x", "u v")),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u", ("shop", "u")),
        (
            "ALTER TABLE t CONVERT TABLE x.u TO PARTITION p VALUES LESS THAN (9)",
            ("x", "u"),
        ),
    ],
)
def test_moves(sql: str, other: tuple[str, str]) -> None:
    assert ddl_types(read_ddl(sql, MARIADB)).moves == ((("shop", "t"), other),)


def test_renames() -> None:
    found = ddl_types(read_ddl("RENAME TABLE a TO x.c, b WAIT 3 TO a", MARIADB))
    assert found.renames == (
        (("shop", "a"), ("x", "c")),
        (("shop", "b"), ("shop", "a")),
    )
    assert found.tables == (("shop", "a"), ("shop", "b"))
    alter = ddl_types(read_ddl("ALTER TABLE y.a ADD k INT, RENAME AS c", SESSION))
    assert alter.renames == ((("y", "a"), ("shop", "c")),)
    assert {"rename table", "add column", "multi schema change"} <= alter.types


def test_views_are_named() -> None:
    sql = "CREATE ALGORITHM=MERGE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW x.v AS SELECT 1"
    assert ddl_types(read_ddl(sql, SESSION)).tables == (("x", "v"),)
    assert ddl_types(read_ddl("DROP VIEW IF EXISTS v, x.w", SESSION)).tables == (
        ("shop", "v"),
        ("x", "w"),
    )


def test_every_type_is_a_known_name() -> None:
    assert len(ALL) == len(set(ALL)) == 19 + 20 + 6
