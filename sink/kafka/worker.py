"""Rows as batches of Kafka messages: encoding by kernels in front of a ``KafkaDeliverer``."""

from __future__ import annotations

import queue
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from cdc.base.position import Position
from cdc.base.ts import Ts, physical_ms
from cdc.rows.batch import Buffer, Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from sink.codec.contract import EncodeLimits, Framing, MessageCodec
from sink.contract import Destination, Entry, Sent
from sink.kafka.deliverer import KafkaDeliverer

# A batch of a topic that takes less is smaller. Each batch costs broker and client some 0.5 ms,
# and compressed ones rarely come near what topics take.
BATCH_BYTES = 4_000_000


class KafkaWorker:
    """The worker side of a Kafka sink (``sink.contract.Deliverer``)."""

    def __init__(self, deliverer: KafkaDeliverer, codec: MessageCodec[Any]) -> None:
        self._deliverer = deliverer
        self._codec = codec
        self._plan = codec.no_tables
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._rows = self._bytes = 0
        self._batch_bytes = BATCH_BYTES
        self._before = (0, 0)

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """Plans of the format; it is the same for both families."""
        self._plan = self._codec.plan(entries, self._plan if more else self._codec.no_tables)
        plans: PlanSet = self._plan.plans
        return plans

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Start a transaction. The ledger was read by recovery: nobody else can move it."""
        self._rows = self._bytes = 0
        self._before = self._deliverer.sent
        self._batch_bytes = BATCH_BYTES if at_once is None else min(BATCH_BYTES, at_once)
        self._deliverer.begin(at_once)
        return {}

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Encode rows and queue their batches; compression and sending go on behind."""
        sink = self._deliverer
        topic, partition = destination
        batches = self._codec.encode(
            located,
            self._plan,
            order,
            time.time_ns() // 1_000_000,
            limits=EncodeLimits(
                min(self._batch_bytes, sink.batch_limit(topic)), sink.message_limit(topic)
            ),
            framing=Framing.RECORDS,
            buffer=self._buffer,
        )
        for batch in batches:
            done = partial(self._free.put, batch.data.obj)
            sink.send(
                topic, partition, batch.data, batch.records, batch.base_ms, batch.max_ms, done=done
            )
            self._rows += batch.rows
            self._bytes += batch.data.nbytes

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """Queue the format's message that all up to ``ts`` was sent."""
        message = self._codec.watermark(ts, now_ms)
        assert message is not None
        self._deliverer.send_small(*destination, message.value, physical_ms(ts), message.key)

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """Commit messages and positions in one transaction."""
        self._deliverer.commit(ledger)
        batches, size = self._deliverer.sent
        return Sent(self._rows, self._bytes, size - self._before[1], batches - self._before[0])

    def abort(self) -> None:
        """Give the window up and end the producer."""
        self._deliverer.abort()

    def _buffer(self, room: int) -> Buffer:
        # Buffers come back when their batch is compressed; a fresh one costs its page faults.
        while True:
            try:
                out: Buffer = self._free.get_nowait()
            except queue.Empty:
                return np.empty(room, np.uint8)
            if out.size >= room:
                return out
