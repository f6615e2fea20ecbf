"""Writing the log of an upstream of several nodes while its nodes are pulled, and trimming it."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.ts import Ts
from cdc.changelog import node_logs, origin
from cdc.changelog.behind import Behind
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.state import LogState
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import ErrorInfo, UpstreamInfo, UpstreamStatus
from cdc.logical.tables import LogicalTables
from cdc.merge.carriers import CARRIERS
from cdc.merge.items import Coordinator
from cdc.server import log_folders
from cdc.server.needed import Needed
from cdc.server.nodes import CLUSTER
from cdc.source.anchoring import Anchoring
from cdc.source.cluster_merging import ClusterMerging
from cdc.source.compaction import Compaction
from cdc.source.merged_rows import NodeLog
from cdc.source.merging import Merging

_log = logging.getLogger("upstream")
# An index holds about as much of many small transactions as a segment of a node does.
_INDEX_SHARE = 16
# How long to wait for a node that the others wait for, before looking around.
_TICK_S = 0.5
# The least between two commits, each of which is a sync.
_PACE_S = 0.02
# A node that is further behind the others than this is said to hold them.
_HOLDS_MS = 1000
_INDEX_BYTES = 8 << 20
# The state of all is the first of these that a node is in.
_STATES = ("failed", "retrying", "paused", "unknown", "stopped", "starting", "connecting")

Statuses = Callable[[], Mapping[str, UpstreamStatus]]
"""What the pullers of the nodes said last, by the nodes' own names."""


