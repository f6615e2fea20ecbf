"""A topic of one's own on the session's broker, and an independent consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from sink.kafka.clients import open_admin
from sink.kafka.records import SmallRecord, frame
from sink.kafka.settings import KafkaSettings
from tests.servers import Broker

Message = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Lab:
    """One topic and a changefeed of the same name."""

    bootstrap: str
    topic: str
    partitions: int

    @property
    def feed(self) -> str:
        return self.topic

    def settings(self, **options: object) -> KafkaSettings:
        pairs = {"protocol": "canal-json", "write-timeout": "2s"} | {
            k.replace("_", "-"): str(v).lower() for k, v in options.items()
        }
        query = "&".join(f"{k}={v}" for k, v in pairs.items())
        return KafkaSettings.parse(f"kafka://{self.bootstrap}/{self.topic}?{query}")

    def consume(self, isolation: str = "read_committed") -> list[list[Message]]:
        """All messages by partition, read by librdkafka."""
        return consume(self.bootstrap, self.topic, self.partitions, isolation)


def consume(bootstrap: str, topic: str, partitions: int, isolation: str) -> list[list[Message]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "tests",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    out: list[list[Message]] = [[] for _ in range(partitions)]
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(20)
        assert message is not None, "the consumer got neither a message nor the end"
        error = message.error()
        if error is None:
            out[message.partition()].append((message.key(), message.value()))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()
    return out


def framed(values: Iterable[bytes]) -> tuple[bytes, int]:
    """Records region and count of messages without keys."""
    records = [SmallRecord(None, v) for v in values]
    return frame(records), len(records)


def make_topic(
    settings: KafkaSettings, topic: str, partitions: int, configs: dict[str, str] | None = None
) -> None:
    with open_admin(settings) as admin:
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
        admin.create_topics({topic: options}, wait_for_metadata=True)


@pytest.fixture
def lab(broker: Broker, topic_prefix: str) -> Lab:
    return make_lab(broker, topic_prefix)


@pytest.fixture
def new_lab(broker: Broker, topic_prefix: str) -> Callable[..., Lab]:
    """A lab with chosen partitions and topic configuration."""

    def make(partitions: int = 2, **configs: str) -> Lab:
        return make_lab(broker, topic_prefix, partitions, configs)

    return make


def make_lab(
    broker: Broker, topic: str, partitions: int = 2, configs: dict[str, str] | None = None
) -> Lab:
    lab = Lab(broker.bootstrap, topic, partitions)
    dotted = {k.replace("_", "."): v for k, v in (configs or {}).items()}
    make_topic(lab.settings(), topic, partitions, dotted)
    return lab
