"""The owner's pure step: single situations, table-driven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.coord.messages import (
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    TableStop,
)
from cdc.schema.ddl import Touched
from owner.ddl import Ddl
from owner.retry import RetryPolicy
from owner.tick import Effects, FeedInput, FeedTick, scan_from, step

NOW = 1_000_000
TRANSIENT = ErrorInfo(code="TG:ErrKafkaGone", kind="transient", message="gone")
DEFINITE = ErrorInfo(code="TG:ErrMessageTooLarge", kind="definite", message="too large")


def matches(schema: str, table: str) -> bool:
    return schema == "shop"


def ddl(ts: int, kind: str, *tables: str, schemas: tuple[str, ...] = ()) -> Ddl:
    names = tuple((t.split(".")[0], t.split(".")[1]) for t in tables)
    return Ddl(ts, f"{kind} …", Touched(kind, names, schemas))


def feed(**changes: Any) -> FeedInfo:
    info = FeedInfo(id="f", upstream="u", sink_uri="kafka://k/t", start_ts=100, epoch=5)
    return info.model_copy(update=changes)


class World:
    """One changefeed and its owner, moved by hand."""

    def __init__(self, info: FeedInfo | None = None, **seen: Any) -> None:
        self.info = info or feed()
        self.status = FeedStatus(checkpoint_ts=self.info.start_ts)
        self.tick = FeedTick()
        self.now = NOW
        self.resolved = 100
        self.log: list[Ddl] = []
        self.seen = seen
        self.effects: Effects | None = None

    def turn(self, report: Report | None = None, resolved: int | None = None) -> Effects:
        self.resolved = self.resolved if resolved is None else resolved
        above = scan_from(self.tick, self.info, self.status)
        seen = FeedInput(
            info=self.info,
            status=self.status,
            report=report,
            resolved_ts=self.resolved,
            ddls_above=above,
            ddls=tuple(d for d in self.log if above < d.ts <= self.resolved),
            matches=matches,
            tables=(("shop", "a"), ("shop", "b"), ("other", "x")),
        )
        self.tick, effects = step(self.tick, replace(seen, **self.seen), self.now)
        self.info = effects.info or self.info
        self.status = effects.status or self.status
        self.effects = effects
        return effects

    def report(self, checkpoint: int, **fields: Any) -> Report:
        fields = {"epoch": self.info.epoch, "running": True} | fields
        return Report(feed="f", checkpoint_ts=checkpoint, **fields)

    def reported(self, checkpoint: int, **fields: Any) -> Effects:
        return self.turn(self.report(checkpoint, **fields))


def test_a_new_owner_starts_delivery_under_a_new_epoch() -> None:
    world = World()
    effects = world.turn(resolved=200)
    assert world.info.epoch == NOW
    assert effects.assignment.epoch == NOW
    assert effects.assignment.run
    assert (effects.assignment.checkpoint_ts, effects.assignment.barrier_ts) == (100, 200)
    assert world.turn().info is None


@pytest.mark.parametrize("state", [FeedState.STOPPED, FeedState.FAILED, FeedState.FINISHED])
def test_what_does_not_run_is_left_alone(state: FeedState) -> None:
    world = World(feed(state=state))
    effects = world.turn(resolved=200)
    assert effects.info is None
    assert not effects.assignment.run


def test_checkpoint_follows_reports_and_never_goes_back() -> None:
    world = World()
    world.turn(resolved=500)
    world.reported(300)
    assert world.status.checkpoint_ts == 300
    world.reported(250)
    assert world.status.checkpoint_ts == 300
    world.reported(400, table_checkpoints={"shop.a": 350})
    assert world.status.checkpoint_ts == 350


def test_a_report_of_an_older_epoch_counts_for_nothing() -> None:
    world = World()
    world.turn(resolved=500)
    world.turn(world.report(400, epoch=5, error=DEFINITE))
    assert world.status.checkpoint_ts == 100
    assert world.info.state is FeedState.NORMAL


def test_a_ddl_stops_its_table_and_no_other() -> None:
    world = World()
    world.log = [ddl(300, "alter table", "shop.a"), ddl(310, "create table", "other.y")]
    effects = world.turn(resolved=500)
    assert effects.assignment.barrier_ts == 500
    assert effects.assignment.table_barriers == {"shop.a": 299}
    assert world.status.stopped_tables == []
    world.reported(250)
    assert world.status.stopped_tables == []
    assert world.info.state is FeedState.NORMAL
    world.reported(500, table_checkpoints={"shop.a": 299})
    assert [(s.table, s.ts, s.error.code) for s in world.status.stopped_tables] == [
        ("shop.a", 300, "TG:ErrDDLNotSupported")
    ]
    assert world.status.checkpoint_ts == 299
    assert world.info.state is FeedState.WARNING
    assert world.info.error is not None
    assert world.info.error.object == "shop.a"
    # later DDLs do not move it, other tables go on
    world.log.append(ddl(600, "drop table", "shop.a"))
    assert world.turn(resolved=700).assignment.table_barriers == {"shop.a": 299}


def test_a_processor_that_does_not_name_the_held_table_cannot_push_it() -> None:
    world = World()
    world.log = [ddl(300, "alter table", "shop.a")]
    world.turn(resolved=500)
    world.reported(500)
    assert world.status.checkpoint_ts == 299


def test_drop_database_stops_its_tables_create_database_nothing() -> None:
    world = World()
    world.log = [
        ddl(200, "create database", schemas=("shop",)),
        ddl(210, "drop database", schemas=("other",)),
        ddl(300, "drop database", schemas=("SHOP",)),
    ]
    effects = world.turn(resolved=500)
    assert effects.assignment.table_barriers == {"shop.a": 299, "shop.b": 299}


def test_a_ddl_that_is_not_understood_holds_the_whole_feed_then_fails_it() -> None:
    world = World()
    error = ErrorInfo(code="TG:ErrDDLNotUnderstood", kind="definite", message="?")
    world.log = [Ddl(300, "FROBNICATE", None, error)]
    effects = world.turn(resolved=500)
    assert effects.assignment.barrier_ts == 299
    world.reported(250)
    assert world.info.state is FeedState.NORMAL
    world.reported(299)
    assert world.info.state is FeedState.FAILED
    assert world.info.error == error


def test_stops_are_found_again_by_a_new_owner() -> None:
    world = World()
    world.log = [ddl(300, "alter table", "shop.a")]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    world.tick = FeedTick()
    effects = world.turn()
    assert effects.assignment.table_barriers == {"shop.a": 299}


def test_a_resumed_feed_never_sees_a_barrier_beyond_what_was_judged_again() -> None:
    world = World()
    world.log = [ddl(300, "alter table", "shop.a")]
    world.turn(resolved=500)
    # The API resumed it: a new epoch, while this tick still read the DDLs only above 500.
    world.info = world.info.model_copy(update={"epoch": world.info.epoch + 1})
    above = 500
    seen = FeedInput(world.info, world.status, None, 600, above, (), matches, (("shop", "a"),))
    world.tick, effects = step(world.tick, seen, NOW)
    assert effects.assignment.barrier_ts == 100
    effects = world.turn(resolved=600)
    assert effects.assignment.barrier_ts == 600
    assert effects.assignment.table_barriers == {"shop.a": 299}


def test_target_reached() -> None:
    world = World(feed(target_ts=400))
    assert world.turn(resolved=500).assignment.barrier_ts == 400
    world.reported(399)
    assert world.info.state is FeedState.NORMAL
    effects = world.reported(400)
    assert world.info.state is FeedState.FINISHED
    assert not effects.assignment.run


def test_backing_off_and_coming_back() -> None:
    world = World()
    world.turn(resolved=500)
    first = world.info.epoch
    effects = world.reported(200, error=TRANSIENT, running=False)
    assert world.info.state is FeedState.PENDING
    assert world.info.error == TRANSIENT
    assert not effects.assignment.run
    world.now += 9_999
    assert world.turn().info is None
    world.now += 1
    effects = world.turn()
    assert world.info.state is FeedState.WARNING
    assert effects.assignment.run
    assert world.info.epoch > first
    # the old report with its error belongs to the old epoch
    world.turn(world.report(200, epoch=first, error=TRANSIENT))
    assert world.info.state is FeedState.WARNING
    world.reported(300)
    assert world.info.state is FeedState.NORMAL
    assert world.info.error is None


def test_back_off_doubles_up_to_its_maximum_and_ends_in_failed() -> None:
    world = World()
    world.turn(resolved=500)
    delays = []
    while world.info.state is not FeedState.FAILED:
        world.reported(200, error=TRANSIENT, running=False)
        assert world.info.state is FeedState.PENDING
        delays.append((world.tick.retry.next_ms - world.now) / 1000)
        world.now = world.tick.retry.next_ms
        world.turn()
    assert delays[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert sum(delays[:-1]) <= 1800 + 600
    assert world.info.error == TRANSIENT


def test_one_failure_an_hour_starts_from_the_first_delay() -> None:
    world = World()
    world.turn(resolved=500)
    for i in range(5):
        world.reported(200 + i, error=TRANSIENT, running=False)
        assert world.tick.retry.attempt == 1
        world.now = world.tick.retry.next_ms
        world.turn()
        world.reported(201 + i)
        assert world.info.state is FeedState.NORMAL
        world.now += 3_600_000


def test_an_idle_feed_comes_back_too() -> None:
    world = World()
    world.turn(resolved=500)
    world.reported(500, error=TRANSIENT, running=False)
    world.now = world.tick.retry.next_ms
    world.turn()
    world.reported(500, running=False)
    assert world.info.state is FeedState.WARNING
    world.reported(500)
    assert world.info.state is FeedState.NORMAL


@pytest.mark.parametrize("kind", ["definite", "invalid", "internal"])
def test_an_unretryable_error_fails_the_feed(kind: str) -> None:
    world = World()
    world.turn(resolved=500)
    error = DEFINITE.model_copy(update={"kind": kind})
    effects = world.reported(200, error=error, running=False)
    assert world.info.state is FeedState.FAILED
    assert world.status.checkpoint_ts == 200
    assert not effects.assignment.run


def test_an_upstream_that_is_lost_fails_the_feed_once_the_log_is_delivered() -> None:
    world = World(upstream_error=DEFINITE)
    world.turn(resolved=500)
    world.reported(400)
    assert world.info.state is FeedState.NORMAL
    world.reported(500)
    assert world.info.state is FeedState.FAILED


def test_a_log_that_does_not_reach_back_fails_the_feed_at_once() -> None:
    world = World(log_error=DEFINITE)
    world.turn(resolved=500)
    assert world.info.state is FeedState.FAILED


def test_a_table_stopped_by_the_processor_is_held() -> None:
    world = World()
    world.turn(resolved=500)
    stop = TableStop(table="shop.b", ts=250, error=DEFINITE)
    effects = world.reported(400, stopped_tables=[stop], table_checkpoints={"shop.b": 249})
    assert effects.assignment.table_barriers == {"shop.b": 249}
    assert world.status.stopped_tables == [stop]
    assert world.status.checkpoint_ts == 249
    assert world.info.state is FeedState.WARNING


def test_retry_budget_is_the_feeds_own() -> None:
    world = World(policy=RetryPolicy(stuck_s=15))
    world.turn(resolved=500)
    for _ in range(2):
        world.reported(200, error=TRANSIENT, running=False)
        world.now = world.tick.retry.next_ms
        world.turn()
    assert world.info.state is FeedState.FAILED
