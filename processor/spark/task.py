"""What runs in Spark's Python workers: thin, the work is in :mod:`processor.delivery`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING

from cdc.base.errors import TransientError
from processor.task_messages import Ack, Descriptor

if TYPE_CHECKING:
    from processor.chunk_reading import ChunkRead, ChunkTask
    from processor.deliveries import Deliveries

_WINDOWS_AT_ONCE = 8


def load_modules() -> None:
    """Load all that delivers and reads rows, but no kernels; it must not start threads."""
    import processor.chunk_reading
    import processor.deliveries  # noqa: F401


def preload(between: Callable[[], None] | None = None) -> None:
    """Load kernels and codecs; called before the fork, so it must not start threads.

    ``between`` is that of :func:`cdc.kernels.compile.load_entries`.
    """
    from cdc.kernels.compile import load_entries

    load_modules()
    load_entries(between)


@cache
def deliveries() -> Deliveries:
    """What this worker keeps; it serves its tasks one after the other."""
    from processor.deliveries import Deliveries

    return Deliveries()


def warm(numbers: Iterator[int]) -> Iterator[int]:
    """Nothing but a started worker."""
    import os

    yield from (os.getpid() for _ in numbers)


def tend(running: Iterator[frozenset[str]]) -> Iterator[int]:
    """Give back what this worker has of changefeeds that do not run; of how many it has any."""
    for names in running:
        deliveries().keep(names)
        yield len(deliveries())


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
    kept = deliveries()
    work = [
        kept.prepared(descriptor)
        if descriptor.anywhere or descriptor.plan.feed.name in kept
        else partial(_left, descriptor)
        for descriptor in given
    ]
    acks = _at_once(work)
    kept.settle_grown()
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
    from processor.deliveries import failed

    error = TaskRepeated(
        f"Spark lost the executor of its first attempt; this would be attempt {attempt + 1}",
        object=f"changefeed {descriptor.plan.feed}",
        hint="delivery recovers by itself; look at Spark's workers and their hosts",
    )
    return failed(descriptor, error)


def _left(descriptor: Descriptor) -> Ack:
    return Ack(destinations=descriptor.destinations, left=True)
