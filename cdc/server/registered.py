"""The upstreams that the store knows, and what is told and needed of them: reading, no effects."""

from __future__ import annotations

from contextlib import suppress

from cdc.base.clock import Clock
from cdc.base.ts import MAX_TS
from cdc.coord.contract import Store
from cdc.coord.keys import Keys, last
from cdc.coord.messages import (
    ENDED,
    ErrorInfo,
    FeedInfo,
    FeedStatus,
    UpstreamInfo,
    UpstreamStatus,
)
from cdc.coord.stored import StoredValueUnreadable, read, readable
from cdc.server.needed import Needed
from cdc.server.upstream_errors import UpstreamNotFound


class Registered:
    """Of one store."""

    def __init__(self, store: Store, keys: Keys, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock

    def all(self) -> list[UpstreamInfo]:
        """All registered upstreams that can be read, by name."""
        _, entries = self._store.range(self._keys.upstream_info_prefix)
        return [info for _, info in readable(entries, UpstreamInfo)]

    def unreadable(self) -> dict[str, StoredValueUnreadable]:
        """By name those that cannot be read; nothing is done with them, and nothing to them."""
        found = {}
        for entry in self._store.range(self._keys.upstream_info_prefix)[1]:
            try:
                read(entry, UpstreamInfo)
            except StoredValueUnreadable as e:
                found[last(entry.key)] = e
        return found

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; raises :class:`UpstreamNotFound`."""
        entry = self._store.get(self._keys.upstream_info(name))
        if entry is None:
            raise UpstreamNotFound(
                "there is no such upstream",
                object=f"upstream {name}",
                hint="cdc cli upstream create registers one",
            )
        return read(entry, UpstreamInfo)

    def status(self, name: str) -> UpstreamStatus:
        """What its puller said last."""
        entry = self._store.get(self._keys.upstream_status(name))
        if entry is None:
            return UpstreamStatus()
        try:
            return read(entry, UpstreamStatus)
        except StoredValueUnreadable as e:
            # The puller writes another one soon; until then this is what is to be said.
            return UpstreamStatus(state="unknown", error=ErrorInfo.of(e, self._clock.now_ms()))

    def users(self, name: str) -> list[str]:
        """The changefeeds that read an upstream; also those of which nobody knows what they do."""
        users = []
        for feed in self._store.range(self._keys.feed_info_prefix)[1]:
            try:
                uses = read(feed, FeedInfo).upstream == name
            except StoredValueUnreadable:
                uses = True
            if uses:
                users.append(last(feed.key))
        return users

    def needed(self, name: str) -> Needed:
        """What the changefeeds that read an upstream need of its log.

        The greatest ts if there are none. Finished changefeeds need nothing, as TiCDC has it; of
        one that cannot be read nobody knows, so everything is kept.
        """
        lowest, starts = MAX_TS, []
        found = self._store.range(self._keys.feed_status_prefix)[1]
        statuses = {last(entry.key): entry for entry in found}
        for entry in self._store.range(self._keys.feed_info_prefix)[1]:
            try:
                feed = read(entry, FeedInfo)
            except StoredValueUnreadable:
                lowest = 0
                continue
            if feed.upstream == name and feed.state not in ENDED:
                status = statuses.get(feed.id)
                checkpoint = feed.start_ts
                if status is not None:
                    # One that cannot be read leaves the start: less may go, nothing is lost.
                    with suppress(StoredValueUnreadable):
                        checkpoint = read(status, FeedStatus).needed_ts
                lowest = min(lowest, checkpoint)
                starts.append(feed.start_ts)
        return Needed(lowest, tuple(starts))
