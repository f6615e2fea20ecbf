"""Choosing runs of one segment's index by position, table and bytes; pure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.index import RunKind, Runs


class SegmentPlan:
    """The DML and DDL rows of a segment's index, in delivery order, ready to be searched by ts."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        which = np.flatnonzero(runs.kind == RunKind.DML)
        # Most segments hold nothing but DML rows: then rows are taken as views.
        self.which: NDArray[np.int64] | None = None if len(which) == len(runs) else which
        self.ts: NDArray[np.int64] = runs.commit_ts if self.which is None else runs.commit_ts[which]
        none = np.empty(0, np.int64)
        self._ddls = none if self.which is None else np.flatnonzero(runs.kind == RunKind.DDL)
        self._ddl_ts = runs.commit_ts[self._ddls]
        self._marks = none if self.which is None else np.flatnonzero(runs.kind == RunKind.MARK)
        self._mark_ts = runs.commit_ts[self._marks]

    @property
    def ddl_count(self) -> int:
        """How many DDL rows there are."""
        return len(self._ddls)

    def ddls(self, lo_ts: Ts, hi_ts: Ts) -> NDArray[np.int64]:
        """Indices (into ``runs``) of the DDLs with ``lo_ts < commit_ts <= hi_ts``."""
        a, b = np.searchsorted(self._ddl_ts, (lo_ts, hi_ts), "right")
        return self._ddls[a:b]

    def marks(self, lo_ts: Ts, hi_ts: Ts) -> NDArray[np.int64]:
        """Indices (into ``runs``) of the marks with ``lo_ts < commit_ts <= hi_ts``."""
        a, b = np.searchsorted(self._mark_ts, (lo_ts, hi_ts), "right")
        return self._marks[a:b]

    def transaction_at(self, ts: Ts) -> tuple[Ts, int, int, int] | None:
        """(ts, GTID source, number, file) of the last transaction at or below ``ts``, if any."""
        runs = self.runs
        row = int(np.searchsorted(self.ts, ts, "right")) - 1
        if self.which is not None and row >= 0:
            row = int(self.which[row])
        ddl = int(np.searchsorted(self._ddl_ts, ts, "right")) - 1
        ddl = int(self._ddls[ddl]) if ddl >= 0 else -1
        last = max(row, ddl, key=lambda i: (int(runs.commit_ts[i]) if i >= 0 else -1, i))
        if last < 0:
            return None
        name = int(runs.gtid_source[last]), int(runs.gtid_seq[last]), int(runs.upstream_file[last])
        if name[0] < 0 and name[1] < 0:
            # An earlier version did not note where transactions without a GTID begin.
            return None
        at = int(runs.commit_ts[last])
        # A CREATE TABLE … SELECT is one transaction upstream, and has two ts here.
        if 0 <= ddl != last and (int(runs.gtid_source[ddl]), int(runs.gtid_seq[ddl])) == name[:2]:
            at = int(runs.commit_ts[ddl])
        return at, *name

    def last_rows(self, ts: Ts) -> NDArray[np.int64]:
        """The last row (index into ``runs``, rising) of each GTID source at or below ``ts``.

        Of a log of shards, whose rows all rise by ts.
        """
        end = int(np.searchsorted(self.runs.commit_ts, ts, "right"))
        rows = np.flatnonzero(self.runs.gtid_source[:end] >= 0)
        sources = self.runs.gtid_source[rows]
        last = np.full(int(sources.max(initial=-1)) + 1, -1, np.int64)
        # Of several rows with one source the last one stays.
        last[sources] = rows
        return np.sort(last[last >= 0])

    def select(
        self, lo: Position, hi: Position, tables: Collection[int] | None
    ) -> NDArray[np.int64]:
        """Indices (into ``runs``) of the DML runs that have a row in ``(lo, hi]``."""
        a = int(np.searchsorted(self.ts, lo.ts, "right" if lo.whole() else "left"))
        b = int(np.searchsorted(self.ts, hi.ts, "right"))
        chosen = np.arange(a, b) if self.which is None else self.which[a:b]
        runs = self.runs
        if not lo.whole():
            head = int(np.searchsorted(self.ts[a:b], lo.ts, "right"))
            first = chosen[:head]
            inside = runs.first_row[first] + runs.rows[first] > lo.row
            chosen = np.concatenate([first[inside], chosen[head:]])
        if not hi.whole() and len(chosen):
            tail = int(np.searchsorted(runs.commit_ts[chosen], hi.ts, "left"))
            last = chosen[tail:]
            chosen = np.concatenate([chosen[:tail], last[runs.first_row[last] < hi.row]])
        if tables is not None:
            wanted = np.fromiter(tables, np.int64, len(tables))
            chosen = chosen[np.isin(runs.table[chosen], wanted, kind="table")]
        return chosen


def cut_at(lengths: NDArray[np.int64], max_bytes: int, before: int) -> int:
    """How many runs fit when ``before`` bytes are there already."""
    return int(np.searchsorted(np.cumsum(lengths), max_bytes - before, "right"))


def complete_to(last: Runs, following: Runs) -> Position:
    """Position up to which a result ending with ``last`` is complete, if ``following`` is next.

    Both hold one run. If the next run is of another transaction, then this one is done whole,
    even where its last run is of a table that was not asked for.
    """
    ts = int(last.commit_ts[0])
    if int(following.commit_ts[0]) != ts:
        return Position(ts)
    return Position(ts, int(last.first_row[0]) + int(last.rows[0]))
