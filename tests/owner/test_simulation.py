"""Seeded schedules of rows, schema changes and crashes; what must hold holds at every step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

import pytest

import owner.barrier
import owner.changes
from owner.barrier import Pending, Reached, table_barriers
from tests import seeds
from tests.owner.simulated import run

SCHEDULES = int(os.environ.get("TIDEGATE_SCHEDULES", "600"))
PARTS = 12


@pytest.mark.parametrize("part", range(PARTS))
def test_schedules(part: int) -> None:
    first = seeds.seed() * SCHEDULES
    _all(range(first + part, first + SCHEDULES, PARTS))


def _all(numbers: Iterable[int]) -> None:
    for seed in numbers:
        try:
            run(seed)
        except AssertionError as e:
            raise AssertionError(f"schedule {seed}: {e}") from e


def _without_tables(pending: Sequence[Pending], reached: Reached) -> list[list[str]]:
    return [[w for w in found if w.startswith("ts ")] for found in _waits(pending, reached)]


_waits = owner.barrier.waits


def _one_late(pending: object) -> dict[str, int]:
    return {t: ts + 1 for t, ts in table_barriers(pending).items()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("module", "name", "rule"),
    [
        ("owner.barrier", "waits", _without_tables),
        ("owner.tick", "table_barriers", _one_late),
        ("owner.tick", "global_barrier", lambda _: 1 << 62),
        ("owner.changes", "ready", lambda pending, reached: []),
        ("tests.owner.simulated.World", "unjudged", lambda world, judged_ts: world.resolved),
    ],
    ids=["tables", "late", "global", "deadlock", "unjudged"],
)
def test_a_broken_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, rule: Callable[..., object]
) -> None:
    monkeypatch.setattr(f"{module}.{name}", rule)
    with pytest.raises(AssertionError):
        _all(range(200))
