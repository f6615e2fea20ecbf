"""How the sink of a changefeed takes the rows of each table, asked of the sink as it is now."""

from __future__ import annotations

from contextlib import closing

from pydantic import BaseModel

from cdc.binlog.table_map import TableMap
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo
from cdc.server.capture import Capture
from filter.rules import TableRules
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
    _, schema = capture.upstreams.schema_at(info.upstream, info.start_ts)
    matches = TableRules(config.filter.rules, case_sensitive=config.case_sensitive).matches
    tables = [schema[key] for key in sorted(schema) if matches(*key)]
    with closing(ChangeLog.open(capture.upstreams.log_folder(info.upstream))) as log:
        log.refresh()
        # Of a table that changed, the newest.
        stored = {(e.schema, e.name): e.map_body for e in log.tables.values()}
    maps = {key: TableMap.parse(body) for key, body in stored.items() if matches(*key)}
    sink = open_sink(info.sink_uri, config.sink, case_sensitive=config.case_sensitive)
    found = sink.driver().applied(
        [
            (t, maps.get((t.schema, t.name)))
            for t in tables
            if t.handle_key or config.force_replicate
        ],
        mariadb=schema.session.mariadb,
    )
    return [AppliedTable(table=a.table, method=a.method, reason=a.reason) for a in found]
