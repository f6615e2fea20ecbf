"""One chunk of a table, read from its server into a file: what a task of a copy does."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pymysql
from pymysql.constants import ER

from cdc.base.errors import TidegateError
from cdc.base.nodes import plain
from cdc.changelog import files
from cdc.changelog.remote.access import LogAccess
from cdc.coord.messages import UpstreamInfo
from cdc.schema.table import Table
from cdc.schema.tokens import quoted
from cdc.snapshot.chunks import select_error
from cdc.snapshot.handle import SESSION as BORDER_SESSION
from cdc.snapshot.images import RowImages
from cdc.snapshot.rows_reader import RowBlock, read_rows
from cdc.snapshot.select_list import SESSION, can_be_prepared, select_list
from cdc.snapshot.staged import StagedFile
from cdc.source.connection import open_connection
from cdc.source.settings import SourceSettings
from processor.log_reading import scratch, send

# No such command, not for this statement, and as many statements as the server allows are prepared.
_NOT_PREPARED = frozenset(
    {ER.UNKNOWN_COM_ERROR, ER.UNSUPPORTED_PS, ER.MAX_PREPARED_STMT_COUNT_REACHED}
)
# Written out while more is read, so that what is durable at the end is most of it.
_WRITE_OUT = 4 << 20


@dataclass(frozen=True)
class ChunkTask:
    """Read the rows of ``table`` that ``condition`` (SQL) lets pass into a file by ``path``.

    Its name begins like that: each attempt has a file of its own, as one whose executor was lost
    may still write. ``number`` is the table's number in its events; ``part`` tells several tables
    apart that have the rows of one. ``info`` holds a password and is never shown. A worker that
    does not see the capture's ``path`` has an ``access``. ``head`` is what the file begins with.
    """

    info: UpstreamInfo = field(repr=False)
    settings: SourceSettings
    table: Table
    condition: str
    number: int
    path: str
    access: LogAccess | None = None
    part: int = 0
    head: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class ChunkRead:
    """What a task has read into ``path``.

    ``error`` is a ``TidegateError`` as its ``to_dict``, if it failed.
    """

    path: str = ""
    rows: int = 0
    events: int = 0
    bytes: int = 0
    seconds: float = 0.0
    error: dict[str, str] | None = None


def staged_file(task: ChunkTask, read: ChunkRead) -> StagedFile:
    """The file of a task that was read."""
    return StagedFile(Path(read.path), read.rows, read.events, len(task.head))


def read_chunk(task: ChunkTask) -> ChunkRead:
    """Read it; an error of ours is part of the result."""
    began = time.perf_counter()
    path = f"{task.path}-{secrets.token_hex(4)}"
    try:
        if task.access is None:
            rows, events, size = _read(task, Path(path))
        else:
            with tempfile.TemporaryDirectory(dir=scratch()) as folder:
                made = Path(folder) / "chunk"
                rows, events, size = _read(task, made)
                send(task.access, made, path)
    except TidegateError as e:
        return ChunkRead(error=e.marked(), seconds=time.perf_counter() - began)
    return ChunkRead(path, rows, events, size, time.perf_counter() - began)


def _read(task: ChunkTask, path: Path) -> tuple[int, int, int]:
    """``(rows, events, bytes)`` of what it has written."""
    connection = open_connection(task.info, task.settings)
    try:
        return read_over(connection, task, path)
    finally:
        connection.close()


def read_over(connection: Any, task: ChunkTask, path: Path) -> tuple[int, int, int]:
    """The same over an open connection, in the transaction that it is in."""
    table = task.table
    images = RowImages(table, task.info.server_kind, table_number=task.number)
    rows = events = written = 0
    with path.open("wb") as file:
        file.write(task.head)
        try:
            with connection.cursor() as cursor:
                # Those of borders last: zero dates are constants like any others.
                for statement in (*SESSION, *BORDER_SESSION):
                    cursor.execute(statement)
            for block in _blocks(connection, task):
                rows += block.rows
                events += images.write(block, file)
                written += _write_out(file, written)
        except pymysql.err.MySQLError as error:
            raise select_error(error, table.schema, table.name) from None
        return rows, events, file.tell() - len(task.head)


def _write_out(file: BinaryIO, begin: int) -> int:
    """Have the disk begin with what lies behind ``begin``, if it is much; how many bytes it is.

    What is kept must be durable before it is delivered, and a disk takes longer than a server.
    """
    length = file.tell() - begin
    if length < _WRITE_OUT:
        return 0
    file.flush()
    files.start_writing(file.fileno(), begin, length)
    return length


def _blocks(connection: Any, task: ChunkTask) -> Iterator[RowBlock]:
    """The rows by the binary protocol, as text where a server or what is before it has it not."""
    if can_be_prepared(task.table):
        try:
            yield from read_rows(connection, _select(task, prepared=True), prepared=True)
            return
        except pymysql.err.MySQLError as error:
            # It is refused before the first row, and the connection is free again.
            if not error.args or error.args[0] not in _NOT_PREPARED:
                raise
    yield from read_rows(connection, _select(task))


def _select(task: ChunkTask, *, prepared: bool = False) -> str:
    table = task.table
    chosen = ", ".join(select_list(table, prepared=prepared))
    place = quoted(plain(table.schema), table.name)
    return f"SELECT {chosen} FROM {place} WHERE {task.condition}"
