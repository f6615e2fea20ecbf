"""The merged log of several nodes in the place of one that is lost.

Of a cluster it has the same order and the same ts; of shards the same transactions of each node
below every position (``cdc.source.merging``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdc.base.ts import Ts
from cdc.changelog import cuts, node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.writer import LogWriter
from cdc.coord.log_begin import of_shards
from cdc.source.cluster_merging import ClusterPosition
from cdc.source.shards_position import ShardsPosition


def begin_anew(
    writer: LogWriter,
    folder: Path,
    ts: Ts,
    snapshot: dict[str, Any],
    position: dict[str, Any],
    nodes: Sequence[tuple[str, Path, Ts]],
) -> None:
    """Begin the log of several nodes in the place of one that was at ``position`` at ``ts``.

    ``snapshot`` is the schema there; ``nodes`` are name, new log and its begin, in their order: of
    those that come above ``ts`` too.
    """
    places = [NodeFolder(name, os.path.relpath(path, folder)) for name, path, _ in nodes]
    node_logs.save(folder, places)
    writer.save_snapshot(ts, {**snapshot, "ts": ts})
    begins = _of_members(position, {name: begin for name, _, begin in nodes})
    if of_shards(position):
        at = ShardsPosition.of(position).anew(begins)
        cuts.keep(folder, ts, at.name(ts))
        writer.begin(ts, at.to_dict())
    else:
        writer.begin(ts, ClusterPosition.anew(position, begins))


def begun_with(position: dict[str, Any], begins: Mapping[str, Ts]) -> dict[str, Any]:
    """What an anchor says once the logs of its nodes begin at ``begins``, as they call it."""
    of_members = _of_members(position, begins)
    if of_shards(position):
        return ShardsPosition.of(position).anew(of_members).to_dict()
    return {**position, "nodes": of_members, "schema": of_members}


def _of_members(position: Mapping[str, Any], begins: Mapping[str, Ts]) -> dict[str, Ts]:
    """Without those that come above the position."""
    return {name: begin for name, begin in begins.items() if name in position["nodes"]}
