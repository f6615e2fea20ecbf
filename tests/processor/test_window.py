"""Windows, limits and groups are values; each rule has a case that breaks with it."""

from __future__ import annotations

from cdc.base.position import ROW_END, Position
from processor.window import Window, group, reach, spread


def test_nothing_to_do_is_no_window() -> None:
    assert reach(Position(9), 9) is None
    assert reach(Position(9), 8) is None


def test_a_window_goes_on_inside_a_transaction() -> None:
    assert reach(Position(9, 4), 9) == Window(Position(9, 4), Position(9, ROW_END))


def test_groups_are_balanced_complete_and_deterministic() -> None:
    weights = {("t", i): w for i, w in enumerate([7, 5, 4, 3, 1])}
    groups = group(weights, 2)
    assert sorted(d for g in groups for d in g) == sorted(weights)
    assert sorted(sum(weights[d] for d in g) for g in groups) == [10, 10]
    assert groups == group(dict(reversed(list(weights.items()))), 2)


def test_no_more_groups_than_destinations() -> None:
    assert group({("t", 0): 5}, 8) == [[("t", 0)]]


def test_rows_told_apart_by_value_weigh_on_all_partitions() -> None:
    assert spread([("t", 0), ("t", 1)], 10) == {("t", 0): 5, ("t", 1): 5}
