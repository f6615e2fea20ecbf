"""Which tables are spread over buckets, and which stay together."""

from __future__ import annotations

import pytest

from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from sink.contract import Layout
from sink.dispatch.settings import DispatcherSettings
from sink.dispatch.target import TargetRouter
from sink.mysql.errors import TargetNotPlaced
from sink.mysql.placement import (
    BLOCK_BITS,
    BLOCKS,
    SPREAD,
    TARGET,
    BucketRoutes,
    Placement,
    parted,
    place,
    spreads,
)

_MARIADB = Session(mariadb=True, version=(11, 4, 0))


def _table(columns: str, name: str = "t") -> Table:
    sql = f"CREATE TABLE `{name}` ({columns}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
    return parse_create_table(sql, _MARIADB, schema="s", charset="utf8mb4", collation=None)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("`a` int NOT NULL, PRIMARY KEY (`a`)", True),
        ("`a` int NOT NULL, `b` date NOT NULL, PRIMARY KEY (`b`, `a`)", True),
        ("`a` varbinary(9) NOT NULL, PRIMARY KEY (`a`)", True),
        ("`a` char(9) COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (`a`)", True),
        ("`a` varchar(9) COLLATE utf8mb4_nopad_bin NOT NULL, PRIMARY KEY (`a`)", True),
        # 'a' and 'a ' are one key there, and two values.
        ("`a` varchar(9) COLLATE utf8mb4_bin NOT NULL, PRIMARY KEY (`a`)", False),
        ("`a` varchar(9) COLLATE utf8mb4_general_ci NOT NULL, PRIMARY KEY (`a`)", False),
        # Zero has two forms.
        ("`a` double NOT NULL, PRIMARY KEY (`a`)", False),
        ("`a` varbinary(9) NOT NULL, PRIMARY KEY (`a`(3))", False),
        ("`a` int NOT NULL, `b` int, PRIMARY KEY (`a`), UNIQUE KEY `b` (`b`)", False),
        ("`a` int NOT NULL, UNIQUE KEY `a` (`a`)", False),
        ("`a` int", False),
    ],
)
def test_only_keys_whose_equality_is_that_of_bytes_are_spread(columns: str, expected: bool) -> None:
    table = _table(columns)
    assert spreads(table, table) is expected


@pytest.mark.parametrize(
    "target",
    [
        "`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`b`)",
        "`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`), UNIQUE KEY `b` (`b`)",
        "`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`, `b`)",
        "`a` bigint NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`)",
        "`a` int NOT NULL, `b` int NOT NULL",
    ],
)
def test_the_targets_keys_count_too(target: str) -> None:
    source = _table("`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`)")
    assert spreads(source, source)
    assert not spreads(source, _table(target))


def test_tables_that_foreign_keys_tie_share_a_bucket() -> None:
    key = "`a` int NOT NULL, PRIMARY KEY (`a`)"
    tables = [_table(key, name) for name in ("one", "Two", "three", "free")]
    targets = {t.full_name: t for t in tables}
    # Servers may show names in lower case.
    tied = [("s.two", "s.one"), ("s.three", "other.x"), ("other.x", "s.two")]
    placed = place(tables, targets, tied, 8).tables
    assert placed["s.free"] == BLOCKS
    assert placed["s.one"] == placed["s.Two"] == placed["s.three"] >= 0


def test_one_bucket_and_tables_that_are_not_there() -> None:
    table = _table("`a` int NOT NULL, PRIMARY KEY (`a`)")
    assert place([table], {"s.t": table}, (), 1).tables == {"s.t": 0}
    assert place([table], {}, (), 4).tables["s.t"] in range(4)


@pytest.mark.parametrize(
    ("key", "placed", "block"),
    [
        ("`a` bigint unsigned NOT NULL, PRIMARY KEY (`a`)", BLOCKS, BLOCK_BITS),
        ("`a` int NOT NULL, `b` int NOT NULL, PRIMARY KEY (`a`, `b`)", SPREAD, 0),
        ("`a` date NOT NULL, PRIMARY KEY (`a`)", SPREAD, 0),
    ],
)
def test_one_integer_is_spread_in_blocks(key: str, placed: int, block: int) -> None:
    table = _table(key)
    found = place([table], {"s.t": table}, (), 3)
    assert found.tables == {"s.t": placed}
    assert BucketRoutes(found.layout).route(table).block == block
    # A ledger that was written before there were blocks is obeyed.
    assert BucketRoutes(Placement(3, {"s.t": SPREAD}).layout).route(table).block == 0
    # So is one of a table whose key is no longer an integer.
    date = _table("`a` date NOT NULL, PRIMARY KEY (`a`)")
    assert BucketRoutes(Placement(3, {"s.t": BLOCKS}).layout).route(date).block == 0


