"""What a capture does with the upstreams that are placed at it.

It decides about the changefeeds that read them and delivers those, and it ends that, in order, when
one of them goes elsewhere. What hands over is what a failover has too: the checkpoint is in the
store, the ledger at the sink, and whoever comes next begins a new epoch there. Here is only waited
for what would be fenced otherwise.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from cdc.base.clock import Clock
from cdc.base.ts import Ts
from cdc.coord.contract import MAX_OPS, Delete, Held, Store
from cdc.coord.keys import Keys
from cdc.coord.messages import FeedInfo
from cdc.coord.stored import readable
from owner.guards import HeldNow
from processor.acknowledged import note_logs

_log = logging.getLogger("upstream")
_LOOK_S = 0.02


class Deciding(Protocol):
    """Who decides about changefeeds."""

    def let_go(self) -> None:
        """Returns once no turn is under way that began when more was ours than now."""


class Delivering(Protocol):
    """Who delivers changefeeds."""

    @property
    def running(self) -> Collection[str]:
        """Those that it delivers."""


class DdlReading(Protocol):
    """Who has logs open to read their DDLs."""

    def forget(self, upstream: str) -> None:
        """Close the log of an upstream, if it is open."""


class PlacedHere:
    """The delivery of what is placed at one capture. ``log_end``: up to where a log is resolved.

    Who decides and who delivers is told by :meth:`by`, before anything can end.
    """

    def __init__(
        self,
        store: Store,
        keys: Keys,
        capture: str,
        log_end: Callable[[str], Ts],
        clock: Clock,
        wait_s: float = 15.0,
    ) -> None:
        self._store = store
        self._keys = keys
        self._capture = capture
        self._log_end = log_end
        self._clock = clock
        self._wait_s = wait_s
        self._stop = threading.Event()
        self._decides: Deciding | None = None
        self._delivers: Delivering | None = None
        self._reads: DdlReading | None = None

    def by(self, decides: Deciding, delivers: Delivering, reads: DdlReading) -> None:
        """Who does what here."""
        self._decides, self._delivers, self._reads = decides, delivers, reads

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._stop.set()

    def begins(self, upstream: str) -> None:
        """The upstream is ours now; its log is about to be pulled."""
        note_logs(self._store, self._keys, self._log_end, upstream)
        _log.info("upstream %s: is here now", upstream)

    def ends(self, upstream: str, held: Held) -> None:
        """Deliver nothing of it any more; returns when that is so, or time is up."""
        began = self._clock.monotonic()
        if self._decides is not None:
            self._decides.let_go()
        entries = self._store.range(self._keys.feed_info_prefix)[1]
        feeds = {i.id for _, i in readable(entries, FeedInfo) if i.upstream == upstream}
        gone = [Delete(self._keys.assignment(self._capture, feed)) for feed in sorted(feeds)]
        for first in range(0, len(gone), MAX_OPS):
            self._store.txn([held], gone[first : first + MAX_OPS])
        if self._reads is not None:
            self._reads.forget(upstream)
        while self._delivers is not None and feeds & set(self._delivers.running):
            if self._clock.monotonic() - began > self._wait_s or self._stop.wait(_LOOK_S):
                # What it still does is fenced by the epoch of whoever comes next.
                _log.warning("upstream %s: leaves while it is delivered", upstream)
                break
        _log.info(
            "upstream %s: leaves, delivery ended after %.2f s",
            upstream,
            self._clock.monotonic() - began,
        )


class PlacedGuards:
    """Who may decide about what, where upstreams are placed.

    ``claims``: what guards the upstreams that are here; ``owner``: what the cluster's owner holds,
    if that is this capture.
    """

    def __init__(
        self, claims: Callable[[], Mapping[str, Held]], owner: Callable[[], Held | None]
    ) -> None:
        self._claims = claims
        self._owner = owner

    def now(self) -> HeldNow:
        """What this capture holds."""
        return HeldNow(self._owner(), self._claims())
