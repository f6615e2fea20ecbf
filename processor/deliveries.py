"""What a worker keeps of the changefeeds whose windows it delivers."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Collection
from functools import partial

from cdc.base.errors import TidegateError
from processor.delivery import FeedDelivery
from processor.task_messages import Ack, Descriptor, FeedPlan

_FEW = 8


def _settle() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    Spark collects garbage after each task, and looking at all that numba and Spark have loaded
    costs some 100 ms each time; it would also copy pages that workers share. What is in a cycle
    then is never freed, so this is for few moments: it must not come with each table or window.
    """
    gc.collect()
    gc.freeze()


class Deliveries:
    """One :class:`processor.delivery.FeedDelivery` for each changefeed."""

    def __init__(self) -> None:
        self._known: dict[str, FeedDelivery] = {}
        self._guard = threading.Lock()
        # Changefeeds that have begun here, also those whose window is being delivered; how many
        # there were when it was looked at last, and whether one has begun since.
        self._feeds: set[str] = set()
        self._settled = 0
        self._begun = False

    def __contains__(self, feed: str) -> bool:
        return feed in self._known

    def __len__(self) -> int:
        return len(self._known)

    def prepared(self, descriptor: Descriptor) -> Callable[[], Ack]:
        """What delivers a window, once its changefeed's log is open here.

        For windows of different changefeeds, which may be delivered at once.
        """
        plan = descriptor.plan
        try:
            delivery = self._under(plan, self._known.get(plan.feed.name))
        except TidegateError as error:
            # Its log cannot be opened.
            return partial(failed, descriptor, error)
        self._known[plan.feed.name] = delivery
        return partial(delivery.deliver, descriptor)

    def deliver(self, descriptor: Descriptor) -> Ack:
        """Deliver a window, whatever others are being delivered.

        Also beside one of the same changefeed, which may have been given up and begun anew: that
        has what is open, and this one opens it for itself, as another worker would.
        """
        plan = descriptor.plan
        with self._guard:
            idle = self._known.pop(plan.feed.name, None)
        try:
            delivery = self._under(plan, idle)
        except TidegateError as error:
            return failed(descriptor, error)
        try:
            return delivery.deliver(descriptor)
        finally:
            with self._guard:
                kept = self._known.setdefault(plan.feed.name, delivery)
            if kept is not delivery:
                delivery.end()
            self.settle_grown()

    def keep(self, feeds: Collection[str]) -> None:
        """Give back what there is of changefeeds that do not run."""
        with self._guard:
            self._feeds &= set(feeds)
            ended = [self._known.pop(feed) for feed in self._known.keys() - set(feeds)]
        for delivery in ended:
            delivery.end()

    def settle_grown(self) -> None:
        """Settle if changefeeds have begun since: their schema is known now.

        To look for garbage with each of many would take too long, and what is begun again and again
        would leave more of it each time.
        """
        with self._guard:
            begun, self._begun = self._begun, False
            count, before = len(self._feeds), self._settled
            self._settled = count
        if not begun:
            return
        if count <= _FEW or count.bit_length() > before.bit_length():
            _settle()
        elif count > before:
            gc.freeze()

    def _under(self, plan: FeedPlan, known: FeedDelivery | None) -> FeedDelivery:
        """What there is of a changefeed, under this plan, or it begun anew."""
        if known is not None:
            if known.plan == plan or known.follow(plan):
                return known
            known.end()
        fresh = FeedDelivery(plan)
        with self._guard:
            self._feeds.add(plan.feed.name)
            self._begun = True
        return fresh


def failed(descriptor: Descriptor, error: TidegateError) -> Ack:
    """The answer of a window that was not begun."""
    return Ack(destinations=descriptor.destinations, error=error.marked())
