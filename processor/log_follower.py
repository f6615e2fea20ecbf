"""Waking the changefeeds of an upstream that its log has news for (:mod:`processor.log_news`)."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import numpy as np

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.parts import Parts
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.base.turns import Turns
from cdc.changelog.errors import LogReplaced
from cdc.changelog.reader import ChangeLog
from processor.log_news import Awaited

# How soon a follower sees that it is to stop.
_LOOK_S = 0.5
# Looking for whom the rows of so many tables concern would cost more than waking all.
_MANY_TABLES = 1_000


class Follows(Protocol):
    """A changefeed that reads the log."""

    @property
    def awaited(self) -> Awaited | None:
        """All that it waits for while it is idle; None if any news may be for it."""

    def wake(self) -> None:
        """Look at the log again."""


class LogFollower:
    """One thread that waits for a log, for all changefeeds that read it."""

    def __init__(self, name: str, folder: Path, parts: Parts, clock: Clock) -> None:
        self._folder = folder
        self._parts = parts
        self._clock = clock
        self._feeds: dict[str, Follows] = {}
        self._turns = Turns(clock.monotonic())
        # Whom nothing concerned that came since they were last woken, whoever waits longest first.
        self._quiet: dict[str, None] = {}
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

    def add(self, name: str, feed: Follows) -> None:
        """Wake it whenever the log has news for it; a new one takes the old one's place."""
        self._feeds = {**self._feeds, name: feed}
        # It may have looked before, and what came since was told to the others.
        feed.wake()

    def keep(self, feeds: set[str]) -> bool:
        """Forget all other changefeeds; whether any is left."""
        self._feeds = {name: feed for name, feed in self._feeds.items() if name in feeds}
        return bool(self._feeds)

    def _wake(self, log: ChangeLog, before: Ts) -> None:
        """Wake whom it concerns that the log has resolved more than ``before``."""
        feeds = self._feeds
        few = len(feeds) <= self._turns.left
        changed = None if few else _changed(log, before)
        for name, feed in feeds.items():
            awaited = feed.awaited
            if changed is None or awaited is None or awaited.among(changed):
                self._quiet.pop(name, None)
                feed.wake()
            else:
                self._quiet[name] = None
        if few:
            self._turns = self._turns.spent(len(feeds))

    def _wake_quiet(self) -> None:
        """Wake those whose turn it is: they stand lower than the log, though they miss nothing."""
        now = [*self._quiet][: int(self._turns.left)]
        self._turns = self._turns.spent(len(now))
        for name in now:
            del self._quiet[name]
            if (feed := self._feeds.get(name)) is not None:
                feed.wake()

    def _look_on(self) -> bool:
        self._log = log = self._log or ChangeLog.open(self._folder)
        before = self._resolved
        try:
            self._resolved = log.wait(before, _LOOK_S).resolved_ts
        except LogReplaced:
            # The other one begins lower, and its changefeeds are told from there on.
            self._log, self._resolved = None, 0
            log.close()
            return not self._stopping.is_set()
        self._turns = self._turns.earned(self._clock.monotonic())
        if self._resolved != before:
            self._wake(log, before)
            log.forget_below(self._resolved)
        if self._quiet:
            self._wake_quiet()
        if self._stopping.is_set():
            log.close()
            return False
        return True


def _changed(log: ChangeLog, above: Ts) -> Collection[int] | None:
    """Tables that have rows above a ts; None if that is not all there is, as with a DDL."""
    resolved = log.state.resolved_ts
    if not above or resolved < above:
        return None
    try:
        if len(log.ddls(above, resolved)):
            return None
        found = np.unique(log.runs(Position(above), Position(resolved)).table)
    except TidegateError:
        # Each changefeed meets the same error, and says so.
        return None
    return None if len(found) > _MANY_TABLES else frozenset(found.tolist())
