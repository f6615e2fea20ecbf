"""Which changefeeds a change of the store concerns: only these are ticked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc.coord.keys import Keys, last

# The owner's own words are no news to it, and what destinations have is none of its business.
_NO_NEWS = (
    "/changefeed/status/",
    "/changefeed/ddl/",
    "/task/assignment/",
    "/task/slots/",
    "/task/acknowledged/",
    "/task/copied-rows/",
)
_ITS_NUMBER_LAST = (
    "/changefeed/ddl-decision/",
    "/changefeed/copy-order/",
    "/changefeed/copy-status/",
)


@dataclass(frozen=True, slots=True)
class Concerned:
    """Changefeeds that must be ticked: these, all of these upstreams, or ``every`` one.

    ``progress``: those of which only a report has come; nobody waits for it but the clock.
    ``moved``: upstreams whose log has resolved more, and that is all.
    """

    feeds: frozenset[str] = frozenset()
    upstreams: frozenset[str] = frozenset()
    progress: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    every: bool = False

    def __or__(self, other: Concerned) -> Concerned:
        """What either concerns."""
        return Concerned(
            self.feeds | other.feeds,
            self.upstreams | other.upstreams,
            self.progress | other.progress,
            self.moved | other.moved,
            self.every or other.every,
        )

    @property
    def urgent(self) -> bool:
        """Whether there is more than progress."""
        return self.every or bool(self.feeds or self.upstreams)

    def has(self, feed: str, upstream: str) -> bool:
        """Whether a changefeed is concerned."""
        return (
            self.every or feed in self.feeds or feed in self.progress or upstream in self.upstreams
        )


NOTHING = Concerned()
EVERY = Concerned(every=True)


def concerned(keys: Keys, changed: Iterable[str]) -> Concerned:
    """What keys below ``keys.prefix`` touch that have changed; one that is not known concerns all.

    >>> concerned(Keys(), [Keys().report("c", "f")]).progress
    frozenset({'f'})
    """
    feeds, progress = set(), set()
    for key in changed:
        if any(part in key for part in _NO_NEWS):
            continue
        if key.startswith(keys.report_prefix):
            progress.add(last(key))
        elif key.startswith(keys.feed_info_prefix):
            feeds.add(last(key))
        elif any(part in key for part in _ITS_NUMBER_LAST):
            feeds.add(key.split("/")[-2])
        else:
            return EVERY
    return Concerned(feeds=frozenset(feeds), progress=frozenset(progress))


def concerns_all(keys: Keys, changed: Iterable[str]) -> bool:
    """Whether keys below ``keys.meta_prefix`` touch changefeeds that have changed; then all do.

    Records of requests, and places where logs could begin, touch none.

    >>> concerns_all(Keys(), [Keys().anchor("main", 7), Keys().audit("ring", 1)])
    False
    """
    about = (keys.capture_prefix, keys.owner, keys.current_log_prefix)
    return any(key.startswith(about) for key in changed)
