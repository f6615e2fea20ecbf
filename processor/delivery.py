"""Delivery of one window's destinations by one worker: read, locate, select, encode, send, commit.

Runs inside a Spark task, and just as well without Spark. Rows stay bytes and references
throughout: a few numpy arrays for each chunk of runs, no Python object per row.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import TidegateError
from cdc.base.position import Position
from cdc.base.ts import physical_ms
from cdc.changelog.index import Runs
from cdc.changelog.names import data_name
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.kernels import layout
from processor.catalog import Catalog, Numbering
from processor.slot import Slot
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.codec.canal import CanalCodec
from sink.codec.plan import Matrix, PlanSet
from sink.codec.rows import Buffer, Located, Order
from sink.contract import Deliverer, Destination
from sink.open import OpenSink

# Rows that are located at once: large enough for the kernels, small enough for the caches.
CHUNK_ROWS = 32_768
# A batch of a topic that takes less is smaller. Each batch costs broker and client some 0.5 ms,
# and compressed ones rarely come near what topics take.
BATCH_BYTES = 4_000_000


@dataclass
class _Counts:
    rows: int = 0
    bytes: int = 0
    log_bytes: int = 0


class FeedDelivery:
    """What a worker keeps of a changefeed between windows: log reader, plans, producer."""

    def __init__(self, plan: FeedPlan) -> None:
        self.plan = plan
        self._log = ChangeLog.open(Path(plan.log_folder))
        config = FeedConfig.model_validate(plan.config)
        self._sink = OpenSink(plan.sink_uri, config.sink, case_sensitive=config.case_sensitive)
        router = self._sink.router(plan.partitions)
        self._catalog = Catalog(self._log, plan.start_ts, config, router)
        self._numbering = Numbering.of(plan.partitions)
        self._codec = CanalCodec(self._sink.codec())
        self._plans: PlanSet | None = None
        self._plan_of: NDArray[np.int64] = np.full(0, -1, np.int64)
        self._slot: Slot | None = None
        self._deliverer: Deliverer | None = None
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def deliver(self, descriptor: Descriptor) -> Ack:
        """Deliver the descriptor's rows; an error of ours is part of the result."""
        began = time.perf_counter()
        counts = _Counts()
        try:
            self._log.refresh()
            self._deliver(descriptor, counts)
            error = None
        except TidegateError as e:
            self.discard()
            error = e.to_dict()
        return Ack(
            destinations=descriptor.destinations,
            rows=counts.rows,
            bytes=counts.bytes,
            log_bytes=counts.log_bytes,
            seconds=time.perf_counter() - began,
            error=error,
        )

    def discard(self) -> None:
        """Give the producer and its slot up, after an error or for a newer plan."""
        if self._deliverer is not None:
            self._deliverer.abort()
            self._deliverer = None
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    def open(self) -> Deliverer:
        """The producer; claimed and checked against the ledger's epoch on first use."""
        if self._deliverer is None:
            if self._slot is None:
                self._slot = Slot.claim(Path(self.plan.run_folder), self.plan.slots)
            self._deliverer = self._sink.deliverer(
                self.plan.feed, self.plan.epoch, self._slot.number
            )
        return self._deliverer

    def _deliver(self, d: Descriptor, counts: _Counts) -> None:
        self._refresh_plans()
        runs = self._log.runs(d.lo, d.hi, tables=self._catalog.ids_for(d.destinations))
        runs = self._catalog.under(runs, d.caps)
        self._log.verify(runs)
        sink = self.open()
        sink.begin()
        touched: set[Destination] = set()
        for segment, chunk in _chunks(runs):
            counts.log_bytes += int(chunk.length.sum())
            touched |= self._deliver_chunk(d, segment, chunk, counts)
        if d.watermark is not None:
            value = self._codec.watermark(d.watermark, time.time_ns() // 1_000_000)
            assert value is not None
            for topic, partition in d.destinations:
                sink.send_small(topic, partition, value, physical_ms(d.watermark))
        sink.commit(dict.fromkeys(touched, d.hi))

    def _deliver_chunk(
        self, d: Descriptor, segment: int, chunk: Runs, counts: _Counts
    ) -> set[Destination]:
        assert self._plans is not None
        located = Located(
            self._log.segment(segment),
            self._run_matrix(chunk),
            int(chunk.rows.sum()),
            self._plans,
            data_name(segment),
        )
        numbers = [self._numbering.number(destination) for destination in d.destinations]
        orders = located.by_destination(np.array(numbers, np.int64))
        touched = set()
        for destination, order in zip(d.destinations, orders, strict=True):
            order = _after(located.refs, order, max(d.lo, d.starts.get(destination, d.lo)))
            if len(order):
                touched.add(destination)
                self._send(located, order, destination, counts)
        return touched

    def _send(
        self, located: Located, order: Order, destination: Destination, counts: _Counts
    ) -> None:
        sink = self.open()
        topic, partition = destination
        batches = located.batches(
            order,
            time.time_ns() // 1_000_000,
            limit=min(BATCH_BYTES, sink.batch_limit(topic)),
            max_message=sink.message_limit(topic),
            buffer=self._buffer,
        )
        for batch in batches:
            done = partial(self._free.put, batch.data.obj)
            sink.send(
                topic, partition, batch.data, batch.count, batch.base_ms, batch.max_ms, done=done
            )
            counts.rows += batch.count
            counts.bytes += batch.data.nbytes

    def _buffer(self, room: int) -> Buffer:
        # Buffers come back when their batch is compressed; a fresh one costs its page faults.
        while True:
            try:
                out: Buffer = self._free.get_nowait()
            except queue.Empty:
                return np.empty(room, np.uint8)
            if out.size >= room:
                return out

    def _refresh_plans(self) -> None:
        if not self._catalog.refresh() and self._plans is not None:
            return
        delivered = list(self._catalog.tables.values())
        self._plans = self._codec.plan_set(
            [(r.table, r.table_map, self._numbering.codec_route(r)) for r in delivered]
        )
        self._plan_of = np.full(max(self._catalog.tables, default=-1) + 1, -1, np.int64)
        for row, r in enumerate(delivered):
            self._plan_of[r.id] = row

    def _run_matrix(self, runs: Runs) -> NDArray[np.int64]:
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
