"""Real servers and real logs behind :class:`cdc.server.log_source.LogSource`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from cdc.base.clock import Clock
from cdc.base.ts import Ts
from cdc.changelog import origin
from cdc.changelog.behind import Behind
from cdc.changelog.origin import Origin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import Anchor, UpstreamFinding, UpstreamInfo, UpstreamStatus
from cdc.logical.names import PartNames
from cdc.logical.snapshot import logical_snapshot
from cdc.schema.snapshot import Schema, Wanted
from cdc.server import log_folders
from cdc.server.log_source import OnStatus
from cdc.server.merging import Merger, Statuses
from cdc.server.needed import Needed
from cdc.server.settings import ServerSettings
from cdc.snapshot.replica import ReplicaServer
from cdc.source import merged_anew, merged_log, registration
from cdc.source.anchoring import Anchoring
from cdc.source.compaction import Compaction
from cdc.source.merged_schema import united
from cdc.source.puller import Puller
from cdc.source.statements import History

_log = logging.getLogger(__name__)
_PATTERNS = "create the upstream anew with other --logical-tables, unless all tables are to come"


class RealSource:
    """Registers at, and pulls from, MySQL-protocol servers."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def register(self, asked: UpstreamInfo, start: str | None, folder: Path) -> UpstreamInfo:
        """Check the server, take the snapshot, make the log; the info completed."""
        with closing(self._writer(folder)) as writer:
            origin.save(folder, Origin.new())
            return registration.register(asked, writer, self._settings.source, self._clock, start)

    def first_anchor(self, folder: Path) -> tuple[Ts, dict[str, Any], dict[str, Any]]:
        """Of a log that was just made: its begin, the upstream's position and the schema there."""
        with closing(ChangeLog.open(folder)) as log:
            ts = log.state.first_ts
            return ts, log.state.position, log.snapshot_at(ts)

    def begin(self, folder: Path, anchor: Anchor, snapshot: dict[str, Any], o: Origin) -> None:
        """Make a log that begins at an anchor of the one whose place it takes."""
        with closing(self._writer(folder)) as writer:
            origin.save(folder, o)
            writer.save_snapshot(anchor.ts, {**snapshot, "ts": anchor.ts})
            writer.begin(anchor.ts, anchor.position)

    def begin_merged(
        self,
        folder: Path,
        anchor: Anchor,
        snapshot: dict[str, Any],
        o: Origin,
        nodes: Sequence[tuple[str, Path, Ts]],
    ) -> None:
        """Make the log of a cluster's nodes, whose own logs begin at the given ts, at an anchor."""
        with closing(self._writer(folder)) as writer:
            origin.save(folder, o)
            merged_anew.begin_anew(writer, folder, anchor.ts, snapshot, anchor.position, nodes)

    def pull(
        self,
        info: UpstreamInfo,
        folder: Path,
        on_status: OnStatus,
        needed: Callable[[], Needed],
        stop: threading.Event,
        anchoring: Anchoring,
    ) -> None:
        """Pull into the log until stopped, removing segments that nobody needs any more."""
        collected = anchored = self._clock.monotonic()
        compaction = Compaction(folder, self._settings.changelog.snapshot_statements)

        def compact(state: LogState, wanted: Needed) -> None:
            try:
                compaction.run(state, wanted.checkpoint_ts, wanted.starts)
            except Exception as error:
                # Readers follow more statements then; that is no reason to miss any.
                _log.warning("upstream %s: no schema snapshot: %s", info.name, error, exc_info=True)

        def anchor(state: LogState, wanted: Needed) -> None:
            try:
                if anchoring.run(state, wanted.anchored_ts):
                    # This log stands: the one whose place it has taken is not needed any more.
                    log_folders.drop_aside(folder.parent)
            except Exception as error:
                # A later one follows; until then a new log begins further back.
                _log.warning("upstream %s: no anchor: %s", info.name, error)

        def say(status: UpstreamStatus) -> None:
            nonlocal collected, anchored
            on_status(status.model_copy(update={"anchored_ts": anchoring.newest_ts}))
            # Called on the puller's thread, the only one that may touch the writer.
            if self._clock.monotonic() - collected > self._settings.changelog.collect_s:
                collected = self._clock.monotonic()
                wanted = needed()
                writer.collect(wanted.checkpoint_ts, wanted.starts)
                if not beside.busy:
                    beside.begin(partial(compact, writer.state, wanted))
            elif (
                self._clock.monotonic() - anchored > self._settings.changelog.anchor_s
                # While something is prepared there may be no place: the next call may find one.
                and anchoring.has_place(writer.state)
            ):
                anchored = self._clock.monotonic()
                if not beside.busy:
                    beside.begin(partial(anchor, writer.state, needed()))

        begun = origin.of(folder)
        with closing(self._writer(folder)) as writer, closing(Behind("schema-snapshot")) as beside:
            Puller(info, writer, self._settings.source, self._clock, say, begun).run(stop)

    def recheck(self, info: UpstreamInfo, folder: Path) -> UpstreamInfo:
        """The upstream, or node, with what is advised now; raises if its server is another."""
        return registration.recheck(info, folder, self._settings.source)

    def unite(
        self, info: UpstreamInfo, folder: Path, nodes: Sequence[tuple[str, Path]]
    ) -> list[UpstreamFinding]:
        """Make the log over the logs of nodes, by name; what is advised.

        Raises NodesUnlike, LogicalTablesDiffer.
        """
        with closing(self._writer(folder)) as writer:
            origin.save(folder, Origin.new())
            names = PartNames(tuple(info.logical_tables))
            unite = partial(logical_snapshot, names) if info.logical_tables else united
            merged_log.begin(info, writer, folder, nodes, unite)
        with closing(ChangeLog.open(folder)) as log:
            tables = len(Schema(log.snapshot_at(log.state.first_ts)))
        if tables or not info.logical_tables:
            return []
        what = f"no table is called as {', '.join(info.logical_tables)} says"
        return [UpstreamFinding(what=what, statement=_PATTERNS)]

    def add_node(self, info: UpstreamInfo, folder: Path, name: str, path: Path) -> None:
        """Give a node, whose log is there, a place in the log of all nodes. Raises NodesUnlike."""
        merged_log.add_node(info, folder, name, path)

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
        """Write the log over the logs of nodes until stopped, and remove what nobody needs."""
        Merger(
            info,
            folder,
            self._settings.changelog,
            self._clock,
            on_status,
            needed,
            keep,
            statuses,
            anchoring,
        ).run(stop)

    def schema_now(self, info: UpstreamInfo, folder: Path, wanted: Wanted | None = None) -> Ts:
        """A ts of this moment at which the log has the schema of the wanted tables."""
        ask = merged_log.schema_now if info.nodes else registration.schema_now
        return ask(info, folder, self._settings.source, self._clock, wanted)[0]

    def check_replica(self, info: UpstreamInfo, uri: str) -> None:
        """Raises what forbids to read rows from a replica of an upstream."""
        ReplicaServer(info, uri, self._settings.source, threading.Event()).close()

    def schema_at(self, folder: Path, ts: Ts) -> Schema:
        """The schema for rows at ``ts``; raises if the log begins later."""
        with closing(ChangeLog.open(folder)) as log:
            history = History(log, ts)
            history.refresh(ts)
            return history.schema_at(ts)

    def _writer(self, folder: Path) -> LogWriter:
        return LogWriter.open(folder, self._settings.changelog, self._clock)
