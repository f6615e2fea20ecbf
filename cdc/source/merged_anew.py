"""A cluster's merged log in the place of one that is lost: the same order, and the same ts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cdc.base.ts import Ts
from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.writer import LogWriter
from cdc.source.cluster_merging import ClusterPosition


def begin_anew(
    writer: LogWriter,
    folder: Path,
    ts: Ts,
    snapshot: dict[str, Any],
    position: dict[str, Any],
    nodes: Sequence[tuple[str, Path, Ts]],
) -> None:
    """Begin the log of a cluster in the place of one that was at ``position`` where ``ts`` was.

    ``snapshot`` is the schema there; ``nodes`` are name, new log and its begin, in their order.
    """
    places = [NodeFolder(name, os.path.relpath(path, folder)) for name, path, _ in nodes]
    node_logs.save(folder, places)
    writer.save_snapshot(ts, {**snapshot, "ts": ts})
    begins = {name: begin for name, _, begin in nodes}
    writer.begin(ts, ClusterPosition.anew(position, begins))
