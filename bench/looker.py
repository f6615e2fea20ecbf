"""A thread that looks at a server again and again, and lives through the server's absence."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any

import pymysql

from bench.workload import Connect

# A server that is away, or went away in the middle of an answer.
AWAY = (
    pymysql.err.OperationalError,
    pymysql.err.InterfaceError,
    pymysql.err.InternalError,
    OSError,
)
_AGAIN_S = 0.1


class Looker(ABC):
    """Calls ``look`` every ``every_s`` seconds from its making on, until ``close``.

    A server that is away is connected to again; any other error ends the looking, and ``check``
    and ``close`` raise it.
    """

    def __init__(self, connect: Connect, every_s: float) -> None:
        self._connect = connect
        self._every_s = every_s
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded, name="looker", daemon=True)
        self._thread.start()

    @abstractmethod
    def look(self, cursor: Any) -> None:
        """Look once, with a cursor of the server."""

    def check(self) -> None:
        """Raise what has gone wrong, if anything has."""
        if self._failed:
            raise self._failed[0]

    def close(self) -> None:
        """Stop looking."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def _guarded(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._look_on()
                except AWAY:
                    self._stopping.wait(_AGAIN_S)
        except BaseException as error:
            self._failed.append(error)

    def _look_on(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            while not self._stopping.is_set():
                began = time.monotonic()
                self.look(cursor)
                self._stopping.wait(max(0.001, self._every_s - (time.monotonic() - began)))
