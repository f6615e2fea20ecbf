"""Indexes that a table gets behind its rows: sorting them once is far cheaper than row by row.

A table is made with all of its indexes, so they are as the server itself understands them; those
that only make reading faster are dropped while it is empty, and their definitions, as it shows
them, lie in the ledger until they are added.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator

import pymysql
from pymysql.constants import ER

from cdc.base.ids import FeedId
from cdc.schema.tokens import quoted
from sink.mysql.connection import SinkSession, mapped
from sink.mysql.ddl import ledger
from sink.mysql.ddl.errors import ddl_error
from sink.mysql.ddl.execution import Execution
from sink.mysql.ddl.fresh import Fresh
from sink.mysql.ddl.shown import show
from sink.schema_change import TableName

_log = logging.getLogger("sink")
# A line of SHOW CREATE TABLE. UNIQUE ones are needed, others cannot be added several at once.
_KEY = re.compile(r"^  (KEY `((?:[^`]|``)+)` \(.*?),?$", re.MULTILINE)
_ER_DROP_INDEX_FK = 1553
# Of a foreign key, of the column that counts by itself, or of a table that the user may not alter.
_STAYS = frozenset({_ER_DROP_INDEX_FK, ER.WRONG_AUTO_KEY, ER.TABLEACCESS_DENIED_ERROR})


def leave_out(session: SinkSession, feed: FeedId, epoch: int, name: TableName) -> None:
    """Drop what a table that was just made needs later. Raises FencedEpoch."""
    with mapped(f"table {'.'.join(name)}"):
        keys = _keys(session, name)
        if not keys:
            return
        known = ledger.late_keys(session, feed)
        # Before they go: who dies in between finds them there.
        ledger.put_late_keys(session, feed, epoch, known | {name: list(keys.values())})
        for key in keys:
            try:
                session.run(f"ALTER TABLE {quoted(*name)} DROP KEY {quoted(key)}")
            except pymysql.err.MySQLError as error:
                if error.args[0] not in _STAYS:
                    raise


def _keys(session: SinkSession, name: TableName) -> dict[str, str]:
    """Definitions by name; none of a table that the sink's user may not see."""
    try:
        shown = session.rows(f"SHOW CREATE TABLE {quoted(*name)}")[0]
    except pymysql.err.MySQLError as error:
        if error.args[0] not in _STAYS:
            raise
        return {}
    text = str(next(v for k, v in shown.items() if k.lower() == "create table"))
    return {key.replace("``", "`"): line for line, key in _KEY.findall(text)}


def add(fresh: Fresh, execution: Execution, feed: FeedId, epoch: int) -> None:
    """Add all that is due, a statement for each table; ``execution`` holds the lock of it."""
    due = ledger.late_keys(fresh.get(), feed)
    for name, texts in due.items():
        # A newer epoch may have gone on, and changed the table.
        ledger.check(fresh.get(), feed, epoch)
        missing = list(_missing(fresh.get(), name, texts))
        if not missing:
            continue
        sql = f"ALTER TABLE {quoted(*name)} {', '.join(f'ADD {text}' for text in missing)}"
        began = time.monotonic()
        try:
            execution.run(sql, lambda _: True, lambda: False)
        except pymysql.err.Error as error:
            raise ddl_error(error, f"table {'.'.join(name)}", "", sql) from None
        took = time.monotonic() - began
        _log.info("changefeed %s: %s has its indexes, %.1f s", feed, ".".join(name), took)
    if due:
        ledger.put_late_keys(fresh.get(), feed, epoch, {})


def _missing(session: SinkSession, name: TableName, texts: list[str]) -> Iterator[str]:
    """Those of a table that lacks them; none of a table that is gone."""
    table = show(session, *name).table
    if table is None:
        return
    there = {index.name.lower() for index in table.indexes}
    for text in texts:
        match = _KEY.match(f"  {text}")
        assert match is not None
        if match[2].replace("``", "`").lower() not in there:
            yield text
