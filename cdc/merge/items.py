"""The items that a node's change log comes to: what is prepared, committed, rolled back, local.

An item's number is its row's place in the log's index, ``segment << 32 | row``: the last row of a
prepare, the row of an XA COMMIT or XA ROLLBACK, the last row of a local transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cdc.changelog.index import LAST_OF_TRANSACTION, PREPARED_BEFORE, RunKind, Runs
from cdc.changelog.tables import TableEntry
from cdc.kernels import merge_commits as C  # noqa: N812
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.carriers import CARRIERS, Carrier, commit_log_rows
from cdc.merge.errors import MergeCommitUnknown

Table = NDArray[np.int64]
_SEGMENT_SHIFT = 32
_XA_PREPARE = 38
# Behind a segment's magic.
_FIRST_EVENT = 4
# Rows in which one is looked for that ends before a commit; most often it is the one before.
_LOOK_BACK = 64


@dataclass(frozen=True, slots=True)
class Coordinator:
    """How a cluster's coordinator writes; tables as ``schema.table``, in lower case."""

    carrier: Carrier = CARRIERS["timestamp"]
    heartbeat: str = "__cdc__.__cdc_heartbeat__"
    commit_log: str = "__cdc__.__cdc_commit_log__"
    # Its XA transactions may have no TSO; each branch is a transaction of its own then.
    without_tso: bool = False


class CommitLogRow(NamedTuple):
    """What a row of the commit log says of a transaction; ``number``: its place, as an item's."""

    transaction: int
    tso: int
    branches: int
    number: int


def number_of(segment: int, row: int) -> int:
    """The number of an item from where its row is."""
    return segment << _SEGMENT_SHIFT | row


def place_of(number: int) -> tuple[int, int]:
    """Inverse of :func:`number_of`."""
    return number >> _SEGMENT_SHIFT, number & ((1 << _SEGMENT_SHIFT) - 1)


