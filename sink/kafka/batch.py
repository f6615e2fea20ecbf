"""Ready-made record batches in kafka-python's producer.

kafka-python builds batches one record at a time in Python. Its accumulator and sender, though, ask
a batch only for ``next_offset``, ``size_in_bytes``, ``is_full``, ``set_producer_state``, ``close``,
``buffer``, ``append`` and ``compression_rate``; so a batch whose records were framed by a kernel
can be queued as it is, while ids, sequences, retries and transactions stay kafka-python's.

This file leans on the client's insides most, beside ``clients`` and ``recovery``; ``check_client``
refuses a client whose insides are not the ones that they were made for, and ``tests/sink_kafka``
holds the contract.
"""

from __future__ import annotations

import struct
from typing import Any

import crc32c
import kafka
from kafka import KafkaProducer, TopicPartition
from kafka import errors as ke
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager, TransactionState

from sink.kafka.errors import KafkaClientVersion, KafkaInternal
from sink.kafka.records import HEADER_BYTES, Bytes

CLIENT_VERSIONS = ("3.0.",)
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_AT = 17
_CRC_FROM = 21
_TRANSACTIONAL = 0x10
_INSIDES: tuple[tuple[type, tuple[str, ...]], ...] = (
    (
        RecordAccumulator,
        ("_tp_lock", "ready", "drain", "reenqueue", "deallocate", "abort_batches"),
    ),
    (
        Sender,
        ("_can_split", "_can_retry", "_complete_batch_with_exception", "wakeup", "force_close"),
    ),
    (
        TransactionManager,
        (
            "maybe_add_partition_to_transaction",
            "begin_commit",
            "begin_abort",
            "is_transactional",
            "_supports_epoch_bump",
            "classify_batch_error",
        ),
    ),
    (ProducerBatch, ("complete", "complete_exceptionally", "record_count", "retry", "in_retry")),
    (KafkaProducer, ("_wait_on_metadata", "init_transactions", "begin_transaction")),
)


def check_client() -> None:
    """Raise :class:`KafkaClientVersion` if kafka-python is not what this file was made for."""
    if not kafka.__version__.startswith(CLIENT_VERSIONS):
        raise _wrong(f"version {kafka.__version__}")
    for cls, names in _INSIDES:
        for name in names:
            if not hasattr(cls, name):
                raise _wrong(f"{cls.__name__} has no {name}")


def _wrong(what: str) -> KafkaClientVersion:
    return KafkaClientVersion(
        f"kafka-python {kafka.__version__} cannot be used: {what}",
        object="kafka-python",
        hint=f"install kafka-python {CLIENT_VERSIONS[0]}*",
    )


class ReadyRecords:
    """A batch whose records are framed and compressed already.

    ``body`` is the records region (compressed if ``attributes`` say so) of ``count`` records
    with offset deltas ``0 … count-1``; times are milliseconds. The header is written when the
    sender has chosen producer id, epoch and sequence.
    """

    __slots__ = (
        "_attributes",
        "_buffer",
        "_closed",
        "_count",
        "_first_ms",
        "_max_ms",
        "base_sequence",
        "producer_epoch",
        "producer_id",
        "refused",
    )

    def __init__(
        self, body: Bytes, count: int, first_ms: int, max_ms: int, attributes: int
    ) -> None:
        size = memoryview(body).nbytes
        self._buffer = bytearray(HEADER_BYTES + size)
        self._buffer[HEADER_BYTES:] = body
        self._count = count
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._attributes = attributes
        self._closed = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        # The broker's last answer to an attempt that may be repeated.
        self.refused: type[ke.KafkaError] | None = None

    def next_offset(self) -> int:
        return self._count

    def size_in_bytes(self) -> int:
        return len(self._buffer)

    def is_full(self) -> bool:
        return True

    def append(self, *_args: Any, **_kwargs: Any) -> None:
        """Nothing fits in: kafka-python then opens a batch of its own."""
        return

    def compression_rate(self) -> float:
        return 1.0

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        if self._closed:
            raise KafkaInternal("producer state set on a batch that was closed", object="batch")
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self._attributes |= _TRANSACTIONAL if is_transactional else 0

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        buffer = self._buffer
        _HEADER.pack_into(
            buffer,
            0,
            0,
            len(buffer) - 12,
            -1,
            2,
            0,
            self._attributes,
            self._count - 1,
            self._first_ms,
            self._max_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self._count,
        )
        crc = crc32c.crc32c(memoryview(buffer)[_CRC_FROM:])
        struct.pack_into(">I", buffer, _CRC_AT, crc)

    def buffer(self) -> bytearray:
        return self._buffer


