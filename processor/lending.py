"""Large windows of a changefeed, delivered by the workers of several captures at once.

The capture that plans a changefeed deals the tasks of a window out to itself and to *lenders*:
captures of its cluster whose workers read its log over the network. What such a worker may do is
what any worker may: its ledger transactions hold the epoch, and a window is over before the next
one begins, so a destination is never delivered by two captures, and each window may deal anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cdc.base import measures
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TransientError, from_dict
from cdc.changelog.remote.access import LogAccess
from processor.jobs import Captures, JobRunner, OwnJobs
from processor.task_messages import Ack, Descriptor

_log = logging.getLogger("processor")

# How long one that has failed is asked for nothing, doubled with each failure that follows: one
# that cannot reach the sink from where it is would else fail one window after the other.
_SHUNNED_S = 5.0
_DOUBLED = 8
# So long behind its last task a changefeed's sink stays open in a lender's workers.
_KEPT_S = 60.0


class LenderLost(TransientError):
    """Another capture did not finish tasks of ours; the ledger knows how far it has come."""

    code = "TG:ErrLenderLost"


class Lender(Protocol):
    """Another capture that delivers tasks of ours."""

    @property
    def capture(self) -> str:
        """Its id."""

    @property
    def tasks(self) -> int:
        """How many it runs at once."""

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float
    ) -> list[Ack]:
        """Their acknowledgements, in order. Raises LenderLost: nothing is known of them."""


def runs_at(wanted: Sequence[str], captures: Captures) -> list[str]:
    """Which capture runs each of a window's tasks.

    ``wanted``: which it is to be, "" for any. Those go first where the log is, as many as run there
    at once, then to the others; what nobody has room for waits where the log is.
    """
    left = dict(captures.rooms)
    for capture in wanted:
        if capture in left:
            left[capture] -= 1
    found = []
    for capture in wanted:
        at = capture
        if capture not in captures.rooms:
            at = next((name for name, room in left.items() if room > 0), captures.here)
            left[at] -= 1
        found.append(at)
    return found


class BorrowedJobs(OwnJobs):
    """Runs a window's tasks on our own workers and those of lenders.

    ``capture`` is our own. ``lenders()`` are those of the moment, ``access`` says how their workers
    read a log of ours, by its folder.
    """

    def __init__(
        self,
        own: JobRunner,
        capture: str,
        lenders: Callable[[], Sequence[Lender]],
        access: Callable[[Path], LogAccess],
        clock: Clock,
    ) -> None:
        super().__init__(own)
        self._capture = capture
        self._clock = clock
        self._guard = threading.Lock()
        self._lenders = lenders
        self._access = access
        # Lenders that have failed: how often in a row, and until when they are left alone.
        self._failed: dict[str, tuple[int, float]] = {}

    @property
    def parallelism(self) -> int:
        """Tasks that run at once, here and elsewhere."""
        return sum(self.captures.rooms.values())

    @property
    def captures(self) -> Captures:
        """As of a JobRunner; those that have just failed are not among them."""
        return self._captures(self._usable())

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """As of a JobRunner; raises LenderLost, too, but not before all others have ended."""
        wanted = [descriptor.capture for descriptor in descriptors]
        lenders = self._usable() if len(wanted) > 1 or wanted[0] else []
        numbers_at: dict[str, list[int]] = {}
        for n, place in enumerate(runs_at(wanted, self._captures(lenders))):
            numbers_at.setdefault(place, []).append(n)
        own = numbers_at.pop(self._capture, [])
        if not numbers_at:
            return self._own.run(descriptors, description, timeout_s, shared)
        given = [
            (lender, numbers_at[lender.capture])
            for lender in lenders
            if lender.capture in numbers_at
        ]
        acks: dict[int, Ack] = {}
        with ThreadPoolExecutor(len(given), "lender") as pool:
            asked = []
            for lender, numbers in given:
                theirs = [self._reached(descriptors[n]) for n in numbers]
                asked.append(pool.submit(self._lent, lender, theirs, description, timeout_s))
            if own:
                ours = [descriptors[n] for n in own]
                acks |= zip(own, self._own.run(ours, description, timeout_s, ""), strict=True)
            for answer, (_, numbers) in zip(asked, given, strict=True):
                acks |= zip(numbers, answer.result(), strict=True)
        return [acks[n] for n in range(len(descriptors))]

    def _captures(self, lenders: Sequence[Lender]) -> Captures:
        rooms = {lender.capture: lender.tasks for lender in lenders}
        return Captures(self._capture, {self._capture: self._own.parallelism, **rooms})

    def _usable(self) -> list[Lender]:
        now = self._clock.monotonic()
        with self._guard:
            shunned = {capture for capture, (_, until) in self._failed.items() if until > now}
        return [lender for lender in self._lenders() if lender.capture not in shunned]

    def _lent(
        self, lender: Lender, theirs: Sequence[Descriptor], description: str, timeout_s: float
    ) -> list[Ack]:
        try:
            acks = lender.run(theirs, description, timeout_s)
        except LenderLost as error:
            _log.warning("%s", error)
            self._note(lender.capture, failed=True)
            raise
        self._note(lender.capture, failed=any(_failed_there(ack) for ack in acks))
        measures.BORROWED_TASKS.labels(theirs[0].plan.feed.name).inc(len(theirs))
        return acks

    def _note(self, capture: str, *, failed: bool) -> None:
        with self._guard:
            if not failed:
                self._failed.pop(capture, None)
                return
            times = self._failed.get(capture, (0, 0.0))[0]
            shunned_s = _SHUNNED_S * 2 ** min(times, _DOUBLED)
            self._failed[capture] = times + 1, self._clock.monotonic() + shunned_s

    def _reached(self, descriptor: Descriptor) -> Descriptor:
        plan = descriptor.plan
        return replace(descriptor, plan=replace(plan, access=self._access(Path(plan.log_folder))))


def _failed_there(ack: Ack) -> bool:
    """Whether a task failed for what may be the matter with its host."""
    return ack.error is not None and from_dict(ack.error).kind is ErrorKind.TRANSIENT


class LentWorkers(OwnJobs):
    """Our workers, with what they do for other captures: a JobRunner that keeps both alive."""

    def __init__(self, own: JobRunner, clock: Clock) -> None:
        super().__init__(own)
        self._clock = clock
        self._guard = threading.Lock()
        # Changefeeds of other captures, and when a task of theirs was here last.
        self._lent: dict[str, float] = {}

    def lend(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float
    ) -> list[Ack]:
        """Tasks of another capture's changefeed. Raises what running them raises."""
        feed = descriptors[0].plan.feed.name
        self._note(feed)
        acks = self._own.run(descriptors, description, timeout_s, "")
        self._note(feed)
        measures.LENT_TASKS.inc(len(descriptors))
        return acks

    def tend(self, feeds: Collection[str]) -> None:
        """As of a JobRunner; what was lent a moment ago is kept, too."""
        since = self._clock.monotonic() - _KEPT_S
        with self._guard:
            self._lent = {feed: at for feed, at in self._lent.items() if at > since}
            lent = set(self._lent)
        self._own.tend(lent.union(feeds))

    def _note(self, feed: str) -> None:
        with self._guard:
            self._lent[feed] = self._clock.monotonic()
