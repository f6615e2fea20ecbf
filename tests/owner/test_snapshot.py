"""A changefeed that copies rows first: what its owner does, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import TidegateError
from cdc.base.ts import MAX_TS
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedState, SnapshotProgress
from owner import admin
from owner.requests import ChangefeedUpdate
from tests.owner.operating import Installation, schema_of
from tests.owner.test_operations import here, paused, sink, stored
from tests.owner.test_tick import DEFINITE, TRANSIENT, World, ddl, feed

__all__ = ["here", "sink"]

NAME = [190, "0-1", 7, -1]


def _copying(mode: str = "initial") -> World:
    config = FeedConfig.model_validate({"snapshot": {"mode": mode}}).model_dump(mode="json")
    # The runner shows nothing of the log to a changefeed that copies.
    world = World(feed(config=config), resolved_ts=0, recorded=None)
    world.turn()
    return world


def _copied(world: World) -> None:
    done = SnapshotProgress(tables=2, tables_done=2, rows=10, base_ts=190, ts=200)
    world.reported(100, snapshot=done, transactions={190: NAME})


def test_a_copy_runs_before_anything_is_judged() -> None:
    world = _copying()
    world.log = [ddl(150, "ALTER TABLE shop.a ADD COLUMN c INT")]
    effects = world.reported(100, snapshot=SnapshotProgress(tables=2, rows=5))
    assert effects.assignment.run
    assert world.ordered == []
    assert (world.status.checkpoint_ts, world.info.state) == (100, FeedState.NORMAL)
    assert world.status.snapshot == SnapshotProgress(tables=2, rows=5)


def test_delivery_begins_at_the_rows_under_a_new_epoch() -> None:
    world = _copying()
    epoch = world.info.epoch
    _copied(world)
    assert (world.info.start_ts, world.info.snapshot_ts) == (190, 200)
    assert world.info.epoch > epoch
    assert world.info.target_ts == 0
    assert not world.info.copies
    assert (world.status.checkpoint_ts, world.status.main_ts) == (190, 190)
    assert world.status.transactions == {190: NAME}
    assert world.effects is not None
    assert not world.effects.assignment.run
    # What the log holds above the rows is judged, and nothing below them.
    world.seen = {}
    world.recorded = {}
    world.log = [ddl(150, "DROP TABLE shop.a"), ddl(300, "DROP TABLE shop.b")]
    told = world.turn(resolved=400).assignment
    assert (told.run, told.checkpoint_ts, told.barrier_ts) == (True, 190, MAX_TS)
    assert told.table_barriers == {"shop.b": 299}


def test_a_report_of_another_epoch_begins_nothing() -> None:
    world = _copying()
    done = SnapshotProgress(base_ts=190, ts=200)
    world.turn(world.report(100, epoch=5, snapshot=done))
    assert world.info.copies
    assert world.info.start_ts == 100


def test_only_rows_have_an_end() -> None:
    world = _copying("only")
    _copied(world)
    assert world.info.target_ts == 200


def test_a_copy_that_fails_is_tried_again_or_not() -> None:
    world = _copying()
    world.reported(100, error=TRANSIENT)
    assert world.info.state is FeedState.PENDING
    epoch, world.now = world.info.epoch, world.now + 60_000
    world.turn()
    assert (world.info.state, world.info.copies) == (FeedState.WARNING, True)
    assert world.info.epoch > epoch
    world.reported(100, error=DEFINITE)
    assert world.info.state is FeedState.FAILED
    assert not world.turn().assignment.run


def test_a_binlog_takes_no_rows_without_a_name(here: Installation, tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match="takes no rows") as refused:
        here.create("f", f"binlog://{tmp_path}/b", replica_config={"snapshot": {"mode": "only"}})
    assert refused.value.code == "TG:ErrSnapshotNotPossible"


def test_what_cannot_be_copied_is_refused(here: Installation, sink: str) -> None:
    here.schema = schema_of({"keyed": "i INT NOT NULL, PRIMARY KEY (i)", "t": "i INT"})

    def create(start_ts: int = 0, **config: Any) -> None:
        config = {"force-replicate": True, "snapshot": {"mode": "initial"}} | config
        here.create("f", sink, start_ts=start_ts, replica_config=config)

    for wrong, code in (
        (lambda: create(start_ts=2000), "TG:ErrSnapshotNotPossible"),
        (create, "TG:ErrSnapshotNotPossible"),
        (lambda: create(snapshot={"mode": "all"}), "TG:ErrConfigInvalid"),
        (lambda: create(snapshot={"modus": "all"}), "TG:ErrConfigUnknownKey"),
        (
            lambda: create(snapshot={"mode": "initial", "tables": ["a"]}),
            "TG:ErrFilterRuleInvalid",
        ),
    ):
        with pytest.raises(TidegateError) as refused:
            wrong()
        assert refused.value.code == code
    create(snapshot={"mode": "initial", "tables": ["*.*", "!shop.t"]})
    assert stored(here, "f").copies


def test_whether_rows_are_copied_is_said_once(here: Installation, sink: str) -> None:
    before = paused(here, sink)
    config = {"snapshot": {"mode": "initial"}}
    with pytest.raises(TidegateError) as refused:
        here.operations.update("f", ChangefeedUpdate(replica_config=config))
    assert refused.value.code == "TG:ErrSnapshotNotPossible"
    assert stored(here, "f") == before


def test_from_another_ts_nothing_is_copied(here: Installation, sink: str) -> None:
    paused(here, sink, replica_config={"snapshot": {"mode": "initial"}})
    after = admin.resume(here.store, here.keys, "f", here.clock.now_ms(), 5000)
    assert (after.start_ts, after.copies, after.snapshot_ts) == (5000, False, 5000)
