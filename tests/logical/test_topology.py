"""What marks say of parts: read, kept with the position, and awaited until it is said."""

from __future__ import annotations

import json

import pytest

from cdc.logical.errors import LogicalNamesInvalid, MarkMalformed, MarkRefused
from cdc.logical.marks import DdlMark, Visibility, statement
from cdc.logical.names import PartNames, compiled
from cdc.logical.topology import AwaitedParts, Topology, topology_of
from cdc.schema.session import Session

ORDERS = ("shop", "orders")
A, B, C = ("shop_000000", "orders_0"), ("shop_000001", "orders_1"), ("shop_000002", "orders_0")
INDEX = ("shop_000000", "orders_$1a2b_0")


def _mark(meta: object, sql: str = "", visibility: int = 1) -> DdlMark:
    text = meta if isinstance(meta, str) else json.dumps(meta)
    return DdlMark(7, "", "shop", "t", sql, Visibility(visibility), text)


def test_a_topology_is_read_as_polardbx_writes_it() -> None:
    meta = {
        "logicTableMeta": {
            "tableName": "orders",
            "tableType": 1,
            "phySchemas": [
                {"storageInstId": "dn-0", "group": "G0", "schema": A[0], "phyTables": [A[1]]},
                {"storageInstId": "dn-1", "group": "G1", "schema": B[0], "phyTables": [B[1]]},
            ],
        }
    }
    assert topology_of(_mark(meta)) == Topology(ORDERS, frozenset((A, B)))
    for none in ("", "{}", "null", {"logicTableMeta": None}, {"logicDbMeta": {"schema": "shop"}}):
        assert topology_of(_mark(none)) is None


@pytest.mark.parametrize(
    "meta",
    [
        "{",
        "[1]",
        {"logicTableMeta": [1]},
        {"logicTableMeta": {"phySchemas": [{"schema": "a"}]}},
        {"logicTableMeta": {"phySchemas": {"schema": "a"}}},
    ],
)
def test_a_topology_that_cannot_be_read_is_refused(meta: object) -> None:
    with pytest.raises(MarkMalformed, match="mark 7"):
        topology_of(_mark(meta))


def test_parts_are_those_that_a_mark_tells() -> None:
    names = PartNames(("marked:{schema}_#.{table}_#",))
    assert names.marked(*A)
    assert not PartNames(("{schema}_#.{table}_#",)).marked(*A)
    assert names.of(*A) == names.of(*C) == ORDERS
    assert names.of(*INDEX) is None
    moved = names.placed(ORDERS, (B, INDEX), (A, B, C, INDEX, ("shop_000000", "items_0")))
    assert [moved.of(*part) for part in (A, B, C, INDEX)] == [None, ORDERS, None, ORDERS]
    assert moved.of("shop_000000", "items_0") == ("shop", "items")
    assert PartNames(names.patterns).kept(moved.to_dict()) == moved
    # What was dropped meanwhile is not kept; what is told again is a part again.
    back = moved.placed(ORDERS, (A, B), (A, B, INDEX))
    assert [back.of(*part) for part in (A, B, INDEX)] == [ORDERS, ORDERS, None]
    assert not back.gone
    assert not back.told
    renamed = moved.renamed(ORDERS, ("shop", "sales"), parts=False)
    assert renamed.of(*B) == renamed.of(*INDEX) == ("shop", "sales")
    assert renamed.of(*A) is None
    dropped = moved.dropped(ORDERS)
    assert dropped.of(*INDEX) is None
    assert dropped.of(*A) == ORDERS
    assert not names.by_names_alone(ORDERS, (A, ("other", "name")))
    assert names.by_names_alone(("shop", "orders_$1a2b"), (INDEX,))
    assert PartNames(("{schema}_#.{table}_#",)).by_names_alone(ORDERS, (A, B))


def test_a_table_is_awaited_from_where_it_is_made_to_its_mark() -> None:
    awaited = AwaitedParts(upto={"n1": 10})
    awaited.made("n1", [(10, A), (20, A), (30, A)])
    awaited.made("n2", [(0, B)])
    assert [awaited.holds("n1", A, ts) for ts in (10, 19, 20, 35)] == [False, False, True, True]
    assert not awaited.holds("n2", A, 35)
    assert awaited.holds("n2", B, 0)
    again = AwaitedParts.of(json.loads(json.dumps(awaited.to_list({"n1": 25}))), {"n1": 25})
    # What lies above is read again, and what lies below is not taken twice.
    again.made("n1", [(20, A), (30, A)])
    assert again.since == {("n1", *A): [20, 30], ("n2", *B): [0]}
    awaited.told([A, B], {"n1": 25})
    assert awaited.since == {("n1", *A): [30], ("n2", *B): [0]}
    awaited.told([A, B], {"n1": 40, "n2": 5})
    assert not awaited.since


@pytest.mark.parametrize(
    ("sql", "visibility", "wanted"),
    [
        ("ALTER TABLE t PARTITION BY KEY(a) PARTITIONS 4", 1, None),
        ("ALTER TABLE t PARTITION BY KEY(a) PARTITIONS 4", 0, None),
        ("ALTER TABLE shop.t MOVE PARTITIONS p1 TO 'dn-1'", 1, None),
        ("ALTER TABLE t ADD PARTITION (PARTITION p9 VALUES LESS THAN (9))", 1, None),
        ("ALTER TABLEGROUP tg SPLIT PARTITION p1", 0, None),
        ("ALTER TABLE t MODIFY a BIGINT PARTITION BY KEY(a)", 1, "ALTER TABLE t MODIFY a BIGINT"),
        ("ALTER TABLE t ADD c INT", 1, "ALTER TABLE t ADD c INT"),
    ],
)
def test_statements_about_places_are_none_where_places_are_told(
    sql: str, visibility: int, wanted: str | None
) -> None:
    found = statement(_mark("", sql, visibility), Session(), "here", placed=True)
    assert (None if found is None else found.sql) == wanted


@pytest.mark.parametrize(
    ("sql", "visibility"),
    [
        ("ALTER TABLE t DROP PARTITION p1", 1),
        ("ALTER TABLEGROUP tg TRUNCATE PARTITION p1", 0),
        ("ALTER TABLE t TRUNCATE SUBPARTITION sp1", 2),
    ],
)
def test_rows_that_go_with_their_parts_are_refused_even_so(sql: str, visibility: int) -> None:
    with pytest.raises(MarkRefused, match="rows go with their parts"):
        statement(_mark("", sql, visibility), Session(), "here", placed=True)


def test_parts_of_a_pattern_are_not_both_all_and_marked() -> None:
    with pytest.raises(LogicalNamesInvalid, match="both"):
        compiled("broadcast:marked:{schema}_#.{table}")