def tame(producer: KafkaProducer) -> None:
    """Switch off two repairs of kafka-python that are wrong for us, and mend two others.

    A batch that is too large must fail, not be taken apart record by record. And a transactional
    producer must never mend a lost epoch by taking a new one: a fenced zombie would come back to
    life, and the commit of the window that it interrupted would look like a success. Batches that
    are tried again keep their order, and one whose time is over fails with what the broker said.
    """
    producer._sender._can_split = lambda _batch, _error: False
    _retry_in_order(producer._accumulator)
    _keep_causes(producer._sender)
    if (
        producer._transaction_manager is not None
        and producer._transaction_manager.is_transactional()
    ):
        producer._transaction_manager._supports_epoch_bump = lambda: False


def _retry_in_order(accumulator: RecordAccumulator) -> None:
    """Put a batch that is tried again behind older ones of its partition.

    kafka-python puts each at the head, so several on their way to a leader that has gone would come
    back in reverse, and the new leader refuse them for their sequence numbers.
    """

    def reenqueue(batch: ProducerBatch, now: float | None = None) -> None:
        batch.retry(now=now)
        with accumulator._tp_lock(batch.topic_partition):
            line = accumulator._batches[batch.topic_partition]
            older = (one.in_retry() and one.created < batch.created for one in line)
            line.insert(sum(older), batch)

    accumulator.reenqueue = reenqueue


def _keep_causes(sender: Sender) -> None:
    """Let a batch whose time is over fail with the broker's last answer, not with the time."""
    can_retry, complete = sender._can_retry, sender._complete_batch_with_exception

    def noted(batch: ProducerBatch, error: type[ke.KafkaError]) -> bool:
        if issubclass(error, ke.BrokerResponseError):
            batch.records.refused = error
        return bool(can_retry(batch, error))

    def explained(batch: ProducerBatch, error: Any) -> None:
        if isinstance(error, ke.KafkaTimeoutError) and batch.records.refused is not None:
            error = batch.records.refused(str(error.args[0]))
        complete(batch, error)

    sender._can_retry = noted
    sender._complete_batch_with_exception = explained


def enqueue(producer: KafkaProducer, at: TopicPartition, records: ReadyRecords) -> Any:
    """Queue a batch behind those of its partition.

    Returns kafka-python's ``FutureProduceResult``; it always *succeeds*, with ``(base offset,
    time, exceptions)``, where ``exceptions`` is ``None`` or a function that gives the error.
    Raises kafka-python's errors if the producer cannot take it. The partition must be known
    (:func:`sink.kafka.clients.partitions_of`).
    """
    accumulator = producer._accumulator
    manager = producer._transaction_manager
    if manager is not None and manager.is_transactional():
        manager.maybe_add_partition_to_transaction(at)
    batch = ProducerBatch(at, records)
    with accumulator._tp_lock(at):
        if accumulator._closed:
            raise KafkaInternal("the producer is closed", object=f"{at.topic}/{at.partition}")
        accumulator._batches[at].append(batch)
        accumulator._incomplete.add(batch)
    producer._sender.wakeup()
    return batch.produce_future


def transaction_identity(producer: KafkaProducer) -> tuple[int, int]:
    """Producer id and epoch as they are now."""
    now = producer._transaction_manager.producer_id_and_epoch
    return now.producer_id, now.epoch


def transaction_holds(producer: KafkaProducer, partitions: set[TopicPartition]) -> bool:
    """Whether a transaction is open at the broker that covers all of ``partitions``."""
    manager = producer._transaction_manager
    return bool(
        manager._current_state == TransactionState.IN_TRANSACTION
        and manager._transaction_started
        and partitions <= manager._partitions_in_transaction
    )


def begin_end(producer: KafkaProducer, *, commit: bool) -> Any:
    """Start to commit or abort; the result's ``wait(timeout_ms)`` raises or tells if it is done.

    kafka-python's own ``commit_transaction`` waits for ever when the broker is gone.
    """
    manager = producer._transaction_manager
    result = manager.begin_commit() if commit else manager.begin_abort()
    producer._sender.wakeup()
    return result


def discard(producer: KafkaProducer, wait_s: float = 2.0) -> None:
    """Close a producer at once, without sending what is queued."""
    sender = producer._sender
    sender.force_close()
    sender.join(wait_s)
    producer._unregister_cleanup()
    producer._closed = True


check_client()
