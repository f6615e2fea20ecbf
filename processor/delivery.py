"""Delivery of one window's destinations by one worker: read, locate, select, deliver, commit.

Runs inside a Spark task, and just as well without Spark. Rows stay bytes and references
throughout: a few numpy arrays for each chunk of runs, no Python object per row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import TidegateError
from cdc.base.position import Position
from cdc.changelog.index import Runs
from cdc.changelog.names import data_name
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.kernels import layout
from processor.catalog import Catalog, Numbering
from processor.slot import Slot
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.codec.plan import Matrix, PlanSet
from sink.codec.rows import Located, Order
from sink.contract import Deliverer, Destination, Sent
from sink.open import open_sink

# Rows that are located at once: large enough for the kernels, small enough for the caches.
CHUNK_ROWS = 32_768


class FeedDelivery:
    """What a worker keeps of a changefeed between windows: log reader, plans, deliverer."""

    def __init__(self, plan: FeedPlan) -> None:
        self.plan = plan
        self._log = ChangeLog.open(Path(plan.log_folder))
        config = FeedConfig.model_validate(plan.config)
        self._sink = open_sink(plan.sink_uri, config.sink, case_sensitive=config.case_sensitive)
        routes = self._sink.routes(plan.layout)
        self._catalog = Catalog(self._log, plan.start_ts, config, routes)
        self._numbering = Numbering.of(plan.layout)
        self._plans: PlanSet | None = None
        self._plan_of: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._slot: Slot | None = None
        self._deliverer: Deliverer | None = None

    def deliver(self, descriptor: Descriptor) -> Ack:
        """Deliver the descriptor's rows; an error of ours is part of the result."""
        began = time.perf_counter()
        sent, log_bytes = Sent(0, 0), 0
        error: dict[str, str] | None = None
        try:
            self._log.refresh()
            sink = self.open()
            self._refresh_plans(sink)
            runs = self._runs(descriptor)
            log_bytes = int(runs.length.sum())
            sent = self._deliver(descriptor, runs, sink)
        except TidegateError as e:
            self.discard()
            error = e.to_dict()
        except BaseException:
            # Whoever holds a lock at the sink must not keep it while others recover.
            self.discard()
            raise
        return Ack(
            destinations=descriptor.destinations,
            rows=sent.rows,
            bytes=sent.bytes,
            log_bytes=log_bytes,
            seconds=time.perf_counter() - began,
            error=error,
        )

    def discard(self) -> None:
        """Give the deliverer and its slot up, after an error or for a newer plan."""
        self._plans = None
        if self._deliverer is not None:
            self._deliverer.abort()
            self._deliverer = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def open(self) -> Deliverer:
        """The deliverer; claimed and checked against the ledger's epoch on first use."""
        if self._deliverer is None:
            if self._slot is None:
                self._slot = Slot.claim(Path(self.plan.run_folder), self.plan.slots)
            self._deliverer = self._sink.deliverer(
                self.plan.feed, self.plan.epoch, self._slot.number
            )
        return self._deliverer

    def _runs(self, d: Descriptor) -> Runs:
        runs = self._log.runs(d.lo, d.hi, tables=self._catalog.ids_for(d.destinations))
        runs = self._catalog.under(runs, d.caps)
        self._log.verify(runs)
        return runs

    def _deliver(self, d: Descriptor, runs: Runs, sink: Deliverer) -> Sent:
        known = sink.begin(d.destinations)
        starts = {
            destination: max(d.lo, d.starts.get(destination, d.lo), known.get(destination, d.lo))
            for destination in d.destinations
        }
        touched: set[Destination] = set()
        for segment, chunk in _chunks(runs):
            touched |= self._deliver_chunk(starts, segment, chunk, sink)
        if d.watermark is not None:
            for destination in d.destinations:
                sink.watermark(destination, d.watermark, time.time_ns() // 1_000_000)
        return sink.commit(dict.fromkeys(touched, d.hi))

    def _deliver_chunk(
        self,
        starts: Mapping[Destination, Position],
        segment: int,
        chunk: Runs,
        sink: Deliverer,
    ) -> set[Destination]:
        assert self._plans is not None
        matrix = self._run_matrix(chunk)
        located = Located(
            self._log.segment(segment),
            matrix,
            int(chunk.rows.sum()),
            self._plans,
            data_name(segment),
        )
        numbers = [self._numbering.number(destination) for destination in starts]
        orders = located.by_destination(np.array(numbers, np.int64))
        touched = set()
        for (destination, start), order in zip(starts.items(), orders, strict=True):
            order = _after(located.refs, order, start)
            if len(order):
                touched.add(destination)
                sink.deliver(located, matrix, order, destination)
        return touched

    def _refresh_plans(self, sink: Deliverer) -> None:
        if not self._catalog.refresh() and self._plans is not None:
            return
        delivered = list(self._catalog.tables.values())
        self._plans = sink.plan(
            [(r.table, r.table_map, self._numbering.codec_route(r)) for r in delivered],
            mariadb=self._catalog.mariadb,
        )
        self._plan_of = np.full(max(self._catalog.tables, default=-1) + 1, -1, np.int64)
        for row, r in enumerate(delivered):
            self._plan_of[r.id] = row

    def _run_matrix(self, runs: Runs) -> Matrix:
        matrix = np.empty((len(runs), layout.RUN_SIZE), np.int64)
        matrix[:, layout.RUN_OFFSET] = runs.offset
        matrix[:, layout.RUN_LENGTH] = runs.length
        matrix[:, layout.RUN_PLAN] = self._plan_of[runs.table]
        matrix[:, layout.RUN_TS] = runs.commit_ts
        matrix[:, layout.RUN_FIRST_ROW] = runs.first_row
        matrix[:, layout.RUN_SKIP] = 0
        matrix[:, layout.RUN_TAKE] = runs.rows
        return matrix


def _after(refs: Matrix, order: Order, start: Position) -> Order:
    """The rows of ``order`` (in commit order) that lie behind ``start``."""
    if not len(order):
        return order
    first = refs[order[0]]
    if Position(int(first[layout.R_TS]), int(first[layout.R_ROW])) >= start:
        return order
    ts, row = refs[order, layout.R_TS], refs[order, layout.R_ROW]
    behind: Order = order[(ts > start.ts) | ((ts == start.ts) & (row >= start.row))]
    return behind


def _chunks(runs: Runs) -> Iterator[tuple[int, Runs]]:
    """Consecutive runs of one segment with at most about CHUNK_ROWS rows."""
    if not len(runs):
        return
    filled = np.cumsum(runs.rows, dtype=np.int64) // CHUNK_ROWS
    cuts = np.flatnonzero((np.diff(filled) != 0) | (np.diff(runs.segment) != 0)) + 1
    lo = 0
    for hi in [*cuts.tolist(), len(runs)]:
        yield int(runs.segment[lo]), runs.slice(lo, hi)
        lo = hi
