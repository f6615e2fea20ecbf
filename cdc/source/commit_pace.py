"""When to commit the log: at once while little comes, in larger groups while a commit is dear."""

from __future__ import annotations

# Of the time under load, a commit may take one part in this many and one.
_SHARE = 3
# How often a commit on its way is looked at: a part of the time that it has taken.
_LOOK_S, _LOOK_SHARE = 0.001, 4
# So many groups may be appended behind a commit on its way before they wait for it.
_GROUPS_BEHIND = 4
# Between small commits that follow one another: each costs some 2 ms of processor.
_BETWEEN_S = 0.01
_CROWDED_S = 0.05
# Of less than that more is let come before it is looked at.
_TINY = 16 << 10
# From here on no rest is taken: a commit of so much is not small.
_LARGE = 1 << 20


class CommitPace:
    """Remembers when the last group commit ended and what it cost, in seconds.

    Counting from a commit's end keeps a slow disk from being synced without a pause. A commit may
    be carried out by another thread, which calls :meth:`ended`. ``waiting`` is always the bytes
    that wait for a commit.
    """

    def __init__(self, interval_s: float, group_bytes: int) -> None:
        self._interval_s = interval_s
        self._group_bytes = group_bytes
        # End and cost of the last one, as one object: both change at once for the other thread.
        self._last = (0.0, 0.0)
        self._began: float | None = None
        self._between_s = 0.0

    def began(self, now: float) -> None:
        """A group commit begins (monotonic)."""
        # What comes alone may be the first of a load.
        self._between_s = _BETWEEN_S if now - self._last[0] < _CROWDED_S else 0.0
        self._began = now

    def ended(self, now: float) -> float:
        """The commit that began is durable, or has failed; what it took."""
        began = self._began
        took = 0.0 if began is None else now - began
        if began is not None:
            self._last = (now, took)
        self._began = None
        return took

    def due(self, now: float, waiting: int) -> bool:
        """Whether to commit although more is coming."""
        if self._began is not None:
            return waiting >= _GROUPS_BEHIND * self._group_bytes
        ended, cost_s = self._last
        return waiting >= self._group_bytes or now - ended >= max(self._interval_s, _SHARE * cost_s)

    def rest_s(self, now: float, waiting: int) -> float:
        """Seconds until a commit is right although no more is coming.

        As long as the last took, and no less than between small ones that follow one another.
        """
        began = self._began
        if began is not None:
            return max(_LOOK_S, (now - began) / _LOOK_SHARE)
        if waiting >= _LARGE:
            return 0.0
        ended, cost_s = self._last
        return max(0.0, ended + max(cost_s, self._between_s) - now)

    def gathering_s(self, now: float, waiting: int) -> float:
        """Seconds for which what comes may be left unread, as it would wait for the rest's end.

        0 while a commit is on its way: then there is no time to lose.
        """
        if self._began is not None or not 0 < waiting < _TINY:
            return 0.0
        return self.rest_s(now, waiting)
