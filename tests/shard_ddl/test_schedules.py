"""Seeded schedules of a shard group: no row crosses its change, and each change runs once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import owner.shard_ddl
from owner.changes import Changes
from owner.shard_part import ShardRole
from tests import seeds
from tests.shard_ddl.simulated import run

SCHEDULES = int(os.environ.get("TIDEGATE_SCHEDULES", "300"))
PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_schedules(part: int) -> None:
    first = seeds.seed() * SCHEDULES
    _all(range(first + part, first + SCHEDULES, PARTS), steps=50)


def _all(numbers: Iterable[int], steps: int) -> None:
    for seed in numbers:
        try:
            run(seed, steps)
        except AssertionError as e:
            raise AssertionError(f"schedule {seed}: {e}") from e


_complete = owner.shard_ddl.complete


def _without_the_late(due: Any, pending: Any, groups: Any) -> Any:
    """Carry out what some have come to."""
    return _complete(due, pending, owner.shard_ddl.Groups({}, groups.schemas))


def _each_alone(p: Any, pending: Any, groups: Any, rounds: Any) -> bool:
    return True


def _joins_at_once(p: Any, pending: Any, groups: Any, rounds: Any) -> bool:
    part = p.judged.shard
    return _may_run(p, pending, groups, rounds) or (
        part is not None and part.role is ShardRole.JOIN
    )


_may_run = owner.shard_ddl.may_run


def _forgotten(shown: Any) -> Changes:
    return Changes(ended=tuple(shown.ended))


@pytest.mark.parametrize(
    ("module", "name", "rule"),
    [
        ("owner.shard_ddl", "complete", _without_the_late),
        ("owner.shard_ddl", "may_run", _each_alone),
        ("owner.shard_ddl", "may_run", _joins_at_once),
        ("owner.changes.Changes", "of", _forgotten),
    ],
    ids=["late", "alone", "joins", "rounds forgotten"],
)
def test_a_broken_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, rule: Callable[..., object]
) -> None:
    monkeypatch.setattr(f"{module}.{name}", rule)
    with pytest.raises(AssertionError):
        _all(range(200), steps=120)
