"""Tables of a shard group that differ: whether they may, and what the target is made as."""

from __future__ import annotations

import pytest

from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.definition import TableDefinition
from cdc.schema.session import Session
from cdc.schema.table import Table
from sink.dispatch.read import read_dispatchers
from sink.dispatch.shards import ShardTablesDiffer, check_groups, joined_definitions
from sink.dispatch.target import TargetRouter

SESSION = Session(default_schema="shop")
RULE = {"matcher": ["shop.o*"], "target-schema": "all", "target-table": "orders"}
NAMES = TargetRouter.of(read_dispatchers([RULE]), merging=True)
PLAIN = "id INT PRIMARY KEY, a INT"


def _tables(*columns: str) -> list[Table]:
    catalog = apply(Catalog(), read_ddl("CREATE DATABASE shop", SESSION))
    for number, text in enumerate(columns):
        sql = f"CREATE TABLE o{number} ({text})"
        catalog = apply(catalog, read_ddl(sql, SESSION))
    return [t for n in range(len(columns)) if (t := catalog.table("shop", f"o{n}")) is not None]


def test_tables_that_have_a_join_may_differ_where_columns_are_named() -> None:
    tables = _tables(PLAIN, f"{PLAIN}, b INT NOT NULL", "a BIGINT, id INT PRIMARY KEY")
    check_groups(NAMES, tables, by_name=True)
    with pytest.raises(ShardTablesDiffer):
        check_groups(NAMES, tables)


def test_tables_without_a_join_are_refused_with_the_reason() -> None:
    tables = _tables(f"{PLAIN}, b INT", f"{PLAIN}, b FLOAT")
    with pytest.raises(ShardTablesDiffer, match=r"all\.orders.*column b: it is int\(11\)"):
        check_groups(NAMES, tables, by_name=True)


def test_the_target_is_made_as_the_join() -> None:
    tables = _tables(PLAIN, f"{PLAIN}, b INT NOT NULL, KEY (b)", "id INT PRIMARY KEY, a BIGINT")
    given = [TableDefinition(t, "CREATE TABLE …", "utf8mb4", "utf8mb4_bin") for t in tables]
    made = joined_definitions(NAMES, given)
    types = [[(c.name, c.column_type, c.default) for c in d.table.columns] for d in made]
    assert (
        types == [[("id", "int(11)", None), ("a", "bigint(20)", None), ("b", "int(11)", "0")]] * 3
    )
    assert [d.table.name for d in made] == ["o0", "o1", "o2"]
    assert {d.text for d in made} == {""}


def test_tables_that_are_alike_keep_their_own_text() -> None:
    given = [TableDefinition(t, t.name, "utf8mb4", "utf8mb4_bin") for t in _tables(PLAIN, PLAIN)]
    assert joined_definitions(NAMES, given) == given
