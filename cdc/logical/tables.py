"""Rows and marks of a cluster's nodes as rows and statements of its logical tables.

A row at a place of the cluster's order is stored by the definition that its part has there, in its
node's own order, and is told in that of the logical table there. Both are functions of the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import DefiniteError
from cdc.base.ts import MAX_TS, Ts
from cdc.binlog.header import HEADER_LENGTH, EventHeader
from cdc.binlog.table_map import TableMap
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.logical.errors import MarkMalformed, MarkRefused, ShapeUnclear
from cdc.logical.marks import MARKS, DdlMark, is_broadcast, read_marks, statement
from cdc.logical.names import Part, PartNames, TableName
from cdc.logical.renames import ColumnRenames
from cdc.logical.shape import Shape, shape
from cdc.logical.snapshot import logical_snapshot
from cdc.logical.topology import AwaitedParts, Topology, placed_by, topology_of
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.table import Table
from cdc.source.cluster_merging import NodeRows, TransactionRows
from cdc.source.membership import Statement, statement_event, status_of
from cdc.source.merged_rows import MergedRows, NodeLog
from cdc.source.statements import History, LoggedDdl

_MARKS_NAME = ".".join(MARKS)


@dataclass(frozen=True, slots=True, eq=False)
class _Shaped:
    """How rows of one table of a node's dictionary go on: under which id, in which shape."""

    part: Table
    logical: Table | None
    renamed: Mapping[str, str]
    table: int
    shape: Shape | None


@dataclass(eq=False)
class _Node:
    number: int
    log: NodeLog
    history: History
    shapes: dict[int, list[_Shaped]] = field(default_factory=dict)


