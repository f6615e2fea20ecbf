"""Delivery of one window's destinations by one worker: read, locate, select, deliver, commit.

Runs inside a Spark task, and just as well without Spark. Rows stay bytes and references
throughout: a few numpy arrays for each chunk of runs, no Python object per row.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cdc.base.errors import TidegateError, TransientError
from cdc.base.position import Position, Stand, stand
from cdc.changelog import node_logs
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.coord.acknowledgements import behind
from cdc.coord.feed_config import FeedConfig
from cdc.kernels import layout
from cdc.rows.batch import Order, RowBatch
from cdc.rows.transactions import RunTransactions
from filter.passing import Passing
from filter.transactions import Transactions
from processor.catalog import DeliveredTables, Numbering
from processor.gathering import RunPiece, pieces
from processor.laps import Laps
from processor.log_reading import LogReading
from processor.plans import Plans
from processor.slot import HeldSlot
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.contract import Deliverer, Destination, Sent, Sink
from sink.open import sink_of


class LedgerMoved(TransientError):
    """A destination's ledger has gone back below what it had: recovery says more of it."""

    code = "TG:ErrLedgerMoved"


@dataclass
class _Known:
    """What a worker knows of a log's tables."""

    catalog: DeliveredTables
    plans: Plans
    passing: Passing


