"""Rows of nodes, and copies of their statements, as the log over the nodes' logs names them.

Rows stay where they are; only statements are copied, since their session's database becomes the
node's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.nodes import qualified, source_of
from cdc.base.position import LastOfNode, TransactionName
from cdc.base.ts import Ts, physical_ms
from cdc.binlog.errors import EventMalformed
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, checksum
from cdc.binlog.query import Query
from cdc.changelog import node_logs
from cdc.changelog.errors import LogOrderBroken
from cdc.changelog.index import RunKind, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.source.shards_position import MergedLast


@dataclass(eq=False)
class NodeLog:
    """A node's name, its log, and by its ids those that the merged log has for the same.

    ``place`` is its place among all nodes that the log has ever had, by which rows name it;
    -1: that among those that are merged.
    """

    name: str
    log: ChangeLog
    place: int = -1
    tables: dict[int, int] = field(default_factory=dict)
    sources: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedRows:
    """Of one node: rows of its log, and copies of statements, whose segment is -1.

    Offsets of statements count from the first of ``events``.
    """

    runs: Runs
    events: tuple[bytes, ...]


class MergedRows:
    """What is put into one merged log, by its writer. One thread at a time.

    After an error nothing is known of ids that were handed out: make another one, of a writer that
    was opened anew.
    """

    def __init__(self, writer: LogWriter, nodes: Sequence[NodeLog], segment_bytes: int) -> None:
        self._writer = writer
        self._nodes = nodes
        self._segment_bytes = segment_bytes
        self._payload = 0
        self._texts: dict[int, str] = {}

    def last(self, part: PlacedRows) -> MergedLast | None:
        """The last transaction of one node's rows, with its ts; None where none has a name."""
        runs = part.runs
        named = np.flatnonzero(runs.gtid_source >= 0)
        if not len(named):
            return None
        last = int(named[np.argmax(runs.commit_ts[named])])
        source, sequence = self._texts[int(runs.gtid_source[last])], int(runs.gtid_seq[last])
        statement = bool(runs.kind[last] == RunKind.DDL)
        return MergedLast(int(runs.commit_ts[last]), LastOfNode(source, sequence, statement))

    def newest(self, ordered: PlacedRows) -> TransactionName | None:
        """What the last of rows in order is called; None where none has a name."""
        runs = ordered.runs
        named = np.flatnonzero(runs.gtid_source >= 0)
        if not len(named):
            return None
        last = named[-1]
        source = self._texts[int(runs.gtid_source[last])]
        ts, number, file = runs.commit_ts[last], runs.gtid_seq[last], runs.upstream_file[last]
        return TransactionName(int(ts), source, int(number), int(file))

    def placed(self, number: int, rows: Runs, statements: Runs) -> PlacedRows:
        """Rows, then statements, of the node with this number, as the merged log names them."""
        node = self._nodes[number]
        rows = replace(rows, segment=self._segments(number, rows))
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
        runs = replace(
            both,
            table=_mapped(both.table, lambda i: self._table(node, i)),
            gtid_source=self._sources(node, both),
            xid=np.full(len(both), -1, np.int32),
        )
        return PlacedRows(runs, tuple(events))

    def named(
        self, number: int, rows: Runs, tables: NDArray[np.int32], events: Sequence[bytes]
    ) -> PlacedRows:
        """Rows of the node with this number as rows of ``tables``, by the merged log's ids.

        Where a row's segment is -1, the next of ``events`` is what it has in the place of its own.
        """
        own = rows.segment < 0
        lengths = np.array([len(e) for e in events], np.int64)
        offset, length = rows.offset.astype(np.int64), rows.length.astype(np.int64)
        offset[own], length[own] = np.cumsum(lengths) - lengths, lengths
        runs = replace(
            rows,
            segment=np.where(own, np.int32(-1), self._segments(number, rows)),
            offset=offset,
            length=length,
            table=tables,
            gtid_source=self._sources(self._nodes[number], rows),
            xid=np.full(len(rows), -1, np.int32),
        )
        return PlacedRows(runs, tuple(events))

    def _segments(self, number: int, rows: Runs) -> NDArray[np.int32]:
        """The segments of a node's rows as the merged log calls them."""
        node = self._nodes[number]
        top = int(rows.segment.max(initial=0))
        if top >= node_logs.SEGMENTS_END:
            raise LogOrderBroken(f"node {node.name} has too many segments: {top}")
        return node_logs.placed(node.place if node.place >= 0 else number, rows.segment)

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
        named = runs.gtid_seq >= 0
        source, file = runs.gtid_source[named], runs.upstream_file[named]
        # One number for each: numpy looks for different pairs at a hundred times the cost.
        keys, which = np.unique(np.where(source >= 0, source, -2 - file), return_inverse=True)
        numbers = np.array([self._source(node, key) for key in keys.tolist()], np.int32)
        found[named] = numbers[which]
        return found

    def _source(self, node: NodeLog, key: int) -> int:
        """``key``: a GTID source of the node's, or -2 less the number of a file (-1: unknown)."""
        known = node.sources.get(key)
        if known is None:
            text = source_of(node.name, node.log.sources[key] if key >= 0 else f"file {-2 - key}")
            known = node.sources[key] = self._writer.source_id(text)
            self._texts[known] = text
        return known

    def join(self, parts: Sequence[PlacedRows]) -> PlacedRows:
        """All parts, one behind the other."""
        at = 0
        runs: list[Runs] = []
        events: list[bytes] = []
        for part in parts:
            own = part.runs.segment < 0
            offset = np.where(own, part.runs.offset + at, part.runs.offset)
            runs.append(replace(part.runs, offset=offset))
            events += part.events
            at += sum(map(len, part.events))
        return PlacedRows(Runs.concat(runs), tuple(events))

    def append(self, rows: PlacedRows) -> None:
        """Write what was brought into order; it is durable behind the writer's next commit."""
        if not len(rows.runs):
            return
        if not self._writer.state.segment:
            self._writer.set_format(self._format())
        if self._payload > self._segment_bytes:
            self._writer.turn()
            self._payload = 0
        self._payload += int(rows.runs.length.sum())
        self._writer.append(b"".join(rows.events), rows.runs)

    @property
    def begun(self) -> bool:
        """Whether anything can be written: the format of events is that of a node's first."""
        known = (self._writer.state.segment, *(n.log.state.segment for n in self._nodes))
        return any(known)

    def _format(self) -> bytes:
        # All nodes are of one version, so that of any will do.
        node = next(n for n in self._nodes if n.log.state.segment)
        return node.log.format_at(0)


def clocks_apart(nodes: Sequence[NodeLog]) -> tuple[NodeLog, int]:
    """The node whose log is resolved least, and how many ms the others are further, at most."""
    least = min(nodes, key=lambda n: n.log.state.resolved_ts)
    most = max(n.log.state.resolved_ts for n in nodes)
    return least, physical_ms(most) - physical_ms(least.log.state.resolved_ts)


def rising(wanted: NDArray[np.int64], last: Ts) -> NDArray[np.int64]:
    """Ts (int64) of transactions in order: the wanted one where that is above all before it.

    Else, and at or below ``last``, it is the next ts that is.
    """
    count = np.arange(len(wanted))
    return np.maximum(np.maximum.accumulate(wanted - count), last + 1) + count


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
