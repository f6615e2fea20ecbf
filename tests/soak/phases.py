"""What a capture is doing, by its own log: so a kill is aimed, and what it interrupted is known.

Time says nothing here: a dead process writes no more, so its last line is what was under way.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection
from pathlib import Path

from processor.phase import Phase

STARTING = "starting"
RECOVERY = (Phase.TAKING_OVER, Phase.FENCING, Phase.PLANNING)
# What counts of several changefeeds: the one that is the deepest in a recovery.
_ORDER = (*RECOVERY, Phase.WAITING, STARTING, Phase.DELIVERING, Phase.IDLE)
_LINE = re.compile(rb" DEBUG phase: changefeed (\S+): (.+)")
_STARTS = re.compile(rb" INFO capture: capture \S+: starting")
_LOOK_S = 0.001


class PhaseLog:
    """Follows a capture's log, through all its restarts."""

    def __init__(self, log: Path) -> None:
        self.entered: list[tuple[str, str]] = []
        self._log = log
        self._at = 0
        self._feeds: dict[str, str] = {}

    def now(self) -> str:
        """The phase of the changefeed that is the deepest in a recovery; STARTING without any."""
        self.refresh()
        return min(self._feeds.values(), key=_ORDER.index, default=STARTING)

    def of(self, feed: str) -> str:
        """The phase of one changefeed."""
        self.refresh()
        return self._feeds.get(feed, STARTING)

    def refresh(self) -> None:
        """Take what has been written since, whole lines only."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._at)
            lines, _, _ = file.read().rpartition(b"\n")
        if not lines:
            return
        self._at += len(lines) + 1
        for line in lines.split(b"\n"):
            if found := _LINE.search(line):
                feed, phase = found[1].decode(), found[2].decode()
                self._feeds[feed] = phase
                self.entered.append((feed, phase))
            elif _STARTS.search(line):
                self._feeds.clear()

    def await_entered(self, phases: Collection[str], since: int, timeout_s: float) -> bool:
        """Wait until a changefeed is in one of ``phases``, entered behind ``entered[:since]``."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.refresh()
            now = self._feeds.items()
            if any(e[1] in phases and e in now for e in self.entered[since:]):
                return True
            time.sleep(_LOOK_S)
        return False
