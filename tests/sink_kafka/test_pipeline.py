"""The pipeline alone: order, bounds and errors, against a queue that acknowledges when told."""

from __future__ import annotations

import os
import threading
import time

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.producer.future import FutureProduceResult

from cdc.base.errors import TransientError
from sink.kafka.batch import ReadyRecords
from sink.kafka.compression import Codec
from sink.kafka.errors import KafkaUnavailable, MessageTooLarge
from sink.kafka.pipeline import Pipeline
from tests.waiting import PATIENCE

AT = TopicPartition("t", 0)


class Held:
    """Takes batches; ``release`` acknowledges the oldest."""

    def __init__(self) -> None:
        self.queued: list[tuple[ReadyRecords, FutureProduceResult]] = []

    def __call__(self, at: TopicPartition, records: ReadyRecords) -> FutureProduceResult:
        future = FutureProduceResult(at)
        self.queued.append((records, future))
        return future

    def release(self, error: Exception | None = None) -> None:
        _, future = self.queued.pop(0)
        future.success((0, -1, None if error is None else lambda _: error))


def known(held: Held, **how: int) -> Pipeline:
    """A pipeline whose partition has taken a batch."""
    pipeline = Pipeline(held, **how)
    submit(pipeline, b"first")
    held.release()
    return pipeline


def submit(pipeline: Pipeline, data: bytes, timeout_s: float = 5, limit: int = 1 << 24) -> None:
    pipeline.submit(AT, data, 1, 0, 0, codec=Codec.ZSTD, limit=limit, timeout_s=timeout_s)


def eventually(condition: object) -> None:
    deadline = time.monotonic() + 5 * PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_order_holds_whatever_compresses_faster() -> None:
    held = Held()
    pipeline = known(held, max_batches=100, threads=4)
    counts = []
    for i in range(40):
        data = bytes(1_000_000 if i % 2 else 20_000)
        pipeline.submit(AT, data, i + 1, 0, 0, codec=Codec.GZIP, limit=1 << 24, timeout_s=5)
    eventually(lambda: len(held.queued) == 40)
    counts = [records.next_offset() for records, _ in held.queued]
    assert counts == list(range(1, 41))
    pipeline.close()


@pytest.mark.parametrize(("size", "fits"), [(1_000, 8), (12 << 20, 2)])
def test_backpressure_by_batches_and_by_bytes(size: int, fits: int) -> None:
    held = Held()
    pipeline = known(held, max_batches=8, max_bytes=32 << 20)
    done = []
    feeder = threading.Thread(
        target=lambda: [(submit(pipeline, bytes(size)), done.append(1)) for _ in range(fits + 1)]
    )
    feeder.start()
    eventually(lambda: len(held.queued) == fits)
    time.sleep(0.1)
    assert len(done) == fits
    assert pipeline.in_flight == (fits, fits * size)
    held.release()
    feeder.join(5)
    assert len(done) == fits + 1
    pipeline.close()


def test_a_batch_above_the_bound_passes_alone() -> None:
    held = Held()
    pipeline = Pipeline(held, max_bytes=1000)
    submit(pipeline, bytes(50_000))
    eventually(lambda: held.queued)
    held.release()
    pipeline.drain(5)
    pipeline.close()


def test_a_partition_takes_one_batch_before_the_others() -> None:
    """A leader without a sequence to compare with might refuse the first and take the second."""
    held = Held()
    pipeline = Pipeline(held)
    for count in (1, 2, 3):
        pipeline.submit(AT, b"x", count, 0, 0, codec=Codec.NONE, limit=1 << 20, timeout_s=5)
    other = TopicPartition("t", 1)
    pipeline.submit(other, b"x", 9, 0, 0, codec=Codec.NONE, limit=1 << 20, timeout_s=5)
    assert [records.next_offset() for records, _ in held.queued] == [1, 9]
    held.release()
    assert [records.next_offset() for records, _ in held.queued] == [9, 2, 3]
    for _ in range(3):
        held.release()
    pipeline.drain(5)
    pipeline.close()


def test_first_error_is_raised_by_drain_and_submit() -> None:
    held = Held()
    pipeline = Pipeline(held)
    submit(pipeline, b"a")
    submit(pipeline, b"b")
    held.release(KafkaTimeoutError("gone"))
    with pytest.raises(KafkaUnavailable, match="gone"):
        pipeline.drain(5)
    with pytest.raises(TransientError):
        submit(pipeline, b"c")
    pipeline.close()


def test_silence_is_an_error_in_time() -> None:
    pipeline = Pipeline(Held())
    submit(pipeline, b"a")
    with pytest.raises(KafkaUnavailable):
        pipeline.drain(0.6)
    pipeline.close()


def test_too_large_after_compression() -> None:
    pipeline = Pipeline(Held())
    submit(pipeline, bytes(100_000), limit=1_000)
    submit(pipeline, os.urandom(2_000), limit=1_000)
    with pytest.raises(MessageTooLarge, match="1000"):
        pipeline.drain(5)
    pipeline.close()
