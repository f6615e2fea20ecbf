"""The judge of growth, and half a minute of what it judges in an hour."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.soak import endure
from tests.soak.endure_growth import Growth, grown

_HOUR = 3600.0
# So short a run judges nothing that comes slowly: this is what no warming process needs.
_BOUND_MB = 200.0
_BESIDE_MB = 8.0


def _judged(megabytes: Callable[[float], float], minutes: float = 60.0) -> Growth:
    """What becomes of a process with so many MB at each minute, looked at every five seconds."""
    seconds = [5.0 * n for n in range(int(minutes * 12))]
    samples = {"capture": [(s, megabytes(s / 60)) for s in seconds]}
    (found,) = grown(samples, minutes * 60, {})
    return found


def test_what_grows_is_named_with_its_slope() -> None:
    dice = random.Random(1)
    found = _judged(lambda minute: 300 + 1.5 * minute + dice.uniform(-20, 20))
    assert not found.flat
    assert found.mb_per_min == pytest.approx(1.5, abs=0.2)
    row = found.row(changes_per_min=60).split()
    assert (row[0], row[-1]) == ("capture", "GROWS")
    # A quarter of it for each of its changes if there are six a minute.
    assert float(found.row(changes_per_min=6).split()[-2]) == pytest.approx(0.25, abs=0.04)


def test_what_stays_is_flat_however_it_shakes() -> None:
    dice = random.Random(2)
    found = _judged(lambda minute: 300 + dice.uniform(-60, 60))
    assert found.flat
    assert abs(found.mb_per_min) < 0.3
    assert found.row(60).endswith("flat")


def test_warming_up_is_left_out() -> None:
    found = _judged(lambda minute: 100 + 40 * min(minute, 10))
    assert found.flat
    assert (found.first, found.last) == (500, 500)
    assert not _judged(lambda minute: 100 + 40 * min(minute, 30)).flat


def test_segments_that_come_and_go_are_flat() -> None:
    assert _judged(lambda minute: 16 * (minute % 4)).flat
    # Also where it ends at the top, and with few teeth.
    assert _judged(lambda minute: 32 * (minute % 24) / 24).flat
    assert not _judged(lambda minute: 16 * (minute % 4) + 2 * minute).flat


def test_something_that_comes_in_once_is_no_growth() -> None:
    assert _judged(lambda minute: 300 + (20 if minute > 35 else 0)).flat
    assert not _judged(lambda minute: 300 + (90 if minute > 35 else 0)).flat


def test_what_lived_only_at_first_is_not_judged() -> None:
    samples = {"worker 7": [(5.0 * n, 100.0 * n) for n in range(20)]}
    assert grown(samples, _HOUR, {}) == []


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.soak
def test_half_a_minute_of_rows_and_schema_changes() -> None:
    """Into Kafka and a database, with segments, snapshots and statements that come and go."""
    plan = endure.Enduring(minutes=0.5, rows_per_s=400, changes_per_min=90)
    result = endure.soak(plan, print)
    shown = "\n".join((*result.lines, *result.faults))
    assert not result.faults, shown
    assert all(v.proven for v in result.verdicts.values()), shown
    by_name = {g.name: g for g in result.growth}
    assert {"capture", "JVM", "workers together", "store", "log statements"} <= by_name.keys()
    for one in result.growth:
        beside = one.name.startswith(("store", "log tables", "log statements", "log snapshots"))
        assert one.most - one.first < (_BESIDE_MB if beside else _BOUND_MB), shown
