"""When to commit the log: at once while little comes, in larger groups while a commit is dear."""

from __future__ import annotations

# Of the time under load, a commit may take one part in this many and one.
_SHARE = 3


# How often a commit on its way is looked at, at first.
_LOOK_S = 0.001


class CommitPace:
    """Remembers when the last group commit ended and what it cost, in seconds.

    Counting from a commit's end keeps a slow disk from being synced without a pause. A commit may
    be carried out by another thread, which calls :meth:`ended`; until then no other one is due.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        # End and cost of the last one, as one object: both change at once for the other thread.
        self._last = (0.0, 0.0)
        self._began: float | None = None

    def began(self, now: float) -> None:
        """A group commit begins (monotonic)."""
        self._began = now

    def ended(self, now: float) -> None:
        """The commit that began is durable, or has failed."""
        began = self._began
        if began is not None:
            self._last = (now, now - began)
        self._began = None

    def due(self, now: float) -> bool:
        """Whether to commit although more is coming."""
        if self._began is not None:
            return False
        ended, cost_s = self._last
        return now - ended >= max(self._interval_s, _SHARE * cost_s)

    def rest_s(self, now: float) -> float:
        """Seconds until a commit is right although no more is coming: as long as the last took."""
        began = self._began
        if began is not None:
            return max(_LOOK_S, now - began)
        ended, cost_s = self._last
        return max(0.0, ended + cost_s - now)
