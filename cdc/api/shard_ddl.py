"""``/api/v2/changefeeds/{id}/shard-ddls``: shard groups whose tables come to a schema change.

The owner writes what it sees; this only arranges it. Decisions are those on schema changes.
"""

from __future__ import annotations

from fastapi import APIRouter

from cdc.api.ddl import ddls_of
from cdc.api.paging import AskedPart
from cdc.api.shard_ddl_models import ShardDdlPage, groups_of
from cdc.server.capture import Capture
from owner import admin


def router(capture: Capture) -> APIRouter:
    """The routes over one capture."""
    routes = APIRouter(prefix="/changefeeds/{feed}/shard-ddls", tags=["changefeed"])

    @routes.get("")
    def list_groups(feed: str, part: AskedPart) -> ShardDdlPage:
        admin.get(capture.store, capture.keys, feed)
        found = [g for g in groups_of(ddls_of(capture, feed)[1]) if part.has(g.target)]
        return ShardDdlPage(total=len(found), items=list(part.of(found)))

    return routes
