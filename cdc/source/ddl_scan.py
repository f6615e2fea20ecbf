"""Whether a stretch of a server's binlog holds statements that may change tables."""

from __future__ import annotations

from collections.abc import Iterator

from cdc.binlog.events import EventType
from cdc.binlog.gtid import MariadbGtidExtra
from cdc.binlog.header import HEADER_LENGTH
from cdc.binlog.payload import payload_events
from cdc.binlog.query import Query
from cdc.binlog.statement import first_word, is_empty, is_step, is_temporary
from cdc.coord.messages import UpstreamInfo
from cdc.source.dump import DumpedEvent, events_between
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings

# Of an ALTER in two phases only the last step has changed the table, and it has the whole text.
_NOT_YET = MariadbGtidExtra.START_ALTER | MariadbGtidExtra.ROLLBACK_ALTER


def may_change_tables(query: Query) -> bool:
    """Whether a statement that was logged as text may have changed a table's definition or rows.

    False only where it is known; whether it did is for those to say who read all of it.
    """
    sql = query.sql
    if is_empty(sql) or is_step(sql) or is_temporary(sql):
        return False
    # SET STATEMENT … FOR has the word of its statement.
    if first_word(sql) == "SET":
        return False
    extra = query.status().gtid_extra
    return extra is None or not extra & _NOT_YET


def has_ddl_between(
    info: UpstreamInfo, low: UpstreamPosition, high: UpstreamPosition, settings: SourceSettings
) -> bool:
    """Read from ``low`` up to ``high``; stops at the first such statement.

    ``low`` goes by file and offset where it has them, else by its GTIDs.
    """
    found = events_between(info, low, high, settings)
    return any(may_change_tables(query) for event in found for query in _queries(event))


def _queries(event: DumpedEvent) -> Iterator[Query]:
    if event.type == EventType.QUERY:
        yield Query.parse(event.body)
    elif event.type == EventType.TRANSACTION_PAYLOAD:
        for inner in payload_events(event.body):
            if inner[4] == EventType.QUERY:
                yield Query.parse(inner[HEADER_LENGTH:])
