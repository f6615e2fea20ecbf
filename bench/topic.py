"""The end of a topic as a read_committed consumer sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.servers.broker import Broker

# Each look takes some milliseconds of the cores that are measured: one percent of the time at most.
_LEAST_POLL_S, _MOST_POLL_S, _POLL_SHARE = 0.01, 0.1, 0.01
_QUIET_S = 1.0


class Stalled(Exception):
    """Nothing more arrives although messages are missing."""


class End:
    """Last stable offsets of a topic's partitions, summed up."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self._config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "auto.offset.reset": "earliest",
            "fetch.max.bytes": 64 << 20,
            "max.partition.fetch.bytes": 16 << 20,
        }
        self._consumer = Consumer(self._config)
        metadata = self._consumer.list_topics(topic, timeout=10).topics[topic]
        self.partitions = sorted(metadata.partitions)
        if not self.partitions:
            # A broker names an unknown topic too, with nothing in it.
            self._consumer.close()
            raise KeyError(topic)

    @staticmethod
    def create_topic(broker: Broker, topic: str, partitions: int) -> None:
        """Create a topic with the broker's defaults."""
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(30)

    def offsets(self) -> list[int]:
        """Last stable offset of each partition."""
        found = []
        for p in self.partitions:
            at = TopicPartition(self.topic, p)
            found.append(int(self._consumer.get_watermark_offsets(at, timeout=10)[1]))
        return found

    def wait(
        self, start: list[int], count: int, check: Callable[[], None], stall_s: float = 60
    ) -> tuple[float, int]:
        """Wait for ``count`` messages behind ``start``.

        Returns ``time.monotonic()`` when the last of them became readable, and how many there
        are. Offsets count commit markers too, so messages are counted by consuming them, once
        the offsets have gone ``count`` further and stood still for a second. ``check`` is called
        now and then. Raises :class:`Stalled`.
        """
        begin = sum(start)
        last, changed = begin, time.monotonic()
        checked = began = changed
        while True:
            now = sum(self.offsets())
            at = time.monotonic()
            if now != last:
                last, changed = now, at
            elif last - begin >= count and at - changed > _QUIET_S:
                found = self.count(start)
                if found >= count:
                    return changed, found
            if at - changed > stall_s:
                raise Stalled(f"{self.topic}: {last - begin} of {count} messages and markers")
            if at - checked > 5:
                check()
                checked = at
            time.sleep(min(max(_LEAST_POLL_S, _POLL_SHARE * (at - began)), _MOST_POLL_S))

    def count(self, start: list[int]) -> int:
        """Messages between ``start`` and the end that a read_committed consumer gets."""
        ends = self.offsets()
        total = 0
        consumer = Consumer(self._config | {"enable.partition.eof": False})
        try:
            consumer.assign(
                [
                    TopicPartition(self.topic, p, s)
                    for p, s in zip(self.partitions, start, strict=True)
                ]
            )
            quiet = 0
            while quiet < 3:
                messages = consumer.consume(20_000, timeout=0.5)
                total += sum(1 for m in messages if m.error() is None)
                done = all(
                    at.offset >= end
                    for at, end in zip(
                        consumer.position([TopicPartition(self.topic, p) for p in self.partitions]),
                        ends,
                        strict=True,
                    )
                )
                quiet = quiet + 1 if not messages else 0
                if done and not messages:
                    break
        finally:
            consumer.close()
        return total

    def sample(self, count: int, start: list[int]) -> list[bytes]:
        """Values of some messages."""
        consumer = Consumer(self._config)
        try:
            consumer.assign([TopicPartition(self.topic, self.partitions[0], start[0])])
            values: list[bytes] = []
            while len(values) < count:
                values += [m.value() for m in consumer.consume(count, timeout=5)]
            return values[:count]
        finally:
            consumer.close()

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()
