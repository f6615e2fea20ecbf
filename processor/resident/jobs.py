"""Small windows without a job of Spark's.

A job costs some 20 ms of processor in the JVM and 10 in the capture before it delivers a row, which
is nothing to a large window and nearly all of a small one. So a window of one task goes to a worker
that stays, over a pair of sockets: to the same one each time, as its sink is open there. What it
does is what a task of Spark's does, by the same code, and under the same ledger: whoever delivers
next, here or there, finds what was delivered before. So these workers also deliver large windows
while Spark's JVM does not run yet, which the first of them starts.

Rows that are copied are read by others of their kind, so that no window waits behind them; nothing
of that needs a JVM.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from cdc.base.errors import TransientError
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import JobRunner, JobTimedOut, OwnJobs
from processor.resident.frames import (
    ChunkAsked,
    FeedsHeard,
    FeedsKept,
    TaskAnswer,
    WindowAsked,
    WorkerReady,
    receive,
    send,
)
from processor.resident.spawner import Spawner
from processor.task_messages import Ack, Descriptor

_log = logging.getLogger("processor")
# A worker that is stopped reads nothing: so long it may take before it counts as hung.
_SEND_S = 10
# It answers at once, but for what keeps the interpreter from it, which takes seconds at most.
_SILENT_S = 30.0
_DELIVERY_RECOVERS = "delivery recovers by itself"
_READ_AGAIN = "the rows are read again"

Done = TypeVar("Done", Ack, ChunkRead)


class WorkerLost(TransientError):
    """A resident worker ended before it had done what it was given; a ledger knows how far."""

    code = "TG:ErrWorkerLost"


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
    the ``jvm`` of ``own`` does not run they get all windows; one that is not for them starts it,
    and each that finds that it has ended. A worker that has not answered for ``silent_s`` seconds
    hangs, and is killed.
    """

    def __init__(
        self,
        own: JobRunner,
        jvm: Jvm,
        spawner: Spawner,
        largest: int,
        silent_s: float = _SILENT_S,
    ) -> None:
        super().__init__(own)
        self._jvm = jvm
        self._spawner: Spawner | None = spawner
        self._largest, self._silent_s = largest, silent_s
        self._guard = threading.Lock()
        self._deliverers: list[ResidentWorker | None] = []
        # By changefeed the worker that has its sink open.
        self._places: dict[str, int] = {}
        self._readers: list[ResidentWorker | None] = []
        # Of chunks: how many were ever read, how many are being read, and whether any was of late.
        self._chunks, self._reading, self._read = 0, 0, False

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """As of a JobRunner; raises WorkerLost, too, but not before all other tasks have ended."""
        small = len(descriptors) == 1 and descriptors[0].log_bytes <= self._largest
        if self._jvm.up and not small:
            return super().run(descriptors, description, timeout_s, shared)
        if not small or self._jvm.broken:
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
            readers = [self._reader() for _ in tasks]
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
            unused: list[ResidentWorker | None] = []
            if not (self._reading or self._read):
                unused, self._readers = self._readers, []
            self._read = False
            workers = [*self._deliverers, *self._readers]
        for worker in unused:
            if worker is not None:
                worker.end()
        for worker in workers:
            if worker is not None and not worker.ended:
                worker.keep(feeds, self._silent_s)
        if self._jvm.broken:
            # No window may come for long, and the capture is not well meanwhile.
            self._jvm.begin()
        super().tend(feeds)

    def stop(self) -> None:
        """End the workers, whatever they do."""
        with self._guard:
            workers = [*self._deliverers, *self._readers]
            self._deliverers, self._readers, self._spawner = [], [], None
        for worker in workers:
            if worker is not None:
                worker.end()

    def _worker(self, feed: str, task: int) -> ResidentWorker | None:
        """The one that a task of a changefeed's windows goes to; None if there can be none."""
        with self._guard:
            at = self._places.get(feed)
            if at is None:
                placed = list(self._places.values())
                at = self._places[feed] = min(
                    range(self._count(self._deliverers)), key=placed.count
                )
            return self._at(self._deliverers, at + task)

    def _reader(self) -> ResidentWorker | None:
        """The one that reads the next chunk, each in its turn; under the guard."""
        self._chunks += 1
        return self._at(self._readers, self._chunks)

    def _at(self, workers: list[ResidentWorker | None], number: int) -> ResidentWorker | None:
        if self._spawner is None:
            return None
        at = number % self._count(workers)
        worker = workers[at]
        if worker is None or worker.ended:
            worker = workers[at] = self._spawned(self._spawner)
        return worker

    def _count(self, workers: list[ResidentWorker | None]) -> int:
        if not workers:
            # Asked once: while the JVM starts anew only that knows.
            workers += [None] * self.parallelism
        return len(workers)

    def _spawned(self, spawner: Spawner) -> ResidentWorker | None:
        try:
            return ResidentWorker(spawner.spawn())
        except OSError as e:
            _log.warning("small windows are jobs of Spark, as nothing forks workers: %s", e)
            self._spawner = None
            return None


