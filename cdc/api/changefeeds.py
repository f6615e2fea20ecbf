"""``/api/v2/changefeeds``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from cdc.api import etags, progress
from cdc.api.answers import Empty, Page
from cdc.api.applied import applied
from cdc.api.assigned import task_status
from cdc.api.changefeed_models import (
    AppliedTable,
    ChangefeedInfo,
    ChangefeedStatus,
    ChangefeedSummary,
    CreatedChangefeed,
    PlacedTable,
    Synced,
    shown_state,
)
from cdc.api.etags import IfMatch
from cdc.api.paging import AskedPart
from cdc.api.requests import CreateChangefeed, MovedTable, ResumeChangefeed, UpdateChangefeed
from cdc.coord.keys import last
from cdc.coord.messages import ENDED, FeedInfo, FeedState
from cdc.coord.stored import StoredValueUnreadable, read
from cdc.server.capture import Capture
from owner import admin


def _asked_for(found: FeedState, state: str) -> bool:
    if state == "":
        return found not in ENDED
    return state == "all" or state in (found, shown_state(found))


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds", tags=["changefeed"])
    store, keys, operations = capture.store, capture.keys, capture.operations

    def full(info: FeedInfo) -> ChangefeedInfo:
        status = admin.status(store, keys, info)
        return ChangefeedInfo.of(info, status, task_status(capture, info))

    def summaries() -> Iterator[tuple[FeedState, ChangefeedSummary]]:
        for entry in store.range(keys.feed_info_prefix)[1]:
            try:
                info = read(entry, FeedInfo)
                status = admin.status(store, keys, info)
            except StoredValueUnreadable as e:
                yield FeedState.FAILED, ChangefeedSummary.unreadable(last(entry.key), e)
            else:
                yield info.state, ChangefeedSummary.of(info, status)

    @routes.get("")
    def list_changefeeds(
        part: AskedPart, state: Literal["", "all"] | FeedState = ""
    ) -> Page[ChangefeedSummary]:
        found = [s for was, s in summaries() if _asked_for(was, state) and part.has(s.id)]
        return Page(total=len(found), items=list(part.of(found)))

    def tag(response: Response, feed: str) -> None:
        etags.put(response, store.get(keys.feed_info(feed)))

    @routes.post("", responses=etags.TAGGED)
    def create(asked: CreateChangefeed, response: Response) -> CreatedChangefeed:
        created = operations.create(asked.request())
        tag(response, created.info.id)
        return CreatedChangefeed(**full(created.info).model_dump(), warnings=created.warnings)

    @routes.get("/{feed}", responses=etags.TAGGED)
    def query(feed: str, response: Response) -> ChangefeedInfo:
        entry, info = admin.get(store, keys, feed)
        etags.put(response, entry)
        return full(info)

    @routes.get("/{feed}/meta_info", responses=etags.TAGGED)
    def meta_info(feed: str, response: Response) -> ChangefeedInfo:
        """The same as ``GET /changefeeds/{feed}``, under the name that older TiCDCs have for it."""
        return query(feed, response)

    @routes.put("/{feed}", responses=etags.TAGGED)
    def update(
        feed: str, asked: UpdateChangefeed, response: Response, expected: IfMatch
    ) -> ChangefeedInfo:
        info = operations.update(feed, asked.request(), expected)
        tag(response, feed)
        return full(info)

    @routes.delete("/{feed}")
    def remove(feed: str, expected: IfMatch) -> Empty:
        operations.remove(feed, expected)
        return Empty()

    @routes.post("/{feed}/pause")
    def pause(feed: str, expected: IfMatch) -> Empty:
        admin.pause(store, keys, feed, expected)
        return Empty()

    @routes.post("/{feed}/resume")
    def resume(feed: str, expected: IfMatch, asked: ResumeChangefeed | None = None) -> Empty:
        how = asked or ResumeChangefeed()
        if how.copy_again:
            operations.copy_again(feed, expected)
        elif how.rewind:
            operations.rewind(feed, expected)
        else:
            operations.resume(feed, how.overwrite_checkpoint_ts, expected)
        return Empty()

    @routes.post("/{feed}/move_table")
    def move_table(
        feed: str, moved: Annotated[MovedTable, Query()], expected: IfMatch
    ) -> list[PlacedTable]:
        """Have the workers of another capture deliver a table, from the next window on."""
        info = admin.get(store, keys, feed, expected)[1]
        capture.check_clustered()
        table = moved.table
        if table.isdecimal():
            names = {str(id): name for id, name in progress.table_ids(capture, info).items()}
            table = names.get(table, table)
        info = operations.move_table(feed, table, moved.capture, expected)
        return PlacedTable.all_of(info)

    @routes.get("/{feed}/synced")
    def synced(feed: str) -> Synced:
        return progress.synced(capture, feed)

    @routes.get("/{feed}/apply")
    def apply(feed: str) -> Page[AppliedTable]:
        return Page.of(applied(capture, admin.get(store, keys, feed)[1]))

    @routes.get("/{feed}/status")
    def status(feed: str) -> ChangefeedStatus:
        info = admin.get(store, keys, feed)[1]
        return ChangefeedStatus.of(info, admin.status(store, keys, info))

    return routes
