"""Rows that somebody writes down: their bytes against the encoder, and what expressions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cdc.base.errors import InvalidError
from cdc.coord.feed_config import FeedConfig
from cdc.kernels import layout as L  # noqa: N812
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.explain import Explanation
from filter.row import explain_row
from filter.row_image import located_row

SESSION = Session(mariadb=True, version=(11, 4, 0))


def table(columns: str) -> Table:
    return parse_create_table(f"create table t ({columns})", SESSION, schema="test")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("tinyint", -128, "-128"),
        ("smallint unsigned", 65535, "65535"),
        ("mediumint", -5, "-5"),
        ("int", "7", "7"),
        ("bigint unsigned", 18446744073709551615, "18446744073709551615"),
        ("bool", True, "1"),
        ("decimal(10,3)", "-1234567.125", "-1234567.125"),
        ("decimal(20,0)", 12345678901234567890, "12345678901234567890"),
        ("decimal(4,4)", 0.5, "0.5000"),
        ("double", 1.5, "1.5"),
        ("float", -0.25, "-0.25"),
        ("bit(10)", 513, "513"),
        ("year", 2026, "2026"),
        ("date", "2026-02-28", "2026-02-28"),
        ("datetime", "2026-02-28 23:59:58", "2026-02-28 23:59:58"),
        ("datetime(3)", "2026-02-28 23:59:58.5", "2026-02-28 23:59:58.500"),
        ("datetime(6)", "2026-02-28", "2026-02-28 00:00:00.000000"),
        ("time", "-12:34:56", "-12:34:56"),
        ("time(2)", "838:00:00.25", "838:00:00.25"),
        ("time(3)", "-00:00:01.5", "-00:00:01.500"),
        ("timestamp(1)", "2026-02-28 23:59:58.7", "2026-02-28 23:59:58.7"),
        ("enum('a','b','c')", "b", "2"),
        ("set('a','b','c')", "a,c", "5"),
        ("varchar(20)", "déjà", "déjà"),
        ("char(20) charset latin1", "déjà", "déjà"),
        ("text", "x" * 300, "x" * 300),
        ("varbinary(9)", "abc", "abc"),
    ],
)
def test_values_are_what_the_encoder_reads(column: str, value: Any, text: str) -> None:
    known = table(f"id int primary key, a {column}, b {column}")
    located = located_row(known, {"id": 1, "A": value}, {"id": 2, "b": value})
    assert int(located.refs[0, L.R_KIND]) == L.KIND_UPDATE
    assert _shown(known, located, 2) == text


def _shown(known: Table, located: Any, ordinal: int) -> str:
    from cdc.kernels import dispatch

    plans, scratch = located.plans, np.empty(1 << 16, np.uint8)
    n, error = dispatch.value_text(
        located.buf, located.refs, 0, ordinal, plans.tables, plans.columns,
        plans.zone_starts, plans.zone_offsets, plans.texts, scratch,
    )  # fmt: skip
    assert error == 0
    return scratch[:n].tobytes().decode()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tinyint", 128),
        ("int", "x"),
        ("int unsigned", -1),
        ("decimal(4,2)", "100"),
        ("date", "soon"),
        ("time", "12"),
        ("enum('a')", "b"),
        ("varchar(9) charset latin1", "数"),
        ("year", 1800),
        ("geometry", "x"),
    ],
)
def test_what_is_no_value_is_refused(column: str, value: Any) -> None:
    with pytest.raises(InvalidError) as e:
        located_row(table(f"id int primary key, a {column}"), {"id": 1, "a": value}, {"id": 1})
    assert e.value.code == "TG:ErrRowInvalid"
    assert e.value.object == "test.t.a"
    assert e.value.hint


WORKER = table("id int primary key, name varchar(20), age int, gender varchar(10), shape geometry")
RULE = {
    "matcher": ["test.t"],
    "ignore_insert_value_expr": "id >= 100",
    "ignore_update_old_value_expr": "age < 18 or name = 'lili'",
    "ignore_update_new_value_expr": "gender = 'male' and age > 18",
    "ignore_delete_value_expr": "name = 'john'",
}


def explain(row: dict[str, Any], **more: Any) -> Explanation:
    config = FeedConfig.model_validate({"filter": {"event_filters": [{**RULE, **more}]}})
    return explain_row(config, SESSION, WORKER, row)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (
            {"id": 100, "name": "john", "age": 20, "gender": "male"},
            "insert: ignored, update: ignored, delete: ignored",
        ),
        (
            {"id": 1, "name": "x", "age": 30, "gender": "f"},
            "insert: deliver, update: deliver, delete: deliver",
        ),
        (
            {"id": 1, "name": None, "age": None, "gender": None},
            "insert: deliver, update: deliver, delete: deliver",
        ),
        (
            {
                "old": {"id": 1, "name": "x", "age": 17, "gender": "f"},
                "new": {"id": 1, "name": "x", "age": 18, "gender": "f"},
            },
            "update: ignored",
        ),
    ],
)
def test_what_the_documented_example_says(row: dict[str, Any], verdict: str) -> None:
    assert explain(row).verdict == verdict


def test_every_expression_is_shown_with_its_place() -> None:
    found = explain({"id": 100, "name": None, "age": 20, "gender": "f"})
    said = {s.place: (s.verdict, s.why) for s in found.steps[1:]}
    at = "filter.event-filters[0].ignore-"
    assert said[f"{at}insert-value-expr"] == ("ignored", "id >= 100 is true")
    assert said[f"{at}update-old-value-expr"][0] == "deliver"
    assert "NULL" in said[f"{at}update-old-value-expr"][1]
    assert "false" in said[f"{at}update-new-value-expr"][1]
    assert "NULL" in said[f"{at}delete-value-expr"][1]


def test_kinds_and_columns() -> None:
    row = {"id": 1, "name": "x", "age": 30, "gender": "f"}
    assert explain(row, ignore_event=["delete"]).verdict.endswith("delete: ignored")
    pair = {"old": row, "new": {**row, "name": "y"}}
    assert explain(pair, ignore_update_only_columns=["name"]).verdict == "update: ignored"
    assert explain(pair, ignore_update_only_columns=["age"]).verdict == "update: deliver"


def test_a_row_without_what_is_looked_at() -> None:
    for row, code in (({"id": 1}, "TG:ErrRowInvalid"), ({"no": 1}, "TG:ErrRowInvalid")):
        with pytest.raises(InvalidError) as e:
            explain(row)
        assert e.value.code == code
        assert e.value.hint
