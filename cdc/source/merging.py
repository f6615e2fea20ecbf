"""One log of several nodes: their transactions by commit ts, each node's own in its own order.

The order is a function of the nodes' logs alone, so it does not depend on when what was merged, and
it is written once: whoever reads, and whoever merges on after a restart, sees the same ts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog import node_logs
from cdc.changelog.index import Runs
from cdc.changelog.writer import LogWriter
from cdc.source.merged_rows import MergedRows, NodeLog, PlacedRows, clocks_apart, rising

# Of each node in one step: what is found to lie above the common end is read again.
_BATCH_BYTES = 128 << 20


def in_order(
    ts: NDArray[np.int64], node: NDArray[np.int64], last: Ts
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices that sort rows by (ts, node), and the ts (int64) of each row in that order.

    Rows of one (ts, node) are one transaction and keep their order. A transaction's ts is its own
    where that is above all before it and above ``last``, else the next that is.
    """
    order = np.lexsort((node, ts))
    ts, node = ts[order], node[order]
    begins = np.ones(len(ts), np.bool_)
    begins[1:] = (ts[1:] != ts[:-1]) | (node[1:] != node[:-1])
    return order, rising(ts[begins], last)[np.cumsum(begins) - 1]


class Merging:
    """Of one merged log, by its writer. One thread at a time.

    After an error nothing is known of ids that were handed out: make another one, of a writer that
    was opened anew.
    """

    def __init__(
        self,
        writer: LogWriter,
        nodes: Sequence[NodeLog],
        segment_bytes: int,
        *,
        batch_bytes: int = _BATCH_BYTES,
    ) -> None:
        self._writer = writer
        self._nodes = nodes
        self._rows = MergedRows(writer, nodes, segment_bytes)
        self._batch_bytes = batch_bytes

    def merged(self) -> dict[str, Ts]:
        """By node, up to which ts its log is merged."""
        return merged_to(self._writer.state.position)

    def behind(self) -> NodeLog:
        """The node whose log is resolved least, as of the last step: all others wait for it."""
        return min(self._nodes, key=lambda n: n.log.state.resolved_ts)

    def behind_ms(self) -> tuple[NodeLog, int]:
        """That node, and how far it is behind the one that is known furthest, by their clocks."""
        return clocks_apart(self._nodes)

    def collectable(self, lowest: Mapping[int, int]) -> dict[str, Ts]:
        """By node, up to which ts its log is not needed any more.

        ``lowest``: by a node's place, the lowest of its segments that kept rows point to.
        """
        merged = self.merged()
        return {
            node.name: node_logs.collectable(node.log.state, lowest.get(n), merged[node.name])
            for n, node in enumerate(self._nodes)
        }

    def step(self) -> bool:
        """Merge some of what all nodes have resolved, durably; whether there was anything.

        Raises what reading and writing logs raises.
        """
        end = min(node.log.refresh().resolved_ts for node in self._nodes)
        merged = self.merged()
        read = [self._read(node, merged[node.name], end) for node in self._nodes]
        end = min(end, *(upto for _, upto in read))
        found = []
        for number, (node, (runs, _)) in enumerate(zip(self._nodes, read, strict=True)):
            lo = merged[node.name]
            rows = runs.take(runs.commit_ts <= end)
            statements = node.log.ddls(lo, end) if lo < end else Runs.empty()
            found.append(self._rows.placed(number, rows, statements))
        self._append(found)
        last = self._writer.last_ts
        resolved = max(end, last, self._writer.state.resolved_ts)
        position = position_of({name: max(ts, end) for name, ts in merged.items()})
        if resolved == self._writer.state.resolved_ts and position == self._writer.state.position:
            return False
        self._writer.commit(resolved, position)
        return True

    def _read(self, node: NodeLog, lo: Ts, hi: Ts) -> tuple[Runs, Ts]:
        """Whole transactions above ``lo``, and up to which ts these are all; at most to ``hi``."""
        if lo >= hi:
            return Runs.empty(), MAX_TS
        runs = node.log.runs(Position(lo), Position(hi), max_bytes=self._batch_bytes)
        to = node.log.end_position(runs, Position(hi))
        if to.whole():
            return runs, to.ts
        if to.ts - 1 > lo:
            return runs.take(runs.commit_ts < to.ts), to.ts - 1
        # It is larger than what is read at once.
        return node.log.runs(Position(lo), Position(to.ts)), to.ts

    def _append(self, parts: Sequence[PlacedRows]) -> None:
        joined = self._rows.join(parts)
        runs = joined.runs
        number = np.repeat(np.arange(len(parts)), [len(p.runs) for p in parts])
        order, ts = in_order(runs.commit_ts, number, self._writer.last_ts)
        self._rows.append(replace(joined, runs=replace(runs.take(order), commit_ts=ts)))


def position_of(merged: dict[str, Ts]) -> dict[str, Any]:
    """What the manifest of a merged log says of where it goes on."""
    return {"nodes": merged}


def merged_to(position: dict[str, Any]) -> dict[str, Ts]:
    """The inverse of :func:`position_of`."""
    return {str(name): int(ts) for name, ts in position["nodes"].items()}


def schema_to(position: dict[str, Any]) -> dict[str, Ts]:
    """By node, the ts in its log at which it has the schema that it has where the merged log ends.

    It may lie above what is merged whole: statements of a cluster's node are merged in their own
    order, and some are before a transaction that lies before them in the node's log.
    """
    return {str(name): int(ts) for name, ts in position.get("schema", position["nodes"]).items()}
