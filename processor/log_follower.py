"""Waking the changefeeds of an upstream when its log has resolved more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from cdc.base.parts import Parts
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog

# How soon a follower sees that it is to stop.
_LOOK_S = 0.5


class LogFollower:
    """One thread that waits for a log, for all changefeeds that read it."""

    def __init__(self, name: str, folder: Path, parts: Parts) -> None:
        self._folder = folder
        self._parts = parts
        self._wakes: dict[str, Callable[[], None]] = {}
        self._log: ChangeLog | None = None
        self._resolved: Ts = 0
        self._stopping = threading.Event()
        self._part = parts.make(f"log {name}", self._look_on, self._stopping)

    def start(self) -> None:
        """Begin to wait."""
        self._part.start()

    def stop(self) -> None:
        """Wake nobody any more; the thread ends soon."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread's end after ``stop``."""
        self._part.join(timeout_s)
        self._parts.forget(self._part)

    def add(self, feed: str, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever the log has resolved more; a new one takes the old one's place."""
        self._wakes = {**self._wakes, feed: wake}

    def keep(self, feeds: set[str]) -> bool:
        """Forget all other changefeeds; whether any is left."""
        self._wakes = {feed: wake for feed, wake in self._wakes.items() if feed in feeds}
        return bool(self._wakes)

    def _look_on(self) -> bool:
        self._log = self._log or ChangeLog.open(self._folder)
        before = self._resolved
        # A log that was made anew begins lower.
        self._resolved = self._log.wait(before, _LOOK_S).resolved_ts
        if self._resolved != before:
            for wake in self._wakes.values():
                wake()
        if self._stopping.is_set():
            self._log.close()
            return False
        return True
