"""How the sink of a changefeed takes the rows of each table, asked of the sink as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from cdc.api.changefeed_models import AppliedTable
from cdc.binlog.table_map import TableMap
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo
from cdc.schema.table import Table
from cdc.server.capture import Capture
from owner import admin
from processor.catalog import delivered_tables
from sink.open import sink_of


def applied(capture: Capture, info: FeedInfo) -> list[AppliedTable]:
    """By table, in the order of their names; nothing for a sink that knows but one way.

    Raises the sink's errors if it cannot be reached.
    """
    config = FeedConfig.model_validate(info.config)
    mariadb = capture.upstreams.info(info.upstream).server_kind == "mariadb"
    sink = sink_of(info.sink_uri, config)
    ways = sink.driver().applied(_tables(capture, info, config), mariadb=mariadb)
    return [AppliedTable(table=a.table, method=a.method, reason=a.reason) for a in ways]


def _tables(
    capture: Capture, info: FeedInfo, config: FeedConfig
) -> Iterator[tuple[Table, TableMap | None]]:
    """The delivered tables, read when the first is asked for: most sinks ask for none."""
    reached = admin.status(capture.store, capture.keys, info).checkpoint_ts
    _, schema = capture.upstreams.schema_at(info.upstream, reached)
    with closing(ChangeLog.open(capture.upstreams.log_folder(info.upstream))) as log:
        log.refresh()
        # Of a table that changed, the newest.
        stored = {(e.schema, e.name): e.map_body for e in log.tables.values()}
    for table in sorted(delivered_tables(schema, config), key=lambda t: (t.schema, t.name)):
        body = stored.get((table.schema, table.name))
        yield table, None if body is None else TableMap.parse(body)
