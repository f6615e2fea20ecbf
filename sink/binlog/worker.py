"""Rows as transactions of binlog files (``sink.contract.Deliverer``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from cdc.base.nodes import of_node
from cdc.base.position import Position, stand
from cdc.base.ts import Ts
from cdc.binlog.events import EventType
from cdc.binlog.format_description import FormatDescription
from cdc.binlog.header import FLAG_IGNORABLE, HEADER_LENGTH, MAGIC, EventHeader
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from sink.binlog.errors import BinlogInternal
from sink.binlog.groups import begin as begin_query
from sink.binlog.groups import mark
from sink.binlog.ledger import StreamLedger, renewed_line, window_line
from sink.binlog.settings import BinlogSettings
from sink.binlog.tables import NO_TABLES, StatementCutter, stream_plan
from sink.binlog.tail import Piece, Tail
from sink.binlog.writer import StreamWriter, parsed_format
from sink.contract import Destination, Entry, Sent
from sink.file.errors import mapped
from sink.file.ledger import ROWS, Journal, Reached

# A journal is begun anew when it is longer: all that it says but its last word is done.
_JOURNAL_BYTES = 1 << 20


class BinlogWorker:
    """Writes rows into streams, each of which commits its own part of a window.

    Any error, and ``abort``, ends the object. Not thread-safe.
    """

    def __init__(
        self, settings: BinlogSettings, ledgers: Sequence[StreamLedger], epoch: int, slot: int
    ) -> None:
        self._settings = settings
        self._ledgers = ledgers
        self._epoch = epoch
        self._slot = slot
        self._plan = NO_TABLES
        self._cutter = StatementCutter(NO_TABLES)
        self._streams: dict[Destination, StreamWindow] = {}
        with mapped():
            ledgers[0].check(epoch)

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """Plans of tables; they are the same for both families."""
        before = self._plan if more else NO_TABLES
        self._plan = stream_plan(entries, self._settings.names, before)
        self._cutter = StatementCutter(self._plan)
        return self._plan.plans

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Start a window behind where streams end now; a schema change may have come to them."""
        for destination in destinations:
            stream = self._streams.get(destination)
            if stream is None:
                ledger = self._ledgers[destination[1]]
                stream = StreamWindow(destination, self._settings, ledger, self._epoch, self._slot)
                self._streams[destination] = stream
            stream.begin()
        return {}

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Write the rows, each transaction under its own name."""
        self._streams[destination].deliver(located, runs, order, self._cutter)

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """A stream has none: its end says up to where it is."""
        raise BinlogInternal("binlogs have no watermarks", object=destination[0])

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """Commit each stream's part."""
        sent = [stream.commit(ledger.get(d)) for d, stream in self._streams.items()]
        return Sent(
            sum(one.rows for one in sent),
            sum(one.bytes for one in sent),
            sum(one.sent_bytes for one in sent),
            sum(one.requests for one in sent),
        )

    def abort(self) -> None:
        """Give the window up and end the object."""
        for stream in self._streams.values():
            stream.abort()


