"""The log of a changefeed with rows that were there before: these, then the changes.

The rows lie in a small change log of their own, as transactions that all end at one ts, that of
the snapshot. To whoever reads, both are one log: up to that ts it holds the snapshot's rows and
nothing else, above it what the upstream's log holds. Rows that are delivered to a changefeed that
has begun before have a place that the upstream's log leaves free, and that log before them too.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import DefiniteError
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.changelog.log_files import FilesInPlace, LogFiles
from cdc.changelog.reader import ChangeLog
from cdc.changelog.tables import TableEntry


class SnapshotLost(DefiniteError):
    """The copied rows of a changefeed are not there any more, and not all are delivered."""

    code = "TG:ErrSnapshotLost"


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """A snapshot's rows: the folder of their log, and the ts at which they were so.

    ``base_ts``: up to there the upstream's log holds; 0 if nothing of it lies before the rows.
    ``upsert``: they replace rows that are there already.
    """

    folder: str
    ts: Ts
    base_ts: Ts = 0
    upsert: bool = False

    @property
    def between(self) -> bool:
        """Whether they lie between changes, and not before all of them."""
        return self.base_ts > 0

    @property
    def repeated(self) -> bool:
        """Whether a sink may have some of them already, or others in their place."""
        return self.between or self.upsert

    def remove(self) -> None:
        """Remove them; what is open of them can still be read."""
        shutil.rmtree(self.folder, ignore_errors=True)


def open_log(folder: Path, rows: SnapshotRows | None = None) -> ChangeLog:
    """The upstream's log, behind the rows of a snapshot if there are any.

    Raises LogMissing, LogCorrupt.
    """
    return over_log(FilesInPlace(folder), FilesInPlace(Path(rows.folder)) if rows else None, rows)


def over_log(
    log_files: LogFiles, rows_files: LogFiles | None = None, rows: SnapshotRows | None = None
) -> ChangeLog:
    """As :func:`open_log`, over files that may be elsewhere. Raises what keeps them there, too."""
    if rows is None or rows_files is None:
        return ChangeLog.over(log_files)
    return SnapshotLog.around(rows, rows_files, log_files)


def is_snapshot(segment: int) -> bool:
    """Whether a segment of :func:`open_log` has rows that were there before."""
    return segment < 0


class SnapshotLog(ChangeLog):
    """A snapshot's rows, and around them the upstream's log.

    Ids of the snapshot's tables come first, those of the upstream's log behind them; segments of
    the snapshot have negative numbers.
    """

    def __init__(
        self, log_files: LogFiles, index_bytes: int, rows: ChangeLog, at: SnapshotRows
    ) -> None:
        super().__init__(log_files, index_bytes)
        self._rows = rows
        self._rows_ts = at.ts
        self._base_ts = at.base_ts
        self._first_id = len(rows.tables)
        self._joined: Mapping[int, TableEntry] = MappingProxyType({})

    @classmethod
    def around(
        cls,
        rows: SnapshotRows,
        rows_files: LogFiles,
        log_files: LogFiles,
        *,
        index_bytes: int = 64 << 20,
    ) -> SnapshotLog:
        """Open and refresh both. Raises LogMissing, LogCorrupt."""
        log = cls(log_files, index_bytes, ChangeLog.over(rows_files), rows)
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
        begin, end = Position(self._base_ts), Position(self._rows_ts)
        parts: list[Runs] = []
        if begin.ts and lo < begin:
            below = self._upstream(lo, min(hi, begin), max_bytes, tables)
            if hi <= begin or _is_cut(below, begin) or (len(below) and max_bytes is not None):
                return below
            parts, lo = [below], begin
        if lo < end:
            ours = None if tables is None else [i for i in tables if i < self._first_id]
            rows = self._rows.runs(lo, min(hi, end), max_bytes=max_bytes, tables=ours)
            rows = replace(rows, segment=-rows.segment)
            if hi <= end or _is_cut(rows, end) or (len(rows) and max_bytes is not None):
                return Runs.concat([*parts, rows]) if parts else rows
            parts, lo = [*parts, rows], end
        above = self._upstream(lo, hi, max_bytes, tables)
        return Runs.concat([*parts, above]) if parts else above

    def _upstream(
        self, lo: Position, hi: Position, max_bytes: int | None, tables: Collection[int] | None
    ) -> Runs:
        theirs = None if tables is None else [i - self._first_id for i in tables]
        found = super().runs(lo, hi, max_bytes=max_bytes, tables=theirs)
        return replace(found, table=found.table + np.int32(self._first_id))

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


def _is_cut(runs: Runs, end: Position) -> bool:
    """Whether a result is complete only up to a place before ``end``."""
    return runs.complete_to is not None and runs.complete_to < end
