"""Small windows of many changefeeds in few jobs, as a database's log groups commits.

A job costs some 20 ms of processor before it delivers a row, and a row of a table that a thousand
changefeeds share makes a thousand windows at once. Who comes while as many jobs are under way as
run at once waits for the next job, which takes all that have come meanwhile. Where there are few,
nobody waits for anybody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from processor.task_messages import Ack, Descriptor

# All wait for the last of them; this many take about a second.
_TOGETHER = 64

Deliver = Callable[[Sequence[Descriptor], str, float], list[Ack]]
"""One job of one task, which delivers the descriptors, some at once."""


@dataclass(eq=False, slots=True)
class _Window:
    """One changefeed's window. ``job`` is what it must run for all of them, once that is its part.

    ``turn`` is set when it has a job to run, or its answer.
    """

    descriptor: Descriptor
    description: str
    timeout_s: float
    turn: threading.Event = field(default_factory=threading.Event)
    job: list[_Window] = field(default_factory=list)
    ack: Ack | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Queue:
    waiting: deque[_Window] = field(default_factory=deque)
    running: int = 0

    def next_job(self) -> list[_Window]:
        """Those that have waited longest."""
        return [self.waiting.popleft() for _ in range(min(_TOGETHER, len(self.waiting)))]


class SharedJobs:
    """Runs windows of one task; those with the same ``shared`` may go in one job.

    Whoever is in a job with another waits for it and fails with it, so they should have a sink in
    common. ``at_once`` says how many jobs run at once.
    """

    def __init__(self, deliver: Deliver, at_once: Callable[[], int]) -> None:
        self._deliver = deliver
        self._at_once = at_once
        self._guard = threading.Lock()
        self._queues: dict[str, _Queue] = {}

    def run(self, window: Descriptor, description: str, timeout_s: float, shared: str) -> Ack:
        """The window's acknowledgement. Raises what running its job raises."""
        at_once = self._at_once()
        mine = _Window(window, description, timeout_s)
        with self._guard:
            queue = self._queues.setdefault(shared, _Queue())
            queue.waiting.append(mine)
            if queue.running < at_once:
                queue.running += 1
                mine.job = queue.next_job()
        if not mine.job:
            mine.turn.wait()
        if mine.job:
            self._lead(shared, queue, mine)
        if mine.error is not None:
            raise mine.error
        assert mine.ack is not None
        return mine.ack

    def _lead(self, shared: str, queue: _Queue, leader: _Window) -> None:
        """Run a job for all that are in it, and leave the next one to who has waited longest."""
        job = leader.job
        try:
            others = f" and of {len(job) - 1} more changefeeds" if len(job) > 1 else ""
            timeout_s = max(window.timeout_s for window in job)
            windows = [window.descriptor for window in job]
            acks = self._deliver(windows, leader.description + others, timeout_s)
            for window, ack in zip(job, acks, strict=True):
                window.ack = ack
        except BaseException as error:
            for window in job:
                window.error = error
        finally:
            with self._guard:
                following = queue.next_job()
                if following:
                    following[0].job = following
                else:
                    queue.running -= 1
                    if not queue.running:
                        del self._queues[shared]
            for window in (*job, *following[:1]):
                window.turn.set()