class LogicalTables:
    """Of one merged log, by its writer. One thread at a time.

    After an error nothing is known of what was read: make another one, as of the merging.
    """

    def __init__(self, folder: Path, patterns: Sequence[str], server_kind: str) -> None:
        self._folder = folder
        self._server_kind = server_kind
        self.names = PartNames(tuple(patterns))
        self._renames = ColumnRenames()
        self._awaited = AwaitedParts()
        self._nodes: list[_Node] = []

    # --- where it stands -------------------------------------------------------------------------

    def open(
        self,
        writer: LogWriter,
        rows: MergedRows,
        nodes: Sequence[NodeLog],
        merged: Sequence[Ts],
        kept: Any,
        *,
        again: bool,
    ) -> None:
        """Go on where the log ends; ``merged``: of each node up to which ts all is merged.

        ``kept`` is what :meth:`to_keep` was there. ``again``: it was in another log, over others of
        the nodes, and what was merged there is to be passed over. Raises LogCollected, LogCorrupt.
        """
        self._writer, self._rows = writer, rows
        kept = kept or {}
        self.names = self.names.kept(kept)
        self._renames = ColumnRenames.of(kept.get("renamed", {}))
        self._awaited = AwaitedParts.of(kept.get("awaited", ()), self._renames.upto)
        if again:
            # Until these are passed over, none that is read is a new one.
            self._know({}, {node.name: MAX_TS for node in nodes})
        self._nodes = [
            _Node(number, node, History(node.log, ts))
            for number, (node, ts) in enumerate(zip(nodes, merged, strict=True))
        ]
        self._take_schema()

    def _take_schema(self) -> None:
        with closing(ChangeLog.open(self._folder)) as log:
            self._logical = History(log, log.state.resolved_ts)

    def begun(self, schema: Mapping[str, Ts]) -> None:
        """The log begins; ``schema``: by node the ts of what is in its snapshot.

        Tables that are there are parts by their names.
        """
        self._awaited = AwaitedParts(upto=dict(schema))
        self._take_schema()

    def passed(self, schema: Mapping[str, Ts]) -> None:
        """All is passed over that was merged before; ``schema``: by node the ts of its statements.

        What is to come of a node lies above that in its log: a statement has its place behind all
        that precedes it there.
        """
        self._know(schema, schema)

    def _know(self, at: Mapping[str, Ts], upto: Mapping[str, Ts]) -> None:
        """Nodes have other logs, of which statements up to ``upto``, by node, are known ones.

        What came of them has the ts ``at``.
        """
        self._renames = self._renames.over_other_logs(at, upto, self._renamed_parts())
        self._awaited = self._awaited.over_other_logs(at, upto)

    def _renamed_parts(self) -> dict[Part, TableName]:
        """By part whose columns have other names than its table's, that table."""
        tables = {part: self.names.of(*part) for part in self._renames.pending}
        return {part: table for part, table in tables.items() if table is not None}

    def to_keep(self, schema: Mapping[str, Ts]) -> Any:
        """What must be kept with the log's position, as JSON.

        ``schema``: by node the ts of its last statement that lies before where the log ends. It may
        lie above what is merged whole, and what lies behind it is taken up again.
        """
        return {
            **self.names.to_dict(),
            "renamed": self._renames.to_dict(schema),
            "awaited": self._awaited.to_list(schema),
        }

    def united(self, nodes: Sequence[tuple[str, dict[str, Any]]], ts: Ts) -> dict[str, Any]:
        """As ``cdc.source.merged_log.Unite``. Raises LogicalTablesDiffer."""
        return logical_snapshot(self.names, nodes, ts)

    def joined(self, node: NodeLog, ts: Ts) -> None:
        """Another node, the last of them; ``ts``: where its log begins."""
        came = _Node(len(self._nodes), node, History(node.log, ts))
        self._nodes.append(came)
        tables = (key for key in came.history.versions.at(ts) if self.names.marked(*key))
        self._awaited.made(node.name, ((0, key) for key in tables))

    def left(self, number: int) -> None:
        """The node with this number is none any more."""
        gone = self._nodes.pop(number).log.name
        self._awaited.forget([part for part in self._awaited.since if part[0] == gone])
        for at, node in enumerate(self._nodes):
            node.number = at

    def forget(self, merged: Sequence[Ts]) -> None:
        """Forget what no row of a node above its ts of ``merged`` needs."""
        for node, ts in zip(self._nodes, merged, strict=True):
            node.history.versions.collect(ts)
        by_name = {n.log.name: ts for n, ts in zip(self._nodes, merged, strict=True)}
        self._renames.forget(by_name, self._renamed_parts())
        self._forget_awaited(by_name)
        self._logical.versions.collect(self._writer.last_ts)

    def _forget_awaited(self, merged: Mapping[str, Ts]) -> None:
        """Forget tables that were dropped before a mark told of them."""
        there = {n.log.name: n.history.versions.at(merged[n.log.name]) for n in self._nodes}
        gone = [
            (node, schema, name)
            for (node, schema, name), since in self._awaited.since.items()
            if node in there
            and since[-1] <= merged[node]
            and there[node].table(schema, name) is None
        ]
        self._awaited.forget(gone)

    # --- rows ------------------------------------------------------------------------------------

    def placed(self, read: Sequence[NodeRows]) -> Iterator[list[TransactionRows]]:
        """What is to be written, one piece after the other, each before the next is asked for.

        Raises MarkMalformed, MarkRefused, ShapeUnclear, ShapeValueLost, and what made a table of a
        node unknown.
        """
        for one in read:
            node = self._nodes[one.number]
            told = node.history.refresh(node.log.log.state.resolved_ts)
            self._renames.follow(node.log.name, told)
            if self.names.by_marks:
                self._awaited.made(node.log.name, self._made_by(node, told))
        marked = self._marked(read)
        begin = 0
        for at in [*sorted(marked), None]:
            end = MAX_TS if at is None else at
            parts = [self._shaped(one, begin, end) for one in read]
            if any(len(part.which) for part in parts):
                yield parts
            if at is not None:
                yield from self._change(read, marked[at], at)
                begin = at + 1

    def _shaped(self, read: NodeRows, begin: int, end: int) -> TransactionRows:
        """Rows of the transactions ``[begin, end)``."""
        node = self._nodes[read.number]
        ours = (read.of_row >= begin) & (read.of_row < end)
        rows, which = read.rows.take(ours), read.of_row[ours]
        names = {int(t): self._name(node, int(t)) for t in np.unique(rows.table)}
        hidden = [t for t, name in names.items() if name is None]
        ours = ~np.isin(rows.table, hidden)
        rows, which = rows.take(ours), which[ours]
        segment, tables = rows.segment.copy(), np.empty(len(rows), np.int32)
        events: dict[int, bytes] = {}
        heard = np.ones(len(rows), np.bool_)
        for at in self._alike(node, rows):
            table, ts = int(rows.table[at[0]]), int(rows.commit_ts[at[0]])
            name = names[table]
            assert name is not None
            if self._is_awaited(node, table, ts) or not self._heard(node, table, ts):
                heard[at] = False
                continue
            found = self._shape(node, table, name, ts)
            tables[at] = found.table
            if found.shape is not None and not found.shape.same:
                node.log.log.verify(rows.take(at))
                for i in at.tolist():
                    events[i] = self._event(node, rows, i, found.shape)
                segment[at] = -1
        placed = self._rows.named(
            read.number,
            replace(rows, segment=segment).take(heard),
            tables[heard],
            [events[i] for i in sorted(events)],
        )
        return TransactionRows(placed, which[heard])

    def _made_by(self, node: _Node, told: Sequence[LoggedDdl]) -> Iterator[tuple[Ts, TableName]]:
        """Tables that a node's statements make, of those that marks tell of."""
        for one in told:
            found = one.statement
            if found is None or found.verb is not Verb.CREATE:
                continue
            key = found.tables[0]
            before = node.history.versions.before(one.ts)
            if self.names.marked(*key) and before.table(*key) is None:
                yield one.ts, key

    def _is_awaited(self, node: _Node, table: int, ts: Ts) -> bool:
        """Whether a table is none of anybody yet, as no mark has told of it."""
        entry = node.log.log.tables[table]
        return self._awaited.holds(node.log.name, (entry.schema, entry.name), ts)

    def _heard(self, node: _Node, table: int, ts: Ts) -> bool:
        """Whether rows of a part are delivered: of those that have all rows, it is one part."""
        entry = node.log.log.tables[table]
        if not self.names.everywhere(node.log.name, entry.schema, entry.name):
            return True
        if node.number:
            return False
        name = self.names.of(node.log.name, entry.schema, entry.name)
        parts = (
            key
            for key in node.history.versions.at(ts)
            if self.names.of(node.log.name, *key) == name
            and not self._awaited.holds(node.log.name, key, ts)
        )
        return (entry.schema, entry.name) == min(parts, default=None)

    def _alike(self, node: _Node, rows: Runs) -> Iterator[NDArray[np.int64]]:
        """Indices of rows of one table under one version of their node's schema."""
        if not len(rows):
            return
        lo, hi = int(rows.commit_ts.min()), int(rows.commit_ts.max())
        changes = np.array(node.history.versions.changes(lo, hi), np.int64)
        version = np.searchsorted(changes, rows.commit_ts, "right")
        pairs = rows.table.astype(np.int64) * (len(changes) + 1) + version
        order = np.argsort(pairs, kind="stable")
        cuts = np.flatnonzero(np.diff(pairs[order])) + 1
        yield from np.split(order, cuts)

    def _event(self, node: _Node, rows: Runs, i: int, found: Shape) -> bytes:
        number, at = int(rows.segment[i]), int(rows.offset[i])
        where = f"{node.log.name}/{number:06d}.binlog:{at}"
        return found.rows(node.log.log.segment(number), at, int(rows.length[i]), where)

    def _name(self, node: _Node, table: int) -> TableName | None:
        entry = node.log.log.tables[table]
        return self.names.of(node.log.name, entry.schema, entry.name)

    def _shape(self, node: _Node, table: int, name: TableName, ts: Ts) -> _Shaped:
        """How rows of a table of the node's dictionary go on that it committed at ``ts``."""
        entry = node.log.log.tables[table]
        part = node.history.versions.table(entry.schema, entry.name, ts)
        if part is None:
            raise self._unclear(node, entry.schema, entry.name, "which its node does not know", ts)
        lost = False
        try:
            logical = self._logical.versions.table(*name, MAX_TS)
        except DefiniteError:
            # Whoever reads the log does not know the table either, and says why.
            logical, lost = None, True
        if logical is None and not lost:
            what = f"and there is no logical table {'.'.join(name)}"
            raise self._unclear(node, entry.schema, entry.name, what, ts)
        renamed = self._renames.at(node.log.name, (entry.schema, entry.name), name, ts)
        known = node.shapes.setdefault(table, [])
        for one in known:
            if one.part is part and one.logical is logical and one.renamed == renamed:
                return one
        made = self._made(entry.map_body, part, logical, name, renamed)
        # Those of definitions that are no more are not asked for again.
        known[:] = [*known[-7:], made]
        return made

    def _made(
        self,
        body: bytes,
        part: Table,
        logical: Table | None,
        name: TableName,
        renamed: Mapping[str, str],
    ) -> _Shaped:
        stored = TableMap.parse(body)
        if logical is None:
            named = replace(stored, table_id=0, schema=name[0], name=name[1])
            number = self._writer.table_id(*name, named.encode())
            return _Shaped(part, None, renamed, number, None)
        found = shape(stored, part, logical, self._server_kind, renamed=renamed)
        number = self._writer.table_id(logical.schema, logical.name, found.stored.encode())
        return _Shaped(part, logical, renamed, number, found)

    def _unclear(self, node: _Node, schema: str, name: str, what: str, ts: Ts) -> ShapeUnclear:
        return ShapeUnclear(
            f"rows of {schema}.{name}, {what}",
            object=f"node {node.log.name}",
            position=f"ts {ts}",
            hint="each table needs a mark of its CREATE before its rows; else name parts by other"
            " patterns, in a new upstream",
        )

    # --- marks -----------------------------------------------------------------------------------

    def _marked(self, read: Sequence[NodeRows]) -> dict[int, tuple[DdlMark, NodeRows, int]]:
        """By transaction its mark, and where that is first: whose rows, and which of them.

        Raises MarkMalformed where it is not alone in its transaction, and the same on all nodes.
        """
        found: dict[int, list[tuple[DdlMark, NodeRows, int]]] = {}
        for one in read:
            node = self._nodes[one.number]
            tables = {
                number
                for number in np.unique(one.rows.table).tolist()
                if _is_marks(node.log.log, number)
            }
            for i in np.flatnonzero(np.isin(one.rows.table, list(tables))).tolist():
                for mark in self._read(node, one.rows.slice(i, i + 1)):
                    found.setdefault(int(one.of_row[i]), []).append((mark, one, i))
        for transaction, marks in found.items():
            others = sum(int(np.count_nonzero(one.of_row == transaction)) for one in read)
            nodes = {one.number for _, one, _ in marks}
            if len(marks) != len(self._nodes) or len(nodes) != len(marks) or others != len(marks):
                raise MarkMalformed(
                    "a mark is not alone in a transaction over all nodes, once on each",
                    object=_MARKS_NAME,
                    position=f"mark {marks[0][0].id}",
                    hint="the coordinator writes a mark as it writes heartbeats",
                )
            if len({replace(mark, id=0) for mark, _, _ in marks}) > 1:
                raise MarkMalformed(
                    "a mark says different things on different nodes",
                    object=_MARKS_NAME,
                    position=f"mark {marks[0][0].id}",
                    hint="the coordinator writes a mark as it writes heartbeats",
                )
        return {transaction: marks[0] for transaction, marks in found.items()}

    def _read(self, node: _Node, run: Runs) -> list[DdlMark]:
        log, ts = node.log.log, int(run.commit_ts[0])
        table = node.history.versions.table(*MARKS, ts)
        if table is None:
            raise MarkMalformed(
                "its definition is not known", object=_MARKS_NAME, position=f"ts {ts}",
                hint="see the node's schema",
            )  # fmt: skip
        stored = TableMap.parse(log.tables[int(run.table[0])].map_body)
        data = np.frombuffer(log.event(run), np.uint8)
        return read_marks(data, table, stored, f"{node.log.name} ts {ts}")

    def _change(
        self, read: Sequence[NodeRows], marked: tuple[DdlMark, NodeRows, int], transaction: int
    ) -> Iterator[list[TransactionRows]]:
        """What a mark makes of the log: a statement, or nothing."""
        mark, of_node, i = marked
        run = of_node.rows.slice(i, i + 1)
        node = self._nodes[of_node.number]
        where = f"mark {mark.id}"
        topology = self._topology(mark)
        found = statement(mark, self._logical.base, where, placed=topology is not None)
        places = _places(read, transaction)
        names = self.names if found is None else self._renamed(found, places, mark)
        names = self._placed(names, found, topology, places, mark)
        if found is None:
            self.names = names
            return
        data = node.log.log.segment(int(run.segment[0]))
        head = data[int(run.offset[0]) :][:HEADER_LENGTH].tobytes()
        event = statement_event(
            EventHeader.parse(head).timestamp,
            Statement(found.sql, mark.schema, status_of(self._logical.base)),
        )
        run = replace(
            run,
            kind=np.array([int(RunKind.DDL)], np.int8),
            flags=np.array([LAST_OF_TRANSACTION], np.int16),
            segment=np.array([-1], np.int32),
            first_row=np.zeros(1, np.int64),
            rows=np.zeros(1, np.int32),
        )
        placed = self._rows.named(of_node.number, run, np.full(1, -1, np.int32), [event])
        yield [TransactionRows(placed, np.array([transaction], np.int64))]
        self._logical.follow(self._writer.last_ts, event)
        at = {self._nodes[number].log.name: ts for number, ts in places.items()}
        for table in found.tables:
            self._renames.mark(table, at)
        self.names = names

    def _renamed(self, found: DdlStatement, places: dict[int, Ts], mark: DdlMark) -> PartNames:
        """Which parts are whose behind a statement; ``places``: by node the mark's ts there.

        Raises MarkRefused where it cannot be told.
        """
        names = self.names
        if found.verb is Verb.DROP:
            for table in found.tables:
                names = names.dropped(table)
        if found.verb is Verb.CREATE and found.tables[0] in names.moved:
            raise MarkRefused(
                "parts of another table have this name since it was renamed",
                object=".".join(found.tables[0]),
                position=f"mark {mark.id}",
                hint="create the upstream anew behind it",
            )
        if found.verb is Verb.CREATE and is_broadcast(mark, self._logical.base):
            names = names.spread(found.tables[0])
        for old, new in found.renames:
            names = names.renamed(old, new, parts=not self._has_parts(names, old, places))
        return names

    def _topology(self, mark: DdlMark) -> Topology | None:
        """Where a mark says the parts of its table are, if that is how they are told."""
        found = topology_of(mark) if self.names.by_marks else None
        if found is None or not found.table:
            return found
        named = (part[1:] for part in found.places)
        return None if self.names.by_names_alone((found.schema, found.table), named) else found

    def _placed(
        self,
        names: PartNames,
        found: DdlStatement | None,
        topology: Topology | None,
        places: Mapping[int, Ts],
        mark: DdlMark,
    ) -> PartNames:
        """Whose parts are where behind a mark. Raises MarkRefused where it cannot be told."""
        at = {self._nodes[number].log.name: ts for number, ts in places.items()}
        if topology is None:
            if found is not None and found.verb is Verb.CREATE:
                made = [p for p in self._awaited.since if names.of(*p) == found.tables[0]]
                self._awaited.told(made, at)
            return names
        known = [
            (self._nodes[number].log.name, *key)
            for number, ts in places.items()
            for key in self._nodes[number].history.versions.at(ts)
        ]
        parts = topology.parts(known, at.keys(), f"mark {mark.id}")
        before = {
            part: table
            for part in known
            if (table := names.of(*part)) is not None
            and not self._awaited.holds(part[0], part[1:], at[part[0]])
        }
        for table, its in placed_by(topology, parts, before, names).items():
            self._awaited.told(its, at)
            names = names.placed(table, its, known)
        return names

    def _has_parts(self, names: PartNames, table: TableName, places: dict[int, Ts]) -> bool:
        """Whether any node has parts that are called after a logical table."""
        origin = next((k for k, v in names.moved.items() if v == table), table)
        return any(
            names.by_pattern(*key) == origin
            for number, ts in places.items()
            for key in self._nodes[number].history.versions.at(ts)
        )


def _places(read: Sequence[NodeRows], transaction: int) -> dict[int, Ts]:
    """By node, the ts in its log of a transaction."""
    return {
        one.number: int(one.rows.commit_ts[one.of_row == transaction][0])
        for one in read
        if (one.of_row == transaction).any()
    }


def _is_marks(log: ChangeLog, table: int) -> bool:
    entry = log.tables[table]
    return (entry.schema.lower(), entry.name.lower()) == MARKS
