"""Dispatch: first match wins, TiCDC's hash, topic expressions."""

from __future__ import annotations

import binascii
from typing import Any

import pytest

from cdc.base.errors import DefiniteError, InvalidError
from cdc.schema.table import Column, Index, Table
from sink.dispatch.rules import Route, Router
from sink.dispatch.settings import DispatcherSettings, PartitionMode
from sink.dispatch.topic import check_expression, topic_name

ORDERS = Table(
    "shop",
    "orders",
    tuple(Column(n, "int", "int", nullable=n == "Note") for n in ("Id", "User", "Note")),
    (Index("PRIMARY", ("id",), primary=True), Index("u", ("User", "ID"), unique=True)),
)
BARE = Table("shop", "bare", ORDERS.columns)


def route(table: Table, *rules: dict[str, Any], partitions: int = 8) -> Route:
    router = Router([DispatcherSettings.model_validate(r) for r in rules], "t", {"t": partitions})
    return router.route(table)


def test_default_is_by_table_with_ticdcs_hash() -> None:
    # PositionInertia of one write (schema, table): the CRC32-IEEE of both, one after the other.
    expected = binascii.crc32(b"shoporders") % 8
    assert route(ORDERS) == Route("t", PartitionMode.TABLE, (), 8, expected)
    assert route(ORDERS).destinations() == (("t", expected),)
    assert route(ORDERS, partitions=1).destinations() == (("t", 0),)


@pytest.mark.parametrize("mode", ["default", "table", "DEFAULT"])
def test_names_of_the_default(mode: str) -> None:
    assert route(ORDERS, {"matcher": ["*.*"], "dispatcher": mode}).mode is PartitionMode.TABLE


def test_modes() -> None:
    every = {"matcher": ["*.*"]}
    by_key = route(ORDERS, every | {"partition": "index-value"})
    assert (by_key.mode, by_key.columns) == (PartitionMode.INDEX_VALUE, ("Id",))
    assert len(by_key.destinations()) == 8
    assert route(ORDERS, every | {"partition": "index-value", "index": "U"}).columns == (
        "User",
        "Id",
    )
    assert route(ORDERS, every | {"partition": "columns", "columns": ["note"]}).columns == ("Note",)
    assert route(ORDERS, every | {"partition": "ts"}).mode is PartitionMode.TS
    # No key to hash: like TiCDC, schema and table alone decide.
    assert route(BARE, every | {"partition": "index-value"}).mode is PartitionMode.TABLE


def test_first_match_wins() -> None:
    rules = [
        {"matcher": ["shop.b*"], "partition": "ts"},
        {"matcher": ["SHOP.*", "!shop.x"], "partition": "index-value"},
        {"matcher": ["*.*"], "partition": "ts"},
    ]
    assert route(BARE, *rules).mode is PartitionMode.TS
    assert route(ORDERS, *rules).mode is PartitionMode.INDEX_VALUE
    assert route(Table("shop", "x", ORDERS.columns), *rules).mode is PartitionMode.TS


@pytest.mark.parametrize(
    "rule",
    [
        {"partition": "columns", "columns": ["nope"]},
        {"partition": "index-value", "index": "nope"},
    ],
)
def test_a_rule_that_does_not_fit(rule: dict[str, Any]) -> None:
    with pytest.raises(DefiniteError, match="TG:ErrDispatcherFailed"):
        route(ORDERS, {"matcher": ["*.*"], **rule})


def test_topics() -> None:
    router = Router(
        [DispatcherSettings(matcher=("a.*",), topic="x_{schema}_{table}")], "t", {"t": 1}
    )
    assert router.topic("a", "b c") == "x_a_b_c"
    assert router.topic("b", "c") == "t"
    assert router.topics([ORDERS, Table("A", "q", ORDERS.columns)]) == ("t", "x_A_q")


@pytest.mark.parametrize("good", ["t", "{schema}", "a.{schema}-x_{table}.z", "{table}"])
def test_good_expressions(good: str) -> None:
    assert check_expression(good) == good


@pytest.mark.parametrize("bad", ["", "{table}{schema}", "a b", "{db}", "{schema}{schema}", "t\n"])
def test_bad_expressions(bad: str) -> None:
    with pytest.raises(InvalidError):
        check_expression(bad)


def test_topic_names() -> None:
    assert topic_name("{schema}.{table}", "数据", "a$b") == "__.a_b"
    assert topic_name("{schema}", ".", "") == "_"
    assert topic_name("{schema}", "..", "") == "__"
    with pytest.raises(InvalidError, match="260"):
        topic_name("x" * 200 + "{schema}", "y" * 60, "")


@pytest.mark.parametrize(
    "rule",
    [
        {"matcher": ["a"]},
        {"matcher": ["a.b"], "topic": "a b"},
    ],
)
def test_refused_when_compiled(rule: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        Router([DispatcherSettings.model_validate(rule)], "t")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"matcher": ["a.b"], "partition": "ts", "dispatcher": "ts"}, "are the same option"),
        ({"matcher": ["a.b"], "columns": ["x"]}, "'columns' needs partition"),
        ({"matcher": ["a.b"], "partition": "columns"}, "needs a list 'columns'"),
        ({"matcher": ["a.b"], "partition": "ts", "index": "i"}, "'index' needs partition"),
        ({"matcher": ["a.b"], "partition": "random"}, "unknown partition 'random'"),
        ({"matcher": ["a.b"], "target-schemas": "x"}, "target-schemas\n"),
        ({"matcher": []}, "matcher\n.*at least 1 item"),
    ],
)
def test_refused_when_read(rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DispatcherSettings.model_validate(rule)
