"""Seeded simulation: random DDLs, reports, failures, owners, operators; invariants always hold."""

from __future__ import annotations

import random

import pytest

from cdc.coord.messages import ErrorInfo, FeedState, Report
from owner.state import FeedEvent, allowed, transition
from owner.tick import FeedTick, next_epoch
from tests.owner.test_tick import World, ddl

TABLES = ("shop.a", "shop.b", "shop.c")


class Processor:
    """Delivers as far as it may, in random steps, and remembers how far each table came."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.position = 100
        self.delivered = dict.fromkeys(TABLES, 100)
        self.epoch = 0
        self.limits: dict[str, int] = {}
        self.barrier = 0

    def assign(self, world: World) -> None:
        assert world.effects is not None
        a = world.effects.assignment
        if a.epoch != self.epoch:
            assert a.epoch > self.epoch
            self.epoch = a.epoch
            self.position = max(self.position, a.checkpoint_ts)
        self.barrier = a.barrier_ts if a.run else self.position
        self.limits = dict(a.table_barriers)

    def work(self) -> Report:
        if self.barrier > self.position:
            self.position = self.rng.randint(self.position, self.barrier)
        held = {}
        for table in TABLES:
            limit = self.limits.get(table, self.position)
            self.delivered[table] = max(self.delivered[table], min(self.position, limit))
            if limit < self.position:
                held[table] = limit
        error = None
        if self.rng.random() < 0.05:
            error = ErrorInfo(code="TG:ErrX", kind="transient", message="x")
        return Report(
            feed="f",
            epoch=self.epoch,
            checkpoint_ts=self.position,
            table_checkpoints=held,
            error=error,
            running=error is None,
        )


@pytest.mark.parametrize("seed", range(150))
def test_invariants(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    processor = Processor(rng)
    first_ddl: dict[str, int] = {}
    report: Report | None = None
    checkpoint, last_ts = 100, 100
    for _ in range(300):
        what = rng.random()
        if what < 0.3:
            last_ts += rng.randint(1, 20)
            if rng.random() < 0.1:
                table = rng.choice((*TABLES, "other.x", "other.y"))
                world.log.append(ddl(last_ts, "alter table", table))
                first_ddl.setdefault(table, last_ts)
        elif what < 0.6:
            report = processor.work()
        elif what < 0.63:
            world.tick = FeedTick()
        elif what < 0.67:
            event = rng.choice((FeedEvent.PAUSE, FeedEvent.RESUME))
            if allowed(world.info.state, event):
                change = {"state": transition(world.info.state, event)}
                if event is FeedEvent.RESUME:
                    change["epoch"] = next_epoch(world.info.epoch, world.now)
                world.info = world.info.model_copy(update=change)
        world.now += rng.randint(0, 3000)
        world.turn(report, resolved=rng.randint(world.resolved, last_ts))
        processor.assign(world)

        assert world.status.checkpoint_ts >= checkpoint
        checkpoint = world.status.checkpoint_ts
        assert checkpoint <= min(processor.delivered.values())
        for table in TABLES:
            assert processor.delivered[table] < first_ddl.get(table, 1 << 62)
        for stop in world.status.stopped_tables:
            assert stop.ts == first_ddl[stop.table]
            assert processor.delivered[stop.table] == stop.ts - 1
        assert world.info.state is not FeedState.FAILED

    # Left alone, it delivers everything that may be delivered.
    if world.info.state is FeedState.STOPPED:
        world.info = world.info.model_copy(
            update={"state": FeedState.NORMAL, "epoch": world.info.epoch + 1}
        )
    rng.random = lambda: 1.0  # type: ignore[method-assign]
    for _ in range(200):
        world.now += 700_000
        world.turn(report, resolved=last_ts)
        processor.assign(world)
        processor.position = processor.barrier
        report = processor.work()
    world.turn(report)
    for table in TABLES:
        assert processor.delivered[table] == min(last_ts, first_ddl.get(table, 1 << 62) - 1)
    stopped = {t for t in TABLES if t in first_ddl}
    assert {s.table for s in world.status.stopped_tables} == stopped
    assert world.info.state is (FeedState.WARNING if stopped else FeedState.NORMAL)
