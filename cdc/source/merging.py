"""One log of several nodes: their transactions by commit ts, each node's own in its own order.

The order is a function of the nodes' logs alone, so it does not depend on when what was merged, and
it is written once: whoever reads, and whoever merges on after a restart, sees the same ts.

Other logs of the same nodes have other ts (decision 49), hence another order among nodes. A log
that takes the place of one that is lost is given the *cuts* at which positions stand (decision
105), and goes from cut to cut: below each the same transactions of every node, in any order of
nodes that keeps each node's own, and at last the one that the position names, at its ts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.nodes import node_of_source, source_of
from cdc.base.position import LastOfNode, Position, TransactionName
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog import cuts, node_logs
from cdc.changelog.index import Runs
from cdc.changelog.origin import ROOM_BELOW_PIN, Pin
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.source.errors import LAGS_OR_LOST, TransactionMissing
from cdc.source.membership import (
    Statement,
    arrival,
    coming_of,
    departure,
    leaving_of,
    placed_statements,
)
from cdc.source.merged_rows import MergedRows, NodeLog, PlacedRows, clocks_apart, rising
from cdc.source.node_search import NodeSearch
from cdc.source.pinned_order import moved
from cdc.source.shards_position import MergedLast, ShardsPosition
from cdc.source.statements import History

# Of each node in one step: what is found to lie above the common end is read again.
_BATCH_BYTES = 128 << 20


def in_order(
    ts: NDArray[np.int64], node: NDArray[np.int64], last: Ts, latest: Ts = MAX_TS
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices that sort rows by (ts, node), and the ts (int64) of each row in that order.

    Rows of one (ts, node) are one transaction and keep their order. A transaction's ts is its own
    where that is above all before it, above ``last`` and at most ``latest``, else the next that is
    free.
    """
    order = np.lexsort((node, ts))
    ts, node = ts[order], node[order]
    begins = np.ones(len(ts), np.bool_)
    begins[1:] = (ts[1:] != ts[:-1]) | (node[1:] != node[:-1])
    wanted = np.where(ts[begins] <= latest, ts[begins], 0)
    return order, rising(wanted, last)[np.cumsum(begins) - 1]


