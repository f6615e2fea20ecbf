"""What runs in Spark's Python workers: thin, the work is in :mod:`processor.delivery`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from processor.task_messages import Ack, Descriptor, FeedPlan

# One entry a changefeed; a worker serves its tasks one after the other.
_deliveries: dict[str, Any] = {}


def preload() -> None:
    """Load kernels and codecs; called before the fork, so it must not start threads."""
    import processor.delivery  # noqa: F401

    settle()


def settle() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    Spark collects garbage after each task, and looking at all that numba and Spark have loaded
    costs some 100 ms each time; it would also copy pages that workers share.
    """
    gc.collect()
    gc.freeze()


def warm(numbers: Iterator[int]) -> Iterator[int]:
    """Nothing but a started worker."""
    import os

    yield from (os.getpid() for _ in numbers)


def run(descriptors: Iterator[Descriptor]) -> Iterator[Ack]:
    """Deliver each descriptor."""
    for descriptor in descriptors:
        yield _delivery_of(descriptor.plan).deliver(descriptor)


def _delivery_of(plan: FeedPlan) -> Any:
    from processor.delivery import FeedDelivery

    known = _deliveries.get(plan.feed)
    if known is not None and known.plan == plan:
        return known
    if known is not None:
        known.discard()
    fresh = FeedDelivery(plan)
    _deliveries[plan.feed] = fresh
    settle()
    return fresh
