"""What is judged from what a target shows: not begun, done, half, neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdc.schema.parse import parse_create_table
from cdc.schema.table import Table
from sink.mysql.ddl.decide import (
    Do,
    Name,
    Rest,
    SeenTable,
    TablePlace,
    decide,
    place,
    rest_of_renames,
)


def _table(body: str = "a int primary key, b varchar(10)", name: str = "t") -> Table:
    return parse_create_table(f"CREATE TABLE {name} ({body})", schema="s")


OLD = _table()
WIDER = _table("a int primary key, b varchar(20)")
WIDEST = _table("a int primary key, b varchar(30)")
MORE = _table("a int primary key, b varchar(10), c int")
SWAPPED = _table("b varchar(10), a int primary key")
KEYED = _table("a int primary key, b varchar(10), key k (b)")
KEYED_MORE = _table("a int primary key, x int, b varchar(10), c int, key k (b)")
CHECKED = _table("a int primary key, b varchar(10) default (concat('a', 1))")
PRINTED = _table("a int primary key, b varchar(10) default (concat(_utf8mb4'a',1))")
OTHER_DEFAULT = _table("a int primary key, b varchar(10) default (lower('A'))")
OTHER_PRINTED = _table("a int primary key, b varchar(10) default (lcase('A'))")


@pytest.mark.parametrize(
    ("before", "after", "shown", "expected"),
    [
        (OLD, WIDER, OLD, TablePlace.BEFORE),
        (OLD, WIDER, WIDER, TablePlace.AFTER),
        (OLD, WIDER, WIDEST, TablePlace.OTHER),
        (OLD, WIDER, None, TablePlace.OTHER),
        # Only what the statement changes counts.
        (OLD, MORE, KEYED, TablePlace.BEFORE),
        (OLD, MORE, KEYED_MORE, TablePlace.AFTER),
        (OLD, SWAPPED, OLD, TablePlace.BEFORE),
        (OLD, SWAPPED, SWAPPED, TablePlace.AFTER),
        (MORE, OLD, MORE, TablePlace.BEFORE),
        (MORE, OLD, OLD, TablePlace.AFTER),
        (OLD, KEYED, KEYED, TablePlace.AFTER),
        (OLD, OLD, OLD, TablePlace.SAME),
        (OLD, OLD, WIDER, TablePlace.SAME),
        # Tables that come and go.
        (None, OLD, None, TablePlace.BEFORE),
        (None, OLD, OLD, TablePlace.AFTER),
        (None, OLD, KEYED, TablePlace.AFTER),
        (None, OLD, WIDER, TablePlace.OTHER),
        (OLD, None, OLD, TablePlace.BEFORE),
        (OLD, None, WIDER, TablePlace.BEFORE),
        (OLD, None, None, TablePlace.AFTER),
        (None, None, None, TablePlace.SAME),
        # Expressions that servers print in their own ways.
        (OLD, CHECKED, OLD, TablePlace.BEFORE),
        (OLD, CHECKED, PRINTED, TablePlace.AFTER),
        (CHECKED, OTHER_DEFAULT, PRINTED, TablePlace.BEFORE),
        (CHECKED, OTHER_DEFAULT, OTHER_DEFAULT, TablePlace.AFTER),
        (CHECKED, OTHER_DEFAULT, OTHER_PRINTED, TablePlace.SAME),
    ],
)
def test_where_a_table_stands(
    before: Table | None, after: Table | None, shown: Table | None, expected: TablePlace
) -> None:
    assert place(before, after, shown, creating=before is None)[0] is expected


def test_a_table_that_is_replaced_may_be_gone() -> None:
    assert place(OLD, WIDER, None, creating=True)[0] is TablePlace.BEFORE


def test_what_differs_is_said_with_both_sides() -> None:
    where, lines = place(OLD, WIDER, WIDEST)
    assert where is TablePlace.OTHER
    assert any("column b" in line and "10" in line and "30" in line for line in lines)
    assert any(line.startswith("behind it: ") and "20" in line for line in lines)


def _seen(*places: TablePlace, moved: bool | None = None) -> list[SeenTable]:
    return [SeenTable(place, moved) for place in places]


B, A, S, N = TablePlace.BEFORE, TablePlace.AFTER, TablePlace.SAME, TablePlace.OTHER


@pytest.mark.parametrize(
    ("seen", "recorded", "repeatable", "expected"),
    [
        (_seen(B), False, True, Do.RUN),
        (_seen(B), True, True, Do.RUN),
        (_seen(A), False, True, Do.RECORD),
        (_seen(A), True, True, Do.RECORD),
        (_seen(N), False, True, Do.DIFFERS),
        (_seen(N), True, True, Do.DIFFERS),
        (_seen(B, A), True, True, Do.DIFFERS),
        (_seen(B, S), True, True, Do.RUN),
        (_seen(A, S), True, True, Do.RECORD),
        # Nothing of it can be seen in what we compare.
        (_seen(S), False, True, Do.RUN),
        (_seen(S), False, False, Do.RUN),
        (_seen(S, moved=False), True, True, Do.RUN),
        (_seen(S, moved=True), True, True, Do.RECORD),
        (_seen(S, S, moved=False), True, False, Do.ASK),
    ],
)
def test_one_statement(
    seen: list[SeenTable], recorded: bool, repeatable: bool, expected: Do
) -> None:
    assert decide(seen, recorded=recorded, repeatable=repeatable) is expected


def _names(**tables: Table | None) -> dict[Name, Table | None]:
    return {
        ("s", name): None if table is None else replace(table, name=name)
        for name, table in tables.items()
    }


def _pairs(*pairs: str) -> list[tuple[Name, Name]]:
    return [(("s", pair[0]), ("s", pair[1])) for pair in pairs]


SWAP = _pairs("at", "ba", "tb")


@pytest.mark.parametrize(
    ("pairs", "before", "shown", "expected"),
    [
        (_pairs("ab"), _names(a=OLD, b=None), _names(a=OLD, b=None), Rest(0)),
        (_pairs("ab"), _names(a=OLD, b=None), _names(a=None, b=OLD), Rest(1)),
        (_pairs("ab"), _names(a=OLD, b=None), _names(a=OLD, b=OLD), Rest(None)),
        (_pairs("ab"), _names(a=OLD, b=None), _names(a=None, b=None), Rest(None)),
        (SWAP, _names(a=OLD, b=MORE, t=None), _names(a=OLD, b=MORE, t=None), Rest(0)),
        (SWAP, _names(a=OLD, b=MORE, t=None), _names(a=None, b=MORE, t=OLD), Rest(1)),
        (SWAP, _names(a=OLD, b=MORE, t=None), _names(a=MORE, b=None, t=OLD), Rest(2)),
        (SWAP, _names(a=OLD, b=MORE, t=None), _names(a=MORE, b=OLD, t=None), Rest(3)),
        # Both look alike: only a marker can say it.
        (SWAP, _names(a=OLD, b=OLD, t=None), _names(a=OLD, b=OLD, t=None), Rest(0, sure=False)),
        (SWAP, _names(a=OLD, b=OLD, t=None), _names(a=None, b=OLD, t=OLD), Rest(1)),
        # Neither is what was there.
        (SWAP, _names(a=OLD, b=MORE, t=None), _names(a=WIDER, b=WIDER, t=None), Rest(None)),
    ],
)
def test_lists_of_renames(
    pairs: list[tuple[Name, Name]],
    before: dict[Name, Table | None],
    shown: dict[Name, Table | None],
    expected: Rest,
) -> None:
    assert rest_of_renames(pairs, before, shown) == expected


def test_a_target_of_several_tables_may_have_its_columns_in_another_order() -> None:
    elsewhere = _table("c int, b varchar(10), a int primary key")
    assert place(MORE, OLD, elsewhere)[0] is TablePlace.OTHER
    assert place(MORE, OLD, elsewhere, any_order=True)[0] is TablePlace.BEFORE
    assert place(MORE, OLD, SWAPPED, any_order=True)[0] is TablePlace.AFTER
    assert place(OLD, SWAPPED, OLD, any_order=True)[0] is TablePlace.SAME
