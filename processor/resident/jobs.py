"""Small windows without a job of Spark's.

A job costs some 20 ms of processor in the JVM and 10 in the capture before it delivers a row, which
is nothing to a large window and nearly all of a small one. So a window of one task goes to a worker
that stays, over a pair of sockets: to the same one each time, as its sink is open there. What it
does is what a task of Spark's does, by the same code, and under the same ledger: whoever delivers
next, here or there, finds what was delivered before. So these workers also deliver large windows
while Spark's JVM does not run yet, which they start when they go on coming: most of what follows a
start of the capture is done before it would run, and it would take its time from that.

Rows that are copied are read by others of their kind, so that no window waits behind them; nothing
of that needs a JVM.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import JobRunner, OwnJobs
from processor.resident.handle import Done, ResidentWorker
from processor.resident.pool import WorkerPool
from processor.resident.spawner import Spawner
from processor.task_messages import Ack, Descriptor

_log = logging.getLogger("processor")
# It answers at once, but for what keeps the interpreter from it, which takes seconds at most.
_SILENT_S = 30.0
# Large windows do not go on coming if none came for so long; each may take seconds to deliver.
_APART_S = 60.0


class Jvm(Protocol):
    """What is behind Spark's jobs."""

    @property
    def up(self) -> bool:
        """Whether jobs would begin at once."""

    @property
    def broken(self) -> bool:
        """Whether it has ended, or did not start."""

    def begin(self) -> None:
        """Start it beside all else, unless it runs, or was tried a moment ago."""


class ResidentJobs(OwnJobs):
    """A JobRunner that hands chunks and windows of one task to resident workers.

    Others go to ``own``. ``largest`` is how many bytes of the log such a window has at most. While
    the ``jvm`` of ``own`` does not run they get all windows; it is started by one that is not for
    them, ``jvm_after_s`` seconds behind the first of these, and by each that finds that it has
    ended. A worker that has not answered for ``silent_s`` seconds hangs, and is killed.
    """

    def __init__(
        self,
        own: JobRunner,
        jvm: Jvm,
        spawner: Spawner,
        largest: int,
        silent_s: float = _SILENT_S,
        jvm_after_s: float = 0.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(own)
        self._jvm = jvm
        self._largest, self._silent_s = largest, silent_s
        self._jvm_after_s, self._monotonic = jvm_after_s, monotonic
        # When the first large window came of those that go on coming, and when the last.
        self._large_since = self._large_last = -_APART_S
        self._spawner: Spawner | None = spawner
        self._guard = threading.Lock()
        self._deliverers = WorkerPool(self._spawn, lambda: self.parallelism)
        # By changefeed the worker that has its sink open.
        self._places: dict[str, int] = {}
        self._readers = WorkerPool(self._spawn, lambda: self.parallelism)
        # Of chunks: how many were ever read, how many are being read, and whether any was of late.
        self._chunks, self._reading, self._read = 0, 0, False

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """As of a JobRunner; raises WorkerLost, too, but not before all other tasks have ended."""
        small = len(descriptors) == 1 and descriptors[0].log_bytes <= self._largest
        if self._jvm.up and not small:
            return super().run(descriptors, description, timeout_s, shared)
        if self._jvm.broken or (not small and self._needs_jvm()):
            self._jvm.begin()
        feed = descriptors[0].plan.feed.name
        workers = [self._worker(feed, n) for n in range(len(descriptors))]
        given = [(w, d) for w, d in zip(workers, descriptors, strict=True) if w is not None]
        if len(given) < len(descriptors):
            return super().run(descriptors, description, timeout_s, shared)
        return _at_once([partial(w.deliver, d, description, timeout_s) for w, d in given])

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """As of a JobRunner; raises WorkerLost, too."""
        with self._guard:
            self._reading += 1
            first = self._chunks
            self._chunks += len(tasks)
            # Each in its turn, so that all cores read.
            readers = [self._readers.at(first + n) for n in range(len(tasks))]
        try:
            given = [(w, t) for w, t in zip(readers, tasks, strict=True) if w is not None]
            if len(given) < len(tasks):
                return super().read(tasks, description, timeout_s)
            return _at_once([partial(w.read, t, description, timeout_s) for w, t in given])
        finally:
            with self._guard:
                self._reading -= 1
                self._read = True

    def tend(self, feeds: Collection[str]) -> None:
        """As of a JobRunner."""
        with self._guard:
            self._places = {feed: at for feed, at in self._places.items() if feed in feeds}
            unused = [] if self._reading or self._read else self._readers.given_up()
            self._read = False
            workers = [*self._deliverers.workers(), *self._readers.workers()]
        for worker in unused:
            worker.end()
        for worker in workers:
            if not worker.ended:
                worker.keep(feeds, self._silent_s)
        if self._jvm.broken:
            # No window may come for long, and the capture is not well meanwhile.
            self._jvm.begin()
        super().tend(feeds)

    def stop(self) -> None:
        """End the workers, whatever they do."""
        with self._guard:
            self._spawner = None
            workers = [*self._deliverers.given_up(), *self._readers.given_up()]
        for worker in workers:
            worker.end()

    def _needs_jvm(self) -> bool:
        """Whether large windows have come for long enough; called for each of them."""
        now = self._monotonic()
        with self._guard:
            if now - self._large_last >= _APART_S:
                self._large_since = now
            self._large_last = now
            return now - self._large_since >= self._jvm_after_s

    def _worker(self, feed: str, task: int) -> ResidentWorker | None:
        """The one that a task of a changefeed's windows goes to; None if there can be none."""
        with self._guard:
            at = self._places.get(feed)
            if at is None:
                placed = list(self._places.values())
                at = self._places[feed] = min(range(len(self._deliverers)), key=placed.count)
            return self._deliverers.at(at + task)

    def _spawn(self) -> ResidentWorker | None:
        if self._spawner is None:
            return None
        try:
            return ResidentWorker(self._spawner.spawn())
        except OSError as e:
            _log.warning("all goes to Spark, as nothing forks workers: %s", e)
            self._spawner = None
            return None


def _at_once(asked: Sequence[Callable[[], Done]]) -> list[Done]:
    """All answers in order; what one raises is raised when all have ended."""
    if len(asked) == 1:
        return [asked[0]()]
    with ThreadPoolExecutor(len(asked), "resident") as pool:
        answers = [pool.submit(one) for one in asked]
        return [answer.result() for answer in answers]
