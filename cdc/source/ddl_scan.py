"""Whether a stretch of a server's binlog holds statements that may change tables."""

from __future__ import annotations

from dataclasses import replace

from cdc.binlog.events import EventType
from cdc.binlog.query import Query
from cdc.binlog.statement_dml import first_word
from cdc.coord.messages import UpstreamInfo
from cdc.source.dump import read_dump
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.settings import SourceSettings

_HARMLESS = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA", "RELEASE", ""})


def has_ddl_between(
    info: UpstreamInfo, low: UpstreamPosition, high: UpstreamPosition, settings: SourceSettings
) -> bool:
    """Read from ``low`` up to ``high``; stops at the first such statement.

    ``low`` goes by file and offset where it has them, else by its GTIDs.
    """
    if low.file:
        low = replace(low, gtid=None)
    if (low.file, low.pos) == (high.file, high.pos):
        return False
    end = (file_number(high.file), high.pos)
    for event in read_dump(info, low, settings):
        at = (file_number(event.file), event.header.next_position)
        # Events that are only sent, not stored, have no next position.
        passed = event.header.next_position and event.type != EventType.ROTATE
        if passed and at > end:
            return False
        if event.type == EventType.QUERY and first_word(Query.parse(event.body).sql) not in (
            _HARMLESS
        ):
            return True
        if passed and at >= end:
            return False
    return False
