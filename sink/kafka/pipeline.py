"""From framed records to the producer's queue: compressed in parallel, queued in order, bounded.

Order per partition is the order of ``submit``; partitions do not wait for one another. What is on
its way (framed, being compressed, queued, or not yet acknowledged) is bounded in batches and bytes:
``submit`` waits at the bound.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition

from cdc.base.errors import TidegateError
from sink.kafka.batch import ReadyRecords
from sink.kafka.compression import Codec, compress
from sink.kafka.errors import KafkaUnavailable, MessageTooLarge, map_error
from sink.kafka.records import HEADER_BYTES, Bytes

MAX_BATCHES = 8
MAX_BYTES = 32 * 1024 * 1024
THREADS = 2
# Below this a thread's hand-over costs more than the compression.
_INLINE_BYTES = 16 * 1024

Enqueue = Callable[[TopicPartition, ReadyRecords], Any]


@dataclass(slots=True, eq=False)
class _Entry:
    at: TopicPartition
    records: Bytes
    count: int
    first_ms: int
    max_ms: int
    codec: Codec
    limit: int
    size: int
    done: Callable[[], None] | None
    ready: ReadyRecords | None = None
    packed: int = 0


class Pipeline:
    """Batches on their way to one producer. One thread submits; others compress and acknowledge."""

    def __init__(
        self,
        enqueue: Enqueue,
        *,
        max_batches: int = MAX_BATCHES,
        max_bytes: int = MAX_BYTES,
        threads: int = THREADS,
    ) -> None:
        self._enqueue = enqueue
        self._max_batches = max_batches
        self._most_bytes = self._max_bytes = max_bytes
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kafka-compress")
        self._order = threading.Lock()
        self._lines: defaultdict[TopicPartition, deque[_Entry]] = defaultdict(deque)
        # A partition that has taken nothing of this producer yet gets one batch first: it has no
        # sequence to compare with, so it might refuse that one, as a leader of a moment ago does,
        # and take the next.
        self._asked: set[TopicPartition] = set()
        self._answered: set[TopicPartition] = set()
        # Guards the counters below; never held while calling the producer.
        self._changed = threading.Condition()
        self._batches = 0
        self._bytes = 0
        self._error: TidegateError | None = None
        # Batches that were acknowledged, and their bytes, compressed.
        self.sent = (0, 0)

    @property
    def in_flight(self) -> tuple[int, int]:
        """Batches and uncompressed bytes on their way."""
        with self._changed:
            return self._batches, self._bytes

    def bound(self, at_once: int | None) -> None:
        """Let no more bytes be on their way at a time, or as many as it was made with."""
        with self._changed:
            self._max_bytes = min(self._most_bytes, at_once or self._most_bytes)

    def submit(
        self,
        at: TopicPartition,
        records: Bytes,
        count: int,
        first_ms: int,
        max_ms: int,
        *,
        codec: Codec,
        limit: int,
        timeout_s: float,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Hand over the records of one batch; the buffer is ours until ``done`` is called.

        ``limit`` is the topic's ``max.message.bytes``. Raises the first error of any earlier
        batch, or :class:`KafkaUnavailable` if nothing moved for ``timeout_s``.
        """
        size = memoryview(records).nbytes
        self._reserve(size, timeout_s)
        entry = _Entry(at, records, count, first_ms, max_ms, codec, limit, size, done)
        with self._order:
            self._lines[at].append(entry)
        if size <= _INLINE_BYTES:
            self._make_ready(entry)
        else:
            self._pool.submit(self._make_ready, entry)

    def drain(self, timeout_s: float) -> None:
        """Wait until every batch is acknowledged. Raises the first error of any of them."""
        self._wait(lambda: self._batches == 0, timeout_s)

    def cancel(self, error: TidegateError) -> None:
        """Drop what is not yet queued; ``submit`` and ``drain`` raise ``error`` from now on."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """End the threads; what is not yet queued is dropped."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _reserve(self, size: int, timeout_s: float) -> None:
        def free() -> bool:
            if self._batches == 0:
                return True
            return self._batches < self._max_batches and self._bytes + size <= self._max_bytes

        self._wait(free, timeout_s)
        with self._changed:
            self._batches += 1
            self._bytes += size

    def _wait(self, condition: Callable[[], bool], timeout_s: float) -> None:
        with self._changed:
            seen, since = self._batches, time.monotonic()
            while self._error is None and not condition():
                self._changed.wait(0.5)
                if self._batches != seen:
                    seen, since = self._batches, time.monotonic()
                elif time.monotonic() - since > timeout_s:
                    self._error = KafkaUnavailable(
                        f"no batch was acknowledged for {timeout_s:.0f} s",
                        object="kafka",
                        hint="check that the brokers run and can be reached",
                    )
            if self._error is not None:
                raise self._error

    def _make_ready(self, entry: _Entry) -> None:
        try:
            entry.ready = _ready(entry)
            entry.records = b""
            if entry.done is not None:
                entry.done()
            self._advance(entry.at)
        except Exception as e:
            self._failed(map_error(e, object=f"{entry.at.topic}/{entry.at.partition}"))

    def _advance(self, at: TopicPartition) -> None:
        """Queue the ready head of a partition's line; an error drops the rest."""
        while True:
            with self._order:
                line = self._lines[at]
                if not line or line[0].ready is None or self._error is not None:
                    return
                if at in self._asked and at not in self._answered:
                    return
                self._asked.add(at)
                entry = line.popleft()
                assert entry.ready is not None
                entry.packed = entry.ready.size_in_bytes()
                future = self._enqueue(at, entry.ready)
                entry.ready = None
            future.add_callback(self._acknowledged, entry)

    def _acknowledged(self, entry: _Entry, result: tuple[int, int, Any]) -> None:
        failure = result[2]
        if failure is not None:
            self._failed(map_error(failure(0), object=f"{entry.at.topic}/{entry.at.partition}"))
        with self._changed:
            self._batches -= 1
            self._bytes -= entry.size
            if failure is None:
                self.sent = (self.sent[0] + 1, self.sent[1] + entry.packed)
            self._changed.notify_all()
        if failure is None and entry.at not in self._answered:
            self._answered.add(entry.at)
            try:
                self._advance(entry.at)
            except Exception as e:
                self._failed(map_error(e, object=f"{entry.at.topic}/{entry.at.partition}"))

    def _failed(self, error: TidegateError) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def _ready(entry: _Entry) -> ReadyRecords:
    raw = memoryview(entry.records)
    body = compress(entry.codec, raw)
    attribute = entry.codec.attribute
    if memoryview(body).nbytes >= entry.size:
        body, attribute = raw, Codec.NONE.attribute
    size = HEADER_BYTES + memoryview(body).nbytes
    if size > entry.limit:
        raise MessageTooLarge(
            f"a batch of {entry.count} messages has {size} bytes, the topic takes {entry.limit}",
            object=f"{entry.at.topic}/{entry.at.partition}",
            hint="raise the topic's max.message.bytes and the sink's max-message-bytes",
        )
    return ReadyRecords(body, entry.count, entry.first_ms, entry.max_ms, attribute)
