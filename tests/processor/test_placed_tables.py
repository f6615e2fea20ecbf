"""Which capture's workers deliver a window's destinations, where tables were moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from processor.jobs import ALONE, Captures
from processor.placed_tables import dealt, placed_destinations
from processor.window import group
from sink.contract import Destination

A, B, C = ("t", 0), ("t", 1), ("u", 0)
THREE = Captures("here", {"here": 2, "x": 1, "y": 3})
_PLACES = st.sampled_from(["", "here", "x", "y"])
_WEIGHTS = st.dictionaries(st.tuples(st.just("t"), st.integers(0, 9)), st.integers(0, 99))


def test_a_table_takes_all_its_destinations_with_it() -> None:
    ours = {"s.a": [A, B], "s.b": [C]}
    assert placed_destinations({"s.a": "x"}, ours, THREE) == {A: "x", B: "x"}
    assert placed_destinations({"s.b": "here", "s.none": "x"}, ours, THREE) == {C: "here"}


def test_where_tables_share_a_destination_the_last_one_moved_counts() -> None:
    ours = {"s.a": [A, B], "s.b": [B]}
    assert placed_destinations({"s.a": "x", "s.b": "y"}, ours, THREE) == {A: "x", B: "y"}
    assert placed_destinations({"s.b": "y", "s.a": "x"}, ours, THREE) == {A: "x", B: "x"}


def test_a_capture_that_takes_no_tasks_now_holds_nothing_up() -> None:
    assert placed_destinations({"s.a": "gone"}, {"s.a": [A]}, THREE) == {}
    assert placed_destinations({"s.a": "x"}, {"s.a": [A]}, ALONE) == {}


@given(weights=_WEIGHTS, places=st.lists(_PLACES, min_size=10, max_size=10))
def test_each_destination_is_in_one_task_of_its_capture(
    weights: dict[Destination, int], places: list[str]
) -> None:
    placed = {("t", n): place for n, place in enumerate(places) if place}
    groups = dealt(weights, placed, 6, THREE)
    assert sorted(d for _, g in groups for d in g) == sorted(weights)
    for capture, destinations in groups:
        assert {placed.get(d, "") for d in destinations} == {capture}
    for capture, room in THREE.rooms.items():
        assert sum(at == capture for at, _ in groups) <= room


def test_a_small_window_has_no_second_task_here() -> None:
    weights, placed = {A: 1, B: 1, C: 1}, {A: "here", C: "x"}
    assert dealt(weights, placed, 1, THREE) == [("", [A, B]), ("x", [C])]
    # Of a large one others may get what was not placed here.
    assert dealt(weights, placed, 6, THREE) == [("", [B]), ("here", [A]), ("x", [C])]


@given(weights=_WEIGHTS, tasks=st.integers(1, 6))
def test_where_nothing_is_placed_a_window_is_grouped_as_it_was(
    weights: dict[Destination, int], tasks: int
) -> None:
    assert dealt(weights, {}, tasks, ALONE) == [("", g) for g in group(weights, tasks)]
