"""One log of a cluster's nodes: whole transactions, in the order of their virtual TSOs.

Branches of one transaction become one transaction of the merged log: its rows lie in the logs of
several nodes, under one ts, and are numbered through. The order is that of ``cdc.merge``, and a ts
is a function of it, so both are the same after any restart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.base.vtso import TSO_TO_TS_SHIFT, ts_of
from cdc.changelog import node_logs
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.origin import Pin
from cdc.changelog.vtso_marks import behind, marks
from cdc.changelog.writer import LogWriter
from cdc.merge.cluster import ClusterMerge, ClusterStand, Merged
from cdc.merge.items import CommitLogRow, Coordinator, NodeItems, place_of
from cdc.source.item_reader import ItemReader, commit_ts, ts_before
from cdc.source.membership import (
    Statement,
    arrival,
    coming_of,
    departure,
    leaving_of,
    placed_statements,
)
from cdc.source.merged_log import begin_later
from cdc.source.merged_rows import MergedRows, NodeLog, PlacedRows, clocks_apart, rising
from cdc.source.merged_schema import united
from cdc.source.merging import merged_to, position_of, schema_to
from cdc.source.pinned_order import PinnedOrder
from cdc.source.statements import History

# Of a node's index in one step.
_BATCH_ROWS = 200_000
# A node of which so many transactions wait for others is not read on meanwhile.
_MOST_WAITING = 1_000_000


@dataclass(frozen=True, slots=True)
class ClusterPosition:
    """Where the merged log of a cluster goes on, as its manifest has it.

    ``merged``: by node, up to which ts of its log all is merged. ``schema``: as ``schema_to``.
    ``said``: rows of the nodes' commit logs that are not read again. ``logical``: what its logical
    tables have to be kept, as JSON.
    """

    merged: dict[str, Ts]
    schema: dict[str, Ts]
    stand: ClusterStand
    said: dict[str, list[CommitLogRow]] = field(default_factory=dict)
    logical: Any = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        said = {name: [list(row) for row in rows] for name, rows in self.said.items() if rows}
        return {
            **position_of(self.merged),
            "schema": self.schema,
            "stand": self.stand.to_dict(),
            "said": said,
            **({} if self.logical is None else {"logical": self.logical}),
        }

    @classmethod
    def of(cls, value: dict[str, Any], nodes: int) -> ClusterPosition:
        """Inverse of ``to_dict``; also of the position of a log that has just begun."""
        stand = value.get("stand")
        return cls(
            merged_to(value),
            schema_to(value),
            ClusterStand.of(stand) if stand is not None else ClusterStand.first(nodes),
            {n: [CommitLogRow(*row) for row in rows] for n, rows in value.get("said", {}).items()},
            value.get("logical"),
        )

    @classmethod
    def anew(cls, value: dict[str, Any], begins: Mapping[str, Ts]) -> dict[str, Any]:
        """Where a log over other logs of the same nodes goes on as that at ``value`` does.

        ``begins``: by node, from which ts on its other log has all; what that was called in the log
        before must lie at or below what ``value`` has as merged. Numbers of items are of logs, so
        nodes are read from their beginning, and what is below the horizon is passed over. What has
        no TSO gets the place that it had: it follows the largest before it, which lies below the
        horizon or is read again.
        """
        stand = value.get("stand")
        if stand is None:
            return position_of(dict(begins))
        again = ClusterStand.of(stand).anew()
        return cls(dict(begins), dict(begins), again, logical=value.get("logical")).to_dict()


@dataclass(frozen=True, slots=True, eq=False)
class NodeRows:
    """Rows of the node with this number, and statements, each with its transaction in the order."""

    number: int
    rows: Runs
    of_row: NDArray[np.int64]
    statements: Runs
    of_statement: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TransactionRows:
    """Rows as the merged log has them, and the transaction (int64[:]) of each."""

    placed: PlacedRows
    which: NDArray[np.int64]


class Logical(Protocol):
    """What makes rows and statements of logical tables of those of the nodes' own."""

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
        """Go on where the log ends; ``kept`` is what :meth:`to_keep` was there.

        ``again``: in a log over others of the nodes; what that had is to be passed over.
        """

    def begun(self, schema: Mapping[str, Ts]) -> None:
        """The log begins; ``schema``: by node the ts of what is in its snapshot."""

    def passed(self, schema: Mapping[str, Ts]) -> None:
        """That is done; ``schema``: by node the ts of the last statement of it."""

    def to_keep(self, schema: Mapping[str, Ts]) -> Any:
        """What must be kept with the log's position, as JSON; ``schema``: as it says, by node."""

    def united(self, nodes: Sequence[tuple[str, dict[str, Any]]], ts: Ts) -> dict[str, Any]:
        """One schema snapshot out of one of each node."""

    def placed(self, read: Sequence[NodeRows]) -> Iterator[list[TransactionRows]]:
        """What is to be written, one piece after the other, each before the next is asked for."""

    def joined(self, node: NodeLog, ts: Ts) -> None:
        """Another node, the last of them; ``ts``: where its log begins."""

    def left(self, number: int) -> None:
        """The node with this number is none any more."""

    def forget(self, merged: Sequence[Ts]) -> None:
        """Forget what no row of a node above its ts of ``merged`` needs."""


