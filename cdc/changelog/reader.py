"""Reading a log: any number of readers, in any process, beside the writer.

A reader sees committed bytes only. It reads the manifest's new lines at ``refresh``, an index
when it is asked for, and data through maps.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.position import LastOfNode, Position, TransactionName, cut_of
from cdc.base.ts import Ts
from cdc.changelog import cuts, journal, names, notify, origin, snapshots
from cdc.changelog.cuts import KeptCut
from cdc.changelog.errors import LogCollected, LogCorrupt, LogMissing, LogReplaced
from cdc.changelog.index import RunKind, Runs
from cdc.changelog.log_files import FilesInPlace, LogFiles
from cdc.changelog.manifest import last_state
from cdc.changelog.node_logs import NodeLogs, place_of
from cdc.changelog.planning import SegmentPlan, complete_to, cut_at
from cdc.changelog.segments import Segments
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.tables import Dictionaries, TableEntry

_COLLECTED_ATTEMPTS = 3
# Of a node's log nothing but its segments is asked for.
_NODE_INDEX_BYTES = 1 << 20
_POLL_FIRST_S = 0.002
_POLL_MAX_S = 0.05


class ChangeLog:
    """A log opened for reading; safe for use by several threads. Its rows may lie in nodes' logs.

    ``index_bytes`` bounds the memory of indexes that are kept; those of segments that the log has
    collected, and of what its user has behind it (:meth:`forget_below`), are not.
    """

    def __init__(self, log_files: LogFiles, index_bytes: int) -> None:
        self._files = log_files
        self._folder = log_files.folder
        self._lock = threading.RLock()
        self._fd = -1
        self._read = 0
        self._state = LogState()
        self._dictionaries = Dictionaries()
        self._tables_read = 0
        # The log's id; "" before it was read, and of one that has none.
        self._id = ""
        # Of a log of shards, what was asked for last: who asks again mostly asks for a later ts.
        self._cut: KeptCut | None = None
        self._segments = Segments(log_files, index_bytes)
        self._nodes = NodeLogs(
            log_files, lambda f: ChangeLog.over(f, index_bytes=_NODE_INDEX_BYTES)
        )

    @classmethod
    def open(cls, folder: Path, *, index_bytes: int = 64 << 20) -> ChangeLog:
        """Open and refresh. Raises LogMissing if there is no log, LogCorrupt."""
        return cls.over(FilesInPlace(folder), index_bytes=index_bytes)

    @classmethod
    def over(cls, log_files: LogFiles, *, index_bytes: int = 64 << 20) -> ChangeLog:
        """As :meth:`open`, over files that may be elsewhere. Raises what keeps them there, too."""
        log = cls(log_files, index_bytes)
        log.refresh()
        return log

    def close(self) -> None:
        """Close the manifest; maps go with the last array that uses them."""
        with self._lock:
            self._close_manifest()
        self._nodes.close()
        self._files.close()

    def _close_manifest(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def folder(self) -> Path:
        """Where it lies, or the copy of it that is read."""
        return self._folder

    @property
    def state(self) -> LogState:
        """The state of the last refresh."""
        return self._state

    @property
    def tables(self) -> Mapping[int, TableEntry]:
        """The dictionary of tables, as of the last refresh."""
        return MappingProxyType(self._dictionaries.tables)

    @property
    def sources(self) -> Mapping[int, str]:
        """The dictionary of GTID sources, as of the last refresh."""
        return MappingProxyType(self._dictionaries.sources)

    def refresh(self) -> LogState:
        """Read what was committed since; a stat and nothing more if nothing was.

        Raises LogMissing, LogCorrupt, and LogReplaced for ever once another log lies in the folder:
        positions, tables and indexes that were read of the one mean nothing in the other.
        """
        with self._lock:
            self._files.manifest()
            path = self._folder / names.MANIFEST
            try:
                found = os.stat(path)
                # While we hold the old file open, no new one can have its inode number.
                if self._fd < 0 or os.fstat(self._fd).st_ino != found.st_ino:
                    self._close_manifest()
                    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    try:
                        self._check_same()
                    except BaseException:
                        os.close(fd)
                        raise
                    self._fd, self._read = fd, 0
                    found = os.fstat(self._fd)
            except FileNotFoundError:
                raise LogMissing(
                    "there is no change log in this folder",
                    object=names.shown(self._folder),
                    hint="wait until the upstream is pulled, or check the data folder",
                ) from None
            if found.st_size > self._read:
                data = os.pread(self._fd, found.st_size - self._read, self._read)
                last = last_state(data, self._read, self._state.closed)
                if last is not None:
                    # The dictionary first: a run must never name a table that is not there.
                    self._read_tables(last.state.tables_length)
                    self._read, self._state = last.end, last.state
                    self._nodes.grown()
                    # A file that is still mapped keeps its place on the disk.
                    self._segments.forget_before(self._state.first_segment)
            return self._state

    def _check_same(self) -> None:
        made = origin.load(self._folder)
        found = made.log if made is not None else ""
        # What an earlier version has made gets an id later.
        if self._id and found != self._id:
            raise LogReplaced(
                "another log has taken the place of the one that was opened",
                object=names.shown(self._folder),
                hint="nothing to do: what reads it begins anew",
            )
        self._id = found

    def forget_below(self, ts: Ts) -> None:
        """Give back the memory of segments that end at or below ``ts``: they will hardly be read.

        Whoever asks for one all the same has it read again.
        """
        state = self._state
        behind = bisect_right(state.closed, ts, key=lambda s: s.last_ts)
        left = state.closed[behind:]
        self._segments.forget_before(left[0].number if left else state.segment)
        self._nodes.forget_below(ts)

    def runs(
        self,
        lo: Position,
        hi: Position,
        *,
        max_bytes: int | None = None,
        tables: Collection[int] | None = None,
    ) -> Runs:
        """DML runs that have a row in ``(lo, hi]``, in delivery order.

        Nothing above the resolved ts of the last refresh is returned. With ``max_bytes`` the
        result ends at a run's end, behind one run at least; ``end_position`` says how far it is
        complete. A run that ``lo`` or ``hi`` cuts is returned whole.
        Raises LogCollected if ``lo`` lies below what is kept, LogCorrupt.
        """
        state = self._state
        self._check_kept(state, lo)
        hi = min(hi, Position(state.resolved_ts))
        if lo >= hi:
            return replace(Runs.empty(), complete_to=hi)
        parts: list[Runs] = []
        size = 0
        for plan in self._plans(state, lo.ts, hi.ts, whole=lo.whole()):
            chosen = plan.select(lo, hi, tables)
            if not len(chosen):
                continue
            if max_bytes is not None:
                fits = cut_at(plan.runs.length[chosen], max_bytes, size)
                if not parts:
                    fits = max(fits, 1)
                if fits < len(chosen):
                    following = plan.runs.take(chosen[fits : fits + 1])
                    parts += [plan.runs.take(chosen[:fits])] if fits else []
                    result = Runs.concat(parts)
                    result.complete_to = complete_to(result.slice(-1, len(result)), following)
                    return result
            parts.append(plan.runs.take(chosen))
            size += int(parts[-1].length.sum())
        result = Runs.concat(parts)
        result.complete_to = hi
        return result

    def end_position(self, runs: Runs, hi: Position) -> Position:
        """Position up to which ``runs``, a result of ``runs(lo, hi, …)``, is complete.

        It is ``hi`` (or the resolved ts, if lower) where nothing was cut off.
        """
        if runs.complete_to is None:
            raise ValueError("not a result of ChangeLog.runs")
        return min(runs.complete_to, hi)

    def index_of(self, number: int) -> Runs:
        """All rows of a segment's index that are committed, in binlog order, steps of XA too.

        Raises LogCollected, LogCorrupt.
        """
        try:
            return self._segments.index(self._info(number)).runs
        except FileNotFoundError:
            raise self._gone(names.index_name(number)) from None

    def ddls(self, lo_ts: Ts, hi_ts: Ts) -> Runs:
        """DDL rows with ``lo_ts < commit_ts <= min(hi_ts, resolved)``, in order."""
        state = self._state
        self._check_kept(state, Position(lo_ts))
        hi_ts = min(hi_ts, state.resolved_ts)
        plans = self._plans(state, lo_ts, hi_ts, whole=True, ddls=True)
        return Runs.concat([plan.runs.take(plan.ddls(lo_ts, hi_ts)) for plan in plans])

    def marks(self, lo_ts: Ts, hi_ts: Ts) -> Runs:
        """Marks of a cluster's transactions with ``lo_ts < commit_ts <= min(hi_ts, resolved)``.

        See ``cdc.changelog.vtso_marks``. Raises LogCollected, LogCorrupt.
        """
        state = self._state
        self._check_kept(state, Position(lo_ts))
        hi_ts = min(hi_ts, state.resolved_ts)
        plans = self._plans(state, lo_ts, hi_ts, whole=True)
        return Runs.concat([plan.runs.take(plan.marks(lo_ts, hi_ts)) for plan in plans])

    def transaction_at(self, ts: Ts) -> TransactionName | None:
        """The last transaction at or below ``ts`` that changed something, with the ts that it has.

        One that ``is_none`` if the log never had one, None if what was there has gone with its
        segments. Raises LogCorrupt.
        """
        for _ in range(_COLLECTED_ATTEMPTS):
            try:
                return self._transaction_at(ts)
            except FileNotFoundError:
                # Retention has removed a segment since the state was read.
                self.refresh()
        return None

    def _transaction_at(self, ts: Ts) -> TransactionName | None:
        state = self._state
        kept = self._cut
        if kept is None or not state.first_ts <= kept.at <= ts:
            kept = cuts.newest(self._folder, ts)
        if kept is not None:
            if kept.at < min(ts, state.first_ts):
                return None
            self._cut = KeptCut(ts, self._with_cut(ts, state, kept))
            return self._cut.name
        for info in reversed(state.segments()):
            if not 0 < info.first_ts <= ts:
                continue
            found = self._segments.index(info).transaction_at(ts)
            if found is not None:
                at, source, number, file = found
                return TransactionName(at, self.sources.get(source, ""), number, file)
        return TransactionName.none_since(state.first_ts) if state.first_segment <= 1 else None

    def _with_cut(self, ts: Ts, state: LogState, kept: KeptCut) -> TransactionName:
        """In a log of shards: the name at ``ts`` out of that at ``kept`` and the rows above it."""
        name: TransactionName | None = None
        lasts: dict[str, LastOfNode] = {}
        for info in reversed(state.segments()):
            if info.last_ts <= kept.at:
                break
            if not 0 < info.first_ts <= ts:
                continue
            plan = self._segments.index(info)
            runs = plan.runs
            # From the last on: what is found of a node first is its last.
            for row in reversed(plan.last_rows(ts).tolist()):
                last = LastOfNode(
                    self.sources[int(runs.gtid_source[row])],
                    int(runs.gtid_seq[row]),
                    bool(runs.kind[row] == RunKind.DDL),
                )
                lasts.setdefault(last.node, last)
                if name is None:
                    at, file = int(runs.commit_ts[row]), int(runs.upstream_file[row])
                    name = TransactionName(at, last.source, last.sequence, file)
        if name is None:
            return kept.name
        below = {last.node: last for last in kept.name.cut}
        return name._replace(cut=cut_of(below | lasts))

    def statements(self, lo_ts: Ts, hi_ts: Ts) -> list[tuple[Ts, bytes]]:
        """DDL events with ``lo_ts < ts <= min(hi_ts, resolved)``, also of segments that are gone.

        Raises LogCorrupt, and LogCollected below the oldest snapshot that is kept.
        """
        for attempt in range(_COLLECTED_ATTEMPTS):
            state = self._state
            try:
                found = self._gone_statements(lo_ts, hi_ts, state) if lo_ts < state.first_ts else []
                runs = self.ddls(max(lo_ts, state.first_ts), hi_ts)
                each = (runs.slice(i, i + 1) for i in range(len(runs)))
                return found + [(int(run.commit_ts[0]), self.event(run)) for run in each]
            except LogCollected:
                # Retention has moved statements to the journal since the state was read.
                if attempt + 1 == _COLLECTED_ATTEMPTS:
                    raise
                self.refresh()
        raise AssertionError

    def _gone_statements(self, lo_ts: Ts, hi_ts: Ts, state: LogState) -> list[tuple[Ts, bytes]]:
        self._files.whole(f"{names.SCHEMA_FOLDER}/{names.STATEMENTS}")
        return list(journal.read(self._folder, lo_ts, min(hi_ts, state.first_ts)))

    def event(self, run: Runs) -> bytes:
        """The bytes of one run, checked. Raises LogCorrupt, LogCollected."""
        if len(run) != 1:
            raise ValueError(f"one run expected, not {len(run)}")
        self.verify(run)
        at, length = int(run.offset[0]), int(run.length[0])
        return self.segment(int(run.segment[0]))[at : at + length].tobytes()

    def segment(self, number: int) -> NDArray[np.uint8]:
        """The committed bytes of a segment as a read-only map (uint8); offsets of runs index it.

        The array does not grow; ask again after a refresh. Raises LogCollected.
        """
        place = place_of(number)
        if place is not None:
            return self._nodes.at(place).segment(place.segment)
        try:
            return self._segments.data(self._info(number))
        except FileNotFoundError:
            raise self._gone(names.data_name(number)) from None

    def verify(self, runs: Runs) -> None:
        """Check every event of ``runs`` against its CRC, each run once in this process.

        Raises LogCorrupt naming file and offset, LogCollected.
        """
        for number in np.unique(runs.segment).tolist():
            ours = runs.segment == number
            place = place_of(number)
            if place is not None:
                self._nodes.verify(place, runs.take(ours))
                continue
            try:
                self._segments.verify(self._info(number), runs.offset[ours], runs.length[ours])
            except FileNotFoundError:
                raise self._gone(names.data_name(number)) from None

    def format_at(self, ts: Ts) -> bytes:
        """The FORMAT_DESCRIPTION event of the segment that has ``ts``, or of one near to it.

        Raises LogCollected.
        """
        listed = self._state.segments()
        if not listed:
            raise self._gone("the first segment")
        info = listed[min(bisect_left(listed, ts, key=lambda s: s.last_ts), len(listed) - 1)]
        try:
            return self._segments.format(info)
        except FileNotFoundError:
            raise self._gone(names.data_name(info.number)) from None

    def snapshots(self) -> list[Ts]:
        """Ts of the schema snapshots, rising."""
        self._files.snapshots()
        return snapshots.list_ts(self._folder)

    def check_kept(self, lo: Position) -> None:
        """Raises LogCollected if rows above ``lo`` are gone already."""
        self._check_kept(self._state, lo)

    def snapshot_at(self, ts: Ts) -> dict[str, Any]:
        """The newest schema snapshot at or below ``ts``. Raises LogCollected, LogCorrupt."""
        while True:
            path = self.snapshot_file(ts)
            # One that has gone since was not needed any more, so there is another.
            with suppress(FileNotFoundError):
                return snapshots.load(self._folder, int(path.stem))

    def snapshot_file(self, ts: Ts) -> Path:
        """Where the newest schema snapshot at or below ``ts`` lies. Raises LogCollected."""
        usable = [s for s in self.snapshots() if s <= ts]
        if not usable:
            raise self._gone(f"a schema snapshot at or below ts {ts}")
        name = f"{names.SCHEMA_FOLDER}/{usable[-1]}.json"
        self._files.whole(name)
        return self._folder / name

    def wait(self, resolved_above: Ts, timeout_s: float) -> LogState:
        """Refresh until the resolved ts is above the given one, or the time is over.

        Costs nothing while waiting if the writer is in this process; else it looks at the
        manifest every 2 to 50 ms.
        """
        deadline = time.monotonic() + timeout_s
        pause = _POLL_FIRST_S
        while True:
            channel = notify.find(self._folder)
            state = self.refresh()
            left = deadline - time.monotonic()
            if state.resolved_ts > resolved_above or left <= 0:
                return state
            if channel is None or not channel.wait(resolved_above, left):
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, _POLL_MAX_S)

    def _plans(
        self, state: LogState, lo_ts: Ts, hi_ts: Ts, *, whole: bool, ddls: bool = False
    ) -> Iterator[SegmentPlan]:
        for info in state.segments():
            below = info.last_ts <= lo_ts if whole else info.last_ts < lo_ts
            if below or not 0 < info.first_ts <= hi_ts or (ddls and not info.ddls):
                continue
            try:
                index = self._segments.index_of_ddls if ddls else self._segments.index
                plan = index(info)
            except FileNotFoundError:
                raise self._gone(names.index_name(info.number)) from None
            yield plan

    def _info(self, number: int) -> SegmentInfo:
        segments = self._state.segments()
        # Numbers have no gaps, so the place follows from the first.
        at = number - segments[0].number if segments else -1
        if not 0 <= at < len(segments):
            raise self._gone(names.data_name(number))
        return segments[at]

    def _check_kept(self, state: LogState, lo: Position) -> None:
        if lo.ts < state.first_ts:
            raise LogCollected(
                f"the log holds only what is above ts {state.first_ts}",
                object=names.shown(self._folder),
                position=f"ts {lo.ts}",
                hint="create the changefeed anew with a start ts inside the log",
            )

    def _gone(self, what: str) -> LogCollected:
        return LogCollected(
            f"{what} is not in the log (any more)",
            object=names.shown(self._folder),
            hint="the retention has removed it; create the changefeed anew",
        )

    def _read_tables(self, length: int) -> None:
        if length <= self._tables_read:
            return
        self._files.grown(names.TABLES, length)
        with (self._folder / names.TABLES).open("rb") as file:
            file.seek(self._tables_read)
            data = file.read(length - self._tables_read)
        taken = self._dictionaries.load(data, self._tables_read)
        self._dictionaries.xids.clear()
        self._tables_read += taken
        if self._tables_read != length:
            raise LogCorrupt(
                "the dictionary is shorter than the manifest says",
                object=names.TABLES,
                position=f"{names.TABLES}:{self._tables_read}",
                hint="restore the file from a copy, or remove the log and pull anew",
            )
