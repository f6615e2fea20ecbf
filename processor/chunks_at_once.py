"""Chunks of tables that are read at once: the next one begins as soon as any of them ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Self

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError, TransientError, from_dict, text_of_foreign
from cdc.coord.messages import UpstreamInfo
from cdc.schema.table import Table
from cdc.snapshot.chunks import Chunk, SnapshotTableChanged
from cdc.source.errors import UpstreamNotReady
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import JobRunner
from processor.settings import ProcessorSettings

_log = logging.getLogger("processor")

# Chunks that cannot be read are tried again for so long before what was read is given up.
_PATIENCE_S = 120.0
WHOLE_TABLE_S = 7 * 24 * 3600.0
"""A table that nothing cuts is read by one SELECT, which may take so long; with a condition no row
may come for as long."""


class ChunksNotRead(TransientError):
    """A job of Spark that read rows of a table has failed: a worker or its executor was lost."""

    code = "TG:ErrChunksNotRead"


class CopyStopped(Exception):
    """Whoever copies is stopped."""


class ChunksAtOnce:
    """Reads up to ``most`` chunks of a changefeed at once, each by a job of its own.

    A job of all of them would end with the slowest, and the others' connections rest until then.
    ``access`` says how a table's server is reached now, which an operator may change meanwhile.
    ``begin`` and ``ended`` are for one thread; leaving the context waits for what is being read.
    """

    def __init__(
        self,
        feed: str,
        jobs: JobRunner,
        settings: ProcessorSettings,
        clock: Clock,
        stopping: threading.Event,
        most: int,
        access: Callable[[Table], UpstreamInfo],
    ) -> None:
        self._feed = feed
        self._jobs = jobs
        self._settings = settings
        self._clock = clock
        self._stopping = stopping
        self._most = most
        self._access = access
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=f"rows of {feed}")
        self._reading: dict[Future[ChunkRead], tuple[ChunkTask, Chunk, float]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    @property
    def idle(self) -> bool:
        """Whether none is being read."""
        return not self._reading

    @property
    def full(self) -> bool:
        """Whether no more may be begun."""
        return len(self._reading) == self._most

    def begin(self, chunk: Chunk, task: ChunkTask) -> None:
        """Have one read."""
        timeout_s = WHOLE_TABLE_S if chunk.whole else self._settings.job_timeout_s
        reading = self._pool.submit(self._read, task, timeout_s)
        self._reading[reading] = task, chunk, self._clock.monotonic()

    def ended(
        self, each: Callable[[ChunkTask, Chunk, ChunkRead | TidegateError, float], None]
    ) -> None:
        """Wait until one has ended; ``each`` gets those that have, or what has kept them from being
        read, and when they began (monotonic). Raises CopyStopped.
        """
        done, _ = wait(self._reading, return_when=FIRST_COMPLETED)
        for reading in done:
            task, chunk, began_s = self._reading.pop(reading)
            each(task, chunk, _result(reading), began_s)

    def _read(self, task: ChunkTask, timeout_s: float) -> ChunkRead:
        """Read one; again, for a while, if its worker or the server was lost.

        So is one whose server lets nobody in who comes by an access that was changed meanwhile.
        """
        backoff = Backoff(self._settings.retry_first_s, max_s=self._settings.retry_max_s)
        began_s = self._clock.monotonic()
        while True:
            found = self._attempt(task, timeout_s)
            if isinstance(found, ChunkRead):
                return found
            newest = replace(task, info=self._access(task.table))
            if found.code == UpstreamNotReady.code and newest != task:
                task = newest
                continue
            lost = found.kind is ErrorKind.TRANSIENT and not isinstance(found, SnapshotTableChanged)
            if not lost or self._clock.monotonic() - began_s > _PATIENCE_S:
                raise found
            _log.warning("changefeed %s: rows are read again: %s", self._feed, found)
            backoff = backoff.failed()
            if self._stopping.wait(backoff.delay_s()):
                raise CopyStopped

    def _attempt(self, task: ChunkTask, timeout_s: float) -> ChunkRead | TidegateError:
        what = f"{self._feed}: a chunk of {task.table.full_name}"[:200]
        try:
            (read,) = self._jobs.read([task], what, timeout_s)
        except TidegateError as error:
            return error
        except Exception as error:
            # What Spark raises has a page of Java's stack in it.
            text = text_of_foreign(error)
            hint = "the rows are read again; look at Spark's workers and their hosts"
            return ChunksNotRead(text, object=f"changefeed {self._feed}", hint=hint)
        return read if read.error is None else from_dict(read.error)


def _result(reading: Future[ChunkRead]) -> ChunkRead | TidegateError:
    try:
        return reading.result()
    except TidegateError as error:
        return error
