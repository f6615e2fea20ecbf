"""Reading a table that no key cuts or tells apart: all of it, as it is at one known ts.

It is read over one connection, whose transaction sees all rows as of one moment. Which of the
log's transactions it sees is known but for those that were committed about then; so it is begun
anew until none of these is about the table. That is before the first row is read, and costs little.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

import pymysql

from cdc.base.errors import TransientError
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.schema.table import Table
from cdc.snapshot.chunks import select_error
from cdc.source.connection import open_connection
from processor.chunk_reading import ChunkRead, ChunkTask, read_over

_ATTEMPTS = 100
_BEGIN = (
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
)


class SnapshotTableBusy(TransientError):
    """A table without a key changes so often that no moment is found at which to read it."""

    code = "TG:ErrSnapshotTableBusy"


def read_still(
    log: ChangeLog, task: ChunkTask, visible: Callable[[], Ts], caught_up: Callable[[], Ts]
) -> tuple[Ts, ChunkRead]:
    """Read the rows of a task as they were at a ts of the log; that ts, and what was read.

    ``visible`` gives a ts of which all at or below is seen by whoever reads from then on,
    ``caught_up`` one at or above all that was seen by whoever has read. Raises SnapshotTableBusy,
    and what reading and these raise.
    """
    table, began_s = task.table, time.perf_counter()
    for _ in range(_ATTEMPTS):
        low_ts = visible()
        connection = open_connection(task.info, task.settings)
        try:
            try:
                with connection.cursor() as cursor:
                    for statement in _BEGIN:
                        cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                raise select_error(error, table.schema, table.name) from None
            if is_still(log, table, low_ts, caught_up()):
                path = f"{task.path}-{secrets.token_hex(4)}"
                rows, events, size = read_over(connection, task, Path(path))
                return low_ts, ChunkRead(path, rows, events, size, time.perf_counter() - began_s)
        finally:
            connection.close()
    raise SnapshotTableBusy(
        f"it changed at each of {_ATTEMPTS} moments at which it was to be read, and no key tells"
        " which of these changes were seen",
        object=table.full_name,
        hint="add a key to the table, or leave it out of snapshot.tables",
    )


def is_still(log: ChangeLog, table: Table, lo: Ts, hi: Ts) -> bool:
    """Whether no row with ``lo < ts <= hi`` is one of the table."""
    name = (table.schema, table.name)
    ours = [i for i, entry in log.tables.items() if (entry.schema, entry.name) == name]
    return not ours or not len(log.runs(Position(lo), Position(hi), tables=ours))
