"""Warnings at creation: rules for tables that catch databases."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from filter.traps import traps


def found(**rule: Any) -> list[str]:
    return traps(FeedConfig.model_validate({"filter": {"event_filters": [rule]}}))


def test_the_trap_that_ticdc_documents() -> None:
    (text,) = found(matcher=["test.t1"], ignore_sql=["^drop"])
    assert "filter.event-filters[0]" in text
    assert "test.t1" in text
    assert "DROP DATABASE" in text
    assert "^drop" in text


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ({"matcher": ["test.*"], "ignore_sql": ["^drop"]}, 0),
        ({"matcher": ["test.t1"], "ignore_sql": ["^drop table"]}, 0),
        ({"matcher": ["test.t1"], "ignore_event": ["drop table", "insert"]}, 0),
        ({"matcher": ["test.t?"], "ignore_event": ["all ddl"]}, 3),
        ({"matcher": ["test.t1", "!a.*"], "ignore_event": ["drop schema"]}, 1),
        ({"matcher": ["test.t1"], "ignore_sql": ["database", "if exists"]}, 3),
        ({"matcher": ["test.t1"]}, 0),
    ],
)
def test_only_where_it_is_one(rule: dict[str, Any], count: int) -> None:
    assert len(found(**rule)) == count
