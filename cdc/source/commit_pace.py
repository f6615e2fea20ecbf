"""When to commit the log: at once while little comes, in larger groups while a commit is dear."""

from __future__ import annotations

# Of the time under load, a commit may take one part in this many and one.
_SHARE = 3


class CommitPace:
    """Remembers when the last group commit ended and what it cost, in seconds.

    Counting from a commit's end keeps a slow disk from being synced without a pause.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ended = 0.0
        self._cost_s = 0.0

    def committed(self, began: float, ended: float) -> None:
        """A group commit took from ``began`` to ``ended`` (monotonic)."""
        self._ended, self._cost_s = ended, ended - began

    def due(self, now: float) -> bool:
        """Whether to commit although more is coming."""
        return now - self._ended >= max(self._interval_s, _SHARE * self._cost_s)

    def rest_s(self, now: float) -> float:
        """Seconds until a commit is right although no more is coming: as long as the last took."""
        return max(0.0, self._ended + self._cost_s - now)
