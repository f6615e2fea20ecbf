"""Which rule decided, and why."""

from __future__ import annotations

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from filter.explain import LEFT_OUT, OF_THE_URI, REPLICATED, Explainer, Explanation, Step

SESSION = Session(default_schema="shop")
CONFIG = FeedConfig.model_validate(
    {
        "filter": {
            "rules": ["shop.*", "!shop.tmp_*", "shop.tmp_keep", "log.a"],
            "event_filters": [
                {"matcher": ["shop.orders"], "ignore_event": ["delete", "drop column"]},
                {"matcher": ["shop.o*"], "ignore_insert_value_expr": "id > 3"},
            ],
        },
        "sink": {
            "dispatchers": [
                {"matcher": ["shop.orders"], "topic": "o_{table}", "partition": "index-value"},
                {"matcher": ["shop.*"], "target_schema": "archive"},
            ],
            "column_selectors": [{"matcher": ["shop.orders"], "columns": ["*", "!note"]}],
        },
    }
)
ORDERS = parse_create_table(
    "create table orders (id int primary key, note text, a int)", SESSION, schema="shop"
)
NO_KEY = parse_create_table("create table people (id int)", SESSION, schema="shop")


def step(found: Explanation, about: str) -> Step:
    return next(s for s in found.steps if s.about == about)


@pytest.mark.parametrize(
    ("name", "verdict", "place"),
    [
        ("shop.orders", REPLICATED, "filter.rules[0]"),
        ("shop.tmp_1", LEFT_OUT, "filter.rules[1]"),
        ("shop.tmp_keep", REPLICATED, "filter.rules[2]"),
        ("log.a", REPLICATED, "filter.rules[3]"),
        ("log.b", LEFT_OUT, "filter.rules"),
        ("mysql.user", LEFT_OUT, ""),
    ],
)
def test_the_rule_that_decides_about_a_table(name: str, verdict: str, place: str) -> None:
    found = Explainer(CONFIG).table(*name.split("."))
    assert found.verdict == verdict
    assert found.steps[0].place == place


def test_rows_topics_and_columns_of_a_table() -> None:
    found = Explainer(CONFIG, "main").table("shop", "orders", ORDERS)
    assert step(found, "insert").verdict == "deliver"
    assert step(found, "delete").verdict == "ignored"
    assert step(found, "delete").place == "filter.event-filters[0].ignore-event"
    assert step(found, "rows").place == "filter.event-filters[1].ignore-insert-value-expr"
    assert step(found, "topic").verdict == "o_orders"
    assert step(found, "topic").place == "sink.dispatchers[0].topic"
    assert step(found, "partition").verdict == "index-value (id)"
    assert step(found, "target").verdict == "archive.orders"
    assert step(found, "target").place == "sink.dispatchers[1]"
    assert step(found, "columns").verdict == "id, a"
    assert step(found, "columns").place == "sink.column-selectors[0]"


def test_without_a_definition_and_a_uri() -> None:
    found = Explainer(CONFIG).table("shop", "people")
    assert step(found, "topic").verdict == OF_THE_URI
    assert step(found, "partition").verdict == "table"
    assert step(found, "columns").verdict == "all"
    assert Explainer(CONFIG, "main").table("log", "a").steps[-3].verdict == "main"


def test_a_table_without_a_key() -> None:
    found = Explainer(CONFIG).table("shop", "people", NO_KEY)
    assert found.verdict == LEFT_OUT
    assert found.steps[-1].place == "force-replicate"
    forced = Explainer(CONFIG.model_copy(update={"force_replicate": True}))
    assert forced.table("shop", "people", NO_KEY).verdict == REPLICATED


@pytest.mark.parametrize(
    ("sql", "verdict", "about", "place"),
    [
        ("ALTER TABLE orders DROP note", "ignored", "shop.orders", "filter.event-filters[0]"),
        ("ALTER TABLE orders ADD x INT", "deliver", "shop.orders", "filter.rules[0]"),
        ("DROP TABLE tmp_1", "outside", "shop.tmp_1", "filter.rules[1]"),
        ("ALTER TABLE orders FORCE", "discarded", "shop.orders", "filter.rules[0]"),
        ("DROP DATABASE other", "outside", "other", "filter.rules"),
        ("CREATE DATABASE shop", "deliver", "shop at the target", "sink.dispatchers[1]"),
    ],
)
def test_statements(sql: str, verdict: str, about: str, place: str) -> None:
    found = Explainer(CONFIG).ddl(sql, SESSION)
    assert found.verdict == verdict
    assert step(found, about).place == place


def test_renames() -> None:
    found = Explainer(CONFIG).ddl("RENAME TABLE orders TO tmp_o", SESSION)
    assert found.verdict == "deliver"
    assert "shop.tmp_o" in step(found, "rename").why
    wrong = Explainer(CONFIG).ddl("RENAME TABLE tmp_o TO orders", SESSION)
    assert wrong.verdict.startswith("error TG:ErrSyncRenameTableFailed")
