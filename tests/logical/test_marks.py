"""What a coordinator's statement is for consumers of one server, and whose a part is."""

from __future__ import annotations

import pytest

from cdc.logical.errors import LogicalNamesInvalid, MarkRefused
from cdc.logical.marks import DdlMark, Visibility, is_broadcast, statement
from cdc.logical.names import PartNames, compiled
from cdc.schema.session import Session

SESSION = Session()


def told(sql: str, visibility: int = 1) -> str | None:
    found = statement(DdlMark(1, "", "shop", "t", sql, Visibility(visibility)), SESSION, "here")
    return None if found is None else found.sql


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("/*+TDDL:cmd_extra(a=1)*/ALTER TABLE t ADD c INT /* x */;", "ALTER TABLE t ADD c INT"),
        ("CREATE TABLE t (id INT PRIMARY KEY) BROADCAST", "CREATE TABLE t (id INT PRIMARY KEY)"),
        (
            "CREATE TABLE t (id INT, a INT, PRIMARY KEY (id), GLOBAL INDEX g (a) COVERING (id)"
            " DBPARTITION BY HASH(a), KEY k (a)) ENGINE=InnoDB DBPARTITION BY HASH(id)",
            "CREATE TABLE t (id INT, a INT, PRIMARY KEY (id), KEY k (a)) ENGINE=InnoDB",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY, UNIQUE CLUSTERED INDEX g (id)) "
            "PARTITION BY KEY(id) PARTITIONS 8",
            "CREATE TABLE t (id INT PRIMARY KEY)",
        ),
        ("CREATE TABLE single (id INT) SINGLE", "CREATE TABLE single (id INT)"),
        ("ALTER TABLE t ADD COLUMN single INT", "ALTER TABLE t ADD COLUMN single INT"),
        ("CREATE DATABASE shop MODE = 'auto'", "CREATE DATABASE shop"),
        ("DROP TABLE t", "DROP TABLE t"),
        ("TRUNCATE TABLE t", "TRUNCATE TABLE t"),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX i ON t (a)"),
        ("CREATE GLOBAL INDEX i ON t (a)", None),
        ("ALTER TABLE t ADD UNIQUE GLOBAL INDEX g (a) PARTITION BY KEY(a)", None),
        ("CREATE SEQUENCE s", None),
        ("ANALYZE TABLE t", None),
        ("ALTER TABLE t ADD PARTITION (PARTITION p9 VALUES LESS THAN (9))", None),
        ("ALTER TABLE shop.t RENAME PARTITION p9 TO p8", None),
        ("", None),
    ],
)
def test_what_spreads_a_table_is_taken_out(sql: str, wanted: str | None) -> None:
    assert told(sql) == wanted


@pytest.mark.parametrize(
    ("sql", "visibility"),
    [
        ("ALTER TABLE t PARTITION BY KEY(a) PARTITIONS 4", 1),
        ("ALTER TABLE t DBPARTITION BY HASH(a)", 1),
        ("ALTER TABLE t BROADCAST", 1),
        ("ALTER TABLE t DROP PARTITION p0", 1),
        ("ALTER TABLE shop.t MOVE PARTITIONS p1 TO 'dn-0'", 1),
        ("ALTER TABLE t SPLIT PARTITION p1", 1),
        ("ALTER TABLE t REMOVE PARTITIONING", 1),
        ("ALTER TABLE t TRUNCATE PARTITION p1", 1),
        ("ALTER TABLE t TRUNCATE PARTITION p1", 2),
        ("ALTER TABLE t ADD c INT, ADD GLOBAL INDEX g (c)", 1),
        ("MOVE DATABASE shop_000001 TO 'dn2'", 0),
        ("SOMETHING t", 1),
    ],
)
def test_what_no_statement_tells_is_refused(sql: str, visibility: int) -> None:
    with pytest.raises(MarkRefused, match=r"shop\.t"):
        told(sql, visibility)


def test_parts_are_told_by_patterns_and_what_was_renamed() -> None:
    names = PartNames(
        ("{schema}_#.{table}_????_#", "{schema}_#.{table}_#", "{schema}_single.{table}")
    )
    assert names.by_name("shop_000003", "orders_AbCd_07") == ("shop", "orders")
    assert names.by_name("my_shop_000003", "my_orders_07") == ("my_shop", "my_orders")
    assert names.by_name("shop_single", "config") == ("shop", "config")
    assert names.by_name("shop", "orders_07") is None
    assert names.by_name("shop_000003", "orders") is None
    # A global index.
    assert names.by_name("shop_000003", "g_i_$a870_AbCd_07") is None
    assert names.database("shop_000003") == "shop"
    once = names.renamed(("shop", "orders"), ("shop", "sales"), parts=False)
    assert once.by_name("shop_000003", "orders_07") == ("shop", "sales")
    assert names.renamed(("shop", "orders"), ("shop", "sales"), parts=True) == names
    twice = once.renamed(("shop", "sales"), ("shop", "old"), parts=False)
    assert twice.by_name("shop_000003", "orders_07") == ("shop", "old")
    assert twice.renamed(("shop", "old"), ("shop", "orders"), parts=False) == names
    assert once.dropped(("shop", "sales")) == names
    spread = once.spread(("shop", "sales"))
    assert PartNames(names.patterns).kept(spread.to_dict()) == spread
    assert spread.everywhere("n1", "shop_000003", "orders_07")
    assert not once.everywhere("n1", "shop_000003", "orders_07")
    assert not spread.dropped(("shop", "sales")).broadcast
    moved = spread.renamed(("shop", "sales"), ("shop", "old"), parts=False)
    assert moved.broadcast == {("shop", "old")}
    told = PartNames(("broadcast:{schema}_#.{table}",))
    assert told.by_name("shop_000003", "config") == ("shop", "config")
    assert told.everywhere("n1", "shop_000003", "config")


def test_a_table_of_which_each_part_has_all_rows_is_told_by_its_mark() -> None:
    for sql, wanted in (
        ("CREATE TABLE t (id INT, broadcast INT) BROADCAST", True),
        ("CREATE TABLE broadcast (id INT, broadcast INT)", False),
        ("CREATE TABLE t (id INT) SINGLE", False),
        ("ALTER TABLE t BROADCAST", False),
        ("", False),
    ):
        mark = DdlMark(1, "", "shop", "t", sql, Visibility.PUBLIC)
        assert is_broadcast(mark, SESSION) is wanted


@pytest.mark.parametrize(
    "pattern",
    ["orders", "shop.{table}", "{schema}.t", "{schema}.{table}{table}", "{schema}**.{table}"],
)
def test_patterns_that_say_no_names_are_refused(pattern: str) -> None:
    with pytest.raises(LogicalNamesInvalid):
        compiled(pattern)