class StreamWindow:
    """Writes a stream's transactions of a window, and commits them by one line of its journal."""

    def __init__(
        self,
        destination: Destination,
        settings: BinlogSettings,
        ledger: StreamLedger,
        epoch: int,
        slot: int,
    ) -> None:
        self._destination = destination
        self._settings = settings
        self._ledger = ledger
        self._epoch = epoch
        self._slot = slot
        self._tail = Tail()
        self._writer: StreamWriter | None = None
        self._open_ts: Ts | None = None
        self._format: tuple[bytes, FormatDescription] | None = None
        self._reached: Reached | None = None
        self._rows = self._bytes = 0
        with mapped(), ledger.of(epoch):
            ledger.check(epoch)
            self._journal = Journal(ledger.path / f"slot-{epoch}-{slot}")

    def begin(self) -> None:
        """Start a window where the stream ends now."""
        self._rows = self._bytes = 0
        self._writer, self._open_ts = None, None
        with mapped(), self._ledger.of(self._epoch):
            self._tail = self._ledger.tail()

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, cutter: StatementCutter
    ) -> None:
        """Write ``located.refs[order]``."""
        flags = cutter.flags(located, runs)
        ts = located.refs[order, L.R_TS]
        bounds = [0, *(np.flatnonzero(np.diff(ts)) + 1).tolist(), len(order)]
        with mapped(), self._ledger.of(self._epoch):
            writer = self._writing()
            for lo, hi in pairwise(bounds):
                if int(ts[lo]) != self._open_ts:
                    self._end(writer)
                    self._begin(writer, located, runs, int(ts[lo]))
                for buffer, size in cutter.statements(located, flags, order, lo, hi):
                    writer.events(buffer, size)
                    self._bytes += size
        self._rows += len(order)

    def commit(self, at: Position | None) -> Sent:
        """Make parts durable, then the line that names them, then put them in their places."""
        name = self._destination[0]
        writer = self._writer
        if at is None:
            if writer is not None:
                raise BinlogInternal("rows without a position", object=name)
            return Sent(0, 0)
        reached = Reached("", stand(at))
        if self._reached is not None and reached.at <= self._reached.at:
            raise BinlogInternal(f"position {reached.at} goes back", object=name)
        pieces: list[Piece] = []
        with mapped(), self._ledger.of(self._epoch):
            tail = self._tail
            if writer is not None:
                self._end(writer)
                writer.finish()
                tail, pieces = writer.tail, writer.pieces
            if self._ledger.tail() != self._tail:
                self._ledger.check(self._epoch)
                raise BinlogInternal("somebody else has written", object=name)
            # From here on the parts may count, so that nobody must remove them.
            self._writer = None
            self._journal.append(window_line({self._destination: reached}, tail, pieces))
            self._ledger.check(self._epoch)
            self._ledger.place(pieces)
            if self._journal.size > _JOURNAL_BYTES:
                self._journal.renew(renewed_line({self._destination: reached}, tail))
            if self._settings.retention and tail.file != self._tail.file:
                self._ledger.purge(self._settings.retention, tail.file)
        self._reached = reached
        written = sum(piece.length for piece in pieces)
        return Sent(self._rows, self._bytes, written, len(pieces))

    def abort(self) -> None:
        """Give the window up and end the object."""
        if self._writer is not None:
            self._writer.drop()
            self._writer = None
        self._journal.close()

    def _writing(self) -> StreamWriter:
        if self._writer is None:
            self._writer = StreamWriter(
                self._ledger.parts,
                f"{ROWS}{self._epoch}-{self._slot}",
                self._tail,
                self._settings.file_size,
                self._ledger.first_number,
                self._ledger.file_name,
            )
        return self._writer

    def _begin(self, writer: StreamWriter, located: RowBatch, runs: Matrix, ts: Ts) -> None:
        run = int(np.searchsorted(runs[:, L.RUN_TS], ts))
        at = int(runs[run, L.RUN_OFFSET])
        # The first event of its rows: when it began, and at which server.
        first = EventHeader.parse(located.buf[at : at + HEADER_LENGTH].tobytes())
        names = located.transactions
        gtid = None if names is None else names.gtid(ts)
        writer.begin(
            self._formed(located),
            # GTIDs of several nodes are in no order, and a stream of all of them has none.
            None if gtid is None or of_node(gtid.source) else gtid,
            timestamp=first.timestamp,
            server_id=first.server_id,
            ts=ts,
            statement=False,
        )
        writer.event(EventType.QUERY, begin_query())
        vtso = names.vtso(ts) if names is not None else None
        if vtso is not None:
            # Replicas that do not know the event pass over it, as its flag lets them.
            writer.event(EventType.ROWS_QUERY, mark(vtso), FLAG_IGNORABLE)
        self._open_ts = ts

    def _end(self, writer: StreamWriter) -> None:
        if self._open_ts is not None:
            writer.event(EventType.XID, self._open_ts.to_bytes(8, "little"))
            writer.end()
            self._open_ts = None

    def _formed(self, located: RowBatch) -> FormatDescription:
        """What the FORMAT_DESCRIPTION of the rows' segment says, which is the upstream's."""
        head = located.buf[len(MAGIC) : len(MAGIC) + HEADER_LENGTH].tobytes()
        length = EventHeader.parse(head).length
        event = located.buf[len(MAGIC) : len(MAGIC) + length].tobytes()
        if self._format is None or self._format[0] != event:
            self._format = event, parsed_format(event)
        return self._format[1]