def test_what_the_ledger_keeps_is_read_back_and_joined() -> None:
    kept = Placement.from_json(Placement(4, {"s.a": SPREAD, "s.b": 3}).to_json())
    assert kept == Placement(4, {"s.a": SPREAD, "s.b": 3})
    joined = kept.joined(Placement(2, {"s.a": 1, "s.c": SPREAD, "s.d": BLOCKS}))
    assert (joined.buckets, joined.tables["s.a"], joined.tables["s.b"]) == (4, SPREAD, 3)
    assert {joined.tables["s.c"], joined.tables["s.d"]} <= set(range(4))


def test_a_new_table_lies_beside_those_that_it_is_tied_to() -> None:
    names = [f"s.child{i}" for i in range(8)]
    kept = Placement(4, {"s.parent": 2, "s.other": 1})
    pairs = [(name.upper(), "s.PARENT") for name in names]
    joined = kept.joined(Placement(4, dict.fromkeys(names, 0)), pairs)
    assert {joined.tables[name] for name in names} == {2}
    apart = kept.joined(Placement(4, dict.fromkeys(names, 0)))
    assert len({apart.tables[name] for name in names}) > 1


def test_only_tables_that_a_bucket_is_ahead_with_stay_where_they_are() -> None:
    kept = Placement(4, {"s.Ahead": SPREAD, "s.tied": SPREAD, "s.free": 2, "s.gone": 1})
    fresh = Placement(4, {"s.Ahead": 3, "s.tied": 3, "s.free": SPREAD, "s.new": BLOCKS})
    pairs = [("s.tied", "s.ahead")]
    joined = kept.joined(fresh, pairs, lambda table: table == "s.ahead")
    assert joined.tables == {**kept.tables, "s.free": SPREAD, "s.new": BLOCKS}
    assert parted(joined.tables, fresh, pairs) == {"s.ahead", "s.tied"}
    assert kept.joined(fresh, pairs, lambda table: False).tables == {"s.gone": 1, **fresh.tables}


def test_tables_are_parted_by_their_own_keys_and_by_foreign_keys_that_a_cascade_follows() -> None:
    placed = {"s.a": SPREAD, "s.b": BLOCKS, "s.c": 1, "s.d": 2, "s.e": 2}
    wanted = Placement(3, {"s.a": SPREAD, "s.b": 1})
    assert parted(placed, wanted, ()) == {"s.b"}
    assert parted(placed, Placement(3), [("s.A", "x.y")]) == {"s.a"}
    assert parted(placed, Placement(3), [("s.c", "s.d")]) == {"s.c", "s.d"}
    assert parted(placed, Placement(3), [("s.e", "s.d"), ("x.y", "s.c")]) == frozenset()


def test_a_table_without_a_bucket_waits_for_a_recovery() -> None:
    with pytest.raises(TargetNotPlaced):
        BucketRoutes(Layout({TARGET: 2}, {})).route(_table("`a` int"))


def test_tables_that_become_one_are_placed_as_one() -> None:
    key = "`a` date NOT NULL, PRIMARY KEY (`a`)"
    shards = [_table(key, f"t{i}") for i in range(3)]
    target, shared = _table(key, "one"), {t.full_name: "s.one" for t in shards}
    targets = {t.full_name: target for t in shards}
    spread = place(shards, targets, (), 4, shared)
    assert set(spread.tables.values()) == {SPREAD}
    # A foreign key of the target is the group's; one that cannot be spread keeps all of them whole.
    tied = place(shards, targets, [("s.child", "s.one")], 4, shared)
    assert len(set(tied.tables.values())) == 1
    assert min(tied.tables.values()) >= 0
    odd = [*shards[:2], _table(f"{key}, UNIQUE KEY `b` (`a`)", "t2")]
    whole = place(odd, targets, (), 4, shared)
    assert len(set(whole.tables.values())) == 1
    assert min(whole.tables.values()) >= 0
    assert parted(spread.tables | whole.tables, whole, (), shared) == frozenset()
    assert parted({**spread.tables, "s.t2": 3}, whole, (), shared) == set(shared)

    # One that joins while a bucket is ahead goes where the others of its group are.
    before = Placement(4, dict.fromkeys(("s.t0", "s.t1"), SPREAD))
    assert before.joined(whole, shared=shared).tables == dict.fromkeys(shared, SPREAD)
    assert before.joined(whole, ahead=lambda t: t == "s.t1", shared=shared).tables["s.t2"] == SPREAD
    assert before.joined(whole, ahead=lambda t: False, shared=shared).tables == whole.tables

    rule = {"matcher": ["s.t*"], "target-table": "one"}
    names = TargetRouter.of([DispatcherSettings.model_validate(rule)], merging=True)
    routes = BucketRoutes(spread.layout, names)
    assert {routes.route(t).hashed for t in shards} == {("s", "one")}
