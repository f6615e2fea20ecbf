"""Starting something slow beside all else, by whoever notices that it is not there."""

from __future__ import annotations

import threading
from collections.abc import Callable


class StartBeside:
    """One attempt at a time, in a thread of its own, and none within ``again_s`` of the last one.

    ``start`` raises if it fails, which is for it to log; ``now()`` are seconds of a steady clock.
    ``failed``: the last attempt that has ended did not succeed.
    """

    def __init__(
        self, name: str, start: Callable[[], object], again_s: float, now: Callable[[], float]
    ) -> None:
        self._name, self._start, self._again_s, self._now = name, start, again_s, now
        self._guard = threading.Lock()
        self._attempt: threading.Thread | None = None
        self._next_s = 0.0
        self.failed = False

    def begin(self) -> None:
        """Begin an attempt, if it is time for one."""
        with self._guard:
            under_way = self._attempt is not None and self._attempt.is_alive()
            if under_way or self._now() < self._next_s:
                return
            self._next_s = self._now() + self._again_s
            self._attempt = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._attempt.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the attempt that is under way."""
        if self._attempt is not None:
            self._attempt.join(timeout_s)

    def _run(self) -> None:
        try:
            self._start()
        except Exception:
            self.failed = True
        else:
            self.failed = False
