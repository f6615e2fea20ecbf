"""What marks say of parts: read, kept with the position, and awaited until it is said."""

from __future__ import annotations

import json

import pytest

from cdc.logical.errors import LogicalNamesInvalid, MarkMalformed, MarkRefused
from cdc.logical.marks import DdlMark, Visibility, statement
from cdc.logical.names import PartNames, compiled
from cdc.logical.topology import AwaitedParts, Topology, placed_by, topology_of
from cdc.schema.session import Session

ORDERS = ("shop", "orders")
A, B = ("n1", "shop_000000", "orders_0"), ("n2", "shop_000001", "orders_1")
C, INDEX = ("n1", "shop_000002", "orders_0"), ("n1", "shop_000000", "orders_$1a2b_0")
COPY, ITEMS = ("n2", *A[1:]), ("n1", "shop_000000", "items_0")
NODES = ("n1", "n2")


def _mark(meta: object, sql: str = "", visibility: int = 1) -> DdlMark:
    text = meta if isinstance(meta, str) else json.dumps(meta)
    return DdlMark(7, "", "shop", "t", sql, Visibility(visibility), text)


def test_a_topology_is_read_as_polardbx_writes_it() -> None:
    of_table = {
        "tableName": "orders",
        "tableType": 1,
        "phySchemas": [
            {"storageInstId": "dn-0", "group": "G0", "schema": A[1], "phyTables": [A[2]]},
            {"storageInstId": "dn-1", "group": "G1", "schema": B[1], "phyTables": [B[2]]},
        ],
    }
    found = topology_of(_mark({"logicTableMeta": of_table}))
    assert found == Topology("shop", "orders", frozenset((("dn-0", *A[1:]), ("dn-1", *B[1:]))))
    of_database = {"schema": "shop", "charset": "utf8mb4", "phySchemas": [
        {"storageInstId": "dn-0", "group": "G0", "schema": A[1]},
    ]}  # fmt: skip
    found = topology_of(_mark({"logicDbMeta": of_database}))
    assert found == Topology("shop", "", frozenset({("dn-0", A[1], "")}))
    for none in ("", "{}", "null", {"logicTableMeta": None}, {"logicDbMeta": {"schema": "shop"}}):
        assert topology_of(_mark(none)) is None


def test_a_part_is_on_the_node_that_has_it_or_that_is_called_as_its_storage() -> None:
    def on(table: str, *places: tuple[str, str, str]) -> frozenset[tuple[str, str, str]]:
        return Topology("shop", table, frozenset(places)).parts(known, NODES, "mark 7")

    known = [A, B, C, ITEMS]
    assert on("orders", ("dn-0", *A[1:]), ("dn-9", *B[1:])) == {A, B}
    assert on("", ("dn-0", A[1], ""), ("dn-1", "shop_000009", "")) == {A, ITEMS}
    for missing in (("dn-0", A[1], "orders_7"), ("n2", *A[1:])):
        with pytest.raises(MarkRefused, match="not on one node alone"):
            on("orders", missing)
    known.append(COPY)
    assert on("orders", COPY, B) == {COPY, B}
    assert on("", ("n2", A[1], ""), ("n2", B[1], "")) == {COPY, B}
    for unclear in (("orders", "dn-0", *A[1:]), ("", "dn-0", A[1], "")):
        with pytest.raises(MarkRefused, match="not on one node alone"):
            on(unclear[0], unclear[1:])


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
    assert names.marked(*A[1:])
    assert not PartNames(("{schema}_#.{table}_#",)).marked(*A[1:])
    assert names.of(*A) == names.of(*C) == ORDERS
    assert names.of(*INDEX) is None
    moved = names.placed(ORDERS, (B, INDEX), (A, B, C, INDEX, ITEMS))
    assert [moved.of(*part) for part in (A, B, C, INDEX)] == [None, ORDERS, None, ORDERS]
    assert moved.of(*ITEMS) == ("shop", "items")
    # One of the same name on another node is another.
    assert moved.of(*COPY) == ORDERS
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
    assert not names.by_names_alone(ORDERS, (A[1:], ("other", "name")))
    assert names.by_names_alone(("shop", "orders_$1a2b"), (INDEX[1:],))
    assert PartNames(("{schema}_#.{table}_#",)).by_names_alone(ORDERS, (A[1:], B[1:]))


def test_a_database_moves_with_the_parts_that_it_has_and_no_others() -> None:
    names = PartNames(("marked:{schema}_#.{table}_#", "{schema}_#.{table}"))
    alone = ("n1", "shop_000000", "single")
    before = {A: ORDERS, B: ORDERS, ITEMS: ("shop", "items"), alone: ("shop", "single")}
    moved = Topology("Shop", "", frozenset())
    # C is in one of the databases, and no part: it is awaited, or was left behind.
    found = placed_by(moved, (B, C, COPY, ("n2", *ITEMS[1:]), ("n2", *alone[1:])), before, names)
    assert found == {ORDERS: [B, COPY], ("shop", "items"): [("n2", *ITEMS[1:])]}
    assert placed_by(Topology("other", "", frozenset()), (B, COPY), before, names) == {}
    of_table = Topology("Shop", "Orders", frozenset())
    assert placed_by(of_table, (B,), before, names) == {ORDERS: [B]}
    assert placed_by(of_table, (B,), {}, names) == {("Shop", "Orders"): [B]}


def test_a_table_is_awaited_from_where_it_is_made_to_its_mark() -> None:
    a, b = A[1:], B[1:]
    awaited = AwaitedParts(upto={"n1": 10})
    awaited.made("n1", [(10, a), (20, a), (30, a)])
    awaited.made("n2", [(0, b)])
    assert [awaited.holds("n1", a, ts) for ts in (10, 19, 20, 35)] == [False, False, True, True]
    assert not awaited.holds("n2", a, 35)
    assert awaited.holds("n2", b, 0)
    again = AwaitedParts.of(json.loads(json.dumps(awaited.to_list({"n1": 25}))), {"n1": 25})
    # What lies above is read again, and what lies below is not taken twice.
    again.made("n1", [(20, a), (30, a)])
    assert again.since == {A: [20, 30], B: [0]}
    awaited.told([A, B], {"n1": 25})
    assert awaited.since == {A: [30], B: [0]}
    awaited.told([A, B], {"n1": 40, "n2": 5})
    assert not awaited.since


def test_what_is_awaited_lies_at_other_ts_in_other_logs() -> None:
    a, b = A[1:], B[1:]
    awaited = AwaitedParts({A: [20, 30], B: [25]})
    # Until all is passed over that was merged, whatever is read of n1 is known.
    passing = awaited.over_other_logs({}, {"n1": 1 << 60})
    passing.made("n1", [(4, ("s", "told")), (5, a), (90, ("s", "later"))])
    assert passing.since == {A: [0], B: [0]}
    passed = passing.over_other_logs({"n1": 7, "n2": 8}, {"n1": 7, "n2": 8})
    passed.made("n1", [(5, a), (90, ("s", "later"))])
    assert passed.since == {A: [7], B: [8], ("n1", "s", "later"): [90]}
    assert passed.holds("n1", a, 8)
    assert passed.holds("n2", b, 9)


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
