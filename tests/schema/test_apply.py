"""DDL as functions: what no server is needed for."""

from __future__ import annotations

import tracemalloc

import pytest

from cdc.binlog.query import StatusVariables
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog, Database
from cdc.schema.ddl import read_ddl
from cdc.schema.events import session_of_event
from cdc.schema.session import Session
from cdc.schema.snapshot import catalog
from cdc.schema.tokens import DDLNotUnderstood, tokenize

_SESSION = Session(default_schema="d")


def _made(*statements: str) -> Catalog:
    made = Catalog().with_database(Database("d", "utf8mb4", "utf8mb4_0900_ai_ci"))
    for statement in statements:
        made = apply(made, read_ddl(statement, _SESSION))
    return made


def _names(made: Catalog, table: str) -> list[str]:
    found = made.table("d", table)
    assert found is not None
    return [column.name for column in found.columns]


def test_an_old_version_stays_as_it_was_and_shares_the_rest() -> None:
    before = _made("CREATE TABLE t (a int)", "CREATE TABLE u (b int)")
    after = apply(before, read_ddl("ALTER TABLE t ADD c int", _SESSION))
    assert _names(before, "t") == ["a"]
    assert _names(after, "t") == ["a", "c"]
    assert before.table("d", "u") is after.table("d", "u")


def test_a_rename_swap_in_one_statement() -> None:
    made = _made("CREATE TABLE a (x int)", "CREATE TABLE b (y int)")
    made = apply(made, read_ddl("RENAME TABLE a TO t, b TO a, t TO b", _SESSION))
    assert (_names(made, "a"), _names(made, "b"), len(made)) == (["y"], ["x"], 2)


def test_names_are_compared_as_the_server_does() -> None:
    made = Catalog(lower_case_table_names=1).with_database(Database("d", "latin1", "latin1_bin"))
    made = apply(made, read_ddl("CREATE TABLE T (a int)", Session(default_schema="D")))
    assert made.table("d", "t") is made.table("D", "T")
    assert [*made] == [("d", "t")]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t FROBNICATE",
        "ALTER TABLE t ADD a quux",
        "CREATE TABLE s AS SELECT 1",
        "ALTER TABLE nope ADD a int",
        "CREATE TABLE s (a int) SELECT 1",
        "FROBNICATE t",
        "ALTER TABLE t ADD b int AFTER nope",
    ],
)
def test_what_is_not_understood_is_refused_with_its_text(statement: str) -> None:
    made = _made("CREATE TABLE t (a int)")
    with pytest.raises(DDLNotUnderstood) as error:
        apply(made, read_ddl(statement, _SESSION))
    assert error.value.code == "TG:ErrDDLNotUnderstood"
    assert statement in str(error.value)


def test_set_statement_is_looked_through() -> None:
    session = Session(mariadb=True, version=(11, 4, 5), default_schema="d")
    statement = (
        "SET STATEMENT max_statement_time = (10), sql_mode = 'x' FOR ALTER TABLE t ADD b int"
    )
    read = read_ddl(statement, session)
    assert read.tables == (("d", "t"),)
    made = apply(_made("CREATE TABLE t (a int)"), read)
    assert _names(made, "t") == ["a", "b"]


def test_a_replacement_that_failed_is_a_drop() -> None:
    base = Session(mariadb=True, version=(11, 4, 5))
    session = session_of_event(base, "d", StatusVariables(), error_code=1060)
    read = read_ddl("CREATE OR REPLACE TABLE t (a int, a int)", session)
    made = apply(_made("CREATE TABLE t (a int)"), read)
    assert len(made) == 0


def test_partitions_are_followed_by_name() -> None:
    made = _made(
        "CREATE TABLE t (a int) PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5))",
        "ALTER TABLE t ADD PARTITION (PARTITION q VALUES LESS THAN (9) COMMENT 'c')",
        "ALTER TABLE t DROP PARTITION p",
    )
    table = made.table("d", "t")
    assert table is not None
    assert table.partitioning is not None
    assert [(p.name, p.values, p.comment) for p in table.partitioning.partitions] == [
        ("q", "LESS THAN (9)", "c")
    ]


def test_tables_of_one_shape_are_read_once_and_names_may_have_dots() -> None:
    text = "CREATE TABLE `t` (\n  `a` int\n) ENGINE=InnoDB AUTO_INCREMENT={} CHARSET=utf8mb4"
    made = catalog(
        {
            "ts": 1,
            "server": {"kind": "mysql", "version": "8.0.33"},
            "databases": {"w": {}, "x.y": {}},
            "tables": {
                "w.a": text.format(3),
                "x.y.a": text.format(4),
                "x.y.b": text.format(4).replace("`a` int", "`a` bigint"),
            },
        }
    )
    assert {*made} == {("w", "a"), ("x.y", "a"), ("x.y", "b")}
    first, second, third = (made.table(*key) for key in (("w", "a"), ("x.y", "a"), ("x.y", "b")))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.columns is second.columns
    assert (second.full_name, third.columns[0].data_type) == ("x.y.a", "bigint")


def test_a_change_among_many_tables_copies_a_path_and_no_more() -> None:
    count = 100_000
    text = "CREATE TABLE `t` (`a` int NOT NULL, `b` varchar(9), PRIMARY KEY (`a`)) CHARSET=utf8mb4"
    made = catalog(
        {
            "ts": 1,
            "server": {"kind": "mysql", "version": "8.0.33", "lower_case_table_names": 0},
            "databases": {"d": {"charset": "utf8mb4", "collation": "utf8mb4_0900_ai_ci"}},
            "tables": {f"d.t{i}": text.replace("`t`", f"`t{i}`") for i in range(count)},
        }
    )
    allocated = []
    tracemalloc.start()
    for i in range(100):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        made = apply(made, read_ddl(f"ALTER TABLE t{i} ADD c int FIRST", _SESSION))
        allocated.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    assert len(made) == count
    assert _names(made, "t99") == ["c", "a", "b"]
    # The names of 100,000 tables alone are some 5 MB.
    assert sorted(allocated)[50] < 200_000


@pytest.mark.parametrize(("columns", "count"), [(45, 100), (180, 30)])
def test_little_is_kept_of_statements_that_were_read(columns: int, count: int) -> None:
    """Every process reads them, and items are a hundred times as large as their text."""
    listed = ", ".join(
        f"`column_number_{n}` varchar(60) NOT NULL COMMENT 'c'" for n in range(columns)
    )
    tracemalloc.start()
    try:
        for number in range(count):
            tokenize(f"CREATE TABLE t{number} ({listed})", _SESSION)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 << 20


@pytest.mark.parametrize(
    ("version", "name"),
    [((10, 11, 19), "Idx3"), ((11, 4, 5), "iDx3"), ((11, 8, 6), "iDx3"), ((11, 8, 9), "Idx3")],
)
def test_a_key_made_again_with_other_capitals_is_called_as_the_server_calls_it(
    version: tuple[int, int, int], name: str
) -> None:
    """Each was asked; the statement is in the corpus, too."""
    session = Session(mariadb=True, version=version, default_schema="d")
    made = Catalog().with_database(Database("d", "utf8mb4", "utf8mb4_general_ci"))
    for sql in (
        "CREATE TABLE t (a int, KEY iDx3 (a)) ENGINE=InnoDB",
        "ALTER TABLE t DROP KEY iDx3, ADD KEY Idx3 (a)",
    ):
        made = apply(made, read_ddl(sql, session))
    found = made.table("d", "t")
    assert found is not None
    assert [index.name for index in found.indexes] == [name]
