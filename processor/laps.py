"""How long the parts of a task took, for who looks where the time goes."""

from __future__ import annotations

import time


class Laps:
    """Parts follow one another; ``began_ns`` is when the first began, of the Unix epoch."""

    def __init__(self) -> None:
        self.began_ns = time.time_ns()
        self.seconds: dict[str, float] = {}
        self._began = self._last = time.perf_counter()

    def end(self, part: str) -> None:
        """What ran since the part before it has ended."""
        now = time.perf_counter()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self._last
        self._last = now

    @property
    def whole_s(self) -> float:
        """Seconds since the first began."""
        return time.perf_counter() - self._began
