"""Renames at the edge of the rules, and rows that cross it."""

from __future__ import annotations

import pytest

from filter.renames import Name, RenameAction, action, judge, judge_moves
from filter.rules import TableRules

RULES = ["shop.*", "!shop.tmp_*"]


def name(text: str) -> Name:
    schema, table = text.split(".")
    return schema, table


def steps(text: str) -> list[tuple[Name, Name]]:
    pairs = [part.split(">") for part in text.split()]
    return [(name(old), name(new)) for old, new in pairs]


@pytest.mark.parametrize(
    ("old", "new", "then"),
    [
        (True, True, RenameAction.DELIVER),
        (True, False, RenameAction.DELIVER),
        (False, True, RenameAction.ERROR),
        (False, False, RenameAction.IGNORE),
    ],
)
def test_one_rename(old: bool, new: bool, then: RenameAction) -> None:
    assert action(old, new) is then


@pytest.mark.parametrize(
    ("given", "then", "delivered", "left"),
    [
        ("shop.a>shop.b", RenameAction.DELIVER, "shop.a>shop.b", ""),
        ("shop.a>shop.tmp_a", RenameAction.DELIVER, "shop.a>shop.tmp_a", "shop.a>shop.tmp_a"),
        ("shop.a>other.a", RenameAction.DELIVER, "shop.a>other.a", "shop.a>other.a"),
        ("other.a>shop.a", RenameAction.ERROR, "", ""),
        ("shop.tmp_a>shop.a", RenameAction.ERROR, "", ""),
        ("other.a>other.b", RenameAction.IGNORE, "", ""),
        ("shop.tmp_a>shop.tmp_b", RenameAction.IGNORE, "", ""),
        ("shop.a>shop.b other.c>other.d", RenameAction.DELIVER, "shop.a>shop.b", ""),
        ("shop.a>shop.b other.c>shop.d", RenameAction.ERROR, "", ""),
        # Swapped through a third name, also one that the rules exclude.
        (
            "shop.a>shop.c shop.b>shop.a shop.c>shop.b",
            RenameAction.DELIVER,
            "shop.a>shop.c shop.b>shop.a shop.c>shop.b",
            "",
        ),
        (
            "shop.a>shop.tmp_c shop.b>shop.a shop.tmp_c>shop.b",
            RenameAction.DELIVER,
            "shop.a>shop.tmp_c shop.b>shop.a shop.tmp_c>shop.b",
            "",
        ),
        ("shop.a>shop.c shop.tmp_b>shop.a shop.c>shop.tmp_b", RenameAction.ERROR, "", ""),
        ("other.a>shop.x shop.x>other.b", RenameAction.IGNORE, "", ""),
    ],
)
def test_statements(given: str, then: RenameAction, delivered: str, left: str) -> None:
    found = judge(steps(given), TableRules(RULES).matches)
    assert found.action is then
    assert found.steps == tuple(steps(delivered))
    assert found.left == tuple(steps(left))
    assert (found.error is not None) is (then is RenameAction.ERROR)


def test_a_rename_into_the_rules_names_both_tables() -> None:
    found = judge(steps("other.a>shop.a"), TableRules(RULES).matches)
    assert found.error is not None
    assert found.error.code == "TG:ErrSyncRenameTableFailed"
    assert found.error.object == "shop.a"
    assert "other.a" in found.error.message
    assert found.error.hint


@pytest.mark.parametrize(
    ("given", "fails"),
    [
        ("shop.a>shop.b", False),
        ("other.a>other.b", False),
        ("shop.a>other.b", True),
        ("shop.tmp_a>shop.b", True),
    ],
)
def test_rows_do_not_cross_the_rules(given: str, fails: bool) -> None:
    error = judge_moves(steps(given), TableRules(RULES).matches)
    assert (error is not None) is fails
    if error is not None:
        assert error.code == "TG:ErrPartitionCrossesFilter"
