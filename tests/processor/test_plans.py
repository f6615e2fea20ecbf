"""Which tables a worker plans when: a plan changes by what changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from cdc.base.errors import DefiniteError
from cdc.binlog.table_map import TableMap
from cdc.rows.plan import NO_TABLES, PlanSet
from cdc.schema.parse import parse_create_table
from cdc.schema.session import Session
from processor.catalog import Numbering, Replicated
from processor.plans import Plans
from sink.contract import Entry
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode

SESSION = Session(mariadb=True, version=(11, 4, 0))
ROUTE = Route("t", PartitionMode.TABLE, (), 1, 0)


class _Planner:
    """Notes what is planned, and refuses tables by name."""

    def __init__(self) -> None:
        self.calls: list[tuple[bool, list[str]]] = []
        self.refused: set[str] = set()

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        names = [table.name for table, _, _ in entries]
        self.calls.append((more, names))
        if refused := self.refused.intersection(names):
            raise DefiniteError("refused", object=f"s.{min(refused)}")
        return NO_TABLES


class _Window:
    """Plans, asked as a worker asks them."""

    def __init__(self) -> None:
        self.sink = _Planner()
        self.plans = Plans(Numbering({"t": 0}, (("t", 0),)), mariadb=True)
        self.current: dict[int, Replicated] = {}

    def see(self, *ids: int, changed: bool = False) -> None:
        for i in ids:
            if changed or i not in self.current:
                self.current[i] = _version(i)
        in_force = {i: self.current[i] for i in ids}
        sink: Any = self.sink
        self.plans.refresh(in_force, [("t", 0)], sink, lambda r: self.current.get(r.id) is r)


def _version(i: int) -> Replicated:
    table = parse_create_table(f"CREATE TABLE t{i} (id INT PRIMARY KEY)", SESSION, schema="s")
    return Replicated(i, table, TableMap(i, 0, "s", f"t{i}", b"\3", (0,), (False,)), ROUTE)


def test_what_is_new_is_planned_behind_the_rest() -> None:
    window = _Window()
    window.see(1, 2)
    window.see(1, 3)
    window.see(2, 3)
    assert window.sink.calls == [(False, ["t1", "t2"]), (True, ["t3"])]


def test_another_version_is_planned_alone_until_the_old_ones_are_the_greater_part() -> None:
    window = _Window()
    window.see(1, 2, 3)
    for _ in range(4):
        window.see(2, changed=True)
    assert window.sink.calls[1:4] == [(True, ["t2"])] * 3
    assert window.sink.calls[4] == (False, ["t1", "t2", "t3"])


def test_tables_that_come_and_go_do_not_stay() -> None:
    """Each has an id of its own, as each version of an altered table has."""
    window, largest = _Window(), 0
    window.see(1, 2, 3)
    for i in range(4, 1000):
        window.see(1, i)
        del window.current[i]
        largest = max(largest, len(window.plans._entries))
    assert largest < 50
    whole = [names for more, names in window.sink.calls if not more]
    assert all(names[:3] == ["t1", "t2", "t3"] for names in whole)
    # Nor is all planned anew for each of them.
    assert len(whole) < 50


def test_an_old_version_that_is_refused_does_not_stop_a_new_one() -> None:
    window = _Window()
    window.see(1, 2)
    del window.current[1]
    window.sink.refused = {"t1"}
    refused = window.sink.plan

    def plan(entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        if more:
            raise DefiniteError("one of all that are planned", object="s.t1")
        return refused(entries, mariadb=mariadb)

    window.sink.plan = plan  # type: ignore[method-assign]
    window.see(2, 3)
    assert window.sink.calls[-1] == (False, ["t2", "t3"])


def test_the_table_of_an_error_is_named() -> None:
    window = _Window()
    window.see(1, 2)
    window.sink.refused = {"t4"}
    with pytest.raises(DefiniteError):
        window.see(1, 3, 4, 5)
    assert window.plans.failed == "s.t4"
    window.sink.refused = set()
    window.plans.failed = None
    window.see(1, 3, 4, 5)
    assert window.sink.calls[-1][0]


def test_runs_are_given_the_place_of_their_table() -> None:
    window = _Window()
    window.see(5, 2)
    window.see(7)
    window.see(5, changed=True)
    assert window.plans._plan_of[[5, 2, 7]].tolist() == [3, 1, 2]
    assert window.plans._plan_of[[0, 1]].tolist() == [-1, -1]
    assert np.all(window.plans._plan_of < 4)
