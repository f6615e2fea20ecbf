"""The book of prepared XA transactions: whose rows are in the log without a commit yet."""

from __future__ import annotations

import numpy as np

from cdc.changelog.index import RunKind, Runs

_STEPS = (RunKind.PREPARE, RunKind.COMMIT, RunKind.ROLLBACK)


class PreparedBook:
    """PREPARE rows of transactions that have not ended, in order of the log; segments are absolute.

    The rows of many transactions are taken, and given up, as arrays.
    """

    def __init__(self, parts: tuple[Runs, ...] = ()) -> None:
        self._parts = parts

    def copy(self) -> PreparedBook:
        """The same, to be changed on its own."""
        return PreparedBook(self._parts)

    def apply(self, runs: Runs) -> list[int]:
        """Take a stretch of the index; returns the xids that ended in it."""
        steps = np.flatnonzero(np.isin(runs.kind, _STEPS) & (runs.xid >= 0))
        if not len(steps):
            return []
        # Parts are never changed, so a copy of the book may share them.
        self._parts = (*self._parts, runs.take(steps))
        if (runs.kind[steps] == RunKind.PREPARE).all():
            return []
        rows = Runs.concat(self._parts)
        ends = np.flatnonzero(rows.kind != RunKind.PREPARE)
        ended, at = np.unique(rows.xid[ends][::-1], return_index=True)
        last = ends[::-1][at]
        # Of an xid that is prepared again behind its end, what is behind it counts.
        which = np.minimum(np.searchsorted(ended, rows.xid), len(ended) - 1)
        over = (ended[which] == rows.xid) & (np.arange(len(rows)) <= last[which])
        kept = rows.take(~over)
        self._parts = (kept,) if len(kept) else ()
        return [int(number) for number in ended]

    def rows(self) -> Runs:
        """All PREPARE rows, those of the steps too (without a table)."""
        if len(self._parts) > 1:
            self._parts = (Runs.concat(self._parts),)
        return Runs.concat(self._parts)

    def rows_of(self, xid: int) -> Runs:
        """The rows runs of a prepared transaction, as DML runs without a commit ts."""
        rows = self.rows()
        rows = last_prepared(rows.take(rows.xid == xid))
        found = rows.take(rows.table >= 0)
        found.kind[:] = RunKind.DML
        return found

    def holds(self, xid: int) -> bool:
        """Whether the transaction is prepared now."""
        return bool((self.rows().xid == xid).any())

    def xids(self) -> list[int]:
        """Ids of the transactions that are prepared now."""
        return [int(number) for number in np.unique(self.rows().xid)]

    def segments(self) -> dict[int, int]:
        """The first segment of each transaction that is prepared, by its xid's number."""
        rows = self.rows()
        numbers, first = np.unique(rows.xid, return_inverse=True)
        lowest = np.full(len(numbers), np.iinfo(np.int32).max, np.int64)
        np.minimum.at(lowest, first, rows.segment)
        return dict(zip(numbers.tolist(), lowest.tolist(), strict=True))

    def oldest_segment(self) -> int:
        """Lowest segment with a row of a prepared transaction, 0 if there is none."""
        segment = self.rows().segment
        return int(segment.min()) if len(segment) else 0


def last_prepared(rows: Runs) -> Runs:
    """PREPARE rows of transactions that have not ended, without those before the last of each xid.

    A server has no two transactions of one xid. Where it is prepared again and has not ended, a
    crash has taken the one before out of the engine, and it stays in the binlog.
    """
    steps = rows.table < 0
    order = np.argsort(rows.xid, kind="stable")
    xid, step = rows.xid[order], steps[order].astype(np.int64)
    # How many steps of its xid come before a row; the last row of an xid has the most.
    before = np.cumsum(step) - step
    last = before[np.searchsorted(xid, xid, "right") - 1]
    if (before == last).all():
        return rows
    kept = np.empty(len(rows), np.bool_)
    kept[order] = before == last
    return rows.take(kept)
