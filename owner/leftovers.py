"""What in the store belongs to changefeeds or captures that are no more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from cdc.base.ts import Ts
from cdc.coord.keys import Keys, last


def leftovers(
    found: Collection[str], keys: Keys, captures: Collection[str], passed: Callable[[str], Ts]
) -> Iterator[str]:
    """Keys among ``found`` that may go; ``passed`` is the checkpoint of a changefeed."""
    for key in found:
        if key.startswith(keys.report_prefix) or "/task/assignment/" in key:
            capture, feed = key.split("/")[-2:]
            if capture not in captures or keys.feed_info(feed) not in found:
                yield key
        elif key.startswith((keys.feed_status_prefix, keys.feed_ddls(""))):
            if keys.feed_info(last(key)) not in found:
                yield key
        elif "/changefeed/copy-order/" in key or "/changefeed/copy-status/" in key:
            if keys.feed_info(key.split("/")[-2]) not in found:
                yield key
        elif "/changefeed/ddl-decision/" in key:
            feed, ts = key.split("/")[-2:]
            if keys.feed_info(feed) not in found or int(ts) <= passed(feed):
                yield key
