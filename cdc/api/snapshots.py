"""``/api/v2/changefeeds/{id}/snapshots``: rows that are copied for a changefeed that runs.

Not in TiCDC. What operators order is written here; the owner carries it out and says how far it is.
"""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from cdc.api.answers import Page
from cdc.api.changefeed_models import FeedError
from cdc.api.reading import Reading
from cdc.base.ts import compose, to_text
from cdc.coord.messages import CopyOrder, CopyState, CopyStatus
from cdc.server.capture import Capture
from owner import orders
from owner.requests import NewCopy


class StartSnapshot(BaseModel):
    """``POST /changefeeds/{id}/snapshots``; ``tables``: patterns as in ``filter.rules``.

    ``where`` is SQL of the upstream, "" takes all rows.
    """

    model_config = ConfigDict(extra="forbid")

    tables: list[str] = Field(min_length=1, max_length=1000)
    where: str = Field(default="", max_length=10_000)


class SnapshotOut(BaseModel):
    """One copy of rows. ``table_names`` once they are copied; ``rows`` and ``bytes`` were read.

    ``base_ts`` and ``ts``: between which the rows lie in the order, 0 until all are copied.
    ``reading``: how long it may take, None where nothing is read. ``repairs``: of so many rows a
    verification found that they differ, ``target_only`` of which the upstream did not have; their
    keys are not shown as ``where``.
    """

    id: str
    state: CopyState
    tables: list[str]
    where: str
    repairs: int
    target_only: int
    asked: str
    table_names: list[str]
    table_count: int
    tables_done: int
    rows: int
    bytes: int
    began: str
    ended: str
    base_ts: int
    ts: int
    reading: Reading | None
    error: FeedError | None

    @classmethod
    def of(cls, order: CopyOrder, status: CopyStatus) -> SnapshotOut:
        """From the store's messages."""
        at = status.progress
        return cls(
            id=order.id,
            state=status.state,
            tables=order.tables,
            where="" if order.repairs else order.where,
            repairs=order.repairs,
            target_only=len(order.target_only),
            asked=_time(order.time_ms),
            table_names=status.tables,
            table_count=at.tables if at else 0,
            tables_done=at.tables_done if at else 0,
            rows=at.rows if at else 0,
            bytes=at.bytes if at else 0,
            began=_time(at.began_ms if at else 0),
            ended=_time(at.ended_ms if at else 0),
            base_ts=at.base_ts if at else 0,
            ts=at.ts if at else 0,
            reading=_reading(status),
            error=FeedError.of(status.error),
        )


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds/{feed}/snapshots", tags=["changefeed"])
    store, keys = capture.store, capture.keys

    def shown(feed: str, number: str) -> SnapshotOut:
        found = orders.ordered(store, keys, feed)
        return SnapshotOut.of(orders.one(found, feed, number), found.status(number))

    @routes.get("")
    def list_snapshots(feed: str) -> Page[SnapshotOut]:
        found = orders.ordered(store, keys, feed)
        return Page.of([SnapshotOut.of(order, found.status(order.id)) for order in found.asked])

    @routes.post("")
    def start(feed: str, asked: StartSnapshot) -> SnapshotOut:
        order = capture.operations.copy_rows(feed, NewCopy(asked.tables, asked.where))
        return shown(feed, order.id)

    @routes.get("/{number}")
    def show(feed: str, number: str) -> SnapshotOut:
        return shown(feed, number)

    @routes.post("/{number}/pause")
    def pause(feed: str, number: str) -> SnapshotOut:
        orders.pause(store, keys, feed, number, paused=True)
        return shown(feed, number)

    @routes.post("/{number}/resume")
    def resume(feed: str, number: str) -> SnapshotOut:
        orders.pause(store, keys, feed, number, paused=False)
        return shown(feed, number)

    @routes.post("/{number}/cancel")
    def cancel(feed: str, number: str) -> SnapshotOut:
        orders.cancel(store, keys, feed, number)
        return shown(feed, number)

    return routes


def _reading(status: CopyStatus) -> Reading | None:
    if status.state not in (CopyState.COPYING, CopyState.PAUSED):
        return None
    return Reading.of(status.progress, paused=status.state is CopyState.PAUSED)


def _time(ms: int) -> str:
    return to_text(compose(ms)) if ms else ""
