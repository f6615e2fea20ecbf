"""What operating a changefeed needs of the capture in which it happens, and nothing more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from cdc.base.position import TransactionName
from cdc.base.ts import Ts
from cdc.coord.messages import DdlEntries, FeedInfo, FeedStatus, UpstreamInfo
from cdc.schema.snapshot import Schema, Wanted
from owner.copies import Reads


class KnownUpstreams(Protocol):
    """The upstreams that are registered."""

    def info(self, name: str) -> UpstreamInfo:
        """One upstream; raises an invalid error if there is none of this name."""

    def schema_at(self, name: str, ts: Ts, wanted: Wanted | None = None) -> tuple[Ts, Schema]:
        """(ts, schema) to start a changefeed at; 0 is now, as the server has the wanted tables.

        Without ``wanted`` it is asked for all of them. Raises LogCollected if the log begins later.
        """

    def check_replica(self, name: str, uri: str) -> None:
        """Raises what forbids to read rows from a replica of an upstream."""

    def revive(self, name: str) -> None:
        """Start a puller anew that an error has ended; nothing happens if it runs."""


class KeptLogs(Protocol):
    """How far back the change logs go."""

    def check_kept(self, upstream: str, ts: Ts) -> None:
        """Raises LogCollected if the upstream's log does not hold all that lies above ``ts``."""

    def transaction_at(self, upstream: str, ts: Ts) -> TransactionName | None:
        """What the upstream calls the last transaction at or below ``ts``, if there is one."""


class FeedObserver(Protocol):
    """Who is told how changefeeds fare, for metrics; what it is told changes nothing."""

    def observe_feed(
        self, info: FeedInfo, status: FeedStatus, ddls: DdlEntries, reads: Reads
    ) -> None:
        """What a tick has left; ``reads`` are the copies of rows that are under way."""

    def keep_feeds(self, names: Collection[str], captures: int) -> None:
        """All changefeeds that there are, and the number of captures."""
