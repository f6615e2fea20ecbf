"""One value says all of a statement's text, and names stand where it says."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from cdc.schema.ddl import read_ddl, read_delivered
from cdc.schema.statement import DdlStatement, NameRole, Verb
from cdc.schema.tokens import DDLNotUnderstood, Session

MARIADB = Session(mariadb=True, version=(11, 4, 5), default_schema="d")
MYSQL = Session(version=(8, 0, 33), default_schema="d")
ROLES = {
    NameRole.MODEL: "like",
    NameRole.PARENT: "references",
    NameRole.SEQUENCE: "value for",
    NameRole.MEMBER: "union",
    NameRole.EXCHANGED: "exchange",
    NameRole.FROM_PARTITION: "from partition",
    NameRole.TO_PARTITION: "to partition",
    NameRole.NEW_NAME: "rename",
}


def _facts(sql: str, session: Session = MARIADB) -> dict[str, object]:
    """What is not as in most statements, names as they stand in the text."""
    read = read_ddl(sql, session)
    text = read.cursor().text
    facts = {
        "verb": read.verb.value,
        "targets": [text[n.start : n.end] for n in read.targets],
        "others": [(ROLES[n.role], text[n.start : n.end]) for n in read.others],
        "tables": [f"{s}.{n}" for s, n in read.tables],
        "referenced": [f"{s}.{n}" for s, n in read.referenced],
        "renames": [(".".join(old), ".".join(new)) for old, new in read.renames],
        "moves": [(".".join(a), ".".join(b)) for a, b in read.moves],
        "schemas": list(read.schemas),
        "schema_at": text[slice(*read.schema_at)] if read.schema_at else "",
        "index": read.index,
        "conditional": read.conditional,
        "replacing": read.replacing,
        "temporary": read.temporary,
        "like": read.like,
        "exchanges": read.exchanges,
        "refused": bool(read.obstacle),
    }
    return {"kind": read.kind} | {name: fact for name, fact in facts.items() if fact}


@pytest.mark.parametrize(
    ("sql", "facts"),
    [
        (
            "CREATE TABLE t (a int, b int REFERENCES `x` . p (a), c int DEFAULT NEXT VALUE FOR s)",
            {
                "kind": "create table",
                "verb": "create table",
                "targets": ["t"],
                "others": [("references", "`x` . p"), ("value for", "s")],
                "tables": ["d.t"],
                "referenced": ["x.p"],
            },
        ),
        (
            "SET STATEMENT sort_buffer_size = 1 FOR CREATE OR REPLACE TABLE x.t LIKE /* c */ o;",
            {
                "kind": "create table",
                "verb": "create table",
                "targets": ["x.t"],
                "others": [("like", "o")],
                "tables": ["x.t"],
                "referenced": ["d.o"],
                "replacing": True,
                "like": True,
            },
        ),
        (
            "create table if not exists t (like x.o)",
            {
                "kind": "create table",
                "verb": "create table",
                "targets": ["t"],
                "others": [("like", "x.o")],
                "tables": ["d.t"],
                "referenced": ["x.o"],
                "conditional": True,
                "like": True,
            },
        ),
        (
            "CREATE TABLE m (a int) ENGINE=MERGE UNION=(t, x.u)",
            {
                "kind": "create table",
                "verb": "create table",
                "targets": ["m"],
                "others": [("union", "t"), ("union", "x.u")],
                "tables": ["d.m"],
            },
        ),
        (
            "CREATE TABLE t AS SELECT 1 UNION SELECT 2",
            {
                "kind": "create table",
                "verb": "create table",
                "targets": ["t"],
                "tables": ["d.t"],
                "refused": True,
            },
        ),
        (
            "CREATE OR REPLACE TEMPORARY TABLE t (a int)",
            {
                "kind": "create temporary table",
                "verb": "other",
                "replacing": True,
                "temporary": True,
                "refused": True,
            },
        ),
        (
            "ALTER ONLINE TABLE IF EXISTS t WAIT 5 ADD b int REFERENCES p (a), RENAME TO x.u,"
            " RENAME COLUMN a TO c, ADD KEY (b)",
            {
                "kind": "alter table",
                "verb": "alter table",
                "targets": ["t"],
                "others": [("references", "p"), ("rename", "x.u")],
                "tables": ["d.t", "x.u"],
                "referenced": ["d.p"],
                "renames": [("d.t", "x.u")],
                "conditional": True,
            },
        ),
        (
            "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE `x`.`u`",
            {
                "kind": "alter table",
                "verb": "alter table",
                "targets": ["t"],
                "others": [("exchange", "`x`.`u`")],
                "tables": ["d.t", "x.u"],
                "moves": [("d.t", "x.u")],
                "exchanges": True,
            },
        ),
        (
            "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
            {
                "kind": "alter table",
                "verb": "alter table",
                "targets": ["t"],
                "others": [("from partition", "u")],
                "tables": ["d.t", "d.u"],
                "moves": [("d.t", "d.u")],
            },
        ),
        (
            "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (3)",
            {
                "kind": "alter table",
                "verb": "alter table",
                "targets": ["t"],
                "others": [("to partition", "u")],
                "tables": ["d.t", "d.u"],
                "moves": [("d.t", "d.u")],
            },
        ),
        (
            "ALTER TABLE t REBUILD PARTITION p",
            {"kind": "alter table", "verb": "alter table", "targets": ["t"], "tables": ["d.t"]},
        ),
        (
            "ALTER TABLE t ANALYZE PARTITION p",
            {"kind": "analyze partition", "verb": "alter table", "targets": ["t"]},
        ),
        (
            "DROP TABLE IF EXISTS a, x.b, a",
            {
                "kind": "drop table",
                "verb": "drop table",
                "targets": ["a", "x.b", "a"],
                "tables": ["d.a", "x.b"],
                "conditional": True,
            },
        ),
        (
            "RENAME TABLE a WAIT 5 TO t, b TO x.a",
            {
                "kind": "rename table",
                "verb": "rename table",
                "targets": ["a", "t", "b", "x.a"],
                "tables": ["d.a", "d.t", "d.b", "x.a"],
                "renames": [("d.a", "d.t"), ("d.b", "x.a")],
            },
        ),
        (
            "TRUNCATE /* c */ t",
            {
                "kind": "truncate table",
                "verb": "truncate table",
                "targets": ["t"],
                "tables": ["d.t"],
            },
        ),
        (
            "CREATE /* a */ OR REPLACE UNIQUE /* INDEX */ INDEX # b\n i USING BTREE ON x./**/t (a)",
            {
                "kind": "create index",
                "verb": "create index",
                "targets": ["x.    t"],
                "tables": ["x.t"],
                "index": "i",
                "replacing": True,
            },
        ),
        (
            "DROP INDEX IF EXISTS `i``j` ON t",
            {
                "kind": "drop index",
                "verb": "drop index",
                "targets": ["t"],
                "tables": ["d.t"],
                "index": "i`j",
                "conditional": True,
            },
        ),
        (
            "CREATE DATABASE IF NOT EXISTS x CHARACTER SET utf8mb4",
            {
                "kind": "create database",
                "verb": "database",
                "schemas": ["x"],
                "schema_at": "x",
                "conditional": True,
            },
        ),
        (
            "ALTER SCHEMA CHARACTER SET latin1",
            {"kind": "alter database", "verb": "database", "schemas": ["d"]},
        ),
        (
            "DROP DATABASE `x`",
            {"kind": "drop database", "verb": "database", "schemas": ["x"], "schema_at": "`x`"},
        ),
        (
            "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`r`@`%` VIEW x.v AS SELECT 1",
            {"kind": "create view", "verb": "other", "targets": ["x.v"], "replacing": True},
        ),
        (
            "DROP SEQUENCE s, x.r",
            {"kind": "drop sequence", "verb": "other", "targets": ["s", "x.r"]},
        ),
        (
            "CREATE TRIGGER g BEFORE INSERT ON view FOR EACH ROW SET NEW.a = 1",
            {"kind": "create trigger", "verb": "other"},
        ),
        ("# nothing", {"kind": "empty", "verb": "other"}),
        ("BEGIN", {"kind": "begin", "verb": "other"}),
        ("RENAME USER a TO b", {"kind": "rename user", "verb": "other"}),
    ],
)
def test_a_statement_says(sql: str, facts: dict[str, object]) -> None:
    assert _facts(sql) == facts


def test_the_body_begins_behind_the_name() -> None:
    for sql, word in (
        ("CREATE TABLE IF NOT EXISTS d.t (a int)", "("),
        ("ALTER TABLE t NOWAIT ADD a int", "ADD"),
        ("CREATE INDEX i ON t (a) WAIT 3", "("),
        ("ALTER DATABASE x COLLATE utf8mb4_bin", "COLLATE"),
    ):
        read = read_ddl(sql, MARIADB)
        assert read.cursor(read.body).next().text == word
        assert read.cursor().next().text == sql.split()[0]


def test_what_is_delivered_nowhere_is_read_and_refused() -> None:
    for sql in (
        "GRANT ALL ON *.* TO u",
        "CREATE VIEW v AS SELECT 1",
        "DROP TEMPORARY TABLE t",
        "CREATE TABLE t AS SELECT 1 UNION SELECT 2",
        "CREATE EXTERNAL TABLE t (a int)",
    ):
        assert isinstance(read_ddl(sql, MYSQL), DdlStatement)
        with pytest.raises(DDLNotUnderstood):
            read_delivered(sql, MYSQL)
    assert read_delivered("DROP TABLE t", MYSQL).verb is Verb.DROP


def test_one_text_is_read_once_in_each_session_and_never_changes() -> None:
    sql = "ALTER TABLE t RENAME u"
    read = read_ddl(sql, MYSQL)
    assert read_ddl(sql, MYSQL) is read
    assert read_ddl(sql, MARIADB) is not read
    with pytest.raises(FrozenInstanceError):
        read.kind = "drop table"  # type: ignore[misc]
    long = "CREATE TABLE t (a int) /*" + "x" * 5000 + "*/"
    assert read_ddl(long, MYSQL) == read_ddl(long, MYSQL)


@pytest.mark.parametrize(
    ("sql", "actions"),
    [
        (
            "ALTER IGNORE TABLE t NOWAIT ADD COLUMN (b int, c int), /* , */ DROP a CASCADE,"
            " ALGORITHM=INPLACE, ORDER BY a, d.t.b DESC",
            [
                "ADD COLUMN ( b int , c int )",
                "DROP a CASCADE",
                "ALGORITHM = INPLACE",
                "ORDER BY a , d . t . b DESC",
            ],
        ),
        ("ALTER TABLE t TRUNCATE /* c */ PARTITION p, q", ["TRUNCATE PARTITION p , q"]),
        ("ALTER TABLE t ENGINE=InnoDB COMMENT 'x'", ["ENGINE = InnoDB", "COMMENT x"]),
        ("ALTER TABLE t", []),
        ("CREATE TABLE t (a int)", []),
    ],
)
def test_an_alter_has_actions(sql: str, actions: list[str]) -> None:
    read = read_ddl(sql, MARIADB)
    items = read.cursor().items
    shown = [" ".join(i.text for i in items[a.first : a.end]) for a in read.actions]
    assert shown == actions
    for action in read.actions:
        assert action.words[0] == items[action.first].word
        assert len(action.words) == action.end - action.first


def test_actions_have_plans_of_their_own() -> None:
    sql = "ALTER TABLE t DROP a, CHANGE b c int, RENAME COLUMN e TO f, RENAME x.u"
    plans = [action.plan for action in read_ddl(sql, MYSQL).actions]
    assert [p.drops for p in plans] == [{"a"}, set(), set(), set()]
    assert [(d.old_name, d.column.name) for d in plans[1].changes] == [("b", "c")]
    assert plans[2].renames == {"e": "f"}
    assert [p.renamed for p in plans] == [False, False, False, True]


@pytest.mark.parametrize(
    ("sql", "rows", "columns"),
    [
        ("DROP TABLE t", True, ()),
        ("DROP DATABASE x", True, ()),
        ("TRUNCATE t", True, ()),
        ("CREATE OR REPLACE TABLE t (a int)", True, ()),
        ("CREATE OR REPLACE DATABASE x", True, ()),
        ("ALTER TABLE t TRUNCATE /* c */ PARTITION p", True, ()),
        ("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", True, ()),
        ("ALTER TABLE t DROP `A`, MODIFY c int, DROP COLUMN IF EXISTS b", False, ("a", "b")),
        ("ALTER TABLE t COMMENT 'TRUNCATE PARTITION'", False, ()),
        ("ALTER TABLE t RENAME COLUMN a TO b, CHANGE c e int, DROP KEY f", False, ()),
        ("CREATE OR REPLACE INDEX i ON t (a)", False, ()),
        ("CREATE OR REPLACE VIEW t AS SELECT 1", False, ()),
        ("CREATE TABLE t (a int)", False, ()),
        ("DROP INDEX i ON t", False, ()),
        ("RENAME TABLE t TO u", False, ()),
    ],
)
def test_what_it_destroys(sql: str, rows: bool, columns: tuple[str, ...]) -> None:
    read = read_ddl(sql, MARIADB)
    assert read.destroys_rows is rows
    assert sorted(read.dropped_columns) == sorted(columns)


def test_what_an_action_means_may_be_unknown_while_its_tables_are_known() -> None:
    read = read_ddl("ALTER TABLE t ALTER a FROBNICATE, RENAME u", MYSQL)
    assert read.tables == (("d", "t"), ("d", "u"))
    for _ in range(2):
        with pytest.raises(DDLNotUnderstood, match="FROBNICATE"):
            _ = read.actions
