"""Seeded schedules of an optimistic group: its target takes all rows, and has them in the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cdc.schema.table import Column, Table
from owner.shard_rules import ShardGroups
from tests import seeds
from tests.shard_ddl.optimistic import run, run_any_way

SCHEDULES = int(os.environ.get("TIDEGATE_SCHEDULES", "80"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_optimistic_schedules(part: int) -> None:
    first = seeds.seed() * SCHEDULES
    _all(range(first + part, first + SCHEDULES, PARTS), steps=50)


def test_tables_that_go_ways_of_their_own_wait_for_nobody_unseen() -> None:
    first = seeds.seed() * SCHEDULES
    _all(range(first, first + SCHEDULES // 4), steps=50, run=run_any_way)


def _all(numbers: Iterable[int], steps: int, run: Callable[[int, int], object] = run) -> None:
    for seed in numbers:
        try:
            run(seed, steps)
        except AssertionError as e:
            raise AssertionError(f"schedule {seed}: {e}") from e


def _added_again(remnants: Any, group: Any, table: str, added: Any, target: Table) -> str:
    """A column may be added while the target has it of before."""
    return ""


def _no_rename(part: Any) -> bool:
    """A new name is a column that goes and one that comes."""
    return False


_again = ShardGroups.again


def _own_words(self: ShardGroups, p: Any, pending: Any) -> Any:
    """What was begun is carried out as the table's own statement."""
    return replace(_again(self, p, pending), ddl=p.ddl)


def _none_at_work(rounds: Mapping[int, Any], ts: int) -> None:
    """Several changes of a group are under way at a time."""


def _nulls(column: Column) -> tuple[str | None, bool]:
    """Rows that lack a column have another value than its default."""
    return ("41", False) if column.data_type == "int" and not column.nullable else (None, False)


@pytest.mark.parametrize(
    ("module", "name", "rule"),
    [
        ("owner.shard_join", "still_there", _added_again),
        ("owner.shard_join", "_beyond_joins", _no_rename),
        ("owner.shard_rules.ShardGroups", "again", _own_words),
        ("owner.shard_group", "leader_of", _none_at_work),
        ("cdc.schema.joined", "_filled", _nulls),
    ],
    ids=["added again", "renamed", "other words", "at a time", "filled"],
)
def test_a_broken_optimistic_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, rule: Callable[..., object]
) -> None:
    monkeypatch.setattr(f"{module}.{name}", rule)
    with pytest.raises(AssertionError):
        _all(range(40, 150), steps=60)


def _no_other_way(*_: object) -> str:
    """All tables can come to whatever one has come to."""
    return ""


def test_a_wait_in_vain_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("owner.shard_group.gone_another_way", _no_other_way)
    with pytest.raises(AssertionError, match="waits in vain"):
        _all(range(30), steps=50, run=run_any_way)