class Merging:
    """Of one merged log, by its writer. One thread at a time.

    Which nodes it has is what its manifest says. Another one of ``nodes`` joins, unless it is among
    ``ends``: by name of those that leave the ts of their own log up to which they are merged. Both
    are durable together with the statements that say so (:mod:`cdc.source.membership`).

    ``pins``: in the place of a log that is lost, transactions that were delivered, each with its
    cut, and no ts up to ``floor`` is given. Until the last of them is merged no node comes or goes.

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
        pins: Sequence[Pin] = (),
        floor: Ts = 0,
    ) -> None:
        self._writer = writer
        self._ends = ends or {}
        self._nodes = nodes
        self._rows = MergedRows(writer, nodes, segment_bytes)
        self._batch_bytes = batch_bytes
        last = writer.last_ts
        self._pins = deque(pin for pin in pins if pin.name.ts > last)
        self._floor = max([floor, *(pin.floor for pin in pins if pin.name.ts <= last)])
        self._searches = {node.name: NodeSearch(node) for node in nodes}
        self._waiting: list[NodeLog] = []
        self._late: tuple[NodeLog, LastOfNode] | None = None
        at = ShardsPosition.of(writer.state.position)
        self._at = at if at.known else self._of_earlier_version(at)
        if self._at.known and cuts.load(writer.folder) is None:
            state = writer.state
            cuts.keep(writer.folder, state.resolved_ts, self._at.name(state.first_ts))

    def _of_earlier_version(self, at: ShardsPosition) -> ShardsPosition:
        """With the last transaction of each node, as the logs have it; as it is if one has none."""
        last: dict[str, MergedLast] = {}
        for node in self._nodes:
            merged = at.merged.get(node.name, 0)
            name = node.log.transaction_at(merged)
            if name is None:
                return at
            if not name.is_none:
                # Of a CREATE TABLE … SELECT the rows have a later ts.
                rows = node.log.runs(Position(name.ts - 1), Position(merged))
                alone = not len(rows)
                source = source_of(node.name, name.source or f"file {name.file}")
                last[node.name] = MergedLast(merged, LastOfNode(source, name.sequence, alone))
        with closing(ChangeLog.open(self._writer.folder)) as log:
            newest = log.transaction_at(log.state.resolved_ts)
        if newest is None:
            return at
        return replace(at, last=last, newest=None if newest.is_none else newest, known=True)

    def merged(self) -> dict[str, Ts]:
        """By node, up to which ts its log is merged."""
        return dict(self._at.merged)

    def behind(self) -> NodeLog:
        """The node whose log is resolved least, as of the last step: all others wait for it."""
        awaited = self._waiting or self._awaited()
        return min(awaited, key=lambda n: n.log.state.resolved_ts)

    def behind_ms(self) -> tuple[NodeLog, int]:
        """That node, and how far it is behind the one that is known furthest, by their clocks."""
        return clocks_apart(self._awaited())

    def missing(self) -> TransactionMissing | None:
        """What is wrong where a node should have a transaction by now that was delivered."""
        if self._late is None:
            return None
        node, wanted = self._late
        return TransactionMissing(
            f"{wanted.source}:{wanted.sequence} was delivered, and the node's binlog does not have"
            " it yet",
            object=f"node {node.name}",
            position=f"ts {node.log.state.resolved_ts}",
            hint=LAGS_OR_LOST,
        )

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

        Raises what reading and writing logs raises, and TransactionMoved.
        """
        for node in self._nodes:
            node.log.refresh()
        self._waiting, self._late = [], None
        if self._at.again:
            return self._pass_again()
        if self._pins:
            return self._step_to(self._pins[0])
        merged = self.merged()
        if self._change_members(merged):
            return True
        end = min(node.log.state.resolved_ts for node in self._awaited())
        return self._merge(end, {name: self._ends.get(name, MAX_TS) for name in merged}, MAX_TS)

    def _merge(self, end: Ts, limits: Mapping[str, Ts], latest: Ts) -> bool:
        """Merge what lies up to ``end`` and, of each node, up to its limit, by its log's ts."""
        merged = self.merged()
        members = [(i, node) for i, node in enumerate(self._nodes) if node.name in merged]

        def upto(node: NodeLog, end: Ts) -> Ts:
            return min(end, limits[node.name])

        read = [self._read(n, merged[n.name], upto(n, end)) for _, n in members]
        end = min(end, *(to for _, to in read))
        found = []
        for (number, node), (runs, _) in zip(members, read, strict=True):
            lo, hi = merged[node.name], upto(node, end)
            rows = runs.take(runs.commit_ts <= hi)
            statements = node.log.ddls(lo, hi) if lo < hi else Runs.empty()
            found.append(self._rows.placed(number, rows, statements))
        self._append(found, [number for number, _ in members], latest)
        last = self._writer.last_ts
        # Where the log goes to a cut, a node's own ts says nothing of those that are still to come.
        below = end if latest == MAX_TS else 0
        resolved = max(below, last, self._writer.state.resolved_ts)
        at = {n.name: max(merged[n.name], upto(n, end)) for _, n in members}
        return self._commit(resolved, replace(self._at, merged=at))

    def _commit(self, resolved: Ts, at: ShardsPosition) -> bool:
        self._at = at
        position = at.to_dict()
        if resolved == self._writer.state.resolved_ts and position == self._writer.state.position:
            return False
        self._writer.commit(resolved, position)
        return True

    # --- in the place of a log that is lost ------------------------------------------------------

    def _pass_again(self) -> bool:
        """Pass over what was merged already of nodes whose logs begin below that."""
        at, last = dict(self._at.merged), dict(self._at.last)
        for node in self._nodes:
            if node.name in self._at.again:
                known = last[node.name]
                found = self._find(node, known.last, at[node.name], known.ts)
                if found is None:
                    continue
                at[node.name], last[node.name] = found, known._replace(ts=found)
        if self._waiting:
            return False
        passed = replace(self._at, merged=at, last=last, again=frozenset())
        return self._commit(self._writer.state.resolved_ts, passed)

    def _find(self, node: NodeLog, wanted: LastOfNode, above: Ts, by: Ts) -> Ts | None:
        """Its ts in the node's log, which should have it ``by`` a ts; None if it has not come."""
        found = self._searches[node.name].find(wanted, above)
        if found is None:
            self._waiting.append(node)
            if node.log.state.resolved_ts >= by:
                self._late = node, wanted
        return found

    def _step_to(self, pin: Pin) -> bool:
        """Merge some of what lies below a cut; at last the transaction that has its ts."""
        merged = self.merged()
        wanted = {last.node: last for last in pin.name.cut}
        named, named_ts = node_of_source(pin.name.source), 0
        coming = [n for n in self._nodes if n.name in wanted and n.name not in merged]
        for node in coming:
            if pin.name.source != coming_of(node.name):
                # It came below the cut: its tables are there before anything of it.
                self._join(node, self._next_ts())
                return True
        # Else the position is a statement by which the one that is left comes.
        statements = pin.name.sequence if coming else 0
        limits: dict[str, Ts] = {}
        for node in self._nodes:
            name = node.name
            if name not in merged:
                continue
            known = self._at.last.get(name)
            if name not in wanted or (known is not None and known.last == wanted[name]):
                limits[name] = merged[name]
                continue
            found = self._find(node, wanted[name], merged[name], pin.name.ts)
            if found is None:
                # All that is there is below it.
                limits[name] = node.log.state.resolved_ts
            elif name == named:
                limits[name], named_ts = found - 1, found
            else:
                limits[name] = found
        if self._waiting or any(merged[name] < limit for name, limit in limits.items()):
            end = min((node.log.state.resolved_ts for node in self._waiting), default=MAX_TS)
            latest = pin.name.ts - statements - ROOM_BELOW_PIN
            return self._merge(end, limits, latest) or not self._waiting
        if coming:
            self._join(coming[0], pin.name.ts - statements + 1)
            return True
        self._merge_pinned(pin, named, named_ts)
        return True

    def _merge_pinned(self, pin: Pin, name: str, ts: Ts) -> None:
        """Merge the one transaction that has a ts already; nothing has one up to its floor."""
        if not ts or self._writer.last_ts >= pin.name.ts:
            raise moved(pin, "the binlogs of the nodes")
        number = next(i for i, node in enumerate(self._nodes) if node.name == name)
        log = self._nodes[number].log
        rows = log.runs(Position(ts - 1), Position(ts))
        placed = self._rows.placed(number, rows, log.ddls(ts - 1, ts))
        given = np.full(len(placed.runs), pin.name.ts, np.int64)
        self._write([placed], [number], replace(placed, runs=replace(placed.runs, commit_ts=given)))
        self._pins.popleft()
        self._floor = max(self._floor, pin.floor)
        at = replace(self._at, merged={**self._at.merged, name: ts})
        self._commit(max(self._floor, self._writer.state.resolved_ts), at)

    # --- nodes that come and go ------------------------------------------------------------------

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
                self._join(node, self._next_ts())
                return True
            if leaves is not None and merged.get(node.name, 0) >= leaves:
                rest = {name: ts for name, ts in merged.items() if name != node.name}
                databases = History(node.log, leaves).versions.at(leaves).databases.values()
                gone = departure(node.name, (d.name for d in databases))
                self._written(rest, list(gone), leaving_of(node.name), self._next_ts())
                return True
        return False

    def _join(self, node: NodeLog, ts: Ts) -> None:
        """Have a node join by statements from ``ts`` on, where those that are pinned lie."""
        first, source = node.log.state.first_ts, coming_of(node.name)
        listed = list(arrival(node.name, node.log.snapshot_at(first)))
        pins = [pin for pin in self._pins if pin.name.source == source]
        rest = next((pin for pin in self._pins if pin.name.source != source), None)
        for pin in pins:
            if pin.name.ts != ts + pin.name.sequence - 1 or pin.name.sequence > len(listed):
                raise moved(pin, "the binlogs of the nodes")
        if ts <= self._writer.last_ts or (rest is not None and ts + len(listed) > rest.name.ts):
            raise moved(self._pins[0], "the binlogs of the nodes")
        for pin in pins:
            self._pins.remove(pin)
            self._floor = max(self._floor, pin.floor)
        self._written(self.merged() | {node.name: first}, listed, source, ts)

    def _written(
        self, merged: dict[str, Ts], listed: Sequence[Statement], source: str, ts: Ts
    ) -> None:
        """Write statements of our own, which say who is merged from there on."""
        self._rows.append(placed_statements(listed, ts, self._writer.source_id(source)))
        at = replace(self._at, merged=merged)
        if listed:
            end = ts + len(listed) - 1
            last = LastOfNode(source, len(listed), statement=True)
            ours = MergedLast(merged.get(last.node, 0), last)
            newest = TransactionName(end, source, len(listed), -1)
            at = replace(at, last={**at.last, last.node: ours}, newest=newest)
        self._commit(self._next_ts() - 1, at)

    def _next_ts(self) -> Ts:
        """The lowest that can be given."""
        return max(self._writer.last_ts, self._writer.state.resolved_ts, self._floor) + 1

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

    def _append(self, parts: Sequence[PlacedRows], numbers: Sequence[int], latest: Ts) -> None:
        joined = self._rows.join(parts)
        runs = joined.runs
        number = np.repeat(np.asarray(numbers), [len(p.runs) for p in parts])
        last = max(self._writer.last_ts, self._floor)
        order, ts = in_order(runs.commit_ts, number, last, latest)
        self._write(parts, numbers, replace(joined, runs=replace(runs.take(order), commit_ts=ts)))

    def _write(
        self, parts: Sequence[PlacedRows], numbers: Sequence[int], ordered: PlacedRows
    ) -> None:
        """Append rows, of nodes by their numbers, as they were brought into order."""
        lasts = dict(self._at.last)
        for number, part in zip(numbers, parts, strict=True):
            last = self._rows.last(part)
            if last is not None:
                lasts[self._nodes[number].name] = last
        self._rows.append(ordered)
        newest = self._rows.newest(ordered) or self._at.newest
        self._at = replace(self._at, last=lasts, newest=newest)


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