def _at_once(asked: Sequence[Callable[[], Done]]) -> list[Done]:
    """All answers in order; what one raises is raised when all have ended."""
    if len(asked) == 1:
        return [asked[0]()]
    with ThreadPoolExecutor(len(asked), "resident") as pool:
        answers = [pool.submit(one) for one in asked]
        return [answer.result() for answer in answers]


@dataclass(slots=True)
class _Waiting:
    over: threading.Event = field(default_factory=threading.Event)
    answer: TaskAnswer | None = None


class ResidentWorker:
    """The capture's end of one worker."""

    def __init__(self, connection: socket.socket) -> None:
        waits = struct.pack("@ll", _SEND_S, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, waits)
        self._connection = connection
        self._guard = threading.Lock()
        self._sending = threading.Lock()
        self._asked = 0
        self._waiting: dict[int, _Waiting] = {}
        self._process = -1
        # Since when it owes an answer to what is kept; None when it owes none.
        self._owes_since: float | None = None
        self.ended = False
        threading.Thread(target=self._listen, name="resident-worker", daemon=True).start()

    def deliver(self, descriptor: Descriptor, description: str, timeout_s: float) -> Ack:
        """The window's acknowledgement. Raises WorkerLost, JobTimedOut.

        RuntimeError for what is no error of ours. Behind ``timeout_s`` the worker is killed, and
        nothing is known of what it did.
        """
        of = f"changefeed {descriptor.plan.feed.name}"
        asked = partial(WindowAsked, descriptor=descriptor)
        return self._ask(Ack, asked, of, description, timeout_s, _DELIVERY_RECOVERS)

    def read(self, task: ChunkTask, description: str, timeout_s: float) -> ChunkRead:
        """What was read of a chunk. Raises as :meth:`deliver` does."""
        of = f"upstream {task.info.name}"
        asked = partial(ChunkAsked, task=task)
        return self._ask(ChunkRead, asked, of, description, timeout_s, _READ_AGAIN)

    def _ask(
        self,
        wanted: type[Done],
        asked: Callable[[int], WindowAsked | ChunkAsked],
        of: str,
        description: str,
        timeout_s: float,
        then: str,
    ) -> Done:
        waiting = _Waiting()
        with self._guard:
            number = self._asked = self._asked + 1
            if not self.ended:
                self._waiting[number] = waiting
            else:
                waiting.over.set()
        self._say(asked(number))
        if not waiting.over.wait(timeout_s):
            self.end()
            raise JobTimedOut(
                f"it did not end in {timeout_s:.0f} s: {description}",
                object=of,
                hint=f"its worker was killed; {then}",
            )
        answer = waiting.answer
        if answer is None:
            raise WorkerLost(
                f"its worker has ended: {description}",
                object=of,
                hint=f"{then}; the system's log may tell who has killed it",
            )
        if not isinstance(answer.done, wanted):
            # As Spark would; the worker has left its traceback in the capture's log.
            raise RuntimeError(f"{answer.raised} in a resident worker: {description}")
        return answer.done

    def keep(self, feeds: Collection[str], silent_s: float) -> None:
        """Have it give back what it has of other changefeeds; kill it if it is silent too long.

        One that hangs while it idles shows by this, and not by the next window's time-out.
        """
        now = time.monotonic()
        with self._guard:
            since = self._owes_since = now if self._owes_since is None else self._owes_since
        if now - since > silent_s:
            _log.warning("a worker has not answered for %.0f s: it is killed", now - since)
            self.end()
            return
        self._say(FeedsKept(frozenset(feeds)))

    def end(self) -> None:
        """Kill it, also where it is stopped."""
        with self._guard:
            if self._process >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._process, signal.SIGKILL)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _say(self, message: WindowAsked | ChunkAsked | FeedsKept) -> None:
        try:
            with self._sending:
                send(self._connection, message)
        except OSError:
            # It has ended, or reads nothing; who waits for it learns so.
            self.end()

    def _listen(self) -> None:
        with suppress(EOFError, OSError), self._connection.makefile("rb") as stream:
            while True:
                message = receive(stream)
                if isinstance(message, WorkerReady):
                    with self._guard, suppress(ProcessLookupError):
                        self._process = os.pidfd_open(message.pid)
                    continue
                if isinstance(message, FeedsHeard):
                    with self._guard:
                        self._owes_since = None
                    continue
                with self._guard:
                    waiting = self._waiting.pop(message.number)
                waiting.answer = message
                waiting.over.set()
        with self._guard:
            self.ended = True
            lost, self._waiting = self._waiting, {}
            process, self._process = self._process, -1
        if process >= 0:
            os.close(process)
        self._connection.close()
        for waiting in lost.values():
            waiting.over.set()
