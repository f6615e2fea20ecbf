"""Both servers at one cut: the upstream in a snapshot, the target when it has at least that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from cdc.source.position import UpstreamPosition
from cdc.verify.delivery import Delivery, UpstreamMoment
from cdc.verify.group_side import GroupSide
from cdc.verify.layout import ComparedColumns
from cdc.verify.report import Stopped
from cdc.verify.sessions import Sql, Streamed, View
from cdc.verify.side import Side, TableSide

_MAX_AGE_S = 60.0

Found = TypeVar("Found")


class Upstream(View, Protocol):
    """All servers of the upstream, each with its binlog."""

    @property
    def nodes(self) -> Sequence[str]:
        """The names of the nodes; one that is empty where there is one server."""

    def server(self, schema: str) -> Streamed:
        """The server that a database is on; ``schema`` says its node, if there are several."""

    def positions(self) -> Mapping[str, UpstreamPosition]:
        """The end of each binlog now, by node: ``""`` where there is one server."""


class Pair:
    """The upstream's session, the target, and their cut; one thread uses it.

    A cut is taken when it is first needed and renewed after a minute, since a server keeps what a
    snapshot could still see. A table may be compared at several cuts: each range is complete at
    its own.
    """

    def __init__(
        self, upstream: Upstream, target: View, delivery: Delivery, stop: threading.Event
    ) -> None:
        self.upstream = upstream
        self.target = target
        self.delivery = delivery
        self.stop = stop
        self.marked = UpstreamMoment(0, {})
        self._taken_s: float | None = None

    def fresh(self) -> None:
        """Take a cut, or renew one that is old."""
        self.check()
        if self._taken_s is None or time.monotonic() - self._taken_s > _MAX_AGE_S:
            self.renew()

    def renew(self) -> None:
        """Take a new cut: what the upstream holds now, and the target once it was delivered."""
        self.check()
        self.marked = self.delivery.mark(self.upstream.positions())
        self.upstream.snapshot()
        self.delivery.reach(self.upstream.positions(), self.stop)
        self.target.snapshot()
        self._taken_s = time.monotonic()

    def check(self) -> None:
        """Raises Stopped if the verification was told to stop."""
        if self.stop.is_set():
            raise Stopped("the verification was stopped")

    def close(self) -> None:
        """End both sessions."""
        self.upstream.close()
        self.target.close()


class ServerPair(Pair):
    """Both sides are servers, and are asked the same."""

    def __init__(
        self, upstream: Upstream, target: Sql, delivery: Delivery, stop: threading.Event
    ) -> None:
        super().__init__(upstream, target, delivery, stop)
        self.target_server = target
        self._second = ThreadPoolExecutor(1, thread_name_prefix="verify-target")

    def sides(self, layout: ComparedColumns) -> tuple[Side, Side]:
        """The table of the target, and what it is made of upstream."""
        parts = [TableSide(self.upstream.server(p[0]), layout.at(p)) for p in layout.parts]
        ours = parts[0] if len(parts) == 1 else GroupSide(parts)
        return ours, TableSide(self.target_server, layout.at_target())

    def both(self, layout: ComparedColumns, ask: Callable[[Side], Found]) -> tuple[Found, Found]:
        """The answers of upstream and target, asked at the same time."""
        self.check()
        ours, theirs = self.sides(layout)
        other = self._second.submit(ask, theirs)
        try:
            mine = ask(ours)
        finally:
            other.exception()
        return mine, other.result()

    def close(self) -> None:
        """End both sessions."""
        super().close()
        self._second.shutdown()
