"""The owner's pure step: single situations, table-driven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdc.base.position import TransactionName
from cdc.base.ts import MAX_TS
from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig, FilterConfig
from cdc.coord.messages import (
    DdlAction,
    DdlDecision,
    DdlEntries,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    TableStop,
)
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter
from owner.changes import ChangeOutcome
from owner.ddl import Ddl, FeedScope
from owner.retry import RetryPolicy
from owner.state import ACTIVE
from owner.tick import Effects, FeedInput, FeedTick, scan_from, step
from sink.schema_change import Recorded, SchemaChange

NOW = 1_000_000
TRANSIENT = ErrorInfo(code="TG:ErrKafkaGone", kind="transient", message="gone")
DEFINITE = ErrorInfo(code="TG:ErrMessageTooLarge", kind="definite", message="too large")

SCOPE = FeedScope(DdlFilter(FeedConfig(filter=FilterConfig(rules=["shop.*"]))))


def ddl(ts: int, sql: str) -> Ddl:
    """A statement of the log; what catalogs hold does not matter to the owner."""
    session, seen = Session(default_schema="shop"), read_ddl(sql, Session(default_schema="shop"))
    change = SchemaChange(
        ts, sql, seen.kind, seen.tables, seen.schemas, (), session, StatusVariables(), 0,
        Catalog(), Catalog(),
    )  # fmt: skip
    return Ddl(ts, sql, seen, None, change)


def feed(**changes: Any) -> FeedInfo:
    info = FeedInfo(id="f", upstream="u", sink_uri="kafka://k/t", start_ts=100, epoch=5)
    return info.model_copy(update=changes)


class World:
    """One changefeed and its owner, moved by hand."""

    def __init__(self, info: FeedInfo | None = None, **seen: Any) -> None:
        self.info = info or feed()
        self.status = FeedStatus(checkpoint_ts=self.info.start_ts)
        self.tick = FeedTick()
        self.last: Report | None = None
        self.now = NOW
        self.resolved = 100
        self.log: list[Ddl] = []
        self.seen = seen
        self.effects: Effects | None = None
        self.recorded: dict[int, Recorded] | None = {}
        self.outcomes: list[ChangeOutcome] = []
        self.ordered: list[int] = []

    def turn(self, report: Report | None = None, resolved: int | None = None) -> Effects:
        if self.tick.epoch == 0 and self.info.state in ACTIVE:
            # The runner looks again at once when the first tick has begun an epoch.
            self._turn(report, resolved)
        return self._turn(report, resolved)

    def _turn(self, report: Report | None, resolved: int | None) -> Effects:
        self.resolved = self.resolved if resolved is None else resolved
        above = scan_from(self.tick, self.info, self.status)
        seen = FeedInput(
            info=self.info,
            status=self.status,
            report=report,
            resolved_ts=self.resolved,
            ddls_above=above,
            ddls=tuple(d for d in self.log if above < d.ts <= self.resolved),
            scope=SCOPE,
            recorded=self.recorded,
            outcomes=tuple(self.outcomes),
        )
        self.tick, effects = step(self.tick, replace(seen, **self.seen), self.now)
        self.info = effects.info or self.info
        self.status = effects.status or self.status
        self.effects = effects
        self.outcomes = []
        self.ordered += [order.ddl.ts for order in effects.orders]
        return effects

    def done(self, ts: int, error: ErrorInfo | None = None) -> Effects:
        """The executor has ended a change."""
        self.outcomes = [ChangeOutcome(ts, error)]
        return self.turn(self.last)

    def report(self, checkpoint: int, **fields: Any) -> Report:
        fields = {"epoch": self.info.epoch, "running": True} | fields
        return Report(feed="f", checkpoint_ts=checkpoint, **fields)

    def reported(self, checkpoint: int, **fields: Any) -> Effects:
        self.last = self.report(checkpoint, **fields)
        return self.turn(self.last)


def test_a_new_owner_starts_delivery_under_a_new_epoch() -> None:
    world = World()
    effects = world.turn(resolved=200)
    assert world.info.epoch == NOW
    assert effects.assignment.epoch == NOW
    assert effects.assignment.run
    told = effects.assignment
    assert (told.checkpoint_ts, told.judged_ts, told.barrier_ts) == (100, 200, MAX_TS)
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


def test_a_change_stops_its_table_and_no_other_until_it_is_done() -> None:
    world = World()
    world.log = [
        ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT"),
        ddl(310, "CREATE TABLE other.y (i INT)"),
    ]
    effects = world.turn(resolved=500)
    assert (effects.assignment.judged_ts, effects.assignment.barrier_ts) == (500, MAX_TS)
    assert effects.assignment.table_barriers == {"shop.a": 299}
    # What lies above is no news to the processor until there is a DDL among it.
    assert world.turn(resolved=600).assignment == effects.assignment
    world.log.append(ddl(650, "CREATE TABLE other.z (i INT)"))
    assert world.turn(resolved=700).assignment.judged_ts == 700
    world.reported(250)
    assert world.ordered == []
    world.reported(500, table_checkpoints={"shop.a": 299})
    assert world.ordered == [300]
    assert world.status.checkpoint_ts == 299
    assert (world.status.main_ts, world.status.tables) == (500, {"shop.a": 299})
    # nothing is ordered twice, and the table waits while it runs
    effects = world.reported(500, table_checkpoints={"shop.a": 299})
    assert world.ordered == [300]
    assert effects.assignment.table_barriers == {"shop.a": 299}
    assert world.done(300).assignment.table_barriers == {}
    assert world.info.state is FeedState.NORMAL
    world.reported(500)
    assert world.status.checkpoint_ts == 500


def test_a_table_is_not_passed_that_the_processor_does_not_name() -> None:
    world = World()
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.turn(resolved=500)
    world.reported(290)
    assert world.status.checkpoint_ts == 290
    world.reported(500)
    assert world.status.checkpoint_ts == 299


def test_changes_of_a_table_run_one_after_the_other() -> None:
    world = World()
    world.log = [
        ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT"),
        ddl(301, "ALTER TABLE shop.a ADD COLUMN d INT"),
        ddl(302, "ALTER TABLE shop.b ADD COLUMN c INT"),
    ]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299, "shop.b": 301})
    assert world.ordered == [300, 302]
    effects = world.done(300)
    assert effects.assignment.table_barriers == {"shop.a": 300, "shop.b": 301}
    world.reported(500, table_checkpoints={"shop.a": 300, "shop.b": 301})
    assert world.ordered == [300, 302, 301]


def test_a_foreign_key_that_came_after_a_change_was_judged_holds_both_tables_at_it() -> None:
    world = World()
    world.log = [
        ddl(300, "CREATE TABLE shop.b (i INT PRIMARY KEY, FOREIGN KEY (i) REFERENCES a (i))"),
        ddl(310, "ALTER TABLE shop.a ADD COLUMN c INT"),
    ]
    effects = world.turn(resolved=500)
    assert effects.assignment.table_barriers == {"shop.a": 299, "shop.b": 299}
    world.reported(500, table_checkpoints={"shop.a": 299, "shop.b": 299})
    world.seen["scope"] = replace(SCOPE, ties=(("shop.b", "shop.a"),))
    assert world.done(300).assignment.table_barriers == {"shop.a": 309, "shop.b": 309}


def test_what_the_ledger_knows_is_not_run_again_and_its_tables_begin_behind_it() -> None:
    world = World()
    world.recorded = None
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    assert not world.turn(resolved=500).assignment.run
    world.recorded = {300: Recorded.DONE}
    assert not world.turn(resolved=299).assignment.run
    effects = world.turn(resolved=500)
    assert effects.assignment.run
    assert effects.assignment.tables == {"shop.a": 300}
    assert effects.assignment.table_barriers == {}
    world.reported(500)
    assert world.ordered == []
    # The owner that ran it was lost before it could list it; the next ones list it once.
    for _ in range(2):
        shown = world.effects.ddls
        (entry,) = shown.ended
        assert (entry.ts, entry.state, shown.executed) == (300, "done", 1)
        assert entry.why == "found done in the sink's ledger"
        world.tick, world.seen = FeedTick(), {"shown": shown}
        world.turn(resolved=500)


def test_one_that_was_being_executed_is_ordered_again() -> None:
    world = World()
    world.recorded = {300: Recorded.EXECUTING}
    world.log = [ddl(300, "DROP TABLE shop.a")]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    assert world.ordered == [300]


def test_a_schema_level_change_waits_for_all_and_all_for_it() -> None:
    world = World()
    world.log = [
        ddl(200, "CREATE DATABASE other"),
        ddl(300, "DROP DATABASE shop"),
        ddl(400, "CREATE DATABASE shop"),
    ]
    effects = world.turn(resolved=500)
    assert (effects.assignment.barrier_ts, effects.assignment.table_barriers) == (299, {})
    world.reported(299)
    assert world.ordered == [300]
    assert world.done(300).assignment.barrier_ts == 399


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


def test_one_whose_tables_are_known_stops_them_alone() -> None:
    world = World()
    error = ErrorInfo(code="TG:ErrDDLNotUnderstood", kind="definite", message="?")
    world.log = [replace(ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT"), error=error)]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    assert world.ordered == []
    assert [(s.table, s.ts, s.error) for s in world.status.stopped_tables] == [
        ("shop.a", 300, error)
    ]
    assert world.info.state is FeedState.WARNING


def test_a_change_that_the_target_refuses_stops_its_tables_until_resumed() -> None:
    world = World()
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    effects = world.done(300, DEFINITE)
    assert effects.assignment.table_barriers == {"shop.a": 299}
    assert [s.table for s in world.status.stopped_tables] == ["shop.a"]
    assert world.info.state is FeedState.WARNING
    world.info = world.info.model_copy(update={"epoch": world.info.epoch + 1})
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    assert world.ordered == [300, 300]
    world.done(300)
    world.reported(500)
    assert world.status.stopped_tables == []


def test_a_change_that_fails_for_the_worlds_reasons_is_tried_again_later() -> None:
    world = World()
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    world.done(300, TRANSIENT)
    assert world.ordered == [300]
    assert world.info.state is FeedState.NORMAL
    world.now += 400
    world.turn(world.last)
    assert world.ordered == [300]
    world.now += 200
    world.turn(world.last)
    assert world.ordered == [300, 300]


def test_a_sink_that_cannot_be_taken_over_is_backed_off_from() -> None:
    world = World(changer_error=TRANSIENT)
    world.turn(resolved=500)
    world.turn(resolved=500)
    assert world.info.state is FeedState.PENDING


def test_barriers_are_found_again_by_a_new_owner() -> None:
    world = World()
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.turn(resolved=500)
    world.reported(500, table_checkpoints={"shop.a": 299})
    world.tick = FeedTick()
    world.turn()
    effects = world.turn()
    assert effects.assignment.table_barriers == {"shop.a": 299}
    assert (effects.assignment.checkpoint_ts, effects.assignment.tables) == (500, {"shop.a": 299})


def test_a_resumed_feed_never_sees_a_barrier_beyond_what_was_judged_again() -> None:
    world = World()
    world.log = [ddl(300, "ALTER TABLE shop.a ADD COLUMN c INT")]
    world.turn(resolved=500)
    # The API resumed it: a new epoch, while this tick still read the DDLs only above 500.
    world.info = world.info.model_copy(update={"epoch": world.info.epoch + 1})
    above = 500
    seen = FeedInput(world.info, world.status, None, 600, above, (), SCOPE, recorded={})
    world.tick, effects = step(world.tick, seen, NOW)
    assert (effects.assignment.judged_ts, effects.assignment.run) == (100, False)
    effects = world.turn(resolved=600)
    assert (effects.assignment.judged_ts, effects.assignment.run) == (600, True)
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
    assert not world.turn().assignment.run
    # The new epoch has to be judged first.
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


def test_nothing_runs_before_the_log_was_held_against_the_ledger() -> None:
    """A capture whose log is not the one that positions belong to would run it a second time."""
    world = World()
    named = replace(ddl(150, "ALTER TABLE t ADD c INT"), name=TransactionName(150, "0-1", 7, 1))
    world.log = [named]
    world.reported(149, running=False)
    world.turn(world.report(149, running=False), resolved=200)
    assert world.ordered == []
    effects = world.reported(149)
    assert world.ordered == [150]
    # What the ledger is about to know is named in the same step, until it lies behind us.
    assert effects.ddls is not None
    assert effects.ddls.transactions == {150: [150, "0-1", 7, 1]}
    world.done(150)
    world.reported(200)
    assert world.reported(200).ddls.transactions == {}  # type: ignore[union-attr]


def test_a_change_that_an_operator_has_decided_on_is_named() -> None:
    """In another log it would have another ts, and the operator's word would be of none."""
    world = World(decisions={160: DdlDecision(ts=160, action=DdlAction.SKIP)})
    for ts, table in ((150, "t"), (160, "u")):
        name = TransactionName(ts, "0-1", ts, 1)
        world.log.append(replace(ddl(ts, f"ALTER TABLE {table} ADD c INT"), name=name))
    effects = world.turn(resolved=200)
    assert effects.ddls is not None
    assert effects.ddls.transactions == {160: [160, "0-1", 160, 1]}


def test_names_of_changes_outlive_their_owner() -> None:
    name = [150, "0-1", 7, 1]
    world = World(shown=DdlEntries(transactions={90: [90, "0-1", 2, 1], 150: name}))
    world.log = [ddl(150, "ALTER TABLE t ADD c INT")]
    effects = world.turn(resolved=200)
    assert effects.ddls is not None
    assert effects.ddls.transactions == {150: name}
