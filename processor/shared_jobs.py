"""Small windows of many changefeeds in few jobs, as a database's log groups commits.

A job costs some 20 ms of processor before it delivers a row, and a row of a table that a thousand
changefeeds share makes a thousand windows at once. Who comes while as many jobs are under way as
run at once waits for the next job, which takes all that have come meanwhile. Where there are few,
nobody waits for anybody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from cdc.base.ids import FeedId
from processor.task_messages import Ack, Descriptor

# All wait for the last of them; this many take about a second.
_TOGETHER = 64
# How often a window is left to another worker: the one that has its sink open may be no more.
_LEFT = 2

Deliver = Callable[[Sequence[Descriptor], str, float], list[Ack]]
"""One job of one task, which delivers the descriptors, some at once."""


@dataclass(eq=False, slots=True)
class _Window:
    """One changefeed's window. ``job`` is what it must run for all of them, once that is its part.

    ``turn`` is set when it has a job to run, or its answer; ``left`` is how often it was left.
    """

    descriptor: Descriptor
    description: str
    timeout_s: float
    turn: threading.Event = field(default_factory=threading.Event)
    job: list[_Window] = field(default_factory=list)
    left: int = 0
    ack: Ack | None = None
    error: BaseException | None = None

    @property
    def feed(self) -> FeedId:
        """The changefeed."""
        return self.descriptor.plan.feed

    @property
    def ended(self) -> bool:
        """Whether it has its answer."""
        return self.ack is not None or self.error is not None


@dataclass(slots=True)
class _Queue:
    waiting: deque[_Window] = field(default_factory=deque)
    running: int = 0


class SharedJobs:
    """Runs windows of one task; those with the same ``shared`` may go in one job.

    Whoever is in a job with another waits for it and fails with it, so they should have a sink in
    common. ``at_once`` says how many jobs run at once, each in a worker of its own.

    To open a sink costs more than a small window, and which worker a job comes to only Spark knows.
    So a job of many has windows for all workers, and each leaves those that another one has open.
    """

    def __init__(self, deliver: Deliver, at_once: Callable[[], int]) -> None:
        self._deliver = deliver
        self._at_once = at_once
        self._guard = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        # Changefeeds whose sink some worker has opened.
        self._opened: set[FeedId] = set()

    def run(self, window: Descriptor, description: str, timeout_s: float, shared: str) -> Ack:
        """The window's acknowledgement. Raises what running its job raises."""
        at_once = self._at_once()
        mine = _Window(window, description, timeout_s)
        with self._guard:
            queue = self._queues.setdefault(shared, _Queue())
            queue.waiting.append(mine)
            if queue.running < at_once:
                queue.running += 1
                mine.job = self._next_job(queue, at_once)
        while not mine.ended:
            if not mine.job:
                mine.turn.wait()
                mine.turn.clear()
            if mine.job:
                self._lead(shared, queue, mine, at_once)
        if mine.error is not None:
            raise mine.error
        assert mine.ack is not None
        return mine.ack

    def keep(self, feeds: Collection[str]) -> None:
        """Forget what workers have opened for other changefeeds than these."""
        with self._guard:
            self._opened = {feed for feed in self._opened if feed.name in feeds}

    def _next_job(self, queue: _Queue, at_once: int) -> list[_Window]:
        """Those that have waited longest: as many as one worker should have, as far as is known."""
        job: list[_Window] = []
        share = 0.0
        while queue.waiting and share < _TOGETHER:
            window = queue.waiting.popleft()
            share += 1 if self._for_any(window) else 1 / at_once
            job.append(window)
        return job

    def _for_any(self, window: _Window) -> bool:
        return window.left >= _LEFT or window.feed not in self._opened

    def _lead(self, shared: str, queue: _Queue, leader: _Window, at_once: int) -> None:
        """Run a job for all that are in it, and leave the next one to who has waited longest."""
        job, leader.job = leader.job, []
        try:
            others = f" and of {len(job) - 1} more changefeeds" if len(job) > 1 else ""
            timeout_s = max(window.timeout_s for window in job)
            windows = [self._offered(window, len(job)) for window in job]
            acks = self._deliver(windows, leader.description + others, timeout_s)
            for window, ack in zip(job, acks, strict=True):
                if ack.left:
                    window.left += 1
                else:
                    window.ack = ack
        except BaseException as error:
            for window in job:
                window.error = error
        finally:
            with self._guard:
                self._opened |= {window.feed for window in job if window.ack is not None}
                queue.waiting.extendleft(w for w in reversed(job) if not w.ended)
                following = self._next_job(queue, at_once)
                if following:
                    following[0].job = following
                else:
                    queue.running -= 1
                    if not queue.running:
                        del self._queues[shared]
            for window in (*(w for w in job if w.ended), *following[:1]):
                window.turn.set()

    def _offered(self, window: _Window, together: int) -> Descriptor:
        # One alone is not left to another worker: that would take another job.
        if together == 1 or self._for_any(window):
            return window.descriptor
        return replace(window.descriptor, anywhere=False)
