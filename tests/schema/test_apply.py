"""DDL as functions: what no server is needed for."""

from __future__ import annotations

import time

import pytest

from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog, Database
from cdc.schema.session import Session
from cdc.schema.snapshot import catalog
from cdc.schema.tokens import DDLNotUnderstood

_SESSION = Session(default_schema="d")


def _made(*statements: str) -> Catalog:
    made = Catalog().with_database(Database("d", "utf8mb4", "utf8mb4_0900_ai_ci"))
    for statement in statements:
        made = apply(made, statement, _SESSION)
    return made


def _names(made: Catalog, table: str) -> list[str]:
    found = made.table("d", table)
    assert found is not None
    return [column.name for column in found.columns]


def test_an_old_version_stays_as_it_was_and_shares_the_rest() -> None:
    before = _made("CREATE TABLE t (a int)", "CREATE TABLE u (b int)")
    after = apply(before, "ALTER TABLE t ADD c int", _SESSION)
    assert _names(before, "t") == ["a"]
    assert _names(after, "t") == ["a", "c"]
    assert before.table("d", "u") is after.table("d", "u")


def test_a_rename_swap_in_one_statement() -> None:
    made = _made("CREATE TABLE a (x int)", "CREATE TABLE b (y int)")
    made = apply(made, "RENAME TABLE a TO t, b TO a, t TO b", _SESSION)
    assert (_names(made, "a"), _names(made, "b"), len(made)) == (["y"], ["x"], 2)


def test_names_are_compared_as_the_server_does() -> None:
    made = Catalog(lower_case_table_names=1).with_database(Database("d", "latin1", "latin1_bin"))
    made = apply(made, "CREATE TABLE T (a int)", Session(default_schema="D"))
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
        apply(made, statement, _SESSION)
    assert error.value.code == "TG:ErrDDLNotUnderstood"
    assert statement in str(error.value)


def test_a_snapshot_of_many_tables_loads_and_alters_quickly() -> None:
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
    took = []
    for i in range(100):
        start = time.perf_counter()
        made = apply(made, f"ALTER TABLE t{i} ADD c int FIRST", _SESSION)
        took.append(time.perf_counter() - start)
    assert len(made) == count
    assert _names(made, "t99") == ["c", "a", "b"]
    assert sorted(took)[50] < 0.005
