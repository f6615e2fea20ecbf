"""Reading the rows of tables, one after the other; chunks of several are read at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cdc.base.errors import TidegateError
from cdc.coord.snapshot_config import SnapshotConfig
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk
from cdc.snapshot.reading import TableChunks
from cdc.snapshot.servers import SourceServers
from cdc.snapshot.staged import StagedFile
from processor.chunk_reading import ChunkRead, ChunkTask, staged_file
from processor.chunks_at_once import ChunksAtOnce
from processor.copy_limits import CopyLimits
from processor.copy_progress import CopyProgress


class MakesTask(Protocol):
    """Makes the task that reads a chunk."""

    def __call__(
        self, table: Table, condition: str, number: int, chunk: Chunk, part: int
    ) -> ChunkTask:
        """``condition`` is SQL for its rows; ``number`` of the table, ``part`` which of its."""


@dataclass
class _Reading:
    """A table whose chunks are read. ``left``: those that are being read."""

    table: Table
    chunks: dict[int, TableChunks] = field(default_factory=dict)
    files: dict[tuple[int, int], StagedFile] = field(default_factory=dict)
    left: int = 0
    all_begun: bool = False
    error: TidegateError | None = None


class TablesReading:
    """Reads tables that have a key, over chunks that are read ``at_once``. Of one thread.

    A table ends with its slowest chunk, and a small one is a single chunk: were the next to wait
    for that, connections would rest. ``may_read`` raises where nothing more may be read.
    """

    def __init__(
        self,
        at_once: ChunksAtOnce,
        servers: SourceServers,
        config: SnapshotConfig,
        limits: CopyLimits,
        counted: CopyProgress,
        may_read: Callable[[], None],
        task: MakesTask,
    ) -> None:
        self._at_once = at_once
        self._servers = servers
        self._config = config
        self._limits = limits
        self._counted = counted
        self._may_read = may_read
        self._task = task
        self._tables: dict[int, _Reading] = {}

    def begin(self, table: Table, number: int, parts: Sequence[Table]) -> None:
        """Have the chunks of its ``parts`` read; when it returns, the last are still being read.

        What keeps it from being read is raised by :meth:`files`. Raises CopyStopped.
        """
        one = self._tables[number] = _Reading(table)
        try:
            for at, part in enumerate(parts):
                chunks = self._servers.of(part).chunks(part, self._config)
                one.chunks[at] = chunks
                while (chunk := self._next(one, chunks)) is not None:
                    task = self._task(part, chunks.condition(chunk), number, chunk, at)
                    self._at_once.begin(chunk, task)
                    one.left += 1
        except TidegateError as error:
            one.error = one.error or error
        one.all_begun = True
        self._look(one)

    def finish(self) -> None:
        """Wait for all that is being read. Raises CopyStopped."""
        while not self._at_once.idle:
            self._at_once.ended(self._count)

    def files(self, number: int) -> tuple[StagedFile, ...]:
        """What was read of a table, in the order of its parts and keys.

        Raises what has kept it from being read.
        """
        one = self._tables[number]
        if one.error is not None:
            raise one.error
        return tuple(one.files[place] for place in sorted(one.files))

    def _next(self, one: _Reading, chunks: TableChunks) -> Chunk | None:
        """The next chunk, once it may be read; None: there is none, or the table has failed."""
        self._limits.wait(0)
        chunk = chunks.next()
        if chunk is None:
            return None
        at_once = self._at_once
        while not at_once.idle and (at_once.full or self._limits.rest_s(self._servers)):
            # What is being read counts before anything waits.
            at_once.ended(self._count)
        self._limits.hold_back(self._servers)
        self._may_read()
        return chunk if one.error is None else None

    def _count(
        self, task: ChunkTask, chunk: Chunk, read: ChunkRead | TidegateError, began_s: float
    ) -> None:
        one = self._tables[task.number]
        one.left -= 1
        if isinstance(read, TidegateError):
            one.error = one.error or read
        else:
            one.chunks[task.part].measured(chunk, read.seconds)
            one.files[task.part, chunk.number] = staged_file(task, read)
            self._limits.read(read.rows, began_s)
            self._counted.read(one.table.full_name, read.rows, read.bytes)
        self._look(one)

    def _look(self, one: _Reading) -> None:
        if one.all_begun and not one.left:
            self._counted.end(one.table.full_name, read=one.error is None)
