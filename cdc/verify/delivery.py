"""How far a changefeed is, for whoever compares its two sides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from cdc.base.clock import Clock
from cdc.base.errors import TransientError
from cdc.base.nodes import node_of
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog import node_logs
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.source.position import UpstreamPosition, file_number
from cdc.source.pulled import Positions, PulledLogs
from cdc.verify.report import Stopped

_TICK_S = 0.1


class DeliveryTooSlow(TransientError):
    """The change log, or a topic, did not get in time where a comparison needs it."""

    code = "TG:ErrVerifyDeliveryTooSlow"


@dataclass(frozen=True, slots=True)
class FeedProgress:
    """A changefeed's checkpoint, and whether it goes on by itself."""

    checkpoint_ts: Ts
    running: bool


@dataclass(frozen=True, slots=True)
class UpstreamMoment:
    """A moment of the upstream: its positions then, and a ts that all before it may be above."""

    ts: Ts
    positions: Positions


def _later(runs: Runs, position: UpstreamPosition) -> bool:
    """Whether any lies behind a position of its node's binlogs."""
    file, at = file_number(position.file), position.pos
    later = (runs.upstream_file == file) & (runs.upstream_pos >= at)
    return bool((later | (runs.upstream_file > file)).any())


class Delivery(Protocol):
    """What a comparison asks of the changefeed. Called by several threads."""

    def mark(self, positions: Positions) -> UpstreamMoment:
        """The moment at which the upstream's binlogs end at ``positions``."""

    def reach(self, positions: Positions, stop: threading.Event) -> None:
        """Wait until what committed up to positions of the upstream is delivered.

        Returns early if the changefeed does not run, or gets no further in time: ``behind`` then
        says which tables that concerns. Raises DeliveryTooSlow if the log is late.
        """

    def behind(self, schema: str, table: str) -> int:
        """Rows of the table that had committed by the last ``reach`` and are not delivered."""

    def moved(self, schema: str, table: str, since: UpstreamMoment) -> bool:
        """Whether rows of the table committed after ``since``."""


class LogDelivery:
    """The changefeed's progress, and its upstream's change log."""

    def __init__(
        self,
        folder: Path,
        server_kind: str,
        progress: Callable[[], FeedProgress],
        clock: Clock,
        timeout_s: float,
    ) -> None:
        self._log = ChangeLog.open(folder)
        try:
            self._pulled = PulledLogs(self._log, server_kind)
        except BaseException:
            self._log.close()
            raise
        self._progress = progress
        self._clock = clock
        self._timeout_s = timeout_s
        self._wanted: Ts = 0
        self._stuck_at: Ts = -1

    def close(self) -> None:
        """Give the logs back."""
        self._pulled.close()
        self._log.close()

    def mark(self, positions: Positions) -> UpstreamMoment:
        """The moment at which the upstream's binlogs end at ``positions``."""
        return UpstreamMoment(self._log.refresh().resolved_ts, positions)

    def reach(self, positions: Positions, stop: threading.Event) -> None:
        """Wait until what committed up to positions of the upstream is delivered."""
        end = self._clock.monotonic() + self._timeout_s
        upto: dict[str, Ts] = {}
        while (wanted := self._pulled.known(positions, upto)) is None:
            if not self._tick(end, stop):
                raise DeliveryTooSlow(
                    f"the log has not reached the end of the binlog within {self._timeout_s:g} s",
                    object="change log",
                    position=", ".join(map(str, positions.values())),
                    hint="see upstream query",
                )
        while (now := self._progress()).running and now.checkpoint_ts < wanted:
            # A table that has stopped holds the checkpoint; it is not waited for again and again.
            if now.checkpoint_ts == self._stuck_at:
                break
            if not self._tick(end, stop):
                self._stuck_at = now.checkpoint_ts
        self._wanted = max(self._wanted, wanted)

    def behind(self, schema: str, table: str) -> int:
        """Rows of the table that had committed by the last ``reach`` and are not delivered."""
        runs = self._runs(schema, table, self._progress().checkpoint_ts, self._wanted)
        return int(runs.rows.sum()) if runs is not None else 0

    def moved(self, schema: str, table: str, since: UpstreamMoment) -> bool:
        """Whether rows of the table committed after ``since``."""
        runs = self._runs(schema, table, since.ts, self._log.refresh().resolved_ts)
        if runs is None:
            return False
        # The log may have been behind the server at that moment.
        position = since.positions.get(node_of(schema))
        if position is not None:
            return _later(runs, position)
        # Of a logical table, whose rows are of many nodes.
        nodes, places = node_logs.load(self._log.folder), runs.segment // node_logs.SEGMENTS_END
        for place in np.unique(places).tolist():
            name = nodes[place - 1].name if place else ""
            position = since.positions.get(name)
            # Rows that were made those of another definition do not say whose they are.
            if position is None or _later(runs.take(places == place), position):
                return True
        return False

    def _runs(self, schema: str, table: str, after: Ts, upto: Ts) -> Runs | None:
        if after >= upto:
            return None
        wanted = (schema.lower(), table.lower())
        ids = {
            i for i, t in self._log.tables.items() if (t.schema.lower(), t.name.lower()) == wanted
        }
        return self._log.runs(Position(after), Position(upto), tables=ids) if ids else None

    def _tick(self, end: float, stop: threading.Event) -> bool:
        if stop.wait(_TICK_S):
            raise Stopped("the verification was stopped")
        return self._clock.monotonic() < end