class ClusterMerging:
    """Of one merged log, by its writer. One thread at a time.

    After an error nothing is known of what was read: make another one, of a writer that was
    opened anew. ``pins``: transactions that were delivered out of a log before this one. With
    ``logical`` it has logical tables, else the nodes' own. Which nodes it has is what its manifest
    says: another one of ``nodes`` joins at the first heartbeat that is on it too; one of ``ends``,
    by name of the ts at which its log has all, leaves at the first heartbeat that is not.
    """

    def __init__(
        self,
        writer: LogWriter,
        nodes: Sequence[NodeLog],
        segment_bytes: int,
        coordinator: Coordinator,
        *,
        pins: Sequence[Pin] = (),
        batch_rows: int = _BATCH_ROWS,
        logical: Logical | None = None,
        ends: Mapping[str, Ts] | None = None,
    ) -> None:
        self._writer = writer
        self._coordinator = coordinator
        self._ends = ends or {}
        self._all = nodes
        self._pinned = PinnedOrder(pins, writer.state.resolved_ts)
        members = merged_to(writer.state.position)
        self._nodes = [node for node in nodes if node.name in members]
        self._rows = MergedRows(writer, self._nodes, segment_bytes)
        self._batch_rows = batch_rows
        at = self._durable()
        self._merge = ClusterMerge.begin([n.name for n in self._nodes], at.stand)
        self._readers = []
        for node, stand in zip(self._nodes, at.stand.nodes, strict=True):
            known = {row.transaction: row for row in at.said.get(node.name, ())}
            items = NodeItems(node.name, coordinator, known)
            self._readers.append(ItemReader(node, items, stand.number))
        self._schema = at.schema
        # Whether what the log had whose place this one takes is still to be passed over.
        self._again = 0 < at.stand.anew_below == at.stand.horizon
        self._logical = logical
        if logical is not None:
            merged = [at.merged[node.name] for node in self._nodes]
            logical.open(writer, self._rows, self._nodes, merged, at.logical, again=self._again)

    def behind(self) -> NodeLog:
        """The node that is known least far, as of the last step: all others wait for it."""
        return self._nodes[self._merge.holding()]

    def behind_ms(self) -> tuple[NodeLog, int]:
        """A node, and how far it is behind the one that is known furthest.

        By the coordinator's TSOs that is :meth:`behind`; but where a node is down, no heartbeat of
        all nodes is there to show it, and the nodes' clocks do.
        """
        by_tso = self.behind(), self._merge.behind_ms()
        return max(by_tso, clocks_apart(self._nodes), key=lambda found: found[1])

    def missing(self) -> None:
        """Nothing is awaited that was delivered: the order itself is held against that."""

    def collectable(self, lowest: Mapping[int, int]) -> dict[str, Ts]:
        """By node, up to which ts its log is not needed any more.

        ``lowest``: by a node's place, the lowest of its segments that kept rows point to.
        """
        found, at = {}, self._durable()
        for number, (node, stand) in enumerate(zip(self._nodes, at.stand.nodes, strict=True)):
            place = node.place if node.place >= 0 else number
            segment = min(lowest.get(place, node.log.state.segment), place_of(stand.number)[0])
            merged = at.merged[node.name]
            found[node.name] = node_logs.collectable(node.log.state, segment, merged)
        return found

    def step(self) -> bool:
        """Merge some of what the nodes' logs have, durably; whether there was anything to read.

        Raises what reading and writing logs and ``cdc.merge`` raise.
        """
        for node in self._all:
            node.log.refresh()
        counts = self._counts()
        changed = bool(counts) and self._merge.aligned and self._change_members(counts)
        if changed:
            counts = self._counts()
        held = self._merge.holding()
        items = [
            reader.read(self._batch_rows if n == held or self._has_room(n) else 0)
            for n, reader in enumerate(self._readers)
        ]
        ended = [n for n in range(len(self._nodes)) if counts and self._ended(n)]
        if not any(map(len, items)) and not ended and not changed:
            return False
        aligned = self._merge.aligned
        self._merge, merged = self._merge.step(items, counts, ended)
        if not self._merge.aligned:
            return True
        if not any(map(len, items)) and not len(merged):
            # What ended may have been all that was waited for.
            found = self._merge.change(counts)
            return found is not None and self._merge.horizon == found[0]
        if not aligned:
            self._begin(merged)
        if self._again and self._merge.horizon > self._merge.anew_below:
            self._pass(merged)
        before = self._writer.last_ts
        placed = self._append(merged)
        last = self._writer.last_ts
        resolved = max(ts_of(self._merge.horizon) - 1, last, self._writer.state.resolved_ts)
        self._pinned.check(placed, self._writer.source_id, resolved)
        if last > before or resolved > self._writer.state.resolved_ts:
            position = self._position()
            self._writer.commit(resolved, position.to_dict())
            if self._logical is not None:
                self._logical.forget([position.merged[node.name] for node in self._nodes])
        return True

    # --- nodes that come and go ------------------------------------------------------------------

    def _counts(self) -> list[int]:
        """Of how many branches a heartbeat may be behind which the cluster has other nodes."""
        count = len(self._nodes)
        leaving = sum(node.name in self._ends for node in self._nodes)
        found = range(count - leaving, count + len(self._joining()) + 1)
        return [n for n in found if n != count]

    def _joining(self) -> list[NodeLog]:
        known = {node.name for node in self._nodes}
        return [n for n in self._all if n.name not in known and n.name not in self._ends]

    def _ended(self, number: int) -> bool:
        """Whether nothing more comes of a node that leaves."""
        node = self._nodes[number]
        ends = self._ends.get(node.name)
        at_end = self._readers[number].at_end
        return ends is not None and node.log.state.resolved_ts >= ends and at_end

    def _change_members(self, counts: Collection[int]) -> bool:
        """Have a node join or leave at the heartbeat that says so, durably; whether one has.

        All below it was merged: that heartbeat is the first transaction of the other nodes.
        """
        found = self._merge.change(counts)
        if found is None or self._merge.horizon != found[0]:
            return False
        if found[1] > len(self._nodes):
            self._join(self._joining()[0])
            return True
        gone = [n for n in range(len(self._nodes)) if self._ended(n) and self._merge.drained(n)]
        if gone:
            self._leave(gone[0])
        return bool(gone)

    def _join(self, node: NodeLog) -> None:
        first = node.log.state.first_ts
        self._nodes.append(node)
        self._readers.append(ItemReader(node, NodeItems(node.name, self._coordinator), 0))
        self._merge = self._merge.joined(node.name)
        self._schema[node.name] = first
        if self._logical is not None:
            self._logical.joined(node, first)
            self._told((), "")
        else:
            self._told(arrival(node.name, node.log.snapshot_at(first)), coming_of(node.name))

    def _leave(self, number: int) -> None:
        node = self._nodes.pop(number)
        merged = self._durable().merged[node.name]
        self._readers.pop(number)
        self._merge = self._merge.without(number)
        del self._schema[node.name]
        if self._logical is not None:
            self._logical.left(number)
            self._told((), "")
        else:
            databases = History(node.log, merged).versions.at(merged).databases
            gone = departure(node.name, (d.name for d in databases.values()))
            self._told(gone, leaving_of(node.name))

    def _told(self, statements: Iterable[Statement], source: str) -> None:
        """Write statements of our own above all that is there, and who is merged from here on."""
        last = max(self._writer.last_ts, self._writer.state.resolved_ts)
        listed = list(statements)
        if listed:
            rows = placed_statements(listed, last + 1, self._writer.source_id(source))
            self._rows.append(rows)
        self._writer.commit(max(self._writer.last_ts, last), self._position().to_dict())

    def _has_room(self, node: int) -> bool:
        return self._merge.waiting(node) < _MOST_WAITING

    def _durable(self) -> ClusterPosition:
        return ClusterPosition.of(self._writer.state.position, len(self._nodes))

    def _position(self) -> ClusterPosition:
        stand = self._merge.stand()
        merged, said = {}, {}
        for reader, at in zip(self._readers, stand.nodes, strict=True):
            name = reader.node.name
            merged[name] = ts_before(reader.node.log, at.number)
            said[name] = reader.items.astride(at.number)
            self._schema[name] = max(self._schema[name], merged[name])
        logical = None if self._logical is None else self._logical.to_keep(self._schema)
        return ClusterPosition(merged, dict(self._schema), stand, said, logical)

    def _begin(self, merged: Merged) -> None:
        """The order begins: the log holds what is above the first heartbeat of all nodes.

        Schema changes below it are in the snapshot there. Done again behind a kill it is the same.
        """
        self._schema_below(merged)
        ts = max(self._writer.state.first_ts, ts_of(self._merge.begun))
        unite = united if self._logical is None else self._logical.united
        begin_later(self._writer, ts, [(n.name, n.log) for n in self._nodes], self._schema, unite)
        if self._logical is not None:
            self._logical.begun(self._schema)

    def _pass(self, merged: Merged) -> None:
        """What was merged in the log before is passed over; statements of it are known.

        All nodes were read beyond it. Done again behind a kill it is the same.
        """
        self._schema_below(merged)
        self._again = False
        if self._logical is not None:
            self._logical.passed(dict(self._schema))

    def _schema_below(self, merged: Merged) -> None:
        """Statements lie below the first step's transactions where they are not among them."""
        for number, reader in enumerate(self._readers):
            above = np.append(merged.number[merged.node == number], self._merge.left(number))
            below = np.setdiff1d(reader.statements(), above)
            if len(below):
                self._schema[reader.node.name] = int(commit_ts(reader.node.log, below).max())

    # --- what is written -------------------------------------------------------------------------

    def _append(self, merged: Merged) -> Runs:
        """Write the rows of transactions; what was written."""
        transaction = np.cumsum(merged.first) - 1
        read = []
        for number in range(len(self._nodes)):
            ours = np.flatnonzero(merged.node == number)
            if len(ours):
                read.append(self._rows_of(number, merged.number[ours], transaction[ours]))
        if self._logical is None:
            return self._put(merged, transaction, [self._as_they_are(one) for one in read])
        return Runs.concat(
            [self._put(merged, transaction, parts) for parts in self._logical.placed(read)]
        )

    def _put(
        self, merged: Merged, transaction: NDArray[np.int64], parts: Sequence[TransactionRows]
    ) -> Runs:
        """Write rows of transactions above all that were written; what was written."""
        if not parts:
            return Runs.empty()
        joined = self._rows.join([part.placed for part in parts])
        which = np.concatenate([part.which for part in parts])
        order = np.argsort(which, kind="stable")
        wanted = merged.tso[merged.first] >> TSO_TO_TS_SHIFT
        runs = glued(joined.runs.take(order), which[order], wanted, self._writer.last_ts)
        found = _marks(merged, transaction, which[order], runs.commit_ts)
        self._rows.append(replace(joined, runs=behind(runs, found)))
        return runs

    def _as_they_are(self, read: NodeRows) -> TransactionRows:
        placed = self._rows.placed(read.number, read.rows, read.statements)
        return TransactionRows(placed, np.append(read.of_row, read.of_statement))

    def _rows_of(
        self, number: int, items: NDArray[np.int64], transaction: NDArray[np.int64]
    ) -> NodeRows:
        """What is in a node's items, each with its transaction: of what its index was given.

        Rows of the coordinator's own tables are left out.
        """
        node, log = self._nodes[number], self._nodes[number].log
        ts = commit_ts(log, items)
        order = np.argsort(ts)
        pick = partial(_picked, ts[order], transaction[order])
        lo, hi = int(ts.min()) - 1, int(ts.max())
        rows, of_row = pick(log.runs(Position(lo), Position(hi)))
        shown = ~self._readers[number].items.hidden(log.tables)[rows.table]
        statements, of_statement = pick(log.ddls(lo, hi))
        for said in statements.commit_ts[-1:].tolist():
            self._schema[node.name] = max(self._schema[node.name], said)
        return NodeRows(number, rows.take(shown), of_row[shown], statements, of_statement)


