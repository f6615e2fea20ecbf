"""A cluster's node, read for the merge: the items of its log, from a place on."""

from __future__ import annotations

import numpy as np

from cdc.base.ts import Ts
from cdc.changelog.index import RunKind
from cdc.changelog.reader import ChangeLog
from cdc.kernels import merge_sort as K  # noqa: N812
from cdc.merge.items import NodeItems, Table, number_of, place_of
from cdc.source.merged_rows import NodeLog

# Rows of an index that are looked at for one that has a ts.
_LOOK_BACK = 64


class ItemReader:
    """Of one node's log, from the item with a number on."""

    def __init__(self, node: NodeLog, items: NodeItems, number: int) -> None:
        self.node = node
        self.items = items
        self._segment, self._row = place_of(number)

    def read(self, rows: int) -> Table:
        """The next items, out of at most so many rows of the index, as of the log's last refresh.

        Raises MergeCommitMalformed, MergeCommitUnknown, LogCollected, LogCorrupt.
        """
        log = self.node.log
        found = [np.empty((0, K.ITEM_SIZE), np.int64)]
        if log.state.segment:
            self._segment = self._segment or log.state.first_segment
        while rows and 0 < self._segment <= log.state.segment:
            runs = log.index_of(self._segment)
            end = min(len(runs), self._row + rows)
            if end > self._row:
                piece, data = runs.slice(0, end), log.segment(self._segment)
                found.append(self.items.take(self._segment, piece, self._row, data, log.tables))
                rows -= end - self._row
                self._row = end
            elif self._segment == log.state.segment:
                break
            else:
                self._segment, self._row = self._segment + 1, 0
        return np.concatenate(found)

    @property
    def at_end(self) -> bool:
        """Whether all of the log was read, as of its last refresh."""
        log = self.node.log
        if not log.state.segment:
            return True
        last = log.state.segment
        return self._segment == last and self._row == len(log.index_of(last))

    def statements(self) -> Table:
        """Numbers (int64) of all schema changes of the log, as far as it was read."""
        found = [np.empty(0, np.int64)]
        for info in self.node.log.state.segments():
            if info.number <= self._segment:
                kinds = self.node.log.index_of(info.number).kind
                if info.number == self._segment:
                    kinds = kinds[: self._row]
                found.append(
                    number_of(info.number, 0)
                    + np.flatnonzero(kinds == RunKind.DDL).astype(np.int64)
                )
        return np.concatenate(found)


def commit_ts(log: ChangeLog, numbers: Table) -> Table:
    """The ts (int64) that a node's log has for its items with these numbers."""
    segments, rows = numbers >> 32, numbers & 0xFFFFFFFF
    found = np.empty(len(numbers), np.int64)
    for segment in np.unique(segments).tolist():
        ours = segments == segment
        found[ours] = log.index_of(segment).commit_ts[rows[ours]]
    return found


def ts_before(log: ChangeLog, number: int) -> Ts:
    """The largest ts of a node's log before the item with this number."""
    segment, row = place_of(number)
    earlier = [s.last_ts for s in log.state.segments() if s.number < segment]
    before = max(log.state.first_ts, earlier[-1] if earlier else 0)
    if not segment or not row:
        return before
    ts = log.index_of(segment).commit_ts
    # It rises but for what is only prepared, which has 0.
    near = int(ts[max(0, row - _LOOK_BACK) : row].max())
    return max(before, near or int(ts[:row].max()))
