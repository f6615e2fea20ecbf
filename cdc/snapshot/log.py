"""The log of a changefeed that begins with rows that were there before: these, then the changes.

The rows lie in a small change log of their own, as transactions that all end at one ts, that of
the snapshot. To whoever reads, both are one log: up to that ts it holds the snapshot's rows and
nothing else, above it what the upstream's log holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.tables import TableEntry


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """A snapshot's rows: the folder of their log, and the ts at which they were so."""

    folder: str
    ts: Ts

    def remove(self) -> None:
        """Remove them; what is open of them can still be read."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_log(folder: Path, rows: SnapshotRows | None = None) -> ChangeLog:
    """The upstream's log, behind the rows of a snapshot if there are any.

    Raises LogMissing, LogCorrupt.
    """
    return ChangeLog.open(folder) if rows is None else SnapshotLog.over(folder, rows)


def is_snapshot(segment: int) -> bool:
    """Whether a segment of :func:`open_log` has rows that were there before."""
    return segment < 0


class SnapshotLog(ChangeLog):
    """A snapshot's rows, and behind their ts the upstream's log.

    Ids of the snapshot's tables come first, those of the upstream's log behind them; segments of
    the snapshot have negative numbers.
    """

    def __init__(self, folder: Path, index_bytes: int, rows: ChangeLog, ts: Ts) -> None:
        super().__init__(folder, index_bytes)
        self._rows = rows
        self._rows_ts = ts
        self._first_id = len(rows.tables)
        self._joined: Mapping[int, TableEntry] = MappingProxyType({})

    @classmethod
    def over(cls, folder: Path, rows: SnapshotRows, *, index_bytes: int = 64 << 20) -> SnapshotLog:
        """Open and refresh both. Raises LogMissing, LogCorrupt."""
        log = cls(folder, index_bytes, ChangeLog.open(Path(rows.folder)), rows.ts)
        log.refresh()
        return log

    def close(self) -> None:
        """Close both."""
        super().close()
        self._rows.close()

    @property
    def tables(self) -> Mapping[int, TableEntry]:
        """Both dictionaries, the snapshot's first."""
        theirs = super().tables
        if len(self._joined) != self._first_id + len(theirs):
            moved = {self._first_id + i: entry for i, entry in theirs.items()}
            self._joined = MappingProxyType({**self._rows.tables, **moved})
        return self._joined

    def runs(
        self,
        lo: Position,
        hi: Position,
        *,
        max_bytes: int | None = None,
        tables: Collection[int] | None = None,
    ) -> Runs:
        """As of :class:`ChangeLog`; with ``max_bytes`` a result has rows of one of both only."""
        end = Position(self._rows_ts)
        first: list[Runs] = []
        if lo < end:
            ours = None if tables is None else [i for i in tables if i < self._first_id]
            rows = self._rows.runs(lo, min(hi, end), max_bytes=max_bytes, tables=ours)
            rows = replace(rows, segment=-rows.segment)
            to = rows.complete_to
            if hi <= end or (to is not None and to < end) or (len(rows) and max_bytes is not None):
                return rows
            first, lo = [rows], end
        theirs = None if tables is None else [i - self._first_id for i in tables]
        above = super().runs(lo, hi, max_bytes=max_bytes, tables=theirs)
        above = replace(above, table=above.table + np.int32(self._first_id))
        return Runs.concat([*first, above]) if first else above

    def forget_below(self, ts: Ts) -> None:
        """As of :class:`ChangeLog`."""
        super().forget_below(ts)
        self._rows.forget_below(ts)

    def segment(self, number: int) -> NDArray[np.uint8]:
        """As of :class:`ChangeLog`."""
        return self._rows.segment(-number) if is_snapshot(number) else super().segment(number)

    def verify(self, runs: Runs) -> None:
        """As of :class:`ChangeLog`."""
        ours = runs.segment < 0
        if ours.any():
            rows = runs.take(ours)
            self._rows.verify(replace(rows, segment=-rows.segment))
            runs = runs.take(~ours)
        super().verify(runs)
