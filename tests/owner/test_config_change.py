"""Another configuration for a changefeed that runs: at one ts, or not yet; never by timing."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.base.ts import MAX_TS, compose
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    ConfigChange,
    DdlEntries,
    DdlEntry,
    DdlState,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    TableStop,
)
from owner.config_change import ConfigChangeRefused, aimed, check_changeable
from owner.tick import Effects, FeedTick
from tests.owner.test_tick import World, ddl, feed

NEW = {"filter": {"rules": ["shop.new"]}}
ASKED = ConfigChange(sink_uri="kafka://k/t?max-message-bytes=1000000", config=NEW)
RESOLVED = compose(5_000)
WRONG = ErrorInfo(code="TG:ErrX", kind="definite", message="wrong")
STOP = TableStop(table="shop.a", ts=7, error=WRONG)


def world(**more: Any) -> World:
    """A changefeed that is delivered up to what is resolved, and has another configuration due."""
    made = World(feed(start_ts=compose(1_000)), **more)
    made.turn()
    made.turn(made.report(RESOLVED), resolved=RESOLVED)
    made.info = made.info.model_copy(update={"change": ASKED})
    return made


def aim(made: World) -> int:
    """The ts that the owner has chosen."""
    assert made.info.change is not None
    return made.info.change.ts


def stands(made: World, at: int, **more: Any) -> Report:
    """All is delivered up to there, and the processor knows of the barrier."""
    return made.report(at, **({"barrier_ts": at, "furthest_ts": at} | more))


def after(made: World, report: Report, resolved: int) -> Effects:
    made.resolved = resolved
    return made.turn(report)


def taken(made: World) -> bool:
    """Whether the new configuration counts; a mix of both is none."""
    new = made.info.config == NEW
    assert new == (made.info.change is None) == (made.info.sink_uri == ASKED.sink_uri)
    return new


def test_it_waits_at_one_ts_and_begins_there_under_a_new_epoch() -> None:
    made = world()
    effects = made.turn(made.report(RESOLVED))
    at, epoch = aim(made), made.info.epoch
    # Above all that the log has, so above all that was dispatched; nobody goes past it.
    assert at > RESOLVED
    assert (effects.assignment.barrier_ts, effects.assignment.run) == (at, True)
    assert not taken(made)
    after(made, stands(made, at - 1, barrier_ts=at), at + 10)
    assert not taken(made)
    effects = after(made, stands(made, at), at + 10)
    assert taken(made)
    # One transaction has the configuration, the epoch, and that all stands there.
    assert effects.status is not None or made.status.checkpoint_ts == at
    assert (made.status.checkpoint_ts, made.status.main_ts, made.status.tables) == (at, at, {})
    assert made.info.epoch > epoch
    assert not effects.assignment.run
    effects = made.turn(None)
    assert (effects.assignment.checkpoint_ts, effects.assignment.barrier_ts) == (at, MAX_TS)
    assert effects.assignment.run
    assert made.info.state is FeedState.NORMAL


@pytest.mark.parametrize(
    "more",
    [
        {"barrier_ts": MAX_TS},
        {"epoch": 1},
        {"running": False},
        {"table_checkpoints": {"shop.a": 7}},
        {"stopped_tables": [STOP]},
    ],
    ids=["does-not-know", "older-epoch", "not-taken-over", "table-behind", "table-stopped"],
)  # fmt: skip
def test_standing_there_is_not_enough(more: dict[str, Any]) -> None:
    made = world()
    made.turn(made.report(RESOLVED))
    at = aim(made)
    after(made, stands(made, at, **more), at + 10)
    assert not taken(made)


def test_a_ts_that_was_passed_is_given_up() -> None:
    """A window that had begun before the barrier came, or that a ledger alone knows of."""
    for more in ({"checkpoint": 3}, {"checkpoint": 0, "furthest_ts": 3}):
        made = world()
        made.turn(made.report(RESOLVED))
        at = aim(made)
        checkpoint = at + more["checkpoint"]
        report = stands(made, checkpoint, furthest_ts=at + 3, barrier_ts=at)
        after(made, report, at + 10)
        assert not taken(made)
        assert aim(made) > at + 10
        again = aim(made)
        after(made, stands(made, again), again + 10)
        assert taken(made)


def test_schema_changes_up_to_it_are_carried_out_before_and_those_above_behind_it() -> None:
    made = world()
    made.turn(made.report(RESOLVED))
    at = aim(made)
    made.log = [ddl(at, "ALTER TABLE a ADD c INT"), ddl(at + 1, "ALTER TABLE b ADD c INT")]
    made.last = stands(made, at, table_checkpoints={"shop.a": at - 1})
    after(made, made.last, at + 10)
    assert (made.ordered, taken(made)) == ([at], False)
    made.last = stands(made, at)
    made.done(at)
    made.turn(made.last)
    # The one right above is the new configuration's, though its table has come to it.
    assert (made.ordered, taken(made)) == ([at], True)


def test_another_owner_goes_on_with_it() -> None:
    made = world()
    made.turn(made.report(RESOLVED))
    at = aim(made)
    made.tick = FeedTick()
    effects = made.turn(None, resolved=at + 10)
    assert effects.assignment.barrier_ts == aim(made) == at
    after(made, stands(made, at), at + 10)
    assert taken(made)


def test_without_a_log_nothing_is_aimed_at() -> None:
    info = feed(change=ASKED)
    assert aimed(info, None, 0) == info
    assert aimed(feed(), None, RESOLVED) == feed()


def test_none_is_aimed_at_while_a_shard_group_waits() -> None:
    """Its last table may come to the change above the ts only, which nobody would pass."""
    info, report = feed(change=ASKED), None
    assert aimed(info, report, RESOLVED, [RESOLVED - 1]) == info
    there = aimed(info, report, RESOLVED)
    assert there.change is not None
    at = there.change.ts
    assert at > RESOLVED
    # What comes above it is the new configuration's; what comes up to it takes the ts away.
    assert aimed(there, report, at + 1, [at + 1]) == there
    assert aimed(there, report, at, [at, at + 1]) == info


def sharded(**more: Any) -> dict[str, Any]:
    """A configuration that makes tables one."""
    rule = {"matcher": ["shop.*"], "target-table": "whole"}
    given = {"shard_mode": "pessimistic", "sink": {"dispatchers": [rule]}}
    return FeedConfig.model_validate(given | more).model_dump()


def test_shard_groups_keep_their_tables() -> None:
    info = feed(config=sharded())
    nothing, free = FeedStatus(checkpoint_ts=1), DdlEntries()
    rows = {"matcher": ["shop.*"], "ignore_event": ["delete"]}
    others: list[dict[str, Any]] = [
        {"filter": {"event_filters": [rows]}},
        {"sink": info.config["sink"] | {"column-selectors": []}},
    ]
    for more in others:
        asked = ASKED.model_copy(update={"config": sharded(**more)})
        check_changeable(info, nothing, free, asked, copies_rows=False)
    elsewhere = {"matcher": ["shop.*"], "target-table": "other"}
    wrong: list[dict[str, Any]] = [
        {"shard_mode": "optimistic"},
        {"shard_mode": None},
        {"filter": {"rules": ["shop.a"]}},
        {"sink": {"dispatchers": [elsewhere]}},
        {"online_ddl": False},
    ]
    for more in wrong:
        asked = ASKED.model_copy(update={"config": sharded(**more)})
        assert "shard groups" in refused(info, asked=asked), more


def refused(
    info: FeedInfo | None = None, status: FeedStatus | None = None, asked: ConfigChange = ASKED,
    *, ddls: DdlEntries | None = None, copies_rows: bool = False,
) -> str:  # fmt: skip
    nothing = FeedStatus(checkpoint_ts=1)
    with pytest.raises(ConfigChangeRefused) as error:
        check_changeable(
            info or feed(), status or nothing, ddls or DdlEntries(), asked, copies_rows=copies_rows
        )
    return error.value.message


def test_what_cannot_come_to_one_ts_is_refused() -> None:
    check_changeable(feed(), FeedStatus(checkpoint_ts=1), DdlEntries(), ASKED, copies_rows=False)
    assert "shop.a" in refused(status=FeedStatus(checkpoint_ts=1, stopped_tables=[STOP]))
    held = DdlEntry(ts=7, sql="DROP TABLE a", state=DdlState.HELD, tables=["shop.a"])
    assert "is held" in refused(ddls=DdlEntries(pending=[held]))
    assert "copied" in refused(copies_rows=True)
    merging = ASKED.model_copy(update={"config": {"shard_mode": "pessimistic"}})
    assert "shard" in refused(asked=merging)
    elsewhere = ASKED.model_copy(update={"sink_uri": "kafka://other/t"})
    assert "where it is" in refused(asked=elsewhere)
