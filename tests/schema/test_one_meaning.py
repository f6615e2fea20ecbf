"""Everybody who asks about a DDL means the same: history, filter, barrier, formats, target, fold.

The oracle is what the statement does to the tables, which the servers were asked about
(``tests/ddl_diff``).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.errors import DefiniteError
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog, Database
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.statement import DdlStatement, NameRole, Verb
from cdc.verify import fold_ddl
from cdc.verify.fold_store import FoldStore
from cdc.verify.folded_part import FoldedPart
from filter.ddl_types import ddl_types
from owner.ddl import Ddl, destructive
from sink.codec.canal.ddl import ddl_type
from sink.mysql.ddl.rewrite import rewrite
from sink.schema_change import SchemaChange
from tests.ddl_diff.generate import Generator
from tests.ddl_diff.split import by_line
from tests.seeds import seed
from tests.sink_kafka.changes import change
from tests.sink_mysql_ddl.test_rewrite import TO_MARIADB

CORPUS = Path(__file__).parent.parent / "ddl_diff" / "corpus"
SESSIONS = {
    "mariadb": Session(mariadb=True, version=(11, 4, 5), default_schema="d"),
    "mysql": Session(version=(8, 0, 41), default_schema="d"),
}
Name = tuple[str, str]


def _empty() -> Catalog:
    made = Catalog().with_database(Database("d", "utf8mb4", "utf8mb4_bin"))
    return made.with_database(Database("ddl_two", "latin1", "latin1_swedish_ci"))


def _check(statement: DdlStatement, before: Catalog, after: Catalog) -> None:
    changed = {n for n in {*before, *after} if before.table(*n) is not after.table(*n)}
    schemas = {before.key(schema) for schema in statement.schemas}
    said = {(before.key(schema), before.key(name)) for schema, name in statement.tables}
    assert {n for n in changed if n[0] not in schemas} <= said, statement.sql
    if statement.verb is Verb.ALTER and statement.tables:
        _check_alter(statement, before, after)


def _check_alter(statement: DdlStatement, before: Catalog, after: Catalog) -> None:
    plans = [action.plan for action in statement.actions]
    assert any(plan.renamed for plan in plans) is bool(statement.renames), statement.sql
    roles = {named.role for named in statement.others}
    for role, kind in ((NameRole.FROM_PARTITION, "DROP"), (NameRole.TO_PARTITION, "ADD")):
        if role in roles:
            changes = (plan.partition_change for plan in plans)
            assert any(change is not None and change.kind == kind for change in changes)
    types = ddl_types(statement)
    assert (types.renames, types.moves) == (statement.renames, statement.moves)
    old = statement.targets[0].table
    was = before.table(*old)
    now = after.table(*next((new for _, new in statement.renames), old))
    if was is None or now is None:
        return
    moved = {name for plan in plans for name in plan.renames}
    moved |= {(d.old_name or "").lower() for plan in plans for d in plan.changes}
    gone = was.positions.keys() - now.positions.keys() - moved
    assert gone <= statement.dropped_columns, statement.sql


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_statement_names_all_that_it_changes(kind: str) -> None:
    session, followed = SESSIONS[kind], 0
    for path in sorted((*CORPUS.glob("common/*.sql"), *CORPUS.glob(f"{kind}/*.sql"))):
        catalog = _empty()
        for sql in by_line(path.read_text()):
            try:
                statement = read_ddl(sql, session)
                after = apply(catalog, statement)
            except DefiniteError:
                # It is for a server that has other things before it.
                continue
            _check(statement, catalog, after)
            catalog, followed = after, followed + 1
    assert followed > 800


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_random_statement_names_all_that_it_changes(kind: str) -> None:
    generator, catalog = Generator(seed(), mariadb=kind == "mariadb"), _empty()
    for _ in range(500):
        statement = read_ddl(generator.next(catalog), SESSIONS[kind])
        try:
            after = apply(catalog, statement)
        except DefiniteError:
            # What no server would take.
            continue
        _check(statement, catalog, after)
        catalog = after


def _made(sql: str) -> SchemaChange:
    catalog = Catalog()
    for number, before in enumerate(
        (
            "CREATE DATABASE shop",
            *(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT)" for name in ("a", "b")),
            "CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2",
        )
    ):
        catalog = change(number, before, catalog).after
    return change(9, sql, catalog)


@pytest.mark.parametrize(
    ("sql", "tables", "lost", "passes", "canal"),
    [
        ("CREATE OR REPLACE TABLE a (id INT)", "a", True, "create table", "CREATE"),
        ("CREATE/* TABLE x */OR REPLACE TABLE `a` LIKE b", "a", True, "create table", "CREATE"),
        ("create table if not exists c like `shop` . `b`", "c", False, "create table", "CREATE"),
        ("TRUNCATE -- b\n a", "a", True, "truncate table", "TRUNCATE"),
        (
            "ALTER TABLE p TRUNCATE /*c*/ PARTITION p0",
            *("p", True, "truncate table partition", "ALTER"),
        ),
        (
            "ALTER TABLE p COMMENT 'TRUNCATE PARTITION p0'",
            "p",
            False,
            "modify table comment",
            "ALTER",
        ),
        ("ALTER TABLE a RENAME COLUMN k TO `drop`", "a", False, "modify column", "ALTER"),
        ("ALTER TABLE a CHANGE k RENAME_TO INT", "a", False, "modify column", "ALTER"),
        ("ALTER TABLE a DROP `k`", "a", True, "drop column", "ALTER"),
        ("/*!50100 ALTER TABLE a DROP COLUMN k */", "a", True, "drop column", "ALTER"),
        ("ALTER TABLE a ADD x INT /*!99999 , DROP k */", "a", False, "add column", "ALTER"),
        (
            "ALTER TABLE a ADD x INT /*M!100100 , DROP k */",
            "a",
            True,
            "multi schema change",
            "ALTER",
        ),
        ("ALTER TABLE a ADD x INT # , RENAME TO c", "a", False, "add column", "ALTER"),
        ("ALTER TABLE a RENAME `TO`", "a TO", False, "rename table", "RENAME"),
        ("RENAME TABLE a TO t, b WAIT 3 TO a", "a b t", False, "rename table", "RENAME"),
        (
            "RENAME TABLE a TO `RENAME`, b TO `a,b`",
            "a a,b b RENAME",
            False,
            "rename table",
            "RENAME",
        ),
        ("DROP TABLE IF EXISTS a, /* b, */ `p`", "a p", True, "drop table", "ERASE"),
        ("CREATE OR REPLACE UNIQUE INDEX i ON a (k)", "a", False, "create index", "CINDEX"),
        ("DROP INDEX IF EXISTS `ON` ON a", "a", False, "drop index", "DINDEX"),
    ],
)
def test_all_mean_the_same(sql: str, tables: str, lost: bool, passes: str, canal: str) -> None:
    one = _made(sql)
    statement = read_ddl(sql, one.session)
    assert {name for _, name in statement.tables} == {*tables.split()}
    types = ddl_types(statement)
    assert types.name == passes
    assert {*types.tables} <= {*statement.tables}
    assert types.renames == statement.renames
    assert destructive(Ddl(one.ts, sql, statement, None, one)) is lost
    assert ddl_type(one) == canal
    with closing(FoldStore()) as store:
        folded: dict[Name, FoldedPart] = {name: FoldedPart(store) for name in one.before}
        fold_ddl.apply(folded, sql, one.session, 1, store)
    assert {*folded} == {*one.after}
    at_target = rewrite(one, TO_MARIADB)
    assert at_target.renames == (statement.renames if statement.verb is Verb.RENAME else ())
    assert {name for name, _ in at_target.tables} <= {*statement.tables}
    changed = {
        n for n in {*one.before, *one.after} if one.before.table(*n) is not one.after.table(*n)
    }
    assert changed <= {*statement.tables}
