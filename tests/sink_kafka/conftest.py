"""A topic of one's own on the session's broker, and an independent consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from cdc.base.ids import FeedId
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import DDL_SLOT, transactional_id
from sink.kafka.records import SmallRecord, frame
from sink.kafka.recovery import fence
from sink.kafka.settings import KafkaSettings
from tests.e2e import topics
from tests.servers import Broker

Message = tuple[bytes | None, bytes | None]


def feed_of(name: str, incarnation: int = 1, installation: str = "tests") -> FeedId:
    """A changefeed of the tests' installation."""
    return FeedId(installation, name, incarnation)


@dataclass(frozen=True)
class Lab:
    """One topic and a changefeed of the same name."""

    bootstrap: str
    topic: str
    partitions: int

    @property
    def feed(self) -> FeedId:
        return feed_of(self.topic)

    def settings(self, **options: object) -> KafkaSettings:
        pairs = {"protocol": "canal-json", "write-timeout": "10s"} | {
            k.replace("_", "-"): str(v).lower() for k, v in options.items()
        }
        query = "&".join(f"{k}={v}" for k, v in pairs.items())
        return KafkaSettings.parse(f"kafka://{self.bootstrap}/{self.topic}?{query}")

    def consume(
        self, isolation: str = "read_committed", *, unfinished: bool = False
    ) -> list[list[Message]]:
        """All messages by partition, read by librdkafka; ``unfinished``: see `topics.records`."""
        return consume(
            self.bootstrap, self.topic, self.partitions, isolation, unfinished=unfinished
        )


def consume(
    bootstrap: str, topic: str, partitions: int, isolation: str, *, unfinished: bool = False
) -> list[list[Message]]:
    out: list[list[Message]] = [[] for _ in range(partitions)]
    found = topics.records(bootstrap, [topic], isolation=isolation, unfinished=unfinished)
    for _, partition, _, key, value in found:
        out[partition].append((key, value))
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
def lab(broker: Broker, topic_prefix: str) -> Iterator[Lab]:
    made = make_lab(broker, topic_prefix)
    yield made
    end_transactions(made)


@pytest.fixture
def new_lab(broker: Broker, topic_prefix: str) -> Iterator[Callable[..., Lab]]:
    """A lab with chosen partitions and topic configuration."""
    made: list[Lab] = []

    def make(partitions: int = 2, **configs: str) -> Lab:
        made.append(make_lab(broker, topic_prefix, partitions, configs))
        return made[-1]

    yield make
    for one in made:
        end_transactions(one)


def end_transactions(lab: Lab) -> None:
    """End those that a test has left open: they hide what others write into their partitions."""
    slots = (DDL_SLOT, *range(8))
    with open_admin(lab.settings()) as admin:
        fence(admin, lab.settings(), [transactional_id(lab.feed, slot) for slot in slots])


def make_lab(
    broker: Broker, topic: str, partitions: int = 2, configs: dict[str, str] | None = None
) -> Lab:
    lab = Lab(broker.bootstrap, topic, partitions)
    dotted = {k.replace("_", "."): v for k, v in (configs or {}).items()}
    make_topic(lab.settings(), topic, partitions, dotted)
    return lab
