"""Group commits: at once while little comes, fewer and larger ones while they are dear."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cdc.base.clock import SystemClock
from cdc.source.commit_pace import CommitPace
from cdc.source.puller import Puller


def test_the_first_commit_waits_for_nothing() -> None:
    pace = CommitPace(0.025, 1 << 25)
    assert pace.due(100.0, 1)
    assert pace.rest_s(100.0, 1) == 0


def test_cheap_commits_come_at_the_interval() -> None:
    pace = CommitPace(0.025, 1 << 25)
    pace.began(100.0)
    pace.ended(100.002)
    assert not pace.due(100.026, 1)
    assert pace.due(100.028, 1)
    assert pace.rest_s(100.005, 1) == 0


def test_small_commits_that_follow_one_another_have_some_time_between_them() -> None:
    pace = CommitPace(0.025, 1 << 25)
    pace.began(100.0)
    pace.ended(100.002)
    pace.began(100.04)
    pace.ended(100.042)
    # What comes in it need not be looked at.
    for left_s in (pace.rest_s(100.045, 1), pace.gathering_s(100.045, 1)):
        assert left_s == pytest.approx(0.007)
    assert pace.rest_s(100.053, 1) == pace.gathering_s(100.053, 1) == 0
    pace.began(101.0)
    pace.ended(101.002)
    assert pace.rest_s(101.005, 1) == pace.gathering_s(101.005, 1) == 0


def test_dear_commits_take_a_bounded_share_of_the_time() -> None:
    pace = CommitPace(0.025, 1 << 25)
    pace.began(100.0)
    pace.ended(100.2)
    assert not pace.due(100.7, 1)
    assert pace.due(100.81, 1)
    assert 0 < pace.rest_s(100.3, 1) < 0.11


def test_while_a_commit_is_on_its_way_none_is_due_and_nobody_spins() -> None:
    pace = CommitPace(0.025, 1 << 25)
    pace.began(100.0)
    for now in (100.0, 100.001, 100.5, 103.0):
        assert not pace.due(now, 1)
        for waiting in (1, 1 << 26):
            assert 0.001 <= pace.rest_s(now, waiting) <= max(0.001, now - 100.0)
            assert pace.gathering_s(now, waiting) == 0
    pace.ended(103.5)
    assert pace.rest_s(103.5, 1) > 3
    assert pace.due(114.1, 1)


def test_many_bytes_neither_wait_for_the_interval_nor_rest() -> None:
    pace = CommitPace(0.025, 1 << 25)
    pace.began(100.0)
    # Appending goes on behind a commit, but not without bound.
    assert not pace.due(100.01, 1 << 25)
    assert pace.due(100.01, 1 << 27)
    pace.ended(100.03)
    assert not pace.due(100.031, (1 << 25) - 1)
    assert pace.due(100.031, 1 << 25)
    assert pace.rest_s(100.031, 1 << 20) == 0
    assert pace.rest_s(100.031, 1 << 14) > 0
    assert pace.gathering_s(100.031, 1 << 14) == pace.gathering_s(100.031, 0) == 0
    assert pace.rest_s(100.031, (1 << 20) - 1) > 0


@pytest.mark.parametrize(
    ("in_group", "clean", "uncommitted", "waits"),
    [
        (False, True, 0, True),
        (True, True, 5, True),
        (False, False, 5, True),
        (False, True, 5, False),
    ],
)
def test_nobody_spins_while_nothing_can_be_committed(
    in_group: bool, clean: bool, uncommitted: int, waits: bool
) -> None:
    walker = SimpleNamespace(in_group=in_group, clean=clean, uncommitted=uncommitted)
    puller = SimpleNamespace(_pace=CommitPace(0.025, 1 << 25), _clock=SystemClock())
    waited = Puller._patience(puller, SimpleNamespace(walker=walker))  # type: ignore[arg-type]
    assert (waited > 0) is waits
