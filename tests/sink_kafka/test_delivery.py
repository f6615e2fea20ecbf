"""Delivery through the real broker, read by librdkafka."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConsumedPartition

from cdc.base.errors import InternalError, InvalidError
from cdc.base.position import Position
from sink.kafka.compression import Codec
from sink.kafka.deliverer import DeliverState, KafkaDeliverer
from sink.kafka.errors import KafkaTopicMissing, MessageTooLarge
from sink.kafka.ledger import read
from sink.kafka.recovery import recover
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import Topics, verify
from tests.servers import Broker
from tests.sink_kafka.conftest import Lab, framed


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("exactly_once", [True, False])
def test_every_codec_is_read_by_librdkafka(lab: Lab, codec: Codec, exactly_once: bool) -> None:
    settings = lab.settings(compression=codec.value, exactly_once=exactly_once)
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    values = [b'{"id":%d,"pad":"%s"}' % (i, b"abc" * (i % 50)) for i in range(3000)]
    deliverer.begin()
    for at in range(0, 3000, 1000):
        records, count = framed(values[at : at + 1000])
        deliverer.send(lab.topic, 1, np.frombuffer(records, np.uint8).data, count, 1, 2)
    deliverer.send_small(lab.topic, 0, b"small", 3)
    deliverer.commit({(lab.topic, 1): Position(9)})
    deliverer.close()
    assert lab.consume() == [[(None, b"small")], [(None, v) for v in values]]


def test_no_record_is_dated_into_the_future(lab: Lab) -> None:
    """Brokers of 4.0 refuse what is over an hour ahead, as a wrong clock of the upstream is."""
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    ahead = time.time_ns() // 1_000_000 + 7_200_000
    deliverer.begin()
    records, count = framed([b"a", b"b"])
    deliverer.send(lab.topic, 0, np.frombuffer(records, np.uint8).data, count, ahead, ahead + 5)
    deliverer.send_small(lab.topic, 1, b"watermark", ahead)
    deliverer.commit({})
    deliverer.close()
    assert [[v for _, v in part] for part in lab.consume()] == [[b"a", b"b"], [b"watermark"]]
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": lab.topic})
    consumer.assign([ConsumedPartition(lab.topic, p, 0) for p in range(lab.partitions)])
    try:
        dates = [consumer.poll(30).timestamp()[1] for _ in range(3)]
    finally:
        consumer.close()
    assert max(dates) < ahead - 7_000_000


def test_order_within_partitions_over_windows(lab: Lab) -> None:
    settings = lab.settings(compression="lz4")
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    sent: list[list[bytes]] = [[], []]
    for window in range(5):
        deliverer.begin()
        for i in range(20):
            at = i % 2
            # Large and small batches alternate, so that compression finishes out of order.
            values = [b"%d/%d/%d" % (window, i, k) for k in range(20_000 if i % 3 else 3)]
            records, count = framed(values)
            deliverer.send(lab.topic, at, records, count, 1, 1)
            sent[at] += values
        deliverer.commit({(lab.topic, at): Position(window + 1) for at in range(2)})
    deliverer.close()
    assert [[v for _, v in part] for part in lab.consume()] == sent


def test_an_aborted_window_is_not_seen_and_the_object_is_spent(lab: Lab) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    deliverer.begin()
    deliverer.send_small(lab.topic, 0, b"no", 1)
    deliverer.abort()
    assert deliverer.state is DeliverState.BROKEN
    with pytest.raises(InternalError):
        deliverer.begin()
    deliverer.abort()
    assert recover(settings, lab.feed, 2, 1) == {}
    assert lab.consume() == [[], []]


def test_an_empty_window_and_a_ledger_only_window(lab: Lab) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    deliverer.begin()
    deliverer.commit({})
    deliverer.begin()
    deliverer.commit({(lab.topic, 0): Position(5, 7)})
    with pytest.raises(InternalError, match="commit in state ready"):
        deliverer.commit({})
    deliverer.begin()
    with pytest.raises(InternalError, match="goes back"):
        deliverer.commit({(lab.topic, 0): Position(5, 6)})
    assert read(settings, lab.feed).positions == {(lab.topic, 0): Position(5, 7)}


def test_buffers_are_given_back(lab: Lab) -> None:
    settings = lab.settings(compression="zstd", exactly_once=False)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    given = threading.Semaphore(0)
    buffer = np.zeros(100_000, np.uint8)
    records, count = framed([b"x" * 90_000])
    buffer[: len(records)] = np.frombuffer(records, np.uint8)
    deliverer.begin()
    for _ in range(3):
        deliverer.send(lab.topic, 0, buffer[: len(records)].data, count, 1, 1, done=given.release)
        assert given.acquire(timeout=10)
    buffer[:] = 255
    deliverer.commit({})
    deliverer.close()
    assert [v for _, v in lab.consume()[0]] == [b"x" * 90_000] * 3


def test_a_message_above_the_topics_limit(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab(1, max_message_bytes="20000")
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    assert deliverer.batch_limit(lab.topic) == 20_000 - 61
    fits = os.urandom(deliverer.message_limit(lab.topic))
    deliverer.begin()
    deliverer.send_small(lab.topic, 0, fits, 1)
    deliverer.commit({(lab.topic, 0): Position(1)})
    deliverer.begin()
    deliverer.send_small(lab.topic, 0, os.urandom(20_001), 1)
    with pytest.raises(MessageTooLarge) as caught:
        deliverer.commit({(lab.topic, 0): Position(2)})
    assert lab.topic in caught.value.object
    assert recover(settings, lab.feed, 2, 1) == {(lab.topic, 0): Position(1)}
    assert lab.consume() == [[(None, fits)]]


def test_a_batch_that_the_broker_refuses(new_lab: Callable[..., Lab]) -> None:
    """The limit was lowered after we had looked: the broker's answer must not be split away."""
    lab = new_lab(1, max_message_bytes="20000")
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    deliverer._limits[lab.topic] = 1 << 20
    records, count = framed([os.urandom(1000) for _ in range(30)])
    deliverer.begin()
    deliverer.send(lab.topic, 0, records, count, 1, 1)
    with pytest.raises(MessageTooLarge):
        deliverer.commit({(lab.topic, 0): Position(1)})
    assert lab.consume() == [[]]


