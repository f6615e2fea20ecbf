"""The whole filter about one DDL."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.decision import DdlFilter, Outcome

SESSION = Session(default_schema="shop")


def filter_of(**section: Any) -> DdlFilter:
    return DdlFilter(FeedConfig.model_validate({"filter": section}))


RULES = ["shop.*", "!shop.tmp_*"]


@pytest.mark.parametrize(
    ("sql", "outcome", "delivered"),
    [
        ("CREATE TABLE a (id int)", Outcome.DELIVER, ["shop.a"]),
        ("CREATE TABLE tmp_a (id int)", Outcome.OUTSIDE, []),
        ("DROP TABLE a, tmp_b, other.c", Outcome.DELIVER, ["shop.a"]),
        ("ALTER TABLE a ENGINE=InnoDB", Outcome.DISCARDED, []),
        ("ALTER TABLE other.a ENGINE=InnoDB", Outcome.OUTSIDE, []),
        ("CREATE TRIGGER g BEFORE INSERT ON a FOR EACH ROW x", Outcome.DISCARDED, []),
        ("DROP DATABASE shop", Outcome.DELIVER, ["shop."]),
        ("DROP DATABASE other", Outcome.OUTSIDE, []),
        ("CREATE DATABASE mysql", Outcome.OUTSIDE, []),
        ("ALTER TABLE other.a RENAME TO shop.a", Outcome.ERROR, []),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE tmp_a", Outcome.ERROR, []),
        ("ALTER TABLE a IMPORT TABLESPACE", Outcome.ERROR, []),
        ("ALTER TABLE other.a IMPORT TABLESPACE", Outcome.OUTSIDE, []),
        ("CREATE VIEW v AS SELECT 1", Outcome.DELIVER, ["shop.v"]),
        ("CREATE VIEW other.v AS SELECT 1", Outcome.OUTSIDE, []),
    ],
)
def test_rules(sql: str, outcome: Outcome, delivered: list[str]) -> None:
    found = filter_of(rules=RULES).decide(sql, SESSION)
    assert found.outcome is outcome
    assert [".".join(name) for name in found.delivered] == delivered
    assert found.why
    assert (found.error is not None) is (outcome is Outcome.ERROR)


def test_of_several_tables_only_some_may_be_ignored() -> None:
    rules = [{"matcher": ["shop.a"], "ignore_event": ["drop table"]}]
    found = filter_of(rules=RULES, event_filters=rules).decide("DROP TABLE a, b", SESSION)
    assert found.outcome is Outcome.DELIVER
    assert found.delivered == (("shop", "b"),)
    assert [p.outcome for p in found.parts] == [Outcome.IGNORED, Outcome.DELIVER]
    assert found.parts[0].rule == 0
    alone = filter_of(rules=RULES, event_filters=rules).decide("DROP TABLE a", SESSION)
    assert alone.outcome is Outcome.IGNORED
    assert "drop table" in alone.why


def test_a_rename_goes_by_its_old_name() -> None:
    rules = [{"matcher": ["shop.a"], "ignore_event": ["rename table"]}]
    found = filter_of(rules=RULES, event_filters=rules)
    decided = found.decide("RENAME TABLE a TO b, c TO d, other.x TO other.y", SESSION)
    assert decided.steps == ((("shop", "c"), ("shop", "d")),)
    assert decided.delivered == (("shop", "c"),)
    assert found.decide("RENAME TABLE a TO b", SESSION).outcome is Outcome.IGNORED
    assert found.decide("RENAME TABLE b TO a", SESSION).outcome is Outcome.DELIVER
    left = found.decide("RENAME TABLE b TO tmp_b", SESSION)
    assert left.left == ((("shop", "b"), ("shop", "tmp_b")),)


def test_swapped_names_are_one_rename_each() -> None:
    sql = "RENAME TABLE a TO c, b TO a, c TO b"
    found = filter_of(rules=RULES).decide(sql, SESSION)
    assert found.delivered == (("shop", "a"), ("shop", "b"))
    assert len(found.steps) == 3


@pytest.mark.parametrize("sql", ["DROP TABLE a", "RENAME TABLE other.a TO a", "DROP DATABASE shop"])
def test_an_ignored_transaction_is_ignored_whatever_it_does(sql: str) -> None:
    found = filter_of(rules=RULES, ignore_txn_start_ts=[7], ignore_txn_gtid=["0-1-5"])
    for how in ({"ts": 7}, {"gtid": ("0-1", 5)}):
        decided = found.decide(sql, SESSION, **how)  # type: ignore[arg-type]
        assert decided.outcome is Outcome.IGNORED
        assert decided.parts[0].outcome is Outcome.IGNORED
        assert "ignore-txn" in decided.why
    assert found.decide(sql, SESSION, ts=8).outcome is not Outcome.IGNORED


ROUTED = {
    "filter": {"rules": ["sales.*", "crm.*"]},
    "sink": {"dispatchers": [{"matcher": ["sales.*", "crm.*"], "target_schema": "archive"}]},
}


def test_a_table_that_would_become_another_is_an_error_when_it_is_made() -> None:
    found = DdlFilter(FeedConfig.model_validate(ROUTED))
    names = [("sales", "a"), ("crm", "b"), ("other", "a"), ("crm", "a")]
    error = found.conflict(names, [("crm", "a")])
    assert error is not None
    assert error.code == "TG:ErrTableRouteConflict"
    assert error.object == "crm.a"
    assert found.conflict(names[:3], [("crm", "b")]) is None
    assert found.conflict(names[:3], [("other", "a")]) is None
    # The third name of a swap, which is gone behind the statement.
    assert found.conflict(names[:3], [("crm", "a"), ("crm", "b")]) is None
    assert found.conflict(names, []) is None
    long = found.conflict([*names[:2], ("crm", "x" * 65)], [("crm", "x" * 65)])
    assert long is not None
    assert long.code == "TG:ErrTableRoutingFailed"
    assert filter_of(rules=["*.*"]).conflict(names, [("crm", "a")]) is None


def test_a_table_that_loses_a_column_of_an_expression_is_an_error() -> None:
    rules = [{"matcher": ["shop.a"], "ignore_delete_value_expr": "age > 3"}]
    found = filter_of(rules=RULES, event_filters=rules)
    fits, lacks, other = (
        parse_create_table(f"create table {text}", SESSION, schema="shop")
        for text in ("a (id int, age int)", "a (id int)", "b (id int)")
    )
    assert found.unfit([fits, other], SESSION) is None
    error = found.unfit([other, lacks], SESSION)
    assert error is not None
    assert error.code == "TG:ErrExpressionColumnNotFound"
    assert error.object == "shop.a"
    assert filter_of(rules=RULES).unfit([lacks], SESSION) is None
