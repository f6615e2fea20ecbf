"""What upstreams need of whoever reads real servers and writes change logs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from cdc.base.ts import Ts
from cdc.coord.messages import UpstreamFinding, UpstreamInfo, UpstreamStatus
from cdc.schema.snapshot import Schema, Wanted
from cdc.server.log_replacement import LogMaker
from cdc.server.merging import Statuses
from cdc.server.needed import Needed
from cdc.source.anchoring import Anchoring

OnStatus = Callable[[UpstreamStatus], None]


class LogSource(LogMaker, Protocol):
    """What reads real servers and writes change logs."""

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        """Check the server, take the snapshot, make the log; the info completed."""

    def first_anchor(self, folder: Path) -> tuple[Ts, dict[str, Any], dict[str, Any]]:
        """Of a log that was just made: its begin, the upstream's position and the schema there."""

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        """Pull into the log until stopped; raises what ends it.

        ``needed``: what changefeeds need of the log; the rest may go. ``anchoring`` notes from time
        to time where another log could begin.
        """

    def recheck(self, info: UpstreamInfo, folder: Path) -> UpstreamInfo:
        """The upstream, or node, with what is advised now; raises if its server is another."""

    def unite(
        self, info: UpstreamInfo, folder: Path, nodes: Sequence[tuple[str, Path]]
    ) -> list[UpstreamFinding]:
        """Make the log over the logs of nodes, by name; what is advised."""

    def add_node(self, info: UpstreamInfo, folder: Path, name: str, path: Path) -> None:
        """Give a node, whose log is there, a place in the log of all nodes."""

    def merge(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        keep: Callable[[Mapping[str, Ts]], None],
        statuses: Statuses,
        anchoring: Anchoring,
    ) -> None:
        """Write the log over the logs of nodes until stopped; raises what ends it.

        ``keep`` takes up to which ts each node's log, by its own name, is not needed any more.
        ``anchoring`` is that of the log of all.
        """

    def schema_now(self, info: UpstreamInfo, folder: Path, wanted: Wanted | None = None) -> Ts:
        """A ts of this moment at which the log has the schema of the wanted tables, or of all."""

    def check_replica(self, info: UpstreamInfo, uri: str) -> None:
        """Raises what forbids to read rows from a replica of an upstream."""

    def schema_at(self, folder: Path, ts: Ts) -> Schema:
        """The schema for rows at ``ts``; raises if the log begins later."""
