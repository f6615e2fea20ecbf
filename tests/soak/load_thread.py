"""A thread that writes until it is stopped, and whose error is raised where it is waited for."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod


class LoadThread(ABC):
    """Runs ``_run`` beside the caller; ``_stopping`` says when to end."""

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is under way; raises what went wrong."""
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise what has gone wrong, if anything has."""
        if self._failed:
            raise self._failed[0]

    def _keep_pace(self, began: float, due_s: float) -> None:
        """Wait until ``due_s`` after ``began`` (monotonic), or until it is to end."""
        ahead = due_s - (time.monotonic() - began)
        if ahead > 0:
            self._stopping.wait(ahead)

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self._failed.append(error)

    @abstractmethod
    def _run(self) -> None:
        """Write until ``_stopping`` is set."""
