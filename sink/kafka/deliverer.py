"""Delivery of ready-made batches to Kafka, exactly once, from one Spark Python worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from cdc.base.errors import TidegateError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from sink.contract import RECOVERY_BITS
from sink.kafka import batch
from sink.kafka.clients import TRANSACTION_TIMEOUT_MS, mapped, open_producer, partitions_of
from sink.kafka.compression import Codec
from sink.kafka.errors import (
    FencedEpoch,
    KafkaInternal,
    KafkaProducerFenced,
    KafkaStorage,
    KafkaTopicMissing,
    KafkaTransactionLost,
    KafkaTransactionTimedOut,
    KafkaUnavailable,
)
from sink.kafka.ledger import LEDGER_TOPIC, ledger_partition, position_records, read_epochs
from sink.kafka.pipeline import Pipeline
from sink.kafka.records import HEADER_BYTES, Bytes, SmallRecord, frame
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import Topics

_LEDGER_LIMIT = 1_000_000
_ABORT_S = 5.0
# Lengths, attributes and deltas of a record take at most this.
_FRAME_BYTES = 40


class DeliverState(Enum):
    """States of a deliverer."""

    READY = "ready"
    OPEN = "open"
    BROKEN = "broken"


# What each call needs, and where it leads if it succeeds; any failure leads to BROKEN.
_TRANSITIONS: dict[str, tuple[DeliverState, DeliverState]] = {
    "begin": (DeliverState.READY, DeliverState.OPEN),
    "send": (DeliverState.OPEN, DeliverState.OPEN),
    "commit": (DeliverState.OPEN, DeliverState.READY),
}


DDL_SLOT = "ddl"
"""The slot of the changefeed's owner, for schema changes."""


def transactional_id(feed: FeedId, slot: int | str) -> str:
    """The transactional id of a changefeed's slot."""
    return f"tidegate-{feed.text}-{slot}"


