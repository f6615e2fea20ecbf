"""Reading a table that no key cuts or tells apart: all of it, as it is at one known ts.

It is read over one connection, whose transaction sees all rows as of one moment. Which of the
log's transactions it sees is known but for those that were committed just then; so it is begun
anew until none of these is about the table. That is before the first row is read, and costs little.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pymysql

from cdc.base.errors import TransientError
from cdc.base.nodes import node_of, node_of_source, of_node, plain_source
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.schema.table import Table
from cdc.snapshot.chunks import select_error
from cdc.snapshot.moment import Moment, begin, begin_known
from cdc.source.connection import open_connection
from cdc.source.position import UpstreamPosition
from processor.chunk_reading import ChunkRead, ChunkTask, read_over

_ATTEMPTS = 100


class SnapshotTableBusy(TransientError):
    """A table without a key changes so often that no moment is found at which to read it."""

    code = "TG:ErrSnapshotTableBusy"


def read_still(
    log: ChangeLog,
    task: ChunkTask,
    end: Callable[[], UpstreamPosition] | None,
    visible: Callable[[], Ts],
    caught_up: Callable[[], Ts],
) -> tuple[Ts, ChunkRead]:
    """Read the rows of a task as they were at a ts of the log; that ts, and what was read.

    ``end`` tells where the binlog of the table's server ends, None of one that calls transactions
    otherwise or has no binlog of them; ``visible`` a ts of which all at or
    below is seen by whoever reads from then on, ``caught_up`` one at or above all that was seen by
    whoever has read. Raises SnapshotTableBusy, and what reading and these raise.
    """
    table, began_s = task.table, time.perf_counter()
    for _ in range(_ATTEMPTS):
        since = end() if end is not None else None
        low_ts = visible()
        connection = open_connection(task.info, task.settings)
        try:
            try:
                moment = _begun(connection, task, since)
            except pymysql.err.MySQLError as error:
                raise select_error(error, table.schema, table.name) from None
            changed = changed_between(log, table, low_ts, caught_up())
            still_ts = ts_of(log, moment, node_of(table.schema), low_ts, changed)
            if still_ts is not None:
                path = f"{task.path}-{secrets.token_hex(4)}"
                rows, events, size = read_over(connection, task, Path(path))
                seconds = time.perf_counter() - began_s
                return still_ts, ChunkRead(path, rows, events, size, seconds)
        finally:
            connection.close()
    raise SnapshotTableBusy(
        f"it changed at each of {_ATTEMPTS} moments at which it was to be read, and no key tells"
        " which of these changes were seen",
        object=table.full_name,
        hint="read it from a server with GTIDs, add a key to the table, or leave it out of"
        " snapshot.tables",
    )


def _begun(connection: Any, task: ChunkTask, since: UpstreamPosition | None) -> Moment | None:
    if since is not None:
        return begin_known(connection, task.info.server_kind, since)
    begin(connection)
    return None


def changed_between(log: ChangeLog, table: Table, lo: Ts, hi: Ts) -> list[Ts]:
    """The ts with ``lo < ts <= hi`` at which rows of a table change, rising."""
    name = (table.schema, table.name)
    ours = [i for i, entry in log.tables.items() if (entry.schema, entry.name) == name]
    if not ours:
        return []
    runs = log.runs(Position(lo), Position(hi), tables=ours)
    return [int(ts) for ts in np.unique(runs.commit_ts)]


def ts_of(
    log: ChangeLog, moment: Moment | None, node: str, lo: Ts, changed: Iterable[Ts]
) -> Ts | None:
    """The ts, ``lo`` or one of ``changed``, up to which a moment sees all changes and none behind.

    The moment is one of the server of ``node``. None: there is none, or nobody knows; without a
    moment that is so if there is any change.
    """
    still_ts, behind = lo, False
    for ts in changed:
        seen = _sees(log, moment, node, ts) if moment is not None else None
        if seen is None or (seen and behind):
            return None
        if seen:
            still_ts = ts
        else:
            behind = True
    return still_ts


def _sees(log: ChangeLog, moment: Moment, node: str, ts: Ts) -> bool | None:
    name = log.transaction_at(ts)
    if name is None or name.ts != ts:
        return None
    if node != (node_of_source(name.source) if of_node(name.source) else ""):
        # One of several nodes, with the name that another one has for it.
        return None
    return moment.sees(name._replace(source=plain_source(name.source)))
