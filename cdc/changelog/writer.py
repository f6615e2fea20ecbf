"""The one writer of a log: append, then commit.

Killed at any moment, it leaves the log of its last commit (see ``cdc.changelog.recovery``).
After a failed write or sync it refuses further work: what the disk holds is unknown then, and
only opening anew finds out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.ts import Ts
from cdc.changelog import budget, cuts, files, journal, lock, names, notify, order, snapshots
from cdc.changelog.behind import Behind, side_by_side
from cdc.changelog.budget import Usage
from cdc.changelog.errors import LogOrderBroken, LogWriteFailed
from cdc.changelog.format_event import check_format, same_format
from cdc.changelog.index import Runs
from cdc.changelog.manifest import ManifestWriter
from cdc.changelog.marks import AppendMark, Commit
from cdc.changelog.order import OrderState
from cdc.changelog.prepared import PreparedBook
from cdc.changelog.reader import ChangeLog
from cdc.changelog.retention import removable
from cdc.changelog.segment_file import MAGIC, SegmentFile, Stretch
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.startup import recover
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.tables import Dictionaries, TableEntry
from cdc.changelog.xids import Pinned, Xids

# So many are left to the next commit; so the page cache never holds more of a log unwritten.
_FULL_SEGMENTS = 2


Data = bytes | bytearray | memoryview | NDArray[np.uint8]


class LogWriter:
    """Writes a log. Not safe for use by several threads at once.

    Invariant: ``state`` is what is durable; everything else may be ahead of it, ``_next`` by the
    commit that is carried out behind the caller.
    """

    def __init__(
        self, folder: Path, settings: ChangelogSettings, clock: Clock, lock_fd: int
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._lock_fd = lock_fd
        self._format = b""
        self._behind = Behind()
        self._start()
        self._channel = notify.announce(folder)
        self._channel.publish(self._state.resolved_ts)

    def _start(self) -> None:
        """Recover from what is durable, and open the files."""
        folder = self._folder
        found = recover(folder)
        self._state: LogState = found.state
        self._next = found.state
        self._dictionaries: Dictionaries = found.dictionaries
        self._book: PreparedBook = found.book
        self._xids: Xids = found.xids
        self._order = OrderState(found.state.last_ts)
        self._format = self._format or found.format
        self._written_format: bytes = found.format
        self._segment = SegmentFile(folder, found.state.current) if found.state.segment else None
        # Segments that are full but not yet durable; the next commit syncs and closes them.
        self._full: list[SegmentFile] = []
        self._pending: list[Runs] = []
        self._heads: dict[int, int] = {}  # lengths, of segments that were begun since the mark
        self._closing: list[SegmentInfo] = []
        self._tables_length = found.state.tables_length
        self._manifest = ManifestWriter(folder, self._settings.manifest_bytes)
        # First of all files: without it the others could not be explained after a kill.
        self._manifest.rewrite(self._state)
        self._tables_fd = os.open(
            folder / names.TABLES, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._broken, self._turns = "", False
        # Bytes appended since the last commit was planned, and those of them since the last mark.
        self._appended = self._open = 0
        self.mark()

    @classmethod
    def open(cls, folder: Path, settings: ChangelogSettings, clock: Clock) -> LogWriter:
        """Take the log's lock, recover, and be ready to append; makes the folder if need be.

        Raises LogLocked if another process (or another writer of this one) has it, LogCorrupt
        if committed bytes are not as they were written.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = lock.acquire(folder)
        try:
            return cls(folder, settings, clock, fd)
        except BaseException:
            os.close(fd)
            raise

    @property
    def state(self) -> LogState:
        """The last durable state."""
        return self._state

    @property
    def last_ts(self) -> Ts:
        """Largest commit ts appended so far, committed or not."""
        return self._order.last_ts

    def table_id(self, schema: str, name: str, map_body: bytes) -> int:
        """Id of the table in the dictionary; the same three always have the same id.

        ``map_body`` is opaque. Leave out (or blank) what changes without the table changing,
        as the upstream's table number does, or the dictionary grows with it.
        """
        return self._dictionaries.table_id(TableEntry(schema, name, bytes(map_body)))

    def source_id(self, text: str) -> int:
        """Id of a GTID source."""
        return self._dictionaries.source_id(text)

    def xid_id(self, text: str) -> int:
        """Id of an xid; once its transaction has ended, the same text gets a new id."""
        return self._xids.number(text, self._clock.now_ms())

    def xids(self) -> dict[int, str]:
        """Texts of the xids in use, by their numbers."""
        return {number: one.text for number, one in self._xids.prepared.items()}

    def free_xids(self, count: int) -> int:
        """The first of ``count`` numbers that no xid in use has; :meth:`take_xids` uses them."""
        return self._xids.free(count)

    def take_xids(self, end: int, new: Mapping[int, str]) -> None:
        """Free numbers below ``end`` were given to xids; ``new``: those that have not ended."""
        self._xids.take(end, new, self._clock.now_ms())

    def set_format(self, fde: bytes) -> None:
        """The FORMAT_DESCRIPTION event (complete, with CRC) at the head of new segments.

        If it says something else than the one of the current segment, the next append begins a
        new segment.
        """
        check_format(fde)
        self._format = bytes(fde)

    def turn(self) -> None:
        """Have the next append begin a new segment, whatever there is in this one."""
        self._turns = self._segment is not None

    def append(self, data: Data, runs: Runs, live_maps: Sequence[bytes] = ()) -> None:
        """Write whole events and note their runs; durable only after ``commit``.

        ``runs.segment`` is -1 where ``offset`` counts from the start of ``data``, or an older
        segment for rows that are in the log already. ``live_maps`` are the TABLE_MAP events of
        a statement that has begun before ``data`` and goes on in it: they are repeated if a
        new segment begins here. Raises LogOrderBroken, LogWriteFailed.
        """
        view = memoryview(np.asarray(data).data if isinstance(data, np.ndarray) else data).cast("B")
        after = self._checked(runs, len(view))
        with self._writing():
            segment = self._segment_for(len(view), live_maps)
            at = segment.append(view)
        self._note(segment, at, len(view), runs, after)

    def adopt(self, file: Path, runs: Runs) -> None:
        """Have a file become the next segment as it lies there; it is the log's from then on.

        It begins with the magic and the FORMAT_DESCRIPTION that is set, and lies in the log's file
        system. ``runs`` are as of :meth:`append`; offsets count from the begin of the file. Raises
        LogOrderBroken, LogWriteFailed.
        """
        head, size = MAGIC + self._format, file.stat().st_size
        after = self._checked(runs, size)
        with self._writing():
            with file.open("rb") as begin:
                if begin.read(len(head)) != head:
                    raise LogOrderBroken("a file begins otherwise than a segment of the log")
            number = self._end_segment()
            adopted = SegmentFile.adopt(self._folder, number, file, size)
            segment = self._begun(adopted, len(head))
        self._note(segment, 0, size, runs, after)

    def _checked(self, runs: Runs, size: int) -> OrderState:
        """The order behind them; those of no segment must lie in ``size`` bytes."""
        after = order.advance(self._order, self._next.resolved_ts, runs)
        outside = (runs.segment < 0) & ((runs.offset < 0) | (runs.offset + runs.length > size))
        if outside.any():
            raise LogOrderBroken("a run lies outside of the appended bytes")
        return after

    def _note(
        self, segment: SegmentFile, at: int, size: int, runs: Runs, after: OrderState
    ) -> None:
        """Runs of ``size`` bytes that lie at ``at`` of the segment that is written."""
        self._appended += size
        self._open += size
        if len(runs):
            here = runs.segment < 0
            placed = replace(
                runs,
                segment=np.where(here, np.int32(segment.info.number), runs.segment),
                offset=np.where(here, runs.offset + at, runs.offset),
            )
            self._pending.append(placed)
            ended = self._book.apply(placed)
            if ended:
                self._xids.end(set(ended).difference(self._book.xids()))
        self._order = after

    def mark(self) -> None:
        """Say that all that was appended so far is complete transactions."""
        self._heads.clear()
        self._open = 0
        self._mark = AppendMark(
            self._segment.info if self._segment is not None else None,
            self._written_format,
            tuple(self._pending),
            tuple(self._closing),
            self._book.copy(),
            self._order,
        )

    def rollback(self) -> None:
        """Give up what was appended since the last ``mark`` or ``commit``.

        For a transaction that its server began to write and, crashed, has rolled back. Ids of
        the dictionaries stay. Raises LogWriteFailed.
        """
        self.wait()
        mark = self._mark
        with self._writing():
            if self._segment is not None:
                last = self._segment.info.number
                self._segment.close()
                self._segment = None
                kept = mark.info.number if mark.info is not None else self._state.segment
                for segment in self._full:
                    if segment.info.number >= kept:
                        segment.close()
                self._full = [s for s in self._full if s.info.number < kept]
                for number in range(kept + 1, last + 1):
                    (self._folder / names.index_name(number)).unlink(missing_ok=True)
                    (self._folder / names.data_name(number)).unlink(missing_ok=True)
            if mark.info is not None:
                self._segment = SegmentFile(self._folder, mark.info)
                self._segment.cut()
        self._heads.clear()
        self._written_format = mark.format
        self._pending, self._closing = list(mark.pending), list(mark.closing)
        self._book, self._order = mark.book.copy(), mark.order
        self._appended, self._open = self._appended - self._open, 0

    def since_mark(self) -> list[Stretch]:
        """Where the events lie that :meth:`rollback` would give up."""
        marked = self._mark.info if self._mark.info is not None else SegmentInfo()
        current = () if self._segment is None else (self._segment.info,)
        lengths = {info.number: info.data for info in (*self._closing, *current)}
        return [
            Stretch(self._folder / names.data_name(n), self._heads.get(n, marked.data), length)
            for n, length in lengths.items()
            if n >= marked.number
        ]

    def prepared(self, xid: int) -> Runs:
        """DML runs (without commit ts) of a prepared XA transaction; empty if it is not known."""
        return self._book.rows_of(xid)

    def all_prepared(self) -> Runs:
        """PREPARE rows of all transactions that have not ended, in order of the log."""
        return self._book.rows()

    def is_prepared(self, xid: int) -> bool:
        """Whether an XA transaction is prepared, with or without rows."""
        return self._book.holds(xid)

    def pinned(self) -> list[Pinned]:
        """The XA transactions that are prepared, oldest first, and what of the log each holds."""
        found = []
        for number, segment in self._book.segments().items():
            one = self._xids.prepared[number]
            kept = [s for s in self._state.segments() if s.number >= segment]
            size = sum(s.data + s.index for s in kept)
            found.append(Pinned(one.text, one.since_ms, size))
        return sorted(found, key=lambda p: p.since_ms)

    def commit(self, resolved_ts: Ts, position: dict[str, Any]) -> LogState:
        """Make everything appended durable, and only then move the resolved ts.

        ``position`` is where the upstream goes on behind what was appended. Raises
        LogOrderBroken if resolved would go back or a transaction is not complete.
        """
        self.wait()
        with self._writing():
            self._make_durable(self._prepare(resolved_ts, position))
        return self._state

    def commit_behind(
        self, resolved_ts: Ts, position: dict[str, Any], done: Callable[[], None]
    ) -> None:
        """The same commit, carried out by another thread while the caller appends more.

        Waits for the one before. ``done`` is called there once it is durable or has failed; a
        failure is raised by the next call that writes.
        """
        self.wait()
        with self._writing():
            commit = self._prepare(resolved_ts, position)
            self._behind.begin(partial(self._make_durable, commit), done)

    def wait(self) -> None:
        """Wait for the commit that is carried out behind; raises its failure."""
        with self._writing():
            self._behind.wait()

    def begin(self, ts: Ts, position: dict[str, Any]) -> None:
        """Say where a new log begins: it will hold every transaction above ``ts``."""
        if self._state.segment or self._state.resolved_ts or self._segment is not None:
            raise LogOrderBroken("the log has begun already")
        self._order = OrderState(ts)
        first = replace(self._state, first_ts=ts, resolved_ts=ts, last_ts=ts, position=position)
        with self._writing():
            self._make_durable(self._planned(first, [], base=True))

    def begin_later(self, ts: Ts) -> None:
        """Move the begin of a log that holds nothing yet up to ``ts``, durably."""
        if self._state.segment or self._segment is not None or ts < self._state.resolved_ts:
            raise LogOrderBroken("the log holds something already")
        self._order = OrderState(ts)
        later = replace(self._state, first_ts=ts, resolved_ts=ts, last_ts=ts)
        with self._writing():
            self._make_durable(self._planned(later, [], base=True))

    def save_snapshot(self, ts: Ts, snapshot: dict[str, Any]) -> None:
        """Keep a schema snapshot (any JSON) as of ``ts``, durably."""
        self.wait()
        with self._writing():
            snapshots.save(self._folder, ts, snapshot)

    def collect(self, min_checkpoint_ts: Ts, starts: Collection[Ts] = ()) -> tuple[int, ...]:
        """Remove segments that no changefeed needs any more; returns their numbers.

        ``starts``: where changefeeds began. Schema snapshots above the log's begin that they took
        stay.
        """
        self.wait()
        state = self._state
        gone = removable(
            state.segments(),
            min_checkpoint_ts,
            state.prepared_from,
            self._clock.now_ms(),
            self._settings.keep_s,
        )
        if not gone:
            return ()
        kept = state.closed[len(gone) :]
        first_ts = max(state.first_ts, state.closed[len(gone) - 1].last_ts)
        with self._writing():
            self._keep_behind(state.first_ts, first_ts, state.closed[: len(gone)])
            # The manifest forgets first: a reader must never be sent to a removed file.
            self._state = self._next = replace(state, closed=kept, first_ts=first_ts)
            self._manifest.rewrite(self._state)
            for number in gone:
                (self._folder / names.index_name(number)).unlink(missing_ok=True)
                (self._folder / names.data_name(number)).unlink(missing_ok=True)
            snapshots.trim(self._folder, first_ts, starts)
            files.sync_folder(self._folder)
        return gone

    def _keep_behind(self, lo_ts: Ts, hi_ts: Ts, gone: Sequence[SegmentInfo]) -> None:
        """Keep what later readers need of segments that go: statements, and a log's cuts."""
        statements = any(segment.ddls for segment in gone)
        has_cuts = (self._folder / names.CUTS).exists()
        if not statements and not has_cuts:
            return
        with closing(ChangeLog.open(self._folder)) as log:
            if statements:
                found = log.statements(lo_ts, hi_ts)
                journal.keep(self._folder, self._oldest_snapshot(hi_ts), found)
            name = log.transaction_at(hi_ts) if has_cuts else None
            if name is not None:
                cuts.keep(self._folder, hi_ts, name)

    def _oldest_snapshot(self, first_ts: Ts) -> Ts:
        """The ts of the snapshot that leads to the schema where the log will begin; 0 if none."""
        return max((ts for ts in snapshots.list_ts(self._folder) if ts <= first_ts), default=0)

    @property
    def folder(self) -> Path:
        """Where the log lies."""
        return self._folder

    @property
    def open_bytes(self) -> int:
        """Bytes of a transaction that was appended in part."""
        return self._open

    def over_budget(self, wanted: int = 0) -> TidegateError | None:
        """The error to stop pulling with while the disk budget is spent, else None.

        What is appended and not committed counts, and ``wanted`` bytes that are to come. A
        transaction that can never fit is a definite error, TransactionTooLarge.
        """
        return budget.judge(
            Usage(
                committed=self._next.bytes(),
                staying=self._next.current.data + self._next.current.index,
                appended=self._appended + wanted,
                open=self._open + wanted,
                free=shutil.disk_usage(self._folder).free - wanted,
            ),
            self._settings,
            names.shown(self._folder),
        )

    def discard(self) -> None:
        """Give up what was appended since the last commit, as if the process had been killed.

        Ids handed out since then are void. It also mends a writer that a failed write has
        broken. Raises LogCorrupt.
        """
        if self._lock_fd < 0:
            raise self._unusable()
        self._behind.give_up()
        self._close_files()
        self._broken = "the log could not be recovered"
        self._start()

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and lock; what was appended since the last commit is given up."""
        self._broken = "the writer is closed"
        self._behind.close()
        notify.withdraw(self._folder, self._channel)
        self._close_files()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _close_files(self) -> None:
        self._manifest.close()
        for segment in (*self._full, self._segment):
            if segment is not None:
                segment.close()
        self._full, self._segment = [], None
        self._xids.close()
        if self._tables_fd >= 0:
            os.close(self._tables_fd)
            self._tables_fd = -1

    def _unusable(self) -> LogWriteFailed:
        """That nothing can be written any more, and what has broken it."""
        return LogWriteFailed(
            self._broken, object=names.shown(self._folder), hint="open the log anew"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self._broken:
            raise self._unusable()
        try:
            yield
        except OSError as error:
            self._broken = f"writing failed: {error.strerror or error}"
            raise LogWriteFailed(
                self._broken,
                object=names.shown(self._folder),
                hint="look at the disk of the data folder",
            ) from error

    def _segment_for(self, size: int, live_maps: Sequence[bytes]) -> SegmentFile:
        segment = self._segment
        if segment is not None and not self._turns:
            full = segment.info.data + size > self._settings.segment_bytes
            if size == 0 or (not full and same_format(self._format, self._written_format)):
                return segment
        if not self._format:
            raise LogOrderBroken("no FORMAT_DESCRIPTION was set before the first append")
        number = self._end_segment()
        head = self._format + b"".join(live_maps)
        created = SegmentFile.create(self._folder, number, head)
        return self._begun(created, created.info.data)

    def _end_segment(self) -> int:
        """Leave the current segment, if there is one, to the next commit; the next one's number."""
        segment = self._segment
        if segment is None:
            return 1
        self._flush_runs(segment)
        if len(self._full) == _FULL_SEGMENTS:
            # A transaction of many segments has no commit before its end.
            oldest = self._full.pop(0)
            side_by_side(oldest.syncs())
            oldest.close()
        self._full.append(segment)
        self._closing.append(segment.info)
        self._segment = None
        return segment.info.number + 1

    def _begun(self, segment: SegmentFile, head: int) -> SegmentFile:
        """Write to it from now on; ``head``: how many of its bytes come before the first events."""
        self._segment, self._turns = segment, False
        self._heads[segment.info.number] = head
        self._written_format = self._format
        return segment

    def _flush_runs(self, segment: SegmentFile) -> None:
        segment.append_runs(Runs.concat(self._pending))
        segment.summarise(self._order.last_ts, self._clock.now_ms())
        self._pending = []

    def _write_tables(self) -> list[Callable[[], None]]:
        if not self._dictionaries.unwritten:
            return []
        data = b"".join(self._dictionaries.unwritten)
        files.write_at(self._tables_fd, memoryview(data), self._tables_length)
        self._tables_length += len(data)
        self._dictionaries.unwritten.clear()
        return [partial(os.fdatasync, self._tables_fd)]

    def _prepare(self, resolved_ts: Ts, position: dict[str, Any]) -> Commit:
        """All that one commit needs; what was appended so far is written but not durable."""
        if resolved_ts < self._next.resolved_ts:
            raise LogOrderBroken(f"resolved ts goes back behind {self._next.resolved_ts}")
        if self._order.open_ts:
            raise LogOrderBroken(f"the transaction at {self._order.open_ts} is not complete")
        syncs = [*self._write_tables(), *self._xids.write()]
        for segment in self._full:
            syncs += segment.syncs()
        if self._segment is not None:
            self._flush_runs(self._segment)
            syncs += self._segment.syncs()
        state = replace(
            self._next,
            resolved_ts=resolved_ts,
            last_ts=self._order.last_ts,
            position=position,
            tables_length=self._tables_length,
            prepared_from=self._book.oldest_segment(),
        )
        return self._planned(state, syncs)

    def _planned(
        self, state: LogState, syncs: list[Callable[[], None]], *, base: bool = False
    ) -> Commit:
        before = self._next
        current = self._segment.info if self._segment is not None else state.current
        self._next = replace(
            state,
            commits=state.commits + 1,
            current=current,
            closed=(*state.closed, *self._closing),
        )
        base = base or current.number != before.current.number
        commit = Commit(syncs, before, self._next, base, self._full)
        self._closing, self._full = [], []
        self._appended = 0
        self.mark()
        return commit

    def _make_durable(self, commit: Commit) -> None:
        try:
            side_by_side(commit.syncs)
        finally:
            for segment in commit.full:
                segment.close()
        # The manifest counts on all of them, so it is written behind the slowest.
        if commit.base:
            files.sync_folder(self._folder)
            self._manifest.rewrite(commit.after, commit.before)
        else:
            self._manifest.append(commit.after, commit.before)
        self._state = commit.after
        self._channel.publish(commit.after.resolved_ts)
