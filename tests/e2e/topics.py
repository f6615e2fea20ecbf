"""Topics as an ordinary consumer sees them: librdkafka, read_committed unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)


@dataclass(frozen=True)
class Message:
    """One message and where it was."""

    topic: str
    partition: int
    offset: int
    key: bytes
    body: Any

    @property
    def table(self) -> str:
        """Return ``schema.table`` of a row message."""
        return f"{self.body['database']}.{self.body['table']}"


def read(
    bootstrap: str, topics: Iterable[str], *, isolation: str = "read_committed"
) -> list[Message]:
    """Return all messages of topics up to their present ends, each partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "e2e",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 2,
        }
    )
    try:
        known = consumer.list_topics(timeout=20).topics
        places = [
            TopicPartition(name, p, OFFSET_BEGINNING)
            for name in topics
            for p in (known[name].partitions if name in known else ())
        ]
        consumer.assign(places)
        out: list[Message] = []
        ended: set[tuple[str, int]] = set()
        while len(ended) < len(places):
            one = consumer.poll(20)
            assert one is not None, "the consumer got neither a message nor the end"
            error = one.error()
            if error is None:
                place = (one.topic(), one.partition(), one.offset(), one.key() or b"")
                out.append(Message(*place, json.loads(one.value() or b"null")))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add((one.topic(), one.partition()))
        return out
    finally:
        consumer.close()


def ids(messages: Iterable[Message], column: str = "id") -> list[int]:
    """Return a column of every row of the messages, in their order."""
    return [
        int(row[column])
        for m in messages
        if m.body["type"] != "TIDB_WATERMARK"
        for row in m.body["data"]
    ]


def create(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic."""
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    admin = _admin(bootstrap)
    admin.create_topics([wanted])[name].result(20)


def delete(bootstrap: str, name: str) -> None:
    """Delete a topic."""
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(20)


def configure(bootstrap: str, name: str, **config: str) -> None:
    """Set properties of a topic (``max_message_bytes`` is ``max.message.bytes``)."""
    entries = [
        ConfigEntry(k.replace("_", "."), v, incremental_operation=AlterConfigOpType.SET)
        for k, v in config.items()
    ]
    wanted = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    # The client must outlive its futures.
    admin = _admin(bootstrap)
    admin.incremental_alter_configs([wanted])[wanted].result(20)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
