"""A changefeed that copies rows first: what its owner does, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import TidegateError
from cdc.base.ts import MAX_TS
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    CopyOrder,
    CopyReport,
    CopyState,
    CopyStatus,
    FeedState,
    FeedStatus,
    RowsPiece,
    SnapshotProgress,
)
from owner import admin, orders
from owner.copies import CopyTurn, Orders, advance
from owner.requests import ChangefeedUpdate, NewCopy
from tests.owner.operating import Installation, schema_of
from tests.owner.test_operations import here, paused, sink, stored
from tests.owner.test_tick import DEFINITE, TRANSIENT, World, ddl, feed

__all__ = ["here", "sink"]

NAME = [190, "0-1", 7, -1]


def _copying(mode: str = "initial", target_ts: int = 0, *, create_tables: bool = False) -> World:
    snapshot = {"mode": mode, "create_tables": create_tables}
    config = FeedConfig.model_validate({"snapshot": snapshot}).model_dump(mode="json")
    # The runner shows nothing of the log to a changefeed that copies.
    world = World(feed(config=config, target_ts=target_ts), resolved_ts=0, recorded=None)
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


def test_rows_are_given_back_by_what_is_written_with_the_progress_behind_them() -> None:
    world = _copying()
    _copied(world)
    world.turn(resolved=400)
    told = world.reported(300, table_checkpoints={"shop.a": 199}).assignment
    assert (told.rows_delivered, world.info.rows_delivered) == (False, False)
    effects = world.reported(310, table_checkpoints={"shop.a": 200})
    assert effects.assignment.rows_delivered
    # A change of the changefeed is written durably, and the progress in the same transaction.
    assert effects.info is not None
    assert effects.info.rows_delivered
    assert effects.status is not None
    assert effects.status.tables == {"shop.a": 200}
    assert world.reported(320).info is None


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
    world.turn(resolved=400)
    told = world.reported(200).assignment
    assert world.info.state is FeedState.FINISHED
    # Nobody runs it any more who could see that later.
    assert (told.run, told.rows_delivered) == (False, True)


@pytest.mark.parametrize("mode", ["initial", "only"])
def test_tables_get_their_indexes_between_rows_and_changes(mode: str) -> None:
    world = _copying(mode, create_tables=True)
    _copied(world)
    world.seen, world.recorded = {}, {}
    world.log = [ddl(300, "DROP TABLE shop.b")]
    told = world.turn(resolved=400).assignment
    assert (told.run, told.barrier_ts, world.info.indexes_due) == (True, 200, True)
    # Rows of a table are still to come: nobody goes beyond.
    told = world.reported(200, table_checkpoints={"shop.a": 199}).assignment
    assert (told.run, told.barrier_ts, world.info.rows_delivered) == (True, 200, False)
    epoch = world.info.epoch
    world.reported(200)
    assert (world.info.rows_delivered, world.info.indexes_due) == (True, True)
    assert world.info.epoch > epoch
    # The sink is being taken over, which adds them; a new owner would begin with that, too.
    world.recorded = None
    told = world.turn(resolved=500).assignment
    assert (told.run, told.barrier_ts, world.info.indexes_due) == (False, 200, True)
    assert world.info.state is FeedState.NORMAL
    world.recorded = {}
    told = world.turn(resolved=500).assignment
    assert not world.info.indexes_due
    if mode == "only":
        assert world.info.state is FeedState.FINISHED
        return
    assert (told.run, told.barrier_ts) == (True, MAX_TS)
    assert told.table_barriers == {"shop.b": 299}


def test_indexes_that_cannot_be_added_are_an_error_and_stay_due() -> None:
    world = _copying(create_tables=True)
    _copied(world)
    world.seen, world.recorded = {}, {}
    world.turn(resolved=400)
    world.reported(200)
    world.seen, world.recorded = {"changer_error": TRANSIENT}, None
    world.turn(resolved=400)
    assert world.info.state is FeedState.PENDING
    assert world.info.indexes_due


@pytest.mark.parametrize("target_ts", [150, 190, 195, 199])
def test_rows_above_the_end_of_a_changefeed_are_no_end(target_ts: int) -> None:
    world = _copying(target_ts=target_ts)
    _copied(world)
    assert world.info.state is FeedState.FAILED
    assert world.info.error is not None
    assert world.info.error.code == "TG:ErrSnapshotPastTarget"
    # Resumed with a later end it copies anew.
    assert world.info.copies
    assert not world.turn().assignment.run


def test_an_end_at_or_above_the_rows_is_one() -> None:
    world = _copying(target_ts=200)
    _copied(world)
    assert (world.info.state, world.info.target_ts) == (FeedState.NORMAL, 200)
    # Rows alone end where they lie.
    world = _copying("only", target_ts=150)
    _copied(world)
    assert (world.info.state, world.info.target_ts) == (FeedState.NORMAL, 200)


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
    snapshot = {"mode": "initial", "tables": ["*.*", "!shop.t"]}
    with pytest.raises(TidegateError, match="this sink appends") as refused:
        create(snapshot=snapshot | {"on-existing": "upsert"})
    assert refused.value.code == "TG:ErrSinkOptionNotSupported"
    create(snapshot=snapshot)
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


def _ordered(*orders: CopyOrder) -> World:
    world = World(resolved_ts=500)
    world.seen["orders"] = Orders(orders)
    world.turn()
    return world


def _know(world: World, *orders: CopyOrder) -> None:
    """What the owner has written is what it sees next."""
    assert world.effects is not None
    before = world.seen["orders"]
    world.seen["orders"] = Orders(orders or before.asked, {**before.known, **world.effects.copies})


def _state(world: World, number: str) -> CopyState:
    _know(world)
    return world.seen["orders"].status(number).state


def _read(**more: Any) -> CopyReport:
    at = SnapshotProgress(low_ts=150, **more)
    return CopyReport(id="1", progress=at, tables=["shop.a"] if at.ts else [])


FIRST, SECOND = CopyOrder(id="1", tables=["shop.a"]), CopyOrder(id="2", tables=["shop.b"])


def test_rows_of_a_table_are_copied_beside_and_then_have_a_place() -> None:
    world = _ordered(FIRST, SECOND)
    assert world.effects is not None
    assert world.effects.assignment.copy_order == FIRST
    assert _state(world, "2") is CopyState.WAITING
    world.reported(300, copied=_read(rows=5))
    # The copy needs the log from where it began, though the checkpoint is ahead.
    assert (world.status.checkpoint_ts, world.status.needed_ts) == (300, 150)
    assert _state(world, "1") is CopyState.COPYING
    epoch = world.info.epoch
    copied = _read(rows=5, base_ts=390, ts=400)
    told = world.reported(450, copied=copied, table_checkpoints={"shop.a": 380}).assignment
    assert not told.run
    assert world.info.epoch > epoch
    assert world.info.piece == RowsPiece(id="1", tables=["shop.a"], base_ts=390, ts=400)
    assert world.status.tables == {"shop.a": 380}
    assert _state(world, "1") is CopyState.DELIVERING
    told = world.turn().assignment
    assert (told.run, told.piece, told.copy_order) == (True, world.info.piece, None)
    assert told.tables == {"shop.a": 380}
    world.reported(460, table_checkpoints={"shop.a": 399})
    assert world.info.piece is not None
    told = world.reported(470, table_checkpoints={"shop.a": 400}).assignment
    assert (world.info.piece, told.piece) == (None, None)
    assert _state(world, "1") is CopyState.DELIVERED
    # Its turn comes, in the same epoch.
    assert world.reported(480).assignment.copy_order == SECOND
    assert told.run


def test_a_paused_copy_keeps_what_was_read_and_its_turn() -> None:
    world, paused = _ordered(FIRST, SECOND), FIRST.model_copy(update={"paused": True})
    world.reported(300, copied=_read(rows=5))
    _know(world, paused, SECOND)
    told = world.reported(310, copied=_read(rows=7)).assignment
    assert (told.copy_order, world.status.needed_ts) == (paused, 150)
    assert (_state(world, "1"), _state(world, "2")) == (CopyState.PAUSED, CopyState.WAITING)
    # A capture that knows nothing of it begins anew, and waits before it reads.
    assert world.reported(320).assignment.copy_order == paused
    _know(world, FIRST, SECOND)
    assert world.reported(330, copied=_read(rows=7)).assignment.copy_order == FIRST
    assert _state(world, "1") is CopyState.COPYING


def test_a_copy_that_is_paused_before_it_has_begun_keeps_no_log() -> None:
    paused = FIRST.model_copy(update={"paused": True})
    world = _ordered(paused)
    told = world.reported(300).assignment
    assert (told.copy_order, world.status.needed_ts) == (None, 300)
    assert _state(world, "1") is CopyState.PAUSED
    _know(world, FIRST)
    assert world.reported(310).assignment.copy_order == FIRST
    _know(world, paused.model_copy(update={"cancelled": True}))
    assert world.reported(320).assignment.copy_order is None
    assert _state(world, "1") is CopyState.CANCELLED


def test_rows_that_are_lost_are_copied_again() -> None:
    world = _ordered(FIRST)
    copied = _read(base_ts=390, ts=400)
    world.reported(450, copied=copied, table_checkpoints={"shop.a": 380})
    _know(world)
    world.turn()
    epoch = world.info.epoch
    lost = CopyReport(id="1", lost=True)
    world.reported(450, running=False, copied=lost, table_checkpoints={"shop.a": 380})
    assert world.info.piece is None
    assert world.info.epoch > epoch
    assert world.status.tables == {"shop.a": 380}
    _know(world)
    told = world.turn().assignment
    assert (told.run, told.copy_order, told.tables) == (True, FIRST, {"shop.a": 380})


def test_a_copy_that_fails_for_good_leaves_the_changefeed_alone() -> None:
    world = _ordered(FIRST, SECOND)
    world.reported(300, copied=_read().model_copy(update={"error": TRANSIENT}))
    assert _state(world, "1") is CopyState.COPYING
    world.reported(310, copied=_read().model_copy(update={"error": DEFINITE}))
    assert _state(world, "1") is CopyState.FAILED
    assert world.info.state is FeedState.NORMAL
    assert world.reported(320).assignment.copy_order == SECOND


def test_a_copy_that_is_cancelled_ends_unless_it_is_delivered() -> None:
    world = _ordered(FIRST)
    _know(world, FIRST.model_copy(update={"cancelled": True}))
    assert world.reported(300, copied=_read(rows=5)).assignment.copy_order is None
    assert _state(world, "1") is CopyState.CANCELLED
    world = _ordered(FIRST)
    world.reported(450, copied=_read(base_ts=390, ts=400), table_checkpoints={"shop.a": 380})
    _know(world, FIRST.model_copy(update={"cancelled": True}))
    world.reported(460, table_checkpoints={"shop.a": 380})
    assert _state(world, "1") is CopyState.DELIVERING
    world.reported(470)
    assert _state(world, "1") is CopyState.DELIVERED


def test_what_has_no_place_before_the_end_of_the_changefeed_is_cancelled() -> None:
    def ended(piece: RowsPiece | None, state: CopyState) -> CopyTurn:
        finished = feed(state=FeedState.FINISHED, target_ts=400, piece=piece)
        orders = Orders((FIRST, SECOND), {"1": CopyStatus(id="1", state=state, tables=["shop.a"])})
        return advance(finished, FeedStatus(checkpoint_ts=400, main_ts=400), None, orders)

    def states(turn: CopyTurn) -> dict[str, CopyState]:
        return {number: status.state for number, status in turn.statuses.items()}

    cancelled = {"1": CopyState.CANCELLED, "2": CopyState.CANCELLED}
    assert states(ended(None, CopyState.COPYING)) == cancelled
    above = ended(RowsPiece(id="1", tables=["shop.a"], base_ts=390, ts=410), CopyState.DELIVERING)
    assert (states(above), above.piece, above.ends) == (cancelled, None, True)
    below = ended(RowsPiece(id="1", tables=["shop.a"], base_ts=390, ts=400), CopyState.DELIVERING)
    assert (states(below), below.ends) == (cancelled | {"1": CopyState.DELIVERED}, True)
    assert states(ended(None, CopyState.DELIVERED)) == {"2": CopyState.CANCELLED}


def test_a_snapshot_that_cannot_be_is_refused(here: Installation, sink: str) -> None:
    here.schema = schema_of({"keyed": "i INT NOT NULL, PRIMARY KEY (i)", "t": "i INT"})
    here.create("f", sink, replica_config={"force-replicate": True})
    for patterns, code in (
        (["shop.none"], "TG:ErrSnapshotNotPossible"),
        (["shop.t"], "TG:ErrSnapshotNotPossible"),
        (["shop"], "TG:ErrFilterRuleInvalid"),
    ):
        with pytest.raises(TidegateError) as refused:
            here.operations.copy_rows("f", NewCopy(patterns))
        assert refused.value.code == code
    order = here.operations.copy_rows("f", NewCopy(["shop.k*"]))
    assert here.operations.copy_rows("f", NewCopy(["shop.k*"])).id == "2"
    for wanted in (True, True, False):
        found = orders.pause(here.store, here.keys, "f", order.id, paused=wanted)
        assert (found.paused, found.tables) == (wanted, ["shop.k*"])
    assert orders.cancel(here.store, here.keys, "f", order.id).cancelled
    with pytest.raises(TidegateError) as refused:
        orders.pause(here.store, here.keys, "f", order.id, paused=True)
    assert refused.value.code == "TG:ErrSnapshotNotPaused"
    with pytest.raises(TidegateError) as refused:
        orders.cancel(here.store, here.keys, "f", "3")
    assert refused.value.code == "TG:ErrSnapshotNotExists"
    here.operations.remove("f")
    assert not here.store.range(here.keys.copy_orders_prefix("f"))[1]
