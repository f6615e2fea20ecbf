"""One log of several nodes: their transactions by commit ts, each node's own in its own order.

The order is a function of the nodes' logs alone, so it does not depend on when what was merged, and
it is written once: whoever reads, and whoever merges on after a restart, sees the same ts. Rows
stay where they are; only statements are copied, since their session's database becomes the node's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.nodes import qualified
from cdc.base.position import Position
from cdc.base.ts import MAX_TS, Ts
from cdc.binlog.errors import EventMalformed
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.binlog.query import Query
from cdc.changelog import node_logs
from cdc.changelog.errors import LogOrderBroken
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter

# Of each node in one step: what is found to lie above the common end is read again.
_BATCH_BYTES = 128 << 20


@dataclass(eq=False)
class NodeLog:
    """A node's name, its log, and by its ids those that the merged log has for the same."""

    name: str
    log: ChangeLog
    tables: dict[int, int] = field(default_factory=dict)
    sources: dict[tuple[int, int], int] = field(default_factory=dict)


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
    first = ts[begins]
    count = np.arange(len(first))
    given = np.maximum(np.maximum.accumulate(first - count), last + 1) + count
    return order, given[np.cumsum(begins) - 1]


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
        self._segment_bytes = segment_bytes
        self._batch_bytes = batch_bytes
        self._payload = 0

    def merged(self) -> dict[str, Ts]:
        """By node, up to which ts its log is merged."""
        return merged_to(self._writer.state.position)

    def behind(self) -> NodeLog:
        """The node whose log is resolved least, as of the last step: all others wait for it."""
        return min(self._nodes, key=lambda n: n.log.state.resolved_ts)

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
            found.append(self._placed(number, node, rows, statements))
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

    def _placed(
        self, number: int, node: NodeLog, rows: Runs, statements: Runs
    ) -> tuple[Runs, list[bytes]]:
        """A node's rows, then its statements, as the merged log names what is in them.

        Statements lie one after the other in the bytes that come with them.
        """
        top = int(rows.segment.max(initial=0))
        if top >= node_logs.SEGMENTS_END:
            raise LogOrderBroken(f"node {node.name} has too many segments: {top}")
        rows = replace(rows, segment=node_logs.placed(number, rows.segment))
        each = [statements.slice(i, i + 1) for i in range(len(statements))]
        events = [qualified_event(node.log.event(run), node.name) for run in each]
        lengths = np.array([len(e) for e in events], np.int64)
        # What is no row of the node's log has no segment yet.
        statements = replace(
            statements,
            segment=np.full(len(events), -1, np.int32),
            offset=np.cumsum(lengths) - lengths,
            length=lengths,
        )
        both = Runs.concat([rows, statements])
        return replace(
            both,
            table=_mapped(both.table, lambda i: self._table(node, i)),
            gtid_source=self._sources(node, both),
            xid=np.full(len(both), -1, np.int32),
        ), events

    def _table(self, node: NodeLog, number: int) -> int:
        known = node.tables.get(number)
        if known is None:
            entry = node.log.tables[number]
            schema = qualified(node.name, entry.schema)
            known = self._writer.table_id(schema, entry.name, entry.map_body)
            node.tables[number] = known
        return known

    def _sources(self, node: NodeLog, runs: Runs) -> NDArray[np.int32]:
        """The nodes' GTID sources; where a transaction has none, its node and file are it."""
        found = np.full(len(runs), -1, np.int32)
        pairs = np.stack([runs.gtid_source, runs.upstream_file], axis=1)
        named = runs.gtid_seq >= 0
        for source, file in np.unique(pairs[named], axis=0).tolist():
            key = (source, -1 if source >= 0 else file)
            if key not in node.sources:
                text = node.log.sources[source] if source >= 0 else f"file {file}"
                node.sources[key] = self._writer.source_id(f"{node.name}:{text}")
            ours = named & (pairs == (source, file)).all(axis=1)
            found[ours] = node.sources[key]
        return found

    def _append(self, found: list[tuple[Runs, list[bytes]]]) -> None:
        at = 0
        parts, data = [], b""
        for runs, events in found:
            own = runs.segment < 0
            parts.append(replace(runs, offset=np.where(own, runs.offset + at, runs.offset)))
            data += b"".join(events)
            at = len(data)
        runs = Runs.concat(parts)
        if not len(runs):
            return
        number = np.repeat(np.arange(len(parts)), [len(p) for p in parts])
        order, ts = in_order(runs.commit_ts, number, self._writer.last_ts)
        if not self._writer.state.segment:
            self._writer.set_format(self._format())
        if self._payload > self._segment_bytes:
            self._writer.turn()
            self._payload = 0
        self._payload += int(runs.length.sum())
        self._writer.append(data, replace(runs.take(order), commit_ts=ts))

    def _format(self) -> bytes:
        # All nodes are of one version, so that of any will do.
        node = next(n for n in self._nodes if n.log.state.segment)
        return node.log.format_at(0)


def position_of(merged: dict[str, Ts]) -> dict[str, Any]:
    """What the manifest of a merged log says of where it goes on."""
    return {"nodes": merged}


def merged_to(position: dict[str, Any]) -> dict[str, Ts]:
    """The inverse of :func:`position_of`."""
    return {str(name): int(ts) for name, ts in position["nodes"].items()}


def qualified_event(event: bytes, node: str) -> bytes:
    """A QUERY event whose default database is the node's; one that is malformed stays as it is."""
    with suppress(EventMalformed):
        query = Query.parse(event[HEADER_LENGTH : len(event) - CHECKSUM_LENGTH])
        body = replace(query, schema=qualified(node, query.schema)).encode()
        length = HEADER_LENGTH + len(body) + CHECKSUM_LENGTH
        whole = replace(EventHeader.parse(event), length=length).encode() + body
        return whole + checksum(whole)
    return event


def _mapped(numbers: NDArray[np.int32], new: Any) -> NDArray[np.int32]:
    """Each number by ``new``, which is asked once for each; negative ones stay."""
    known, inverse = np.unique(numbers, return_inverse=True)
    made = np.array([i if i < 0 else new(i) for i in known.tolist()], np.int32)
    return made[inverse]
