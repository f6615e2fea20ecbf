"""Topics as an ordinary consumer sees them: librdkafka, read_committed unless told otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
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


Place = tuple[str, int]


def read(
    bootstrap: str, topics: Iterable[str], *, isolation: str = "read_committed"
) -> list[Message]:
    """Return all messages of topics up to their present ends, each partition in order."""
    found = records(bootstrap, topics, isolation=isolation)
    return [
        Message(*place, key or b"", json.loads(value or b"null")) for *place, key, value in found
    ]


def records(
    bootstrap: str,
    topics: Iterable[str],
    *,
    isolation: str = "read_committed",
    unfinished: bool = False,
) -> list[tuple[str, int, int, bytes | None, bytes | None]]:
    """Return topic, partition, offset, key and value of what topics hold up to their ends.

    The broker confirms a commit before its partitions show it: a consumer of committed messages
    may meet an end below what was committed. So it reads up to the end for everybody, which no
    transaction may hide for good; with ``unfinished`` one does, and it stops where it begins.
    Under load a consumer need not meet an end ever: what lies behind those of the begin ends it.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "e2e", "log_level": 2}
    settings |= {"enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": True}
    consumer = Consumer({**settings, "isolation.level": isolation})
    try:
        known = consumer.list_topics(timeout=20).topics
        places = [(n, p) for n in topics if n in known for p in known[n].partitions]
        ends = {} if unfinished else _ends(bootstrap, places)
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        out = []
        ended: set[Place] = set()
        while len(ended) < len(places):
            one = consumer.poll(20)
            assert one is not None, f"neither a message nor the end, but for {ended} of {ends}"
            error = one.error()
            place = (one.topic(), one.partition())
            behind = place in ends and one.offset() >= ends[place]
            if error is None:
                if not behind:
                    out.append((*place, one.offset(), one.key(), one.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                behind = behind or place not in ends
            if behind:
                ended.add(place)
        return out
    finally:
        consumer.close()


def _ends(bootstrap: str, places: Iterable[Place]) -> dict[Place, int]:
    """Return the ends of partitions, open transactions included."""
    asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    if not asked:
        return {}
    admin = _admin(bootstrap)
    found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_UNCOMMITTED)
    return {(at.topic, at.partition): one.result(60).offset for at, one in found.items()}


def named(bootstrap: str, prefix: str) -> list[str]:
    """Return the topics whose names begin so."""
    return [n for n in _admin(bootstrap).list_topics(timeout=20).topics if n.startswith(prefix)]


def ids(messages: Iterable[Message], column: str = "id") -> list[int]:
    """Return a column of every row of the messages, in their order."""
    return [
        int(row[column])
        for m in messages
        if m.body["type"] != "TIDB_WATERMARK" and not m.body["isDdl"]
        for row in m.body["data"]
    ]


def create(
    bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic."""
    wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    admin = _admin(bootstrap)
    admin.create_topics([wanted])[name].result(60)


def delete(bootstrap: str, name: str) -> None:
    """Delete a topic."""
    admin = _admin(bootstrap)
    admin.delete_topics([name])[name].result(60)


def configure(bootstrap: str, name: str, **config: str) -> None:
    """Set properties of a topic (``max_message_bytes`` is ``max.message.bytes``)."""
    entries = [
        ConfigEntry(k.replace("_", "."), v, incremental_operation=AlterConfigOpType.SET)
        for k, v in config.items()
    ]
    wanted = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    # The client must outlive its futures.
    admin = _admin(bootstrap)
    admin.incremental_alter_configs([wanted])[wanted].result(60)


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