class KafkaDeliverer:
    """One producer of one changefeed: ``begin``, ``send`` …, ``commit``, and again.

    With ``exactly-once`` the constructor claims the slot's transactional id (whoever had it is
    fenced), then reads the ledger's epoch: unless it is ours, :class:`FencedEpoch` is raised and
    nothing was sent. ``commit`` writes positions into the ledger in the same transaction.

    Any error, and ``abort``, ends the object: discard it, recover
    (:func:`sink.kafka.recovery.recover`) with a new epoch, make a new one. Not thread-safe.
    """

    def __init__(self, settings: KafkaSettings, feed: FeedId, epoch: int, slot: int | str) -> None:
        self._settings = settings
        self._feed = feed
        self._epoch = epoch
        self._slot = slot
        self._state = DeliverState.READY
        self._limits: dict[str, int] = {}
        self._touched: set[TopicPartition] = set()
        self._began = time.monotonic()
        self._delivered: dict[tuple[str, int], Position] = {}
        own_id = transactional_id(feed, slot) if settings.exactly_once else None
        self._producer: KafkaProducer = open_producer(settings, own_id)
        try:
            if settings.exactly_once:
                self._identity = batch.transaction_identity(self._producer)
                self._check_epoch()
        except BaseException:
            batch.discard(self._producer)
            raise
        self._pipeline = Pipeline(self._enqueue)

    @property
    def state(self) -> DeliverState:
        """Where it stands; ``BROKEN`` is final."""
        return self._state

    @property
    def in_flight(self) -> tuple[int, int]:
        """Batches and uncompressed bytes that are not yet acknowledged."""
        return self._pipeline.in_flight

    @property
    def sent(self) -> tuple[int, int]:
        """Batches that brokers have acknowledged, and their bytes, compressed."""
        return self._pipeline.sent

    def begin(self, at_once: int | None = None) -> None:
        """Start a window, with no more than ``at_once`` bytes on their way at a time."""
        self._pipeline.bound(at_once)
        self._step("begin", self._begin)

    def send(
        self,
        topic: str,
        partition: int,
        records: Bytes,
        count: int,
        first_ms: int,
        max_ms: int,
        *,
        done: Callable[[], None] | None = None,
    ) -> None:
        """Queue one batch; batches of a partition arrive in the order of these calls.

        ``records`` is the records region of format v2 (offset deltas ``0 … count-1``, timestamp
        deltas to ``first_ms``), any 1-d buffer of bytes. It is ours until ``done`` is called (from
        another thread) or the window ends. Returns at once unless 8 batches or 32 MiB are on
        their way. A batch must not exceed the topic's limit once compressed: the caller keeps the
        uncompressed records below it, so that only a single message can be too large. No record is
        dated into the future, which brokers refuse: such a batch is shifted to end now.
        """
        at = TopicPartition(topic, partition)
        limit = self._limit(topic)
        ahead_ms = max(0, max_ms - time.time_ns() // 1_000_000)
        first_ms, max_ms = first_ms - ahead_ms, max_ms - ahead_ms
        self._step(
            "send", lambda: self._submit(at, records, count, (first_ms, max_ms), limit, done)
        )

    def send_small(
        self, topic: str, partition: int, value: bytes, at_ms: int, key: bytes | None = None
    ) -> None:
        """Queue one message that no kernel framed: a watermark, a DDL."""
        self.send(topic, partition, frame([SmallRecord(key, value)]), 1, at_ms, at_ms)

    def send_ledger(self, at: TopicPartition, records: Sequence[SmallRecord]) -> None:
        """Queue records for the ledger topic, as part of the transaction."""
        now = time.time_ns() // 1_000_000
        data = frame(records)
        self._step(
            "send",
            lambda: self._submit(at, data, len(records), (now, now), _LEDGER_LIMIT, None),
        )

    def batch_limit(self, topic: str) -> int:
        """Largest records region that is sure to be taken, whether it compresses or not."""
        return self._limit(topic) - HEADER_BYTES

    def message_limit(self, topic: str) -> int:
        """Largest key and value of one message: the rest is the frame of a batch of one."""
        return self._limit(topic) - HEADER_BYTES - _FRAME_BYTES

    def commit(self, ledger: Mapping[tuple[str, int], Position]) -> None:
        """Make the window durable and visible, with the new positions of its destinations.

        Returns only when every batch is acknowledged and the transaction is committed. An error
        says nothing of the outcome if it came late: the ledger does.
        """
        self._step("commit", lambda: self._commit(ledger))

    def abort(self) -> None:
        """Give the window up, best effort, and end the object. Never raises for Kafka's errors."""
        if self._state is DeliverState.BROKEN:
            return
        self._pipeline.cancel(
            KafkaTransactionLost("the window was aborted", object=str(self._feed))
        )
        if self._settings.exactly_once and self._state is DeliverState.OPEN:
            with suppress(KafkaError, TidegateError):
                batch.begin_end(self._producer, commit=False).wait(_ABORT_S * 1000)
        self.close()

    def close(self) -> None:
        """End the object; an open transaction is left to the next owner of the slot."""
        self._state = DeliverState.BROKEN
        self._pipeline.close()
        batch.discard(self._producer)

    def _step(self, call: str, action: Callable[[], None]) -> None:
        needed, then = _TRANSITIONS[call]
        if self._state is not needed:
            raise KafkaInternal(f"{call} in state {self._state.value}", object=str(self._feed))
        try:
            with mapped(self._settings):
                action()
        except TidegateError as e:
            error = self._explain(e)
            self._pipeline.cancel(error)
            self.close()
            raise error from None
        except BaseException:
            self.close()
            raise
        self._state = then

    def _limit(self, topic: str) -> int:
        if topic not in self._limits:
            self._limits[topic] = Topics(self._settings).ensure([topic])[topic].limit
        return self._limits[topic]

    def _begin(self) -> None:
        self._touched.clear()
        self._began = time.monotonic()
        if self._settings.exactly_once:
            self._producer.begin_transaction()

    def _submit(
        self,
        at: TopicPartition,
        records: Bytes,
        count: int,
        times: tuple[int, int],
        limit: int,
        done: Callable[[], None] | None,
    ) -> None:
        if at not in self._touched:
            self._known(at)
            self._touched.add(at)
        codec = Codec.NONE if at.topic == LEDGER_TOPIC else self._settings.compression
        self._pipeline.submit(
            at,
            records,
            count,
            *times,
            codec=codec,
            limit=limit,
            timeout_s=2 * self._settings.delivery_timeout_s,
            done=done,
        )

    def _commit(self, ledger: Mapping[tuple[str, int], Position]) -> None:
        if not self._settings.exactly_once:
            self._pipeline.drain(2 * self._settings.delivery_timeout_s)
            return
        for destination, position in ledger.items():
            if position < self._delivered.get(destination, position):
                raise KafkaInternal(f"position {position} goes back", object=str(destination))
        if ledger:
            now = time.time_ns() // 1_000_000
            entries = position_records(self._feed, self._epoch, ledger)
            at = ledger_partition(self._feed)
            self._submit(at, frame(entries), len(entries), (now, now), _LEDGER_LIMIT, None)
        self._pipeline.drain(2 * self._settings.delivery_timeout_s)
        self._end_transaction()
        self._delivered.update(ledger)

    def _end_transaction(self) -> None:
        self._guard(holds=not self._touched)
        wait_ms = self._settings.delivery_timeout_s * 1000
        if not batch.begin_end(self._producer, commit=True).wait(wait_ms):
            raise KafkaTransactionLost(
                "the commit was not confirmed in time",
                object=str(self._feed),
                hint="delivery recovers by itself from the ledger",
            )
        self._guard(holds=True)

    def _guard(self, *, holds: bool) -> None:
        """The transaction is still the one that we began: else a commit would prove nothing."""
        same = batch.transaction_identity(self._producer) == self._identity
        if not same or not (holds or batch.transaction_holds(self._producer, self._touched)):
            raise KafkaTransactionLost(
                "the transaction is not whole any more",
                object=str(self._feed),
                hint="delivery recovers by itself from the ledger",
            )

    def _enqueue(self, at: TopicPartition, records: batch.ReadyRecords) -> object:
        return batch.enqueue(self._producer, at, records)

    def _known(self, at: TopicPartition) -> None:
        partitions = partitions_of(self._producer, at.topic)
        if at.partition not in partitions:
            raise KafkaTopicMissing(
                f"the topic has {len(partitions)} partitions",
                object=f"{at.topic}/{at.partition}",
                hint="partitions of a topic must not be taken away while a changefeed runs",
            )

    def _check_epoch(self) -> None:
        incarnation, found = read_epochs(self._settings, self._feed).newest
        # Recoveries of rows are no change of owner.
        bits = RECOVERY_BITS if self._slot == DDL_SLOT else 0
        ours = (self._feed.incarnation, self._epoch >> bits)
        if (incarnation, found >> bits) != ours:
            raise FencedEpoch(
                f"our epoch is {self._epoch}, the ledger's is {found}",
                object=f"changefeed {self._feed}",
                hint="another server has taken over this changefeed; nothing to do here",
            )

    def _explain(self, error: TidegateError) -> TidegateError:
        """A fenced producer is a fenced *owner* only if the ledger has another epoch."""
        if isinstance(error, KafkaProducerFenced) and self._settings.exactly_once:
            with suppress(TidegateError):
                try:
                    self._check_epoch()
                except FencedEpoch as fenced:
                    return fenced
        if isinstance(error, KafkaProducerFenced | KafkaTransactionLost) and self._took_too_long():
            return KafkaTransactionTimedOut(
                f"it was open for longer than {TRANSACTION_TIMEOUT_MS // 1000} s: {error.message}",
                object=self._feed.name,
                hint="smaller windows are tried; see whether the brokers throttle us, or are slow",
            )
        if isinstance(error, KafkaUnavailable):
            with suppress(KafkaError):
                return self._explain_metadata(error)
        return error

    def _took_too_long(self) -> bool:
        """Whether the broker may have aborted the open transaction for its age."""
        if not self._settings.exactly_once or self._state is not DeliverState.OPEN:
            return False
        return time.monotonic() - self._began > TRANSACTION_TIMEOUT_MS / 1000

    def _explain_metadata(self, error: TidegateError) -> TidegateError:
        """The broker may have said nothing of batches, but that a partition is not there."""
        cluster = self._producer._metadata
        for at in sorted(self._touched):
            if cluster.partitions_for_topic(at.topic) is None:
                return KafkaTopicMissing(
                    error.message, object=at.topic, hint="create the topic again"
                )
            if cluster.leader_for_partition(at) in (None, -1) and cluster.brokers():
                return KafkaStorage(
                    f"the partition has no leader: {error.message}",
                    object=f"{at.topic}/{at.partition}",
                    hint="look at the disks of the brokers that hold it",
                )
        return error
