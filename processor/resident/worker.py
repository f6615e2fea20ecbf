"""A resident worker: it delivers what its capture hands to it, until one of them ends."""

from __future__ import annotations

import os
import socket
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NoReturn

from processor import process_names
from processor.deliveries import Deliveries
from processor.resident.frames import (
    FeedsHeard,
    FeedsKept,
    WindowAnswer,
    WindowAsked,
    WorkerReady,
    receive,
    send,
)

# Each mostly waits for its sink, and one whose sink hangs keeps a place.
_WINDOWS_AT_ONCE = 16


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

    def take(self, message: WindowAsked | FeedsKept) -> None:
        if isinstance(message, FeedsKept):
            self._answer(FeedsHeard())
            self._pool.submit(self._keep, message)
        else:
            self._pool.submit(self._deliver, message)

    def _keep(self, kept: FeedsKept) -> None:
        try:
            self._deliveries.keep(kept.feeds)
        except Exception:
            # A sink that cannot be told ends what was open there by itself.
            traceback.print_exc()

    def _deliver(self, asked: WindowAsked) -> None:
        try:
            answer = WindowAnswer(asked.number, self._deliveries.deliver(asked.descriptor))
        except BaseException as error:
            traceback.print_exc()
            answer = WindowAnswer(asked.number, raised=type(error).__name__)
        self._answer(answer)

    def _answer(self, answer: FeedsHeard | WindowAnswer) -> None:
        # A capture that has ended needs no answer; the end of its connection ends this process.
        with self._sending, suppress(OSError):
            send(self._connection, answer)
