"""One log of several nodes: their transactions by commit ts, each node's own in its own order.

The order is a function of the nodes' logs alone, so it does not depend on when what was merged, and
it is written once: whoever reads, and whoever merges on after a restart, sees the same ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog import node_logs
from cdc.changelog.index import Runs
from cdc.changelog.writer import LogWriter
from cdc.source.membership import Statement, arrival, departure, placed_statements
from cdc.source.merged_rows import MergedRows, NodeLog, PlacedRows, clocks_apart, rising
from cdc.source.statements import History

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

    Which nodes it has is what its manifest says. Another one of ``nodes`` joins, unless it is among
    ``ends``: by name of those that leave the ts of their own log up to which they are merged. Both
    are durable together with the statements that say so (:mod:`cdc.source.membership`).

    After an error nothing is known of ids that were handed out: make another one, of a writer that
    was opened anew.
    """

    def __init__(
        self,
        writer: LogWriter,
        nodes: Sequence[NodeLog],
        segment_bytes: int,
        *,
        ends: Mapping[str, Ts] | None = None,
        batch_bytes: int = _BATCH_BYTES,
    ) -> None:
        self._writer = writer
        self._ends = ends or {}
        self._nodes = nodes
        self._rows = MergedRows(writer, nodes, segment_bytes)
        self._batch_bytes = batch_bytes

    def merged(self) -> dict[str, Ts]:
        """By node, up to which ts its log is merged."""
        return merged_to(self._writer.state.position)

    def behind(self) -> NodeLog:
        """The node whose log is resolved least, as of the last step: all others wait for it."""
        return min(self._awaited(), key=lambda n: n.log.state.resolved_ts)

    def behind_ms(self) -> tuple[NodeLog, int]:
        """That node, and how far it is behind the one that is known furthest, by their clocks."""
        return clocks_apart(self._awaited())

    def collectable(self, lowest: Mapping[int, int]) -> dict[str, Ts]:
        """By node, up to which ts its log is not needed any more.

        ``lowest``: by a node's place, the lowest of its segments that kept rows point to.
        """
        merged = self.merged()
        return {
            node.name: node_logs.collectable(
                node.log.state,
                lowest.get(n if node.place < 0 else node.place),
                merged[node.name],
            )
            for n, node in enumerate(self._nodes)
            if node.name in merged
        }

    def step(self) -> bool:
        """Merge some of what all nodes have resolved, durably; whether there was anything.

        Raises what reading and writing logs raises.
        """
        for node in self._nodes:
            node.log.refresh()
        merged = self.merged()
        if self._change_members(merged):
            return True
        end = min(node.log.state.resolved_ts for node in self._awaited())
        members = [(i, node) for i, node in enumerate(self._nodes) if node.name in merged]
        read = [self._read(n, merged[n.name], self._upto(n, end)) for _, n in members]
        end = min(end, *(upto for _, upto in read))
        found = []
        for (number, node), (runs, _) in zip(members, read, strict=True):
            lo, hi = merged[node.name], self._upto(node, end)
            rows = runs.take(runs.commit_ts <= hi)
            statements = node.log.ddls(lo, hi) if lo < hi else Runs.empty()
            found.append(self._rows.placed(number, rows, statements))
        self._append(found, [number for number, _ in members])
        last = self._writer.last_ts
        resolved = max(end, last, self._writer.state.resolved_ts)
        upto = {n.name: max(merged[n.name], self._upto(n, end)) for _, n in members}
        position = position_of(upto)
        if resolved == self._writer.state.resolved_ts and position == self._writer.state.position:
            return False
        self._writer.commit(resolved, position)
        return True

    def _upto(self, node: NodeLog, end: Ts) -> Ts:
        """Up to which ts of its own log a node is merged where that of all ends at ``end``."""
        return min(end, self._ends.get(node.name, MAX_TS))

    def _awaited(self) -> list[NodeLog]:
        """The nodes whose logs bound what can be merged: one that leaves does up to its end."""
        merged = self.merged()
        return [
            n
            for n in self._nodes
            if n.name in merged and n.log.state.resolved_ts < self._ends.get(n.name, MAX_TS)
        ]

    def _change_members(self, merged: dict[str, Ts]) -> bool:
        """Have a node join or leave whose time has come, durably; whether one has."""
        for node in self._nodes:
            leaves = self._ends.get(node.name)
            if leaves is None and node.name not in merged and self._rows.begun:
                first = node.log.state.first_ts
                snapshot = node.log.snapshot_at(first)
                made = arrival(node.name, snapshot)
                self._written(merged | {node.name: first}, made, f"{node.name}:joined")
                return True
            if leaves is not None and merged.get(node.name, 0) >= leaves:
                rest = {name: ts for name, ts in merged.items() if name != node.name}
                databases = History(node.log, leaves).versions.at(leaves).databases.values()
                gone = departure(node.name, (d.name for d in databases))
                self._written(rest, gone, f"{node.name}:left")
                return True
        return False

    def _written(self, merged: dict[str, Ts], statements: Iterable[Statement], source: str) -> None:
        state = self._writer.state
        ts = max(self._writer.last_ts, state.resolved_ts) + 1
        self._rows.append(placed_statements(statements, ts, self._writer.source_id(source)))
        self._writer.commit(max(self._writer.last_ts, state.resolved_ts), position_of(merged))

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

    def _append(self, parts: Sequence[PlacedRows], numbers: Sequence[int]) -> None:
        joined = self._rows.join(parts)
        runs = joined.runs
        number = np.repeat(np.asarray(numbers), [len(p.runs) for p in parts])
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
