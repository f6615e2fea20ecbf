"""``/api/v2/changefeeds/{id}/tables``: where each table stands and, if it waits, why.

Not in TiCDC. Those that wait are told from what the owner writes; only a question about all tables
reads the dictionary of the change log.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from fastapi import APIRouter
from pydantic import BaseModel

from cdc.api import progress
from cdc.api.answers import Page
from cdc.api.changefeed_models import FeedError
from cdc.api.paging import AskedPart
from cdc.base.ts import to_text
from cdc.coord.messages import DdlEntries, DdlEntry, FeedStatus, TableStop
from cdc.coord.stored import read
from cdc.server.capture import Capture
from owner import admin

ALL = "*"
"""Stands in a schema change for all tables of the changefeed."""


class TableState(StrEnum):
    """Where a table is: with the others, held back, behind or ahead of them, or stopped."""

    DELIVERING = "delivering"
    WAITING = "waiting"
    APART = "apart"
    STOPPED = "stopped"


class TablesAsked(StrEnum):
    """Which tables are asked for; ``pending``: all that are not with the others."""

    PENDING = "pending"
    WAITING = "waiting"
    APART = "apart"
    STOPPED = "stopped"
    ALL = "all"


class TableOut(BaseModel):
    """One table; ``*`` stands for all. All of it up to ``checkpoint_ts`` is delivered.

    ``ddl_ts`` is the schema change that it waits for, 0 if none.
    """

    table: str
    state: TableState
    checkpoint_ts: int
    checkpoint_time: str
    why: str
    ddl_ts: int
    error: FeedError | None

    @classmethod
    def of(cls, place: _Place) -> TableOut:
        """From where it stands."""
        held, stop = place.held, place.stop
        return cls(
            table=place.table,
            state=place.state,
            checkpoint_ts=place.at,
            checkpoint_time=to_text(place.at) if place.at else "",
            why=place.why,
            ddl_ts=held.ts if held is not None and stop is None else 0,
            error=FeedError.of(stop.error) if stop is not None else None,
        )


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds/{feed}/tables", tags=["changefeed"])

    @routes.get("")
    def list_tables(
        feed: str, part: AskedPart, state: TablesAsked = TablesAsked.PENDING
    ) -> Page[TableOut]:
        store, keys = capture.store, capture.keys
        info = admin.get(store, keys, feed)[1]
        entry = store.get(keys.feed_ddls(feed))
        found = standing(
            admin.status(store, keys, info),
            read(entry, DdlEntries) if entry else DdlEntries(),
            progress.table_ids(capture, info).values() if state is TablesAsked.ALL else [],
        )
        asked = [t for t in found if _asked_for(t.state, state) and part.has(t.table)]
        return Page(total=len(asked), items=[TableOut.of(t) for t in part.of(asked)])

    return routes


def _asked_for(found: TableState, asked: TablesAsked) -> bool:
    if asked is TablesAsked.PENDING:
        return found is not TableState.DELIVERING
    return asked is TablesAsked.ALL or found.value == asked.value


class _Place(NamedTuple):
    """A table before it is asked for: of 100,000 only a page is laid out."""

    table: str
    at: int
    others: int
    held: DdlEntry | None
    stop: TableStop | None

    @property
    def state(self) -> TableState:
        if self.stop is not None:
            return TableState.STOPPED
        if self.held is not None:
            return TableState.WAITING
        return TableState.DELIVERING if self.at == self.others else TableState.APART

    @property
    def why(self) -> str:
        if self.stop is not None:
            return self.stop.error.message
        if self.held is not None:
            return f"for a schema change that is {self.held.state}"
        if self.at == self.others:
            return ""
        return "catches up" if self.at < self.others else "waits for the others"


def standing(status: FeedStatus, ddls: DdlEntries, names: Iterable[str]) -> list[_Place]:
    """Where the tables stand that are not with the others, and those of ``names``."""
    stopped = {s.table.lower(): s for s in status.stopped_tables}
    held: dict[str, DdlEntry] = {}
    shown = {name.lower(): name for name in names}
    for entry in sorted(ddls.pending, key=lambda e: e.ts):
        for table in entry.tables:
            held.setdefault(table.lower(), entry)
            shown.setdefault(table.lower(), table)
    for table in (*(s.table for s in status.stopped_tables), *status.tables):
        shown.setdefault(table.lower(), table)
    others = status.main_ts or status.checkpoint_ts
    of_all = held.get(ALL)
    return [
        _Place(
            name, status.tables.get(key, others), others, held.get(key, of_all), stopped.get(key)
        )
        for key, name in sorted(shown.items())
    ]
