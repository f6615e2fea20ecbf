"""From rows that were read at many moments to a log of rows as they were at one ts.

A table was read by plain SELECTs, in chunks, while it changed. All that was visible to the first
SELECT is known (``low_ts``: every transaction at or below it), and all that any SELECT saw lies at
or below the ts at which the snapshot is settled. So a row that no row of the log touches in between
is the same at both, and of the others the log has the image: the method of DBLog (Andreakis and
Papapanagiotou, 2020), with the log itself in place of watermarks that are written to the upstream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.base.clock import Clock
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.rows_header import RowsHeader, full_bitmap
from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import build_event
from cdc.changelog.index import LAST_OF_TRANSACTION, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import Data, LogWriter
from cdc.rows.batch import RowBatch
from cdc.rows.plan import PlanSet
from cdc.schema.table import Table
from cdc.snapshot.balance import Balance, Leaving, balance
from cdc.snapshot.checksums import checksum
from cdc.snapshot.chunk_events import ChunkEvents, EventForm
from cdc.snapshot.images import COPIED_FLAGS
from cdc.snapshot.keys import Image, key_hashes
from cdc.snapshot.staged import StagedFile
from cdc.snapshot.touched import Touched, TouchedRows, rows_plan, run_matrix, touched

# Rows of the log are taken over in events of so many, and of so many bytes.
_ROWS_OF_EVENT = 4096
_EVENT_BYTES = 1 << 20
# Events are appended so many bytes at a time: each append has a price of its own.
_APPENDED_BYTES = 2 << 20
# Smaller files are copied: a segment has a price of its own, too.
_LEAST_ADOPTED = 4 << 20


@dataclass(frozen=True)
class StagedTable:
    """All chunks of a table. Every transaction at or below ``low_ts`` was visible to them all.

    A table without a key was read as it was at ``still_ts``, 0 of others; ``whole``: all its rows.
    ``target_only``: images of rows that the target has, which go before the rows come; what was
    read has all rows of their keys.
    """

    table: Table
    stored: TableMap
    low_ts: Ts
    files: tuple[StagedFile, ...]
    still_ts: Ts = 0
    whole: bool = True
    target_only: StagedFile | None = None

    @property
    def columns(self) -> Sequence[int]:
        """Ordinals of what tells its rows apart: of the key, or all if it has none."""
        return self.table.handle_key or range(len(self.table.columns))


@dataclass(frozen=True, slots=True)
class SettledRows:
    """Where the snapshot begins and ends in the order, and what it holds.

    Its transactions have ts of ``(base_ts, ts]``. ``tables``: in the order of their rows the name
    of each, the ts of the last of all rows up to there, and how many rows it has.
    """

    base_ts: Ts
    ts: Ts
    rows: int
    tables: tuple[tuple[str, Ts, int], ...]


@dataclass(frozen=True)
class TableToSettle:
    """A table, and what of it has been touched since it was read."""

    staged: StagedTable
    ids: dict[int, TableMap]
    touched: Touched | Balance

    @property
    def most_events(self) -> int:
        """At most so many events does it become."""
        gone = self.staged.target_only
        read = sum(f.events for f in self.staged.files)
        return read + len(self.touched.images) + (gone.events if gone else 0)


def room(log: ChangeLog, tables: Sequence[StagedTable], ts: Ts) -> tuple[list[TableToSettle], Ts]:
    """What settling at ``ts`` needs to know, and the base ts that leaves room for all events.

    Raises as :func:`cdc.snapshot.touched.touched` does.
    """
    ids: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for table_id, entry in log.tables.items():
        ids[entry.schema, entry.name].append(table_id)
    found = []
    for staged in tables:
        ours = ids[staged.table.schema, staged.table.name]
        stored = {i: TableMap.parse(log.tables[i].map_body) for i in ours}
        seen: Touched | Balance
        if staged.still_ts:
            seen = balance(log, staged.table, stored, staged.still_ts, ts)
        else:
            seen = touched(log, staged.table, stored, staged.low_ts, ts)
        found.append(TableToSettle(staged, stored, seen))
    return found, ts - 1 - sum(t.most_events for t in found)


def settle(
    log: ChangeLog,
    tables: Sequence[TableToSettle],
    base_ts: Ts,
    ts: Ts,
    folder: Path,
    head: bytes,
    clock: Clock,
    *,
    rows_v2: bool,
) -> SettledRows:
    """Write the rows of all tables as they were at ``ts`` into a new log in ``folder``.

    ``tables`` and ``base_ts`` are a result of :func:`room`; ``head`` is the FORMAT_DESCRIPTION of
    the upstream's log, which files of chunks begin with. They become part of the log, or are
    removed once they are settled. Raises LogWriteFailed.
    """
    settings = ChangelogSettings(keep_s=0)
    with LogWriter.open(folder, settings, clock) as writer:
        writer.set_format(head)
        writer.begin(base_ts, {})
        adopted = range(_LEAST_ADOPTED, settings.segment_bytes + 1)
        out = _Writer(writer, base_ts, adopted, rows_v2=rows_v2)
        known: list[tuple[str, Ts, int]] = []
        for one in tables:
            staged, before = one.staged, out.count
            number = staged.stored.table_id
            out.table(number, staged.table, staged.stored)
            plan, leaving = rows_plan(staged.table, staged.stored), one.touched.leaving()
            # Before the rows: what the upstream has of these keys by now comes behind them.
            out.deletes(_gone(staged.target_only, plan))
            for file in staged.files:
                if file.rows:
                    out.chunk(_read(file, plan, staged.columns, leaving), file)
                file.path.unlink(missing_ok=True)
            if staged.whole:
                leaving.check(staged.table.full_name)
            for table_id, left in groupby(_left(log, one.touched), itemgetter(0)):
                out.table(number, staged.table, one.ids[table_id])
                out.inserts((rows, images) for _, rows, images in left)
            known.append((staged.table.full_name, out.ts, out.count - before))
        writer.commit(ts, {})
    return SettledRows(base_ts, ts, out.count, tuple(known))


class _Writer:
    """Appends rows of one table after the other, a transaction for each event.

    Files of ``adopted`` bytes become segments where that can be.
    """

    def __init__(self, writer: LogWriter, base_ts: Ts, adopted: range, *, rows_v2: bool) -> None:
        self._writer = writer
        self._adopted = adopted
        self._code = EventType.WRITE_ROWS if rows_v2 else EventType.WRITE_ROWS_V1
        self._delete = EventType.DELETE_ROWS if rows_v2 else EventType.DELETE_ROWS_V1
        self.ts = base_ts
        self._table_id = -1
        self._map = b""
        self._head = RowsHeader(0, 0, 0, b"", b"", b"", 0)
        self.count = 0

    def table(self, number: int, table: Table, stored: TableMap) -> None:
        """The table whose rows follow; ``number`` is the one that its events have."""
        body = stored.encode()
        self._table_id = self._writer.table_id(table.schema, table.name, bytes(6) + body[6:])
        self._map = build_event(EventType.TABLE_MAP, number.to_bytes(6, "little") + body[6:])
        columns = stored.columns
        self._head = RowsHeader(number, COPIED_FLAGS, columns, full_bitmap(columns), b"", b"", 0)

    def inserts(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """A transaction for each ``(rows, images)``, which inserts rows with these images."""
        self._write(self._code, rows)

    def deletes(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """The same, which deletes them."""
        self._write(self._delete, rows)

    def chunk(self, events: ChunkEvents, file: StagedFile) -> None:
        """A transaction for each event of a chunk that has rows left.

        Events that have all of theirs are appended as they were written; a file of such events
        becomes a segment of the log.
        """
        form = EventForm(self._map, self._code, self._head.encode(self._code))
        if file.begin and file.path.stat().st_size in self._adopted:
            whole = events.all_as_written(form)
            if whole is not None:
                self._writer.adopt(file.path, self._runs(*whole))
                return
        for as_written, first, last in events.stretches(form):
            if not as_written:
                self.inserts(events.images(first, last))
                continue
            for data, lengths, rows in events.as_written(form, first, last, _APPENDED_BYTES):
                self._append(data, lengths, rows)

    def _write(self, code: EventType, rows: Iterable[tuple[int, bytes]]) -> None:
        together, size = list[tuple[int, bytes]](), 0
        for made in self._made(code, rows):
            together.append(made)
            size += len(made[1])
            if size >= _APPENDED_BYTES:
                self._append_made(together)
                together, size = [], 0
        if together:
            self._append_made(together)

    def _made(
        self, code: EventType, rows: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, bytes]]:
        """``(rows, events)`` of each transaction."""
        for count, images in rows:
            body = self._head.encode(code) + images
            yield count, self._map + build_event(code, body, seal=checksum)

    def _append_made(self, made: Sequence[tuple[int, bytes]]) -> None:
        lengths = np.array([len(data) for _, data in made], np.int64)
        rows = np.array([count for count, _ in made], np.int64)
        self._append(b"".join(data for _, data in made), lengths, rows)

    def _append(self, data: Data, lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        self._writer.append(data, self._runs(np.cumsum(lengths) - lengths, lengths, rows))

    def _runs(
        self, offsets: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Runs:
        """A transaction for each event, above all before."""
        count = len(rows)
        runs = Runs.build(
            count,
            commit_ts=self.ts + np.arange(1, count + 1),
            flags=LAST_OF_TRANSACTION,
            table=self._table_id,
            offset=offsets,
            length=lengths,
            rows=rows,
        )
        self.ts += count
        self.count += int(rows.sum())
        return runs


def _read(
    file: StagedFile, plan: PlanSet, columns: Sequence[int], leaving: TouchedRows | Leaving
) -> ChunkEvents:
    """A chunk's events, without the rows that something has touched since."""
    batch = _batch(file, plan)
    if leaving.nothing:
        return ChunkEvents(batch, np.ones(len(batch.refs), np.bool_), file.begin)
    kept = leaving.kept(key_hashes(batch, columns, Image.AFTER))
    return ChunkEvents(batch, kept, file.begin)


