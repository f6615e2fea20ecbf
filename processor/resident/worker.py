"""A resident worker: it does what its capture hands to it, until one of them ends."""

from __future__ import annotations

import os
import socket
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NoReturn

from processor import process_names
from processor.chunk_reading import ChunkRead, read_chunk
from processor.deliveries import Deliveries
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
from processor.task_messages import Ack

# Each mostly waits for its sink, and one whose sink hangs keeps a place.
_WINDOWS_AT_ONCE = 16
# As many as one copy may read at once: they do not keep windows waiting.
_CHUNKS_AT_ONCE = 64


def serve(connection: socket.socket) -> NoReturn:
    """Serve one connection, and end this process with it, whatever is under way.

    Others may take a capture that has ended for dead: nothing of it may go on.
    """
    process_names.take(process_names.RESIDENT)
    served = _Served(connection)
    with suppress(EOFError, OSError), connection.makefile("rb") as stream:
        send(connection, WorkerReady(os.getpid()))
        while True:
            served.take(receive(stream))
    os._exit(0)


class _Served:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._deliveries = Deliveries()
        self._pool = ThreadPoolExecutor(_WINDOWS_AT_ONCE, "window")
        self._readers = ThreadPoolExecutor(_CHUNKS_AT_ONCE, "chunk")

    def take(self, message: WindowAsked | ChunkAsked | FeedsKept) -> None:
        if isinstance(message, FeedsKept):
            self._answer(FeedsHeard())
            self._pool.submit(self._keep, message)
        elif isinstance(message, ChunkAsked):
            self._readers.submit(self._do, message.number, partial(read_chunk, message.task))
        else:
            deliver = partial(self._deliveries.deliver, message.descriptor)
            self._pool.submit(self._do, message.number, deliver)

    def _keep(self, kept: FeedsKept) -> None:
        try:
            self._deliveries.keep(kept.feeds)
        except Exception:
            # A sink that cannot be told ends what was open there by itself.
            traceback.print_exc()

    def _do(self, number: int, what: Callable[[], Ack | ChunkRead]) -> None:
        try:
            answer = TaskAnswer(number, what())
        except BaseException as error:
            traceback.print_exc()
            answer = TaskAnswer(number, raised=type(error).__name__)
        self._answer(answer)

    def _answer(self, answer: FeedsHeard | TaskAnswer) -> None:
        # A capture that has ended needs no answer; the end of its connection ends this process.
        with self._sending, suppress(OSError):
            send(self._connection, answer)
