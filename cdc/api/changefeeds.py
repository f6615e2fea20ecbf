"""``/api/v2/changefeeds``."""

from __future__ import annotations

from fastapi import APIRouter

from cdc.api import create as creation
from cdc.api import progress
from cdc.api.applied import applied
from cdc.api.errors import ParameterInvalid
from cdc.api.models import (
    ChangefeedInfo,
    ChangefeedStatus,
    ChangefeedSummary,
    CreateChangefeed,
    CreatedChangefeed,
    Empty,
    Page,
    ResumeChangefeed,
    Synced,
    UpdateChangefeed,
    shown_state,
)
from cdc.coord.messages import FeedInfo, FeedState
from cdc.server.capture import Capture
from owner import admin

_ENDED = frozenset({FeedState.FINISHED, FeedState.REMOVED})


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds", tags=["changefeed"])
    store, keys = capture.store, capture.keys

    def full(info: FeedInfo) -> ChangefeedInfo:
        return ChangefeedInfo.of(info, admin.status(store, keys, info))

    @routes.get("")
    def list_changefeeds(state: str = "") -> Page:
        if state not in ("", "all", *FeedState):
            raise ParameterInvalid(
                f"state {state!r} is unknown", hint=f"one of all, {', '.join(FeedState)}"
            )
        infos = [
            FeedInfo.model_validate_json(e.value) for e in store.range(keys.feed_info_prefix)[1]
        ]
        if state == "":
            infos = [i for i in infos if i.state not in _ENDED]
        elif state != "all":
            infos = [i for i in infos if shown_state(i.state) == state or i.state == state]
        return Page.of([ChangefeedSummary.of(i, admin.status(store, keys, i)) for i in infos])

    @routes.post("")
    def create(asked: CreateChangefeed) -> CreatedChangefeed:
        info = creation.create(capture, asked)
        return CreatedChangefeed(
            **full(info).model_dump(), warnings=creation.warnings(capture, info)
        )

    @routes.get("/{feed}")
    def query(feed: str) -> ChangefeedInfo:
        return full(admin.get(store, keys, feed)[1])

    @routes.put("/{feed}")
    def update(feed: str, asked: UpdateChangefeed) -> ChangefeedInfo:
        return full(creation.update(capture, feed, asked))

    @routes.delete("/{feed}")
    def remove(feed: str) -> Empty:
        creation.remove(capture, feed)
        return Empty()

    @routes.post("/{feed}/pause")
    def pause(feed: str) -> Empty:
        admin.pause(store, keys, feed)
        return Empty()

    @routes.post("/{feed}/resume")
    def resume(feed: str, asked: ResumeChangefeed | None = None) -> Empty:
        overwrite = (asked or ResumeChangefeed()).overwrite_checkpoint_ts
        creation.resume(capture, feed, overwrite)
        return Empty()

    @routes.get("/{feed}/synced")
    def synced(feed: str) -> Synced:
        return progress.synced(capture, feed)

    @routes.get("/{feed}/apply")
    def apply(feed: str) -> Page:
        return Page.of(applied(capture, admin.get(store, keys, feed)[1]))

    @routes.get("/{feed}/status")
    def status(feed: str) -> ChangefeedStatus:
        info = admin.get(store, keys, feed)[1]
        return ChangefeedStatus.of(info, admin.status(store, keys, info))

    return routes
