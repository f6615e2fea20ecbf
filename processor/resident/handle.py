"""The capture's end of a resident worker: what it was given, and what it answers."""

from __future__ import annotations

import logging
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from cdc.base.errors import TransientError
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.jobs import JobTimedOut
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
from processor.task_messages import Ack, Descriptor

_log = logging.getLogger("processor")
# A worker that is stopped reads nothing: so long it may take before it counts as hung.
_SEND_S = 10
_DELIVERY_RECOVERS = "delivery recovers by itself"
_READ_AGAIN = "the rows are read again"

Done = TypeVar("Done", Ack, ChunkRead)


class WorkerLost(TransientError):
    """A resident worker ended before it had done what it was given; a ledger knows how far."""

    code = "TG:ErrWorkerLost"


@dataclass(slots=True)
class _Waiting:
    over: threading.Event = field(default_factory=threading.Event)
    answer: TaskAnswer | None = None


class ResidentWorker:
    """One worker, over ``connection``."""

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
