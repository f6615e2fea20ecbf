"""How the sink of a changefeed takes the rows of each table, asked of the sink as it is now."""

from __future__ import annotations

from contextlib import closing

from pydantic import BaseModel

from cdc.binlog.table_map import TableMap
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo
from cdc.server.capture import Capture
from owner import admin
from processor.catalog import delivered_tables
from sink.open import open_sink


class AppliedTable(BaseModel):
    """``method`` is the sink's word, ``reason`` why it is this one."""

    table: str
    method: str
    reason: str


def applied(capture: Capture, info: FeedInfo) -> list[AppliedTable]:
    """By table, in the order of their names; nothing for a sink that knows but one way.

    Raises the sink's errors if it cannot be reached.
    """
    config = FeedConfig.model_validate(info.config)
    reached = admin.status(capture.store, capture.keys, info).checkpoint_ts
    _, schema = capture.upstreams.schema_at(info.upstream, reached)
    tables = sorted(delivered_tables(schema, config), key=lambda t: (t.schema, t.name))
    with closing(ChangeLog.open(capture.upstreams.log_folder(info.upstream))) as log:
        log.refresh()
        # Of a table that changed, the newest.
        stored = {(e.schema, e.name): e.map_body for e in log.tables.values()}
    bodies = ((table, stored.get((table.schema, table.name))) for table in tables)
    sink = open_sink(info.sink_uri, config.sink, case_sensitive=config.case_sensitive)
    found = sink.driver().applied(
        [(table, None if body is None else TableMap.parse(body)) for table, body in bodies],
        mariadb=schema.session.mariadb,
    )
    return [AppliedTable(table=a.table, method=a.method, reason=a.reason) for a in found]