class Merger:
    """Of one upstream. ``keep`` takes up to which ts each node's log is not needed any more."""

    def __init__(
        self,
        info: UpstreamInfo,
        folder: Path,
        settings: ChangelogSettings,
        clock: Clock,
        on_status: Callable[[UpstreamStatus], None],
        needed: Callable[[], Needed],
        keep: Callable[[Mapping[str, Ts]], None],
        statuses: Statuses,
        anchoring: Anchoring,
    ) -> None:
        self._info = info
        self._anchoring = anchoring
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._on_status = on_status
        self._needed = needed
        self._keep = keep
        self._statuses = statuses
        self._compaction = Compaction(folder, settings.snapshot_statements)
        self._said = self._collected = self._anchored = 0.0
        self._pointed: dict[int, dict[int, int]] = {}
        self._over: TidegateError | None = None

    def run(self, stop: threading.Event) -> None:
        """Merge until stopped. Raises what reading and writing logs raises."""
        with ExitStack() as stack:
            members = {node.node_name for node in self._info.nodes}
            self._nodes = [
                NodeLog(node.name, self._opened(stack, self._folder / node.folder), place)
                for place, node in enumerate(node_logs.load(self._folder))
                if node.name in members
            ]
            own = self._settings.model_copy(
                update={"segment_bytes": max(4096, self._settings.segment_bytes // _INDEX_SHARE)}
            )
            writer = LogWriter.open(self._folder, own, self._clock)
            self._writer = stack.enter_context(closing(writer))
            self._beside = stack.enter_context(closing(Behind("schema-snapshot")))
            self._merging = self._policy()
            while not stop.is_set():
                self._turn(stop)
            self._say("stopped")

    def _policy(self) -> Merging | ClusterMerging:
        """By whose time the nodes are merged: their own, or that of their coordinator."""
        size = self._settings.segment_bytes
        ends = {node.node_name: node.ends_ts for node in self._info.nodes if node.ends_ts}
        begun = origin.of(self._folder)
        pins = begun.pins
        if self._info.kind != CLUSTER:
            return Merging(self._writer, self._nodes, size, ends=ends, pins=pins, floor=begun.floor)
        coordinator = Coordinator(carrier=CARRIERS[self._info.carrier])
        patterns, kind = self._info.logical_tables, self._info.server_kind
        logical = LogicalTables(self._folder, patterns, kind) if patterns else None
        return ClusterMerging(
            self._writer, self._nodes, size, coordinator, pins=pins, logical=logical, ends=ends
        )

    def _opened(self, stack: ExitStack, folder: Path) -> ChangeLog:
        return stack.enter_context(closing(ChangeLog.open(folder, index_bytes=_INDEX_BYTES)))

    def _turn(self, stop: threading.Event) -> None:
        began = self._clock.monotonic()
        if began - self._said > 1:
            self._over = self._writer.over_budget()
            if self._over is not None and self._over.kind is ErrorKind.DEFINITE:
                raise self._over
            self._say()
        if began - self._collected > self._settings.collect_s:
            self._collected = began
            self._collect()
        elif began - self._anchored > self._settings.anchor_s:
            self._anchored = began
            if not self._beside.busy:
                self._beside.begin(partial(self._anchor, self._writer.state, self._needed()))
        if self._over is not None:
            stop.wait(_TICK_S)
        elif self._merging.step():
            stop.wait(max(0.0, _PACE_S - (self._clock.monotonic() - began)))
        else:
            log = self._merging.behind().log
            log.wait(log.state.resolved_ts, _TICK_S)

    # --- what is kept ----------------------------------------------------------------------------

    def _collect(self) -> None:
        wanted = self._needed()
        self._writer.collect(wanted.checkpoint_ts, wanted.starts)
        state = self._writer.state
        lowest = self._lowest(state)
        self._keep(self._merging.collectable(lowest))
        self._remove_left(lowest.keys())
        if not self._beside.busy:
            self._beside.begin(partial(self._compact, state, wanted))

    def _remove_left(self, places: Collection[int]) -> None:
        """Remove logs of nodes that have left, where no row lies in them any more."""
        for place, node in enumerate(node_logs.load(self._folder)):
            if node.name in self._info.left and place not in places:
                shutil.rmtree(self._folder / node.folder, ignore_errors=True)

    def _lowest(self, state: LogState) -> dict[int, int]:
        """By a node's place, the lowest of its segments that our rows point to."""
        kept = {s.number for s in state.closed}
        self._pointed = {n: found for n, found in self._pointed.items() if n in kept}
        for info in state.closed:
            if info.number not in self._pointed:
                self._pointed[info.number] = node_logs.first_segments(self._folder, info)
        last = [node_logs.first_segments(self._folder, state.current)] if state.segment else []
        lowest: dict[int, int] = {}
        for found in (*self._pointed.values(), *last):
            for node, segment in found.items():
                lowest[node] = min(segment, lowest.get(node, segment))
        return lowest

    def _compact(self, state: LogState, wanted: Needed) -> None:
        try:
            self._compaction.run(state, wanted.checkpoint_ts, wanted.starts)
        except Exception as error:
            # Readers follow more statements then; that is no reason to miss any.
            name = self._info.name
            _log.warning("upstream %s: no schema snapshot: %s", name, error, exc_info=True)

    def _anchor(self, state: LogState, wanted: Needed) -> None:
        try:
            if self._anchoring.run(state, wanted.checkpoint_ts):
                # This log stands: the one whose place it has taken is not needed any more.
                log_folders.drop_aside(self._folder.parent)
        except Exception as error:
            # A later one follows; until then a new log begins further back.
            _log.warning("upstream %s: no anchor: %s", self._info.name, error)

    # --- what is said ----------------------------------------------------------------------------

    def _say(self, state: str = "") -> None:
        self._said = self._clock.monotonic()
        log, nodes = self._writer.state, self._statuses()
        node, behind_ms = self._merging.behind_ms()
        found, error = state or "running", None
        if not state:
            found, error = _state_of(nodes)
            missing = self._merging.missing()
            if error is None and missing is not None:
                found = "retrying"
                error = ErrorInfo.of(missing, self._clock.now_ms())
        if self._over is not None:
            found = "paused"
            error = ErrorInfo.of(self._over, self._clock.now_ms())
        self._on_status(
            UpstreamStatus(
                state=found,
                resolved_ts=log.resolved_ts,
                position=log.position,
                log_bytes=log.bytes() + sum(s.log_bytes for s in nodes.values()),
                clock_skew_ms=max((s.clock_skew_ms for s in nodes.values()), key=abs, default=0),
                ahead_ms=max((s.ahead_ms for s in nodes.values()), default=0),
                error=error,
                prepared=[one for s in nodes.values() for one in s.prepared],
                first_ts=log.first_ts,
                anchored_ts=self._anchoring.newest_ts,
                waits_for=node.name if behind_ms > _HOLDS_MS else "",
                held_ms=behind_ms if behind_ms > _HOLDS_MS else 0,
            )
        )


def _state_of(nodes: Mapping[str, UpstreamStatus]) -> tuple[str, ErrorInfo | None]:
    """The state of all: that of the node that fares worst, with its error."""
    for state in _STATES:
        for status in nodes.values():
            if status.state == state:
                return state, status.error
    errors = (status.error for status in nodes.values())
    return "running", next((error for error in errors if error is not None), None)