@dataclass(eq=False)
class NodeItems:
    """Reads one node's log, in its order.

    ``known``: rows of the commit log whose commit is to come, by transaction. ``used`` are those
    whose commit has come, with its number.
    """

    name: str
    coordinator: Coordinator
    known: dict[int, CommitLogRow] = field(default_factory=dict)
    used: list[tuple[int, CommitLogRow]] = field(default_factory=list)
    _tables: list[str] = field(default_factory=list)

    def astride(self, number: int) -> list[CommitLogRow]:
        """Rows of the commit log before an item of which the commit is it, or comes later.

        Who reads on from there must be given them. No lower number may be asked for later.
        """
        self.used = [pair for pair in self.used if pair[0] >= number]
        rows = (*self.known.values(), *(row for _, row in self.used))
        return [row for row in rows if row.number < number]

    def hidden(self, tables: Mapping[int, TableEntry]) -> NDArray[np.bool_]:
        """By a table's number, whether it is the coordinator's own; -1: it is not."""
        return np.logical_or(*self._special(tables))

    def take(
        self,
        segment: int,
        runs: Runs,
        first_row: int,
        data: NDArray[np.uint8],
        tables: Mapping[int, TableEntry],
    ) -> Table:
        """Items of a segment's rows from ``first_row`` on; ``runs`` and ``data`` are all of it.

        Raises MergeCommitMalformed, MergeCommitUnknown.
        """
        new = runs.slice(first_row, len(runs))
        of_heartbeat, of_commit_log = self._special(tables)
        whole = (new.flags & LAST_OF_TRANSACTION) != 0
        kinds = np.zeros(len(new), np.int64)
        kinds[whole & (new.kind == RunKind.PREPARE)] = K.PREPARED
        kinds[whole & (new.kind == RunKind.DML) & (new.xid < 0)] = K.LOCAL
        kinds[new.kind == RunKind.DDL] = K.LOCAL
        kinds[new.kind == RunKind.ROLLBACK] = K.ROLLED_BACK
        commits = np.flatnonzero(new.kind == RunKind.COMMIT)
        # A commit in one phase has no prepare of its own: its event is the XA_PREPARE.
        types = data[new.offset[commits] + 4]
        kinds[commits] = np.where(types == _XA_PREPARE, K.LOCAL, K.COMMITTED)
        items = np.zeros((len(new), K.ITEM_SIZE), np.int64)
        items[:, K.NUMBER] = number_of(segment, first_row) + np.arange(len(new))
        items[:, K.KIND] = kinds
        items[:, K.KEY] = new.xid
        # A branch's rows lie right before its commit.
        last = first_row + commits - 1
        with_rows = (last >= 0) & (runs.commit_ts[last] == new.commit_ts[commits])
        beats = with_rows & of_heartbeat[runs.table[last]]
        items[commits, K.FLAGS] = np.where(beats, K.HEARTBEAT, 0)
        if self.coordinator.carrier.in_row:
            said = np.flatnonzero(of_commit_log[new.table] & (new.kind == RunKind.DML))
            self._learn(segment, new, said, first_row, data)
        two_phase = commits[types != _XA_PREPARE]
        if len(two_phase):
            lacking = (new.flags[two_phase] & PREPARED_BEFORE) != 0
            items[two_phase, K.TSO : K.TXN + 1], items[two_phase, K.BRANCHES] = self._commits(
                segment, runs, first_row + two_phase, data, lacking
            )
            # What says when it committed may lie before the log, too.
            unknown = lacking & (items[two_phase, K.TSO] == 0)
            items[two_phase[unknown], K.KIND] = K.ROLLED_BACK
        return items[kinds > 0]

    def _special(
        self, tables: Mapping[int, TableEntry]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """By a table's number, whether it is the heartbeat's, and the commit log; -1: neither."""
        for number in range(len(self._tables), len(tables)):
            self._tables.append(f"{tables[number].schema}.{tables[number].name}".lower())
        names = np.array([*self._tables, ""])
        return names == self.coordinator.heartbeat, names == self.coordinator.commit_log

    def _learn(
        self, segment: int, runs: Runs, said: Table, first_row: int, data: NDArray[np.uint8]
    ) -> None:
        """Take what the commit log's runs with these indices insert."""
        begins = runs.offset[said].astype(np.int64)
        found = commit_log_rows(data, begins, begins + runs.length[said], self._where(segment))
        at = np.repeat(said, runs.rows[said])
        if len(at) != len(found):
            # Rows of other kinds are among them; one that is placed too early is only kept longer.
            at = np.full(len(found), said[0] if len(said) else 0)
        numbers = number_of(segment, first_row) + at
        for (tso, transaction, branches), number in zip(
            found.tolist(), numbers.tolist(), strict=True
        ):
            self.known[transaction] = CommitLogRow(transaction, tso, branches, number)

    def _commits(
        self,
        segment: int,
        runs: Runs,
        rows: Table,
        data: NDArray[np.uint8],
        lacking: NDArray[np.bool_],
    ) -> tuple[Table, Table]:
        """(TSO, transaction) and branches of the XA COMMITs in these rows.

        Those that are ``lacking`` were prepared before the log begins: nothing need say when.
        """
        # What lies before a group is passed over, so to begin too early only takes longer.
        lo = max(0, int(rows[0]) - _LOOK_BACK)
        near = runs.slice(lo, len(runs))
        ends = np.where(near.segment == segment, near.offset + near.length, 0)
        before = np.maximum.accumulate(np.append(_FIRST_EVENT, ends))[rows - lo]
        begins = np.minimum(before, runs.offset[rows])
        carrier = self.coordinator.carrier
        where = self._where(segment)
        found = carrier.commits(data, begins, ends[rows - lo], where)
        if carrier.in_row:
            for i, transaction in enumerate(found[:, C.TXN].tolist()):
                said = self.known.pop(transaction, None)
                if said is not None:
                    found[i, C.TSO], found[i, C.BRANCHES] = said.tso, said.branches
                    self.used.append((number_of(segment, int(rows[i])), said))
        without = (found[:, C.TSO] == 0) & (found[:, C.TXN] >= 0) & ~lacking
        if without.any() and not self.coordinator.without_tso:
            transaction = int(found[np.argmax(without), C.TXN])
            raise MergeCommitUnknown(
                f"transaction {transaction:x} is committed, and nothing says when",
                object=f"node {self.name}",
                position=where,
                hint=f"{carrier.what}: the coordinator, and who commits in its place, must set it",
            )
        found[found[:, C.TSO] == 0, C.TXN] = 0
        return found[:, [C.TSO, C.TXN]], found[:, C.BRANCHES]

    def _where(self, segment: int) -> str:
        return f"{self.name}/{segment:06d}.binlog"
