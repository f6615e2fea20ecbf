"""The log of several nodes: where it begins, and its schema at a moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from cdc.base.clock import Clock
from cdc.base.nodes import SHARDS
from cdc.base.ts import Ts
from cdc.changelog import node_logs, snapshots
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamInfo
from cdc.schema.snapshot import Wanted
from cdc.source import compaction
from cdc.source.coming import Coming
from cdc.source.errors import UpstreamGone
from cdc.source.merged_schema import check_alike, united
from cdc.source.merging import merged_to, position_of, schema_to
from cdc.source.registration import schema_now as node_schema_now
from cdc.source.settings import SourceSettings
from cdc.source.shards_position import ShardsPosition

Unite = Callable[[Sequence[tuple[str, dict[str, Any]]], Ts], dict[str, Any]]
"""One snapshot, as of a ts of the merged log, out of one of each node."""


def begin(
    info: UpstreamInfo,
    writer: LogWriter,
    folder: Path,
    nodes: Sequence[tuple[str, Path]],
    unite: Unite = united,
) -> None:
    """Begin the log over logs of nodes, by name, that were just made.

    It begins where the last of them does; what others hold below that comes right above it, so
    nothing is left out. ``unite`` makes its schema. Raises NodesUnlike, and what ``unite`` raises.
    """
    begins: dict[str, Ts] = {}
    found: list[tuple[str, dict[str, Any]]] = []
    for name, path in nodes:
        with closing(ChangeLog.open(path)) as log:
            begins[name] = log.state.first_ts
            found.append((name, log.snapshot_at(begins[name])))
    check_alike(info.name, [(name, snapshot["server"]) for name, snapshot in found])
    node_logs.save(
        folder, [NodeFolder(name, os.path.relpath(path, folder)) for name, path in nodes]
    )
    ts = max(begins.values())
    writer.save_snapshot(ts, unite(found, ts))
    shards = info.kind == SHARDS
    writer.begin(ts, ShardsPosition(begins).to_dict() if shards else position_of(begins))


def add_node(info: UpstreamInfo, folder: Path, name: str, path: Path) -> None:
    """Give a node a place in the log, which its rows are named by; it joins when that is written.

    Places of nodes never change. Raises NodesUnlike.
    """
    with closing(ChangeLog.open(path)) as log:
        theirs = log.snapshot_at(log.state.first_ts)
    with closing(ChangeLog.open(folder)) as log:
        ours = log.snapshot_at(log.state.first_ts)
    known = node_logs.load(folder)
    check_alike(info.name, [(known[0].name, ours["server"]), (name, theirs["server"])])
    if name not in {node.name for node in known}:
        node_logs.save(folder, (*known, NodeFolder(name, os.path.relpath(path, folder))))


def begin_later(
    writer: LogWriter,
    ts: Ts,
    nodes: Sequence[tuple[str, ChangeLog]],
    schema: Mapping[str, Ts],
    unite: Unite = united,
) -> None:
    """Move the begin of a log that holds nothing yet to ``ts``.

    ``schema``: by node, the ts in its log at which it has its schema there. Raises UpstreamGone,
    and what ``unite`` raises.
    """
    found = [(name, _schema_of(log, schema[name], name)) for name, log in nodes]
    writer.save_snapshot(ts, unite(found, ts))
    writer.begin_later(ts)


def schema_now(
    info: UpstreamInfo,
    folder: Path,
    settings: SourceSettings,
    clock: Clock,
    wanted: Wanted | None = None,
) -> tuple[Ts, bool]:
    """As ``cdc.source.registration.schema_now``, of all nodes at one ts of the merged log.

    Raises UpstreamGone if a node cannot be asked or the log does not get there in time.
    """
    infos = info.servers()
    paths = {node.name: folder / node.folder for node in node_logs.load(folder)}
    with closing(ChangeLog.open(folder)) as log:
        # One that comes is not in the log's schema yet, and one that leaves comes no further.
        members = [n for n in merged_to(log.state.position) if n in infos]
    found_now = {
        n: node_schema_now(infos[n], paths[n], settings, clock, wanted)
        for n in members
        if not infos[n].ends_ts
    }
    with closing(ChangeLog.open(folder)) as log:
        state = _passed(log, {n: ts for n, (ts, _) in found_now.items()}, info, settings, clock)
    # Logical tables are as their marks have left them; no server has one to be asked.
    if info.logical_tables or not any(new for _, new in found_now.values()):
        return state.resolved_ts, False
    schema = schema_to(state.position)
    found = [(name, _schema_at(paths[name], ts, name)) for name, ts in schema.items()]
    snapshots.save(folder, state.resolved_ts, united(found, state.resolved_ts))
    return state.resolved_ts, True


def _passed(
    log: ChangeLog, now: dict[str, Ts], info: UpstreamInfo, settings: SourceSettings, clock: Clock
) -> LogState:
    state = log.refresh()
    coming = Coming(state.resolved_ts, settings, clock)
    while late := [n for n, ts in merged_to(state.position).items() if ts < now.get(n, 0)]:
        if coming.given_up(state.resolved_ts):
            raise UpstreamGone(
                f"the log of all nodes has not reached what {', '.join(late)} has now",
                object=f"upstream {info.name}",
                hint="see the upstream's status: it says which node the others wait for",
            )
        state = log.wait(state.resolved_ts, 0.2)
    return state


def _schema_at(folder: Path, ts: Ts, node: str) -> dict[str, Any]:
    with closing(ChangeLog.open(folder)) as log:
        return _schema_of(log, ts, node)


def _schema_of(log: ChangeLog, ts: Ts, node: str) -> dict[str, Any]:
    found = compaction.at(log, ts)
    if found is None:
        raise UpstreamGone(
            "a statement that came just now makes the schema of a node unknown",
            object=f"node {node}",
            hint="try again in a moment",
        )
    return found
