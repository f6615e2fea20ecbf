"""What runs in Spark's Python workers: thin, the work is in :mod:`processor.delivery`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from cdc.base.errors import TidegateError, TransientError
from processor.task_messages import Ack, Descriptor, FeedPlan

if TYPE_CHECKING:
    from processor.chunk_reading import ChunkRead, ChunkTask

# One entry a changefeed; a worker serves its tasks one after the other.
_deliveries: dict[str, Any] = {}
_FEW = 8
_WINDOWS_AT_ONCE = 8


def preload() -> None:
    """Load kernels and codecs; called before the fork, so it must not start threads."""
    import processor.chunk_reading
    import processor.delivery  # noqa: F401
    from cdc.kernels.compile import load_entries

    load_entries()


def settle() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    Spark collects garbage after each task, and looking at all that numba and Spark have loaded
    costs some 100 ms each time; it would also copy pages that workers share. What is in a cycle
    then is never freed, so this is for few moments: it must not come with each table or window.
    """
    gc.collect()
    gc.freeze()


def warm(numbers: Iterator[int]) -> Iterator[int]:
    """Nothing but a started worker."""
    import os

    yield from (os.getpid() for _ in numbers)


def tend(running: Iterator[frozenset[str]]) -> Iterator[int]:
    """Give back what this worker has of changefeeds that do not run; of how many it has any."""
    for names in running:
        for name in _deliveries.keys() - names:
            _deliveries.pop(name).end()
        yield len(_deliveries)


class TaskRepeated(TransientError):
    """Spark ran a task again whose executor it had lost: delivery recovers instead."""

    code = "TG:ErrTaskRepeated"


def run(descriptors: Iterator[Descriptor]) -> Iterator[Ack]:
    """Deliver each descriptor that is for this worker, if this is the task's first attempt."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.attemptNumber() if context is not None else 0
    given = list(descriptors)
    if attempt:
        yield from (refused(descriptor, attempt) for descriptor in given)
        return
    known, begun = len(_deliveries), False
    work: list[Callable[[], Ack]] = []
    for descriptor in given:
        if not descriptor.anywhere and descriptor.plan.feed.name not in _deliveries:
            work.append(partial(_left, descriptor))
            continue
        delivery = _followed(descriptor.plan)
        if delivery is None:
            try:
                delivery, begun = _begun(descriptor.plan), True
            except TidegateError as error:
                # Its log cannot be opened.
                work.append(partial(_failed, descriptor, error))
                continue
        work.append(partial(delivery.deliver, descriptor))
    acks = _at_once(work)
    if begun:
        # The schema is known now. To look for garbage with each of many would take too long, and
        # what is begun again and again would leave more of it each time.
        count = len(_deliveries)
        if count <= _FEW or count.bit_length() > known.bit_length():
            settle()
        elif count > known:
            gc.freeze()
    yield from acks


def _at_once(work: Sequence[Callable[[], Ack]]) -> list[Ack]:
    """Do windows of several changefeeds, some at once: each mostly waits for its sink."""
    if len(work) == 1:
        return [work[0]()]
    with ThreadPoolExecutor(_WINDOWS_AT_ONCE, "window") as pool:
        return [done.result() for done in [pool.submit(one) for one in work]]


def read(tasks: Iterator[ChunkTask]) -> Iterator[ChunkRead]:
    """Read each chunk of a table into its file."""
    from processor.chunk_reading import read_chunk

    yield from map(read_chunk, tasks)


def refused(descriptor: Descriptor, attempt: int) -> Ack:
    """The answer of a second attempt.

    An executor that is lost with its host is no failure in Spark's count, so the task is run
    again whatever ``spark.task.maxFailures`` says; but the first attempt may have committed, or
    commit yet. Only a recovery knows: it fences, and then reads the ledger.
    """
    error = TaskRepeated(
        f"Spark lost the executor of its first attempt; this would be attempt {attempt + 1}",
        object=f"changefeed {descriptor.plan.feed}",
        hint="delivery recovers by itself; look at Spark's workers and their hosts",
    )
    return _failed(descriptor, error)


def _failed(descriptor: Descriptor, error: TidegateError) -> Ack:
    return Ack(destinations=descriptor.destinations, error=error.marked())


def _left(descriptor: Descriptor) -> Ack:
    return Ack(destinations=descriptor.destinations, left=True)


def _followed(plan: FeedPlan) -> Any:
    """What this worker has of the changefeed, under this plan; None if it can be of no use."""
    known = _deliveries.get(plan.feed.name)
    if known is None or known.plan == plan or known.follow(plan):
        return known
    known.end()
    return None


def _begun(plan: FeedPlan) -> Any:
    from processor.delivery import FeedDelivery

    fresh = _deliveries[plan.feed.name] = FeedDelivery(plan)
    return fresh
