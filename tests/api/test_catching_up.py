"""The estimate of when a changefeed has caught up."""

from __future__ import annotations

import pytest

from cdc.cli.catching_up import CatchUp


def _left(reached: list[int], every_ms: int = 2_000) -> list[int | None]:
    """What is said of one that is seen at these places, one look after the other."""
    watch = CatchUp()
    return [watch.left_ms("a", at, 1_000_000 + n * every_ms) for n, at in enumerate(reached)]


def test_it_is_the_lag_by_how_fast_it_shrinks() -> None:
    # Three seconds of changes in each second: the lag of 94 s shrinks by two in each.
    assert _left([900_000, 906_000, 912_000]) == [None, 48_000, 46_000]


def test_what_comes_to_pass_is_what_was_said() -> None:
    watch, speed, now, reached = CatchUp(), 4.0, 1_000_000, 100_000
    said = [watch.left_ms("a", reached, now)]
    begun = now
    while now - reached > 6_000:
        now += 2_000
        reached = min(now, reached + int(2_000 * speed))
        said.append(watch.left_ms("a", reached, now))
    assert said[0] is None
    for n, left in enumerate(said[1:-1], 1):
        assert left == pytest.approx(now - begun - n * 2_000, abs=4_000)


@pytest.mark.parametrize(
    "reached",
    [
        [900_000, 902_000, 904_000],  # as fast as the upstream
        [900_000, 900_000, 900_000],  # it stands still
        [999_000, 1_001_500, 1_003_900],  # it is not behind
        [900_000, 906_000, 100_000],  # it goes on from elsewhere
    ],
)
def test_nothing_is_said_where_it_cannot_be_told(reached: list[int]) -> None:
    assert _left(reached)[-1] is None


def test_what_was_long_ago_does_not_count() -> None:
    slow = [100_000 + 2_000 * n for n in range(100)]
    fast = [slow[-1] + 20_000 * n for n in range(1, 32)]
    passed = 1_000_000 + (len(slow) + len(fast) - 1) * 2_000
    assert _left([*slow, *fast])[-1] == pytest.approx((passed - fast[-1]) / 9, rel=0.1)


def test_changefeeds_are_told_apart() -> None:
    watch = CatchUp()
    for n in range(3):
        watch.left_ms("slow", 900_000, 1_000_000 + n * 2_000)
        left = watch.left_ms("fast", 900_000 + n * 6_000, 1_000_000 + n * 2_000)
    assert left == 46_000
