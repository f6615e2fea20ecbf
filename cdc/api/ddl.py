"""``/api/v2/changefeeds/{id}/ddls``: schema changes that wait, and the operator's word on them.

Not in TiCDC. The owner writes what it sees, and reads decisions; this only passes them on.
"""

from __future__ import annotations

import logging
from typing import Literal

from fastapi import APIRouter

from cdc.api.ddl_models import DdlOut, DdlPage, Decide
from cdc.api.errors import DdlNotFound, DdlNotPending
from cdc.api.paging import AskedPart, ListPart
from cdc.base.secrets import mask_sql
from cdc.coord.contract import Put, Unchanged
from cdc.coord.messages import DdlAction, DdlDecision, DdlEntries, DdlState
from cdc.coord.stored import read
from cdc.server.capture import Capture
from owner import admin
from owner.admin import StoreBusy

_log = logging.getLogger("api")

_ATTEMPTS = 50


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds/{feed}/ddls", tags=["changefeed"])

    @routes.get("")
    def list_ddls(
        feed: str, part: AskedPart, state: Literal["pending", "all"] | DdlState = "pending"
    ) -> DdlPage:
        return _page(capture, feed, state, part)

    @routes.get("/{ts}")
    def query(feed: str, ts: int) -> DdlOut:
        return _one(capture, feed, ts)

    @routes.post("/{ts}/{action}")
    def decide(feed: str, ts: int, action: DdlAction, asked: Decide | None = None) -> DdlOut:
        _decide(capture, feed, ts, action, (asked or Decide()).reason)
        return _one(capture, feed, ts)

    return routes


def _page(capture: Capture, feed: str, state: str, part: ListPart) -> DdlPage:
    info = admin.get(capture.store, capture.keys, feed)[1]
    _, known = ddls_of(capture, feed)
    shown = known.pending if state == "pending" else [*known.pending, *known.ended]
    if state in tuple(DdlState):
        shown = [e for e in shown if e.state == state]
    # As it is shown: what is masked cannot be guessed letter by letter.
    shown = [e for e in shown if part.has(mask_sql(e.sql))]
    said = _decisions(capture, feed)
    return DdlPage(
        total=len(shown),
        items=[DdlOut.of(e, said.get(e.ts)) for e in part.of(shown)],
        policy=str(info.config.get("ddl_policy", "auto")),
        executed=known.executed,
        skipped=known.skipped,
        ignored=known.ignored,
    )


def _one(capture: Capture, feed: str, ts: int) -> DdlOut:
    admin.get(capture.store, capture.keys, feed)
    _, known = ddls_of(capture, feed)
    for entry in (*known.pending, *known.ended):
        if entry.ts == ts:
            return DdlOut.of(entry, _decisions(capture, feed).get(ts))
    raise DdlNotFound(
        "the owner knows no schema change of this ts",
        object=f"changefeed {feed}, ts {ts}",
        hint="cdc cli ddl list --all shows those that it knows",
    )


def _decide(capture: Capture, feed: str, ts: int, action: DdlAction, reason: str) -> None:
    """Write the decision, if the change is still pending when it is written."""
    store, keys = capture.store, capture.keys
    admin.get(store, keys, feed)
    now_ms = capture.clock.now_ms()
    for _ in range(_ATTEMPTS):
        revision, known = ddls_of(capture, feed)
        entry = next((e for e in known.pending if e.ts == ts), None)
        if entry is None or entry.state is DdlState.EXECUTING:
            raise _not_pending(known, feed, ts)
        if entry.state is DdlState.FAILED and action is not DdlAction.SKIP:
            raise _failed(feed, ts)
        about = entry.error.code if entry.error else ""
        said = DdlDecision(ts=ts, action=action, reason=reason, about=about, time_ms=now_ms)
        put = Put(keys.ddl_decision(feed, ts), said.model_dump_json().encode())
        if store.txn([Unchanged(keys.feed_ddls(feed), revision)], [put]):
            _log.warning(
                "changefeed %s: operator: %s schema change %d %s", feed, action, ts, reason
            )
            return
    raise StoreBusy("its schema changes changed meanwhile", object=f"changefeed {feed}")


def _not_pending(known: DdlEntries, feed: str, ts: int) -> DdlNotPending:
    found = next((e for e in (*known.pending, *known.ended) if e.ts == ts), None)
    state = f"is {found.state}" if found else "is not one that the owner waits with"
    return DdlNotPending(
        f"the schema change {state}; only what waits can be decided about",
        object=f"changefeed {feed}, ts {ts}",
        hint="cdc cli ddl list shows what waits",
    )


def _failed(feed: str, ts: int) -> DdlNotPending:
    return DdlNotPending(
        "the schema change has failed; it can only be skipped, or tried again",
        object=f"changefeed {feed}, ts {ts}",
        hint="mend its cause (cdc cli ddl show), then cdc cli changefeed resume tries it again",
    )


def ddls_of(capture: Capture, feed: str) -> tuple[int, DdlEntries]:
    """What the owner says of a changefeed's schema changes, and the revision of it."""
    entry = capture.store.get(capture.keys.feed_ddls(feed))
    if entry is None:
        return 0, DdlEntries()
    return entry.mod_revision, read(entry, DdlEntries)


def _decisions(capture: Capture, feed: str) -> dict[int, DdlDecision]:
    _, entries = capture.store.range(capture.keys.ddl_decisions_prefix(feed))
    return {d.ts: d for d in (read(e, DdlDecision) for e in entries)}
