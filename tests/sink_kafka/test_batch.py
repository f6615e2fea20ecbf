"""The contract with kafka-python's insides, and batches read by a decoder of another make."""

from __future__ import annotations

import itertools
import random

import kafka
import pytest
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.record_accumulator import RecordAccumulator
from kafka.record.default_records import DefaultRecordBatch

from sink.kafka import batch
from sink.kafka.compression import Codec, compress
from sink.kafka.errors import KafkaClientVersion
from sink.kafka.records import SmallRecord, frame, varint


def test_the_installed_client_is_the_one_we_know() -> None:
    batch.check_client()


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "__version__", "4.0.0")
    with pytest.raises(KafkaClientVersion, match=r"4\.0\.0"):
        batch.check_client()


def test_changed_insides_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(RecordAccumulator, "deallocate")
    with pytest.raises(KafkaClientVersion, match="deallocate"):
        batch.check_client()


def test_ready_records_answer_all_that_a_builder_answers() -> None:
    asked = {"next_offset", "size_in_bytes", "is_full", "set_producer_state", "close", "buffer"}
    asked |= {"append", "compression_rate", "producer_id", "producer_epoch", "base_sequence"}
    ready = batch.ReadyRecords(b"", 0, 0, 0, 0)
    assert all(hasattr(ready, name) for name in asked)
    assert ProducerBatch(("t", 0), ready).record_count == 0


# kafka-python reads snappy only with a library that we do not need; librdkafka reads it below.
@pytest.mark.parametrize("codec", [c for c in Codec if c is not Codec.SNAPPY])
@pytest.mark.parametrize("size", [1, 100, 70_000, 200_000])
def test_codecs_read_back_by_kafka_python(codec: Codec, size: int) -> None:
    rng = random.Random(size)
    values = [rng.randbytes(size // 2) + b"x" * (size - size // 2) for _ in range(3)]
    records = frame([SmallRecord(b"k", v) for v in values])
    body = compress(codec, memoryview(records))
    ready = batch.ReadyRecords(body, 3, 1_000, 1_000, codec.attribute)
    ready.set_producer_state(7, 1, 5, True)
    ready.close()
    read = DefaultRecordBatch(bytes(ready.buffer()))
    assert read.validate_crc()
    assert read.is_transactional
    assert (read.producer_id, read.base_sequence) == (7, 5)
    assert [(r.key, r.value, r.timestamp) for r in read] == [(b"k", v, 1_000) for v in values]


def _accumulator() -> tuple[RecordAccumulator, list[ProducerBatch]]:
    """A tamed producer's queue, and three batches that were on their way."""
    queue = RecordAccumulator()
    batch._retry_in_order(queue)
    at = kafka.TopicPartition("t", 0)
    ready = [batch.ReadyRecords(b"", 1, 0, 0, 0) for _ in range(4)]
    sent = [ProducerBatch(at, records, now=float(n)) for n, records in enumerate(ready)]
    queue._batches[at].append(sent.pop())
    return queue, sent


@pytest.mark.parametrize("failed", list(itertools.permutations(range(3))))
def test_batches_that_are_tried_again_keep_their_order(failed: tuple[int, ...]) -> None:
    queue, sent = _accumulator()
    for n in failed:
        queue.reenqueue(sent[n])
    (line,) = queue._batches.values()
    assert [one.created for one in line] == [0, 1, 2, 3]


def test_varint_edges() -> None:
    assert varint(0) == b"\x00"
    assert varint(-1) == b"\x01"
    assert varint(64) == b"\x80\x01"
    assert len(varint((1 << 63) - 1)) == 10