class FeedDelivery:
    """What a worker keeps of a changefeed between windows: log reader, plans, deliverer."""

    def __init__(self, plan: FeedPlan) -> None:
        self.plan = plan
        self._reading = LogReading(plan)
        self._log = self._reading.log
        self._config = FeedConfig.model_validate(plan.config)
        self._sink = self._opened(plan)
        self._ignored = Transactions.of(self._config.filter)
        self._known: _Known | None = None
        self._slot: HeldSlot | None = None
        self._deliverer: Deliverer | None = None
        self._committed: Mapping[Destination, Position] = {}
        self._filtered = 0

    def follow(self, plan: FeedPlan) -> bool:
        """Go on under a plan of a later recovery; False if it is about something else.

        What is known of the log stays: a recovery changes where rows go and not what they are, and
        there is one for each table that comes.
        """
        before = self.plan
        if (
            plan.feed, plan.log_folder, plan.log, plan.access, plan.rows, plan.start_ts,
            plan.sink_uri, plan.config,
        ) != (
            before.feed, before.log_folder, before.log, before.access, before.rows, before.start_ts,
            before.sink_uri, before.config,
        ):  # fmt: skip
            return False
        self.discard()
        self.plan = plan
        self._sink = self._opened(plan)
        if self._known is not None:
            self._known.catalog.use(self._sink.routes(plan.layout))
            self._known.plans = self._planned(self._known.catalog)
        return True

    def _opened(self, plan: FeedPlan) -> Sink:
        config = self._config
        sink = sink_of(plan.sink_uri, config)
        return sink.repeatable() if plan.repeatable else sink

    def _planned(self, catalog: DeliveredTables) -> Plans:
        return Plans(Numbering.of(self.plan.layout), mariadb=catalog.mariadb)

    def _know(self, d: Descriptor) -> _Known:
        """The schema of the descriptor's rows: from a snapshot near to them, or as it is known."""
        above = min([d.lo, *(span.lo for span in d.spans.values())]).resolved()
        known = self._known
        if known is None or not known.catalog.knows_above(above):
            routes = self._sink.routes(self.plan.layout)
            start_ts = self.plan.start_ts
            catalog = DeliveredTables(self._log, start_ts, self._config, routes, known_above=above)
            passing = Passing(self._config, catalog.session)
            known = self._known = _Known(catalog, self._planned(catalog), passing)
        known.catalog.collect(above)
        known.catalog.refresh(d.hi.ts)
        known.plans.failed = None
        return known

    def deliver(self, descriptor: Descriptor) -> Ack:
        """Deliver the descriptor's rows; an error of ours is part of the result."""
        laps = Laps()
        sent, log_bytes = Sent(0, 0), 0
        self._committed, self._filtered = {}, 0
        error: dict[str, str] | None = None
        table: str | None = None
        known: _Known | None = None
        try:
            self._log.refresh()
            sink = self.open()
            laps.end("open")
            known = self._know(descriptor)
            runs = self._runs(descriptor, known, sink)
            log_bytes = int(runs.length.sum())
            laps.end("read")
            sent = self._deliver(descriptor, runs, known, sink, laps)
        except TidegateError as e:
            if known is not None:
                known.plans.blame(e)
                table = known.plans.failed
            self.discard()
            error = e.marked()
        except BaseException:
            # Whoever holds a lock at the sink must not keep it while others recover.
            self.discard()
            raise
        return Ack(
            destinations=descriptor.destinations,
            rows=sent.rows,
            bytes=sent.bytes,
            log_bytes=log_bytes,
            sent_bytes=sent.sent_bytes,
            requests=sent.requests,
            filtered=self._filtered,
            began_ns=laps.began_ns,
            seconds=laps.whole_s,
            parts=laps.seconds,
            reached=self._committed,
            error=error,
            table=table,
        )

    def discard(self) -> None:
        """Give the deliverer and its slot up, after an error or for a newer plan."""
        if self._known is not None:
            self._known.plans.clear()
        if self._deliverer is not None:
            self._deliverer.abort()
            self._deliverer = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def end(self) -> None:
        """Give up all of it."""
        self.discard()
        self._log.close()

    def open(self) -> Deliverer:
        """The deliverer; claimed and checked against the ledger's epoch on first use."""
        if self._deliverer is None:
            if self._slot is None:
                self._slot = self._reading.claim(self.plan)
            self._deliverer = self._sink.deliverer(
                self.plan.feed, self.plan.epoch, self._slot.number
            )
        return self._deliverer

    def _runs(self, d: Descriptor, known: _Known, sink: Deliverer) -> Runs:
        """The runs for the descriptor's destinations, with those that tables catch up."""
        catalog = known.catalog
        parts = [
            self._log.runs(span.lo, min(span.hi, d.lo), tables=catalog.ids_of(name))
            for name, span in d.spans.items()
            if span.lo < d.lo
        ]
        if d.lo < d.hi:
            parts.append(self._log.runs(d.lo, d.hi, tables=catalog.ids))
        runs = catalog.inside(Runs.concat(parts), d.spans)
        if len(parts) > 1:
            # Tables that catch up together may depend on each other: in the order of the log.
            runs = runs.take(np.lexsort((runs.first_row, runs.commit_ts)))
        in_force = catalog.in_force(runs)
        ours = known.plans.refresh(in_force, d.destinations, sink, catalog.is_current)
        keep = np.isin(runs.table, ours)
        if self._ignored:
            keep &= self._ignored.keep(runs, self._log.sources)
        runs = runs if keep.all() else runs.take(keep)
        self._log.verify(runs)
        return runs

    def _deliver(
        self, d: Descriptor, runs: Runs, known: _Known, sink: Deliverer, laps: Laps
    ) -> Sent:
        ledger = sink.begin(d.destinations, d.at_once)
        asked = {at: position for at, position in d.acknowledged.items() if at in ledger}
        if gone := behind(asked, {at: p for at, p in ledger.items() if p is not None}):
            raise LedgerMoved("its ledger has gone back", object=f"{gone[0][0]}/{gone[0][1]}")
        stands = {at: _later(d.starts.get(at), ledger.get(at)) for at in d.destinations}
        starts = {at: _ahead(before, d) for at, before in stands.items()}
        touched: set[Destination] = set()
        marks = _marks(self._log, runs)
        for piece in pieces(self._log, runs):
            touched |= self._deliver_piece(starts, piece, marks, known, sink)
        if d.watermark is not None:
            for destination in d.destinations:
                sink.watermark(destination, d.watermark, time.time_ns() // 1_000_000)
        reached = {at: _reached(stands[at], d) for at in touched}
        laps.end("encode")
        sent = sink.commit(reached)
        laps.end("commit")
        self._committed = reached
        return sent

    def _deliver_piece(
        self,
        starts: Mapping[Destination, Stand | None],
        piece: RunPiece,
        marks: Runs | None,
        known: _Known,
        sink: Deliverer,
    ) -> set[Destination]:
        plans = known.plans
        matrix = plans.matrix(piece.runs)
        located = RowBatch(
            piece.buf,
            matrix,
            int(piece.runs.rows.sum()),
            plans.plans,
            piece.name,
            RunTransactions(piece.runs, self._log.sources, marks, _binlog(self._log)),
            snapshot=piece.snapshot,
            where=piece.origin.name if piece.origin is not None else None,
        )
        passing = known.passing.keep(located)
        if passing is not None and not passing.all():
            self._filtered += int((~passing).sum())
            located = located.only(passing)
        numbers = [plans.numbering.number(destination) for destination in starts]
        orders = located.by_destination(np.array(numbers, np.int64))
        touched = set()
        for (destination, start), order in zip(starts.items(), orders, strict=True):
            order = _after(located, order, start)
            if len(order):
                touched.add(destination)
                sink.deliver(located, matrix, order, destination)
        return touched


def _binlog(log: ChangeLog) -> str:
    """What the upstream calls its binlog files, before their number."""
    return str(log.state.position.get("file", "")).rpartition(".")[0]


def _marks(log: ChangeLog, runs: Runs) -> Runs | None:
    """Of the transactions of ``runs``, if they lie in the logs of a cluster's nodes."""
    of_nodes = runs.commit_ts[runs.segment >= node_logs.SEGMENTS_END]
    if not len(of_nodes):
        return None
    found = log.marks(int(of_nodes.min()) - 1, int(of_nodes.max()))
    return found if len(found) else None


def _later(a: Stand | None, b: Position | None) -> Stand | None:
    """The stand that is ahead: the ledger's own, if it was read since."""
    if a is None or b is None:
        return a if b is None else stand(b)
    return stand(max(a, b))


def _reached(before: Stand | None, d: Descriptor) -> Stand:
    """Where a destination stands behind the window.

    It may have had more than others have, of a table that is held or of all: a window that failed
    elsewhere was committed here. What it has is never taken back.
    """
    if before is None:
        held = {t: at for t, at in d.held.items() if at != d.hi}
        return Stand(d.hi.ts, d.hi.row, held, d.transactions)
    ts, row = main = max(Position(*d.hi), Position(*before))
    tables = d.held.keys() | before.held.keys()
    held = {table: max(d.held.get(table, d.hi), before.of(table)) for table in tables}
    names = {**before.transactions, **d.transactions}
    return Stand(ts, row, {table: at for table, at in held.items() if at != main}, names)


def _ahead(start: Stand | None, d: Descriptor) -> Stand | None:
    """``start``, unless all that the window brings lies behind it anyhow."""
    if start is None or start > d.lo:
        return start
    late = ((name, span) for name, span in d.spans.items() if span.lo < d.lo)
    return start if any(span.lo < start.of(name) for name, span in late) else None


def _after(located: RowBatch, order: Order, start: Stand | None) -> Order:
    """The rows of ``order`` that a destination which stands at ``start`` does not have."""
    if start is None or not len(order):
        return order
    refs, entries = located.refs, located.plans.entries
    stands = [start.of(e.table.full_name.lower()) for e in entries]
    plan = refs[order, layout.R_PLAN]
    least_ts = np.array([s.ts for s in stands], np.int64)[plan]
    least_row = np.array([s.row for s in stands], np.int64)[plan]
    ts, row = refs[order, layout.R_TS], refs[order, layout.R_ROW]
    behind = (ts > least_ts) | ((ts == least_ts) & (row >= least_row))
    found: Order = order if behind.all() else order[behind]
    return found
