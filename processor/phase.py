"""What a changefeed is doing on its capture: a line of the log, at ``debug``, when it changes.

Nothing is decided by it. It tells operators where a changefeed spends its time (which is counted,
too), and tests what a kill has interrupted: the last line that a dead capture has written is what
it was doing.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum

from cdc.base import measures

_log = logging.getLogger("phase")


class Phase(StrEnum):
    """The work of a changefeed's thread, in the order in which a recovery comes through."""

    TAKING_OVER = "taking over"
    FENCING = "fencing"
    PLANNING = "planning"
    DELIVERING = "delivering"
    IDLE = "idle"
    WAITING = "waiting for its next attempt"


class Phases:
    """The phase of one changefeed."""

    def __init__(self, feed: str) -> None:
        self._feed = feed
        self._now: Phase | None = None
        self._since_s = time.monotonic()

    def enter(self, phase: Phase) -> None:
        """Log that ``phase`` begins, unless it is under way; the time since then is of the last."""
        now_s = time.monotonic()
        if self._now is not None:
            spent = measures.PHASE_SECONDS.labels(self._feed, str(self._now))
            spent.inc(now_s - self._since_s)
        self._since_s = now_s
        if phase is not self._now:
            self._now = phase
            _log.debug("changefeed %s: %s", self._feed, phase)
