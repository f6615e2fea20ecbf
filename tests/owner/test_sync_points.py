"""Sync points: written only where all tables stand at one ts, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cdc.base.ts import compose
from cdc.coord.messages import ErrorInfo, FeedState, FeedStatus, TableStop
from owner import sync_points
from owner.stands import Stands
from owner.sync_points import SyncOutcome
from owner.tick import Effects, FeedInput
from tests import seeds
from tests.owner.simulated import World as Schedule
from tests.owner.simulated import run
from tests.owner.test_tick import DEFINITE, TRANSIENT, World, ddl, feed

INTERVAL = 10_000
START = compose(95_000)
FIRST, SECOND, THIRD = (compose(ms) for ms in (100_000, 110_000, 120_000))
STOP = TableStop(table="shop.a", ts=7, error=DEFINITE)


class Pointed(World):
    """One changefeed with a sync point every ten seconds."""

    def __init__(self, **more: Any) -> None:
        super().__init__(feed(start_ts=START, **more), sync_interval_ms=INTERVAL)
        self.points: list[int] = []
        self.left: list[tuple[int, str]] = []

    def _turn(self, report: Any, resolved: int | None) -> Effects:
        effects = super()._turn(report, resolved)
        turn = effects.sync
        if turn is not None and turn.order:
            self.points.append(turn.point.ts)
            self.seen["synced"] = None
        self.left += [(turn.left_out, turn.why)] if turn is not None and turn.left_out else []
        return effects

    def stands(self, at: int, **more: Any) -> Effects:
        """All is delivered up to there, and the processor knows of the barrier."""
        fields = {"barrier_ts": at, "furthest_ts": at} | more
        return self.reported(at, **fields)

    def written(self, ts: int, error: ErrorInfo | None = None) -> Effects:
        """The sink has answered."""
        self.seen["synced"] = SyncOutcome(ts, error)
        return self.turn(self.last)


@pytest.fixture
def world() -> Pointed:
    made = Pointed()
    made.turn(resolved=compose(125_000))
    return made


def test_all_wait_at_a_multiple_of_the_interval_until_it_is_written(world: Pointed) -> None:
    assert world.effects is not None
    # From the first assignment of an epoch on, so that nobody can pass it unseen.
    assert world.effects.assignment.barrier_ts == FIRST
    world.stands(compose(99_000), barrier_ts=FIRST)
    assert world.points == []
    effects = world.stands(FIRST)
    assert (world.points, effects.assignment.barrier_ts) == ([FIRST], FIRST)
    # It is ordered once, and all wait for as long as it takes.
    world.now += 10 * sync_points.PATIENCE_MS
    assert world.turn(world.last).assignment.barrier_ts == FIRST
    assert (world.points, world.status.sync_point_ts) == ([FIRST], 0)
    assert world.written(FIRST).assignment.barrier_ts == SECOND
    assert world.status.sync_point_ts == FIRST
    world.stands(SECOND)
    assert world.points == [FIRST, SECOND]
    # The outcome of another point is none of this one.
    assert world.turn(world.last).assignment.barrier_ts == SECOND
    assert world.written(SECOND, TRANSIENT).assignment.barrier_ts == SECOND
    assert world.status.sync_point_ts == FIRST
    world.now += 1000
    world.turn(world.last)
    assert world.written(SECOND).assignment.barrier_ts == THIRD
    assert world.left == []
    assert world.status.sync_point_ts == SECOND


@pytest.mark.parametrize(
    "more",
    [
        {"barrier_ts": 1 << 62},
        {"epoch": 1},
        {"running": False},
        {"table_checkpoints": {"shop.a": START}},
        {"furthest_ts": FIRST - 1, "checkpoint": FIRST - 1},
    ],
    ids=["does-not-know", "older-epoch", "not-taken-over", "table-behind", "below"],
)
def test_it_is_not_written_unless_all_stand_there(world: Pointed, more: dict[str, Any]) -> None:
    world.stands(more.pop("checkpoint", FIRST), **({"barrier_ts": FIRST} | more))
    assert world.points == []
    assert world.turn(world.last).assignment.barrier_ts == FIRST


def test_one_that_a_ledger_has_passed_is_given_up(world: Pointed) -> None:
    """After a crash the sink may have rows that no checkpoint speaks of."""
    effects = world.stands(START, barrier_ts=FIRST, furthest_ts=FIRST + 1)
    assert effects.assignment.barrier_ts == SECOND
    world.stands(FIRST, furthest_ts=FIRST + 1)
    assert world.points == []
    world.stands(SECOND)
    assert world.points == [SECOND]


def test_an_epoch_that_begins_at_a_point_writes_it_again(world: Pointed) -> None:
    world.stands(FIRST)
    world.tick = type(world.tick)()
    world.now += 1
    effects = world.turn()
    assert effects.assignment.barrier_ts == FIRST
    world.stands(FIRST)
    assert world.points == [FIRST, FIRST]


def test_a_change_of_the_schema_below_it_comes_first(world: Pointed) -> None:
    at = compose(99_000)
    world.log = [ddl(at, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.tick = type(world.tick)()
    world.now += 1
    world.turn()
    apart = {"table_checkpoints": {"shop.a": at - 1}}
    world.stands(FIRST, **apart)
    assert (world.ordered, world.points) == ([at], [])
    world.done(at)
    # Others wait for a while, not for as long as it takes.
    world.stands(FIRST, **apart)
    world.now += sync_points.PATIENCE_MS - 1
    world.stands(FIRST, **apart)
    assert world.left == []
    world.stands(FIRST)
    assert world.points == [FIRST]


def test_others_do_not_wait_for_long_and_after_that_not_at_all(world: Pointed) -> None:
    apart = {"table_checkpoints": {"shop.a": START}}
    world.stands(FIRST, **apart)
    due = world.tick.point.due_ms(world.now)
    assert due == world.now + sync_points.PATIENCE_MS
    world.now = due
    assert world.stands(FIRST, **apart).assignment.barrier_ts == SECOND
    # It has not come to the next one either: that is left out at once.
    assert world.stands(SECOND, **apart).assignment.barrier_ts == THIRD
    why = "shop.a has not come to it"
    assert world.left == [(FIRST, why), (SECOND, why)]
    world.stands(THIRD)
    world.written(THIRD)
    assert world.points == [THIRD]
    assert not world.tick.point.hurried


def test_nobody_waits_for_an_operator(world: Pointed) -> None:
    world.stands(FIRST, stopped_tables=[STOP], table_checkpoints={"shop.a": 6})
    assert world.points == []
    assert world.left == [(FIRST, "shop.a has stopped")]


def test_one_that_cannot_be_written_is_tried_again_then_left_out(world: Pointed) -> None:
    world.stands(FIRST)
    began = world.now
    effects = world.written(FIRST, TRANSIENT)
    assert (world.points, effects.assignment.barrier_ts) == ([FIRST], FIRST)
    while not world.left:
        due = world.tick.point.due_ms(world.now)
        assert due is not None
        assert due > world.now
        world.now = due
        world.turn(world.last)
        if world.tick.point.ordered:
            world.written(FIRST, TRANSIENT)
    assert world.left == [(FIRST, "it cannot be written down")]
    assert 5 < len(world.points) < 12
    assert sync_points.PATIENCE_MS <= world.now - began < 3 * sync_points.PATIENCE_MS
    assert world.tick.point.ts == SECOND


def test_rows_that_are_copied_come_before_points() -> None:
    at = Stands(FeedStatus(checkpoint_ts=START), None, START)
    point = sync_points.advance(sync_points.SyncPoint(), INTERVAL, at, None, 0).point
    assert point.ts == FIRST
    busy = replace(at, busy=True)
    assert sync_points.advance(point, INTERVAL, busy, None, 0).point.ts == 0
    # Not one that is being written: whoever writes it must have all stand there.
    ordered = replace(point, ordered=True)
    assert sync_points.advance(ordered, INTERVAL, busy, None, 0).point == ordered
    done = sync_points.advance(ordered, INTERVAL, busy, SyncOutcome(FIRST), 0).point
    assert sync_points.advance(done, INTERVAL, at, None, 0).point.ts == SECOND


def test_a_point_where_the_changefeed_ends_is_written_before_it_has_ended() -> None:
    ends = Pointed(target_ts=FIRST)
    ends.turn(resolved=compose(125_000))
    ends.stands(FIRST)
    assert (ends.points, ends.info.state) == ([FIRST], FeedState.NORMAL)
    ends.written(FIRST)
    ends.stands(FIRST)
    assert (ends.points, ends.info.state) == ([FIRST], FeedState.FINISHED)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_owner_that_comes_when_all_stand_at_the_end_has_its_point_written(
    ordered: bool,
) -> None:
    """Whether the one before has written it is not known, so it is written again."""
    ends = Pointed(target_ts=FIRST)
    ends.turn(resolved=compose(125_000))
    ends.stands(FIRST)
    if ordered:
        ends.written(FIRST)
    ends.points, ends.seen["synced"] = [], None
    ends.tick, ends.last = type(ends.tick)(), None
    ends.turn()
    assert ends.info.state is FeedState.NORMAL
    ends.stands(FIRST)
    ends.written(FIRST)
    ends.stands(FIRST)
    assert (ends.points, ends.info.state) == ([FIRST], FeedState.FINISHED)


def test_a_changefeed_does_not_wait_for_a_point_behind_its_end() -> None:
    ends = Pointed(target_ts=FIRST - 1)
    ends.turn(resolved=compose(125_000))
    ends.stands(FIRST - 1)
    assert (ends.points, ends.info.state) == ([], FeedState.FINISHED)


def test_none_are_asked_for() -> None:
    made = World(feed(start_ts=START))
    effects = made.turn(resolved=compose(125_000))
    assert effects.assignment.barrier_ts > compose(1 << 40)


MS = compose(1)


@dataclass
class Synced(Schedule):
    """Schedules with a point every 25 ms of the log, whose rows are some ms apart."""

    unit: int = MS
    writing: tuple[int, int] | None = None
    synced: tuple[int, SyncOutcome] | None = None
    points: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)

    def seen(self, seen: FeedInput) -> FeedInput:
        # An outcome belongs to its epoch.
        epoch, told = self.synced or (0, None)
        synced = told if epoch == self.info.epoch else None
        return replace(seen, sync_interval_ms=25, synced=synced)

    def some_way(self, low: int, high: int) -> int:
        """Often as far as it may."""
        return high if self.rng.randint(0, 1) else self.rng.randint(low, high)

    def owner(self) -> Effects:
        effects = super().owner()
        turn = effects.sync
        if turn is not None and turn.order:
            assert self.writing is None or self.writing[0] != self.info.epoch
            self.writing, self.synced = (self.info.epoch, turn.point.ts), None
        if turn is not None and turn.left_out:
            self.left.append(turn.left_out)
        return effects

    def processor(self) -> None:
        super().processor()
        if self.writing is None or not self.rng.randint(0, 1):
            return
        (epoch, ts), self.writing = self.writing, None
        if self.recorded is None or self.recorded[0] != epoch:
            # The sink was taken over: the fence is before the row.
            return
        there = {row for row in self.dml if row[0] <= ts}
        assert self.sink.known == there, f"the point at {ts} is not what the upstream was"
        self.points.append(ts)
        self.synced = (epoch, SyncOutcome(ts))


def _all(numbers: range) -> tuple[int, int]:
    points = left = 0
    for seed in numbers:
        try:
            world = run(seed, made=Synced)
        except AssertionError as e:
            raise AssertionError(f"schedule {seed}: {e}") from e
        assert isinstance(world, Synced)
        points += len(set(world.points))
        left += len(world.left)
    return points, left


def test_schedules() -> None:
    first = seeds.seed() * 100
    points, _ = _all(range(first, first + 100))
    assert points > 100


def _anywhere(at: Stands, ts: int) -> bool:
    return at.report is not None and at.report.running and at.report.checkpoint_ts >= ts


def _without_ledger(at: Stands, ts: int) -> bool:
    assert at.report is not None
    return _all_at(replace(at, report=at.report.model_copy(update={"furthest_ts": 0})), ts)


_all_at = Stands.all_at


@pytest.mark.parametrize("rule", [_anywhere, _without_ledger], ids=["anywhere", "passed"])
def test_a_broken_rule_is_found(
    monkeypatch: pytest.MonkeyPatch, rule: Callable[[Stands, int], bool]
) -> None:
    monkeypatch.setattr(Stands, "all_at", rule)
    # What a ledger alone has passed is not seen any more.
    monkeypatch.setattr(sync_points, "_furthest", lambda at: at.status.checkpoint_ts)
    with pytest.raises(AssertionError, match="is not what the upstream was"):
        _all(range(100))
