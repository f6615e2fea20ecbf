"""What a worker keeps of the changefeeds whose windows it delivers."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial

from cdc.base.errors import TidegateError
from processor.delivery import FeedDelivery
from processor.task_messages import Ack, Descriptor, FeedPlan

_FEW = 8


def settle() -> None:
    """Take what lives as long as the process out of the garbage collector's sight.

    Spark collects garbage after each task, and looking at all that numba and Spark have loaded
    costs some 100 ms each time; it would also copy pages that workers share. What is in a cycle
    then is never freed, so this is for few moments: it must not come with each table or window.
    """
    gc.collect()
    gc.freeze()


class Deliveries:
    """One :class:`processor.delivery.FeedDelivery` for each changefeed.

    A changefeed has one window at a time; windows of several may be delivered at once.
    """

    def __init__(self) -> None:
        self._known: dict[str, FeedDelivery] = {}
        self._guard = threading.Lock()
        # Windows that are being delivered, by changefeed.
        self._busy: Counter[str] = Counter()
        # How many there were when it was settled last, and whether others have begun since.
        self._settled = 0
        self._begun = False

    def __contains__(self, feed: str) -> bool:
        return feed in self._known

    def __len__(self) -> int:
        return len(self._known)

    def prepared(self, descriptor: Descriptor) -> Callable[[], Ack]:
        """What delivers a window, once its changefeed's log is open here."""
        delivery = self._followed(descriptor.plan)
        if delivery is None:
            try:
                delivery = self._opened(descriptor.plan)
            except TidegateError as error:
                # Its log cannot be opened.
                return partial(failed, descriptor, error)
        return partial(delivery.deliver, descriptor)

    def deliver(self, descriptor: Descriptor) -> Ack:
        """Deliver a window, beside those of other changefeeds."""
        feed = descriptor.plan.feed.name
        with self._guard:
            self._busy[feed] += 1
        try:
            return self.prepared(descriptor)()
        finally:
            with self._guard:
                self._busy[feed] -= 1
            self.settle_grown()

    def keep(self, feeds: Collection[str]) -> None:
        """Give back what there is of changefeeds that do not run."""
        with self._guard:
            gone = [f for f in self._known.keys() - set(feeds) if not self._busy[f]]
            ended = [self._known.pop(feed) for feed in gone]
            for feed in gone:
                del self._busy[feed]
        for delivery in ended:
            delivery.end()

    def settle_grown(self) -> None:
        """Settle if changefeeds have begun since: their schema is known now.

        To look for garbage with each of many would take too long, and what is begun again and again
        would leave more of it each time.
        """
        with self._guard:
            begun, self._begun = self._begun, False
            count, before = len(self._known), self._settled
            self._settled = count
        if not begun:
            return
        if count <= _FEW or count.bit_length() > before.bit_length():
            settle()
        elif count > before:
            gc.freeze()

    def _followed(self, plan: FeedPlan) -> FeedDelivery | None:
        """What there is of the changefeed, under this plan; None if it can be of no use."""
        known = self._known.get(plan.feed.name)
        if known is None or known.plan == plan or known.follow(plan):
            return known
        known.end()
        return None

    def _opened(self, plan: FeedPlan) -> FeedDelivery:
        fresh = FeedDelivery(plan)
        with self._guard:
            self._known[plan.feed.name] = fresh
            self._begun = True
        return fresh


def failed(descriptor: Descriptor, error: TidegateError) -> Ack:
    """The answer of a window that was not begun."""
    return Ack(destinations=descriptor.destinations, error=error.marked())
