"""Rows that were lost in the middle of their delivery: what is copied again, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from cdc.coord.contract import Put
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    CopiedRows,
    CopiedTable,
    CopyOrder,
    CopyReport,
    CopyState,
    CopyStatus,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    RowsAgain,
    SnapshotProgress,
)
from owner import orders, rows_again
from owner.copies import Orders
from owner.orders import CopyNotCancelled
from owner.rows_again import CopyAgainRefused
from tests.owner.operating import Installation, schema_of
from tests.owner.test_operations import here, sink
from tests.owner.test_tick import DEFINITE, World, feed

__all__ = ["here", "sink"]

NAME = [198, "0-1", 8, -1]
COPIED = CopiedRows(
    base_ts=190,
    ts=200,
    rows=60,
    tables=[
        CopiedTable(name="shop.A", last_ts=193, rows=10),
        CopiedTable(name="shop.none", last_ts=193, rows=0),
        CopiedTable(name="shop.b", last_ts=196, rows=20),
        CopiedTable(name="shop.c", last_ts=198, rows=30),
    ],
    transactions={200: NAME},
)
ORDER = CopyOrder(id="1", tables=["*.*"], again=True)
AGAIN = RowsAgain(order="1", main_ts=194, rows=20, time_ms=7)
LOST = ErrorInfo(code="TG:ErrSnapshotLost", kind="definite", message="m")


def _status(main: int, **tables: int) -> FeedStatus:
    lower = {f"shop.{name}": ts for name, ts in tables.items()}
    least = min([main, *lower.values()])
    return FeedStatus(checkpoint_ts=least, main_ts=main, tables=lower, transactions={main: NAME})


def test_a_table_has_its_rows_where_it_stands_behind_the_last_of_them() -> None:
    assert rows_again.delivered(_status(192), COPIED) == set()
    assert rows_again.delivered(_status(193), COPIED) == {"shop.A", "shop.none"}
    assert rows_again.delivered(_status(196, a=191), COPIED) == {"shop.none", "shop.b"}


def test_so_many_rows_come_twice_as_some_destination_may_have() -> None:
    left = {"shop.b", "shop.c"}
    assert rows_again.repeated(_status(193), COPIED, (), left) == 0
    assert rows_again.repeated(_status(194), COPIED, (), left) == 20
    # One is ahead of what was written down of the progress.
    assert rows_again.repeated(_status(194), COPIED, (196, 197), left) == 50
    # Of too many tables nothing is known but their rows.
    many = COPIED.model_copy(update={"tables": []})
    assert rows_again.delivered(_status(199), many) == set()
    assert rows_again.repeated(_status(191), many, (), left) == 60


def test_it_goes_on_behind_the_rows_where_the_transaction_is_known() -> None:
    after = rows_again.behind(_status(194, a=191, b=300), COPIED)
    assert (after.checkpoint_ts, after.main_ts, after.tables) == (200, 200, {"shop.b": 300})
    assert after.transactions == {200: NAME}


def _lacking(mode: str = "initial", **more: Any) -> World:
    config = FeedConfig.model_validate({"snapshot": {"mode": mode}}).model_dump(mode="json")
    info = feed(config=config, start_ts=190, snapshot_ts=200, rows_delivered=True, **more)
    world = World(info.model_copy(update={"again": AGAIN}), resolved_ts=400)
    world.status = _status(200)
    world.seen["orders"] = Orders((ORDER,), {})
    world.turn()
    return world


def _read(**more: Any) -> CopyReport:
    tables = ["shop.b", "shop.c"] if "ts" in more else []
    return CopyReport(id="1", progress=SnapshotProgress(**more), tables=tables)


def _deliver(world: World, at: int) -> None:
    """Rows are read and have their place; then all is delivered up to ``at``."""
    world.reported(300, copied=_read(base_ts=390, ts=395))
    status = CopyStatus(id="1", state=CopyState.DELIVERING, tables=["shop.b", "shop.c"])
    world.seen["orders"] = Orders((ORDER,), {"1": status})
    world.turn()
    world.reported(at)


def test_the_sink_bears_what_is_there_until_all_rows_are() -> None:
    world = _lacking()
    told = world.turn().assignment
    assert (told.repeatable, told.copy_order) == (True, ORDER)
    _deliver(world, 394)
    assert world.effects is not None
    assert world.effects.assignment.repeatable
    told = world.reported(395).assignment
    assert (told.repeatable, told.piece) == (False, None)
    assert world.info.again == AGAIN.model_copy(update={"delivered": True})


def test_without_the_rows_it_does_not_end() -> None:
    world = _lacking(target_ts=300)
    world.reported(300, copied=_read(rows=5))
    assert (world.info.state, world.info.error and world.info.error.code) == (
        FeedState.FAILED,
        "TG:ErrSnapshotPastTarget",
    )
    # Rows alone end where they lie, which is known once they are read.
    world = _lacking("only")
    assert world.reported(300, copied=_read(rows=5)).info is None
    _deliver(world, 394)
    assert (world.info.state, world.info.target_ts) == (FeedState.NORMAL, 395)
    world.reported(395)
    assert world.info.state is FeedState.FINISHED
    assert not world.info.lacks_rows


def test_rows_that_cannot_be_read_end_it_and_are_tried_again() -> None:
    world = _lacking()
    world.reported(300, copied=_read().model_copy(update={"error": DEFINITE}))
    assert (world.info.state, world.info.error) == (FeedState.FAILED, DEFINITE)
    assert world.effects is not None
    assert all(s.state is CopyState.COPYING for s in world.effects.copies.values())


def _lost(here: Installation, sink: str, **config: Any) -> FeedInfo:
    """A changefeed that has lost its rows, and what was copied for it."""
    here.schema = schema_of(dict.fromkeys(("A", "b", "c"), "id INT PRIMARY KEY, v INT"))
    made = here.create("f", sink, replica_config={"snapshot": {"mode": "initial", **config}})
    state = {"start_ts": 190, "snapshot_ts": 200, "state": FeedState.FAILED, "error": LOST}
    lost = made.model_copy(update=state)
    _put(here, lost, _status(194))
    here.store.txn([], [Put(here.keys.copied_rows("f"), COPIED.model_dump_json().encode())])
    return lost


def _put(here: Installation, info: FeedInfo, status: FeedStatus) -> None:
    here.store.txn(
        [],
        [
            Put(here.keys.feed_info("f"), info.model_dump_json().encode()),
            Put(here.keys.feed_status("f"), status.model_dump_json().encode()),
        ],
    )


def test_an_operator_has_them_copied_again(here: Installation, sink: str) -> None:
    lost = _lost(here, sink, where="id > 7")
    made = here.operations.copy_again("f")
    assert (made.state, made.error, made.rows_delivered) == (FeedState.NORMAL, None, True)
    assert made.epoch > lost.epoch
    assert made.again is not None
    assert (made.again.order, made.again.main_ts, made.again.rows) == ("1", 194, 20)
    assert made.lacks_rows
    (order,) = orders.ordered(here.store, here.keys, "f").asked
    assert (order.tables, order.where, order.again) == (["*.*"], "id > 7", True)
    with pytest.raises(CopyNotCancelled):
        orders.cancel(here.store, here.keys, "f", "1")
    # It has its rows now, as far as anybody knows.
    _put(here, made.model_copy(update={"state": FeedState.STOPPED}), _status(300))
    with pytest.raises(CopyAgainRefused):
        here.operations.copy_again("f")


def test_where_every_table_has_its_rows_nothing_is_copied(here: Installation, sink: str) -> None:
    _put(here, _lost(here, sink), _status(198))
    made = here.operations.copy_again("f")
    assert made.again is not None
    assert (made.again.order, made.again.rows, made.again.delivered) == ("", 0, True)
    assert orders.ordered(here.store, here.keys, "f").asked == []


def test_what_is_not_lost_or_not_known_is_refused(here: Installation, sink: str) -> None:
    lost = _lost(here, sink)
    for change in ({"error": DEFINITE}, {"snapshot_ts": 201}, {"rows_delivered": True}):
        _put(here, lost.model_copy(update=change), _status(194))
        with pytest.raises(CopyAgainRefused):
            here.operations.copy_again("f")