def test_unknown_topic_and_partition(lab: Lab) -> None:
    settings = lab.settings(exactly_once=False)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    deliverer.begin()
    with pytest.raises(KafkaTopicMissing):
        deliverer.send_small(lab.topic, 7, b"x", 1)


def test_topics_are_created_checked_and_clipped(broker: Broker, lab: Lab) -> None:
    new = lab.topic + "_new"
    found = Topics(lab.settings(partition_num=1)).ensure([lab.topic, new])
    assert {name: topic.partitions for name, topic in found.items()} == {lab.topic: 1, new: 1}
    limit = Topics(lab.settings()).ensure([lab.topic])[lab.topic].limit
    assert limit == 1_048_588
    assert Topics(lab.settings(max_message_bytes=5000)).ensure([lab.topic])[lab.topic].limit == 5000
    with pytest.raises(InvalidError, match="partition-num is 5"):
        Topics(lab.settings(partition_num=5)).ensure([lab.topic])


def test_verify_names_what_is_wrong(lab: Lab) -> None:
    verify(lab.settings())
    verify(lab.settings(), [lab.topic + "_later"])
    with pytest.raises(InvalidError) as caught:
        verify(lab.settings(auto_create_topic=False), [lab.topic + "_later"])
    assert caught.value.code == "TG:ErrKafkaTopicNotExists"
    with pytest.raises(InvalidError, match="it cannot be created") as caught:
        verify(lab.settings(replication_factor=3), [lab.topic + "_later"])
    assert caught.value.hint == "lower replication-factor"
    away = KafkaSettings.parse("kafka://127.0.0.1:1/t?protocol=canal-json&read-timeout=1s")
    with pytest.raises(Exception, match="TG:ErrKafkaUnavailable"):
        verify(away)
