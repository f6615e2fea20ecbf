"""What writes beside a test until it is stopped."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from tests.servers import Database


class WritesBeside(ABC):
    """Writes some rows every hundredth of a second. ``written`` counts as :meth:`_write` does."""

    def __init__(self, server: Database) -> None:
        self.written = 0
        self._server = server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, if it runs."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.01):
            self._write()

    @abstractmethod
    def _write(self) -> None:
        """Write some."""