def _marks(
    merged: Merged,
    transaction: NDArray[np.int64],
    of_row: NDArray[np.int64],
    ts: NDArray[np.int64],
) -> Runs:
    """Marks of transactions that have rows: ``of_row`` (rising) is that of each, ``ts`` its ts."""
    shown, at = np.unique(of_row, return_index=True)
    first = np.flatnonzero(merged.first)[shown]
    sequence = merged.sequence[first]
    return marks(
        ts[at],
        merged.tso[first],
        merged.transaction[first],
        sequence,
        np.where(sequence > 0, merged.node[first] + 1, 0),
        np.bincount(transaction)[shown],
    )


def _picked(
    ts: NDArray[np.int64], transaction: NDArray[np.int64], runs: Runs
) -> tuple[Runs, NDArray[np.int64]]:
    """Those of ``runs`` whose ts is among the rising ``ts``, and the transaction of each."""
    at = np.minimum(np.searchsorted(ts, runs.commit_ts), len(ts) - 1)
    ours = ts[at] == runs.commit_ts
    return runs.take(ours), transaction[at[ours]]


def glued(runs: Runs, transaction: NDArray[np.int64], wanted: NDArray[np.int64], last: Ts) -> Runs:
    """Rows that lie in order as whole transactions: one ts, numbered through, one last row.

    ``transaction`` (int64, rising) is that of each row, ``wanted`` the ts of each transaction; what
    has no row gets none. All rows of a transaction have the GTID of its first.
    """
    begins = np.flatnonzero(np.append(True, np.diff(transaction) != 0)[: len(runs)])
    counts = np.diff(np.append(begins, len(runs)))
    first = np.repeat(begins, counts)
    before = np.cumsum(runs.rows.astype(np.int64)) - runs.rows
    flags = np.where(runs.kind == RunKind.DML, 0, runs.flags)
    flags[begins + counts - 1] |= LAST_OF_TRANSACTION
    return replace(
        runs,
        commit_ts=np.repeat(rising(wanted[transaction[begins]], last), counts),
        flags=flags.astype(np.int16),
        first_row=before - before[first],
        gtid_source=runs.gtid_source[first],
        gtid_seq=runs.gtid_seq[first],
    )
