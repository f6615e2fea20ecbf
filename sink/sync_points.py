"""Points at which a target is what its upstream was at one ts, written down at the target."""

from __future__ import annotations

from typing import Protocol

from cdc.base.ts import Ts
from sink.errors import SinkOptionNotSupported


class SyncPoints(Protocol):
    """Writes down sync points of one changefeed in one epoch."""

    def write(self, ts: Ts) -> None:
        """Write down that the target is as the upstream was at ``ts``, and where its binlog is.

        All rows of the changefeed at or below ``ts`` are delivered, none above, and none come until
        this has returned. One that is known stays as it is; those that are too old are removed.
        Raises FencedEpoch if the ledger has another epoch, as rows may have come since.
        """


def none_kept() -> SyncPoints:
    """Of a sink that is no database: raises SinkOptionNotSupported."""
    raise SinkOptionNotSupported(
        "this sink is no database, so it has no sync points",
        object="enable-sync-point",
        hint="leave it out; it is for MySQL and MariaDB",
    )
