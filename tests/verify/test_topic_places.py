"""What is read of a topic's partitions, and what is left for the next time."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition

from cdc.verify.topic_places import TopicMissing, TopicPlaces
from sink.kafka.clients import open_admin, open_consumer
from sink.kafka.settings import KafkaSettings
from tests.e2e import topics
from tests.servers import Broker

pytestmark = pytest.mark.real


def test_what_comes_behind_the_ends_is_left_for_the_next_time(
    broker: Broker, fresh_name: str
) -> None:
    topics.create(broker.bootstrap, fresh_name, 2)
    settings = KafkaSettings.parse(f"kafka://{broker.bootstrap}/{fresh_name}?protocol=canal-json")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})

    def send(*values: int) -> None:
        for value in values:
            producer.produce(fresh_name, str(value).encode(), key=b"k", partition=value % 2)
        assert producer.flush(30) == 0

    found: dict[int, list[int]] = {0: [], 1: []}

    def take(place: TopicPartition, key: bytes | None, value: bytes, where: str) -> None:
        assert (key, where.startswith(f"topic {fresh_name}/{place.partition}")) == (b"k", True)
        found[place.partition].append(int(value))

    with open_admin(settings) as admin, open_consumer(settings, "read_committed") as consumer:
        places = TopicPlaces(settings, consumer, admin, threading.Event())
        with pytest.raises(TopicMissing):
            places.add(["none"])
        places.add([fresh_name])
        send(0, 1, 2, 3)
        ends = places.ends()
        send(*range(4, 100))
        places.read(ends, take)
        assert found == {0: [0, 2], 1: [1, 3]}
        places.read(places.ends(), take)
    assert found == {n: list(range(n, 100, 2)) for n in (0, 1)}
