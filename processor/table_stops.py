"""Tables of a changefeed that have stopped at a row, or schema change, that cannot be delivered."""

from __future__ import annotations

import logging

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.ts import Ts
from cdc.coord.messages import ErrorInfo, TableStop

_log = logging.getLogger("processor")


class TableStops:
    """By table the first that could not be delivered, in one epoch: the other tables go on."""

    def __init__(self, feed: str, clock: Clock) -> None:
        self._feed = feed
        self._clock = clock
        self._stops: dict[str, TableStop] = {}

    def __bool__(self) -> bool:
        return bool(self._stops)

    def add(self, name: str, ts: Ts, error: TidegateError) -> None:
        """Stop a table below ``ts``, unless it stops before that."""
        known = self._stops.get(name.lower())
        if known is None or ts < known.ts:
            _log.warning("changefeed %s: stops at ts %d: %s", self._feed, ts, error)
            shown = ErrorInfo.of(error, self._clock.now_ms())
            self._stops[name.lower()] = TableStop(table=name, ts=ts, error=shown)

    def caps(self) -> dict[str, Ts]:
        """The last ts of each that may be delivered."""
        return {name: stop.ts - 1 for name, stop in self._stops.items()}

    def told(self) -> list[TableStop]:
        """As the owner is told."""
        return list(self._stops.values())
