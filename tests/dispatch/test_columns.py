"""sink.column-selectors: patterns, order, and what must stay."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.errors import InvalidError
from cdc.schema.table import Column, Index, Table
from sink.dispatch.columns import ColumnSelectorFailed, ColumnSelectors
from sink.dispatch.settings import ColumnSelectorSettings

COLUMNS = ("id", "Name", "email", "secret_a", "secret_b", "note")


def table(*indexes: Index) -> Table:
    return Table("shop", "people", tuple(Column(n, "int", "int") for n in COLUMNS), indexes)


PRIMARY = Index("PRIMARY", ("id",), primary=True, unique=True)
UNIQUE = Index("mail", ("Name", "EMAIL"), unique=True)
TABLE = table(PRIMARY, UNIQUE)


def selectors(*rules: dict[str, Any]) -> ColumnSelectors:
    return ColumnSelectors([ColumnSelectorSettings.model_validate(rule) for rule in rules])


def left(*columns: str) -> list[str]:
    found = selectors({"matcher": ["shop.*"], "columns": list(columns)})
    return [COLUMNS[i] for i in found.selected(TABLE)]


def test_patterns() -> None:
    assert left("*") == list(COLUMNS)
    assert left("*", "!secret_*") == ["id", "Name", "email", "note"]
    assert left("!secret_*") == []
    assert left("id", "NAME", "e*") == ["id", "Name", "email"]
    assert left("*", "!secret_?", "secret_b") == ["id", "Name", "email", "secret_b", "note"]
    assert left("/^[a-e]/", "id") == ["id", "email"]
    assert left("`id`", '"note"') == ["id", "note"]


def test_the_first_matching_rule_decides() -> None:
    found = selectors(
        {"matcher": ["shop.x"], "columns": ["note"]},
        {"matcher": ["shop.*"], "columns": ["id"]},
        {"matcher": ["*.*"], "columns": ["email"]},
    )
    assert found.selected(TABLE) == (0,)
    assert found.rule("shop", "people") == 1
    assert selectors({"matcher": ["a.*"], "columns": ["id"]}).selected(TABLE) == tuple(range(6))


@pytest.mark.parametrize(
    ("columns", "indexes", "ok"),
    [
        (["id", "note"], (PRIMARY, UNIQUE), True),
        (["name", "email"], (PRIMARY, UNIQUE), True),
        (["name", "note"], (PRIMARY, UNIQUE), False),
        (["*", "!id"], (PRIMARY,), False),
        (["note"], (), True),
        (["!*"], (), False),
        (["*", "!id"], (PRIMARY, Index("k", ("note",))), False),
    ],
)
def test_a_key_must_stay(columns: list[str], indexes: tuple[Index, ...], ok: bool) -> None:
    found = selectors({"matcher": ["*.*"], "columns": columns})
    if ok:
        found.check(table(*indexes))
        return
    with pytest.raises(ColumnSelectorFailed) as e:
        found.check(table(*indexes))
    assert e.value.code == "TG:ErrColumnSelectorFailed"
    assert e.value.object == "shop.people"
    assert e.value.hint


def test_what_rows_are_spread_by_must_stay() -> None:
    found = selectors({"matcher": ["*.*"], "columns": ["id", "note"]})
    found.check(TABLE, ["Note"])
    with pytest.raises(ColumnSelectorFailed):
        found.check(TABLE, ["email"])


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"matcher": ["shop"], "columns": ["*"]}, "sink.column-selectors[0].matcher"),
        ({"matcher": ["*.*"], "columns": ["a b"]}, "sink.column-selectors[0].columns"),
        ({"matcher": ["*.*"], "columns": ["a.b"]}, "sink.column-selectors[0].columns"),
    ],
)
def test_wrong_patterns_are_refused_by_place(rule: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidError) as e:
        selectors(rule)
    assert (e.value.code, e.value.object) == ("TG:ErrFilterRuleInvalid", place)