def _gone(file: StagedFile | None, plan: PlanSet) -> Iterator[tuple[int, bytes]]:
    """``(rows, images)`` for each event of rows that only the target had when it was looked at."""
    if file is not None and file.rows:
        batch = _batch(file, plan)
        yield from ChunkEvents(batch, np.ones(len(batch.refs), np.bool_)).images()


def _batch(file: StagedFile, plan: PlanSet) -> RowBatch:
    buf = np.memmap(file.path, np.uint8, "r")
    whole = Runs.build(1, offset=file.begin, length=len(buf) - file.begin, rows=file.rows)
    return RowBatch(buf, run_matrix(whole), file.rows, plan, file.path.name)


def _left(log: ChangeLog, seen: Touched | Balance) -> Iterator[tuple[int, int, bytes]]:
    """``(table id, rows, images)``: what the log has left of what it has touched, in events."""
    images = seen.images
    table_id, parts, size = -1, list[bytes](), 0
    for at, segment, start, end in images.tolist():
        if parts and (at != table_id or len(parts) == _ROWS_OF_EVENT or size > _EVENT_BYTES):
            yield table_id, len(parts), b"".join(parts)
            parts, size = [], 0
        table_id = at
        parts.append(log.segment(segment)[start:end].tobytes())
        size += end - start
    if parts:
        yield table_id, len(parts), b"".join(parts)
