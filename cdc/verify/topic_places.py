"""Partitions of Kafka that are read to what is their end at a moment, again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka import TopicPartition

from cdc.base.errors import TransientError
from cdc.verify.delivery import DeliveryTooSlow
from cdc.verify.report import Stopped
from sink.kafka.settings import KafkaSettings

Take = Callable[[TopicPartition, bytes | None, bytes, str], None]

_POLL_MS = 200
# A transaction whose writer died stays open for two minutes.
_SILENCE_S = 150.0


class TopicMissing(TransientError):
    """A topic of the changefeed is not there."""

    code = "TG:ErrVerifyTopicMissing"


class TopicPlaces:
    """Places of one ``consumer``, a read_committed one without a group; ``admin`` says their ends.

    ``stop`` ends a reading early.
    """

    def __init__(
        self, settings: KafkaSettings, consumer: Any, admin: Any, stop: threading.Event
    ) -> None:
        self._settings = settings
        self._consumer = consumer
        self._admin = admin
        self._stop = stop
        self.assigned: list[TopicPartition] = []

    def known(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions; none if there is no such topic."""
        return set(self._consumer.partitions_for_topic(topic) or ())

    def add(self, topics: Collection[str]) -> None:
        """Read all partitions of these topics too, from their beginning. Raises TopicMissing."""
        fresh = []
        for topic in sorted(topics):
            numbers = self.known(topic)
            if not numbers:
                raise TopicMissing(
                    "there is no such topic",
                    object=f"topic {topic}",
                    hint="it is created when the changefeed first delivers",
                )
            fresh += [TopicPartition(topic, n) for n in sorted(numbers)]
        self.add_places(fresh)

    def add_places(self, fresh: Collection[TopicPartition]) -> None:
        """Read these too, from their beginning."""
        stands = {place: self._consumer.position(place) for place in self.assigned}
        self.assigned += fresh
        self._consumer.assign(self.assigned)
        self._consumer.seek_to_beginning(*fresh)
        for place, offset in stands.items():
            self._consumer.seek(place, offset)

    def ends(self) -> dict[TopicPartition, int]:
        """The offset behind what is there by now, of each."""
        # Not the last stable offset: a commit is acknowledged before the partitions show it.
        found = self._admin.list_partition_offsets(dict.fromkeys(self.assigned, -1))
        return {place: int(end.offset) for place, end in found.items()}

    def read(self, ends: Mapping[TopicPartition, int], take: Take) -> None:
        """``take`` place, key, value and where it is, for people, of records below ``ends``.

        A record without a value is none. Raises Stopped, DeliveryTooSlow.
        """
        last_s = time.monotonic()
        while any(self._consumer.position(p) < end for p, end in ends.items()):
            if self._stop.is_set():
                raise Stopped("the verification was stopped")
            polled = self._consumer.poll(timeout_ms=_POLL_MS)
            for place, records in polled.items():
                for record in records:
                    if record.offset >= ends[place]:
                        # It may be behind a schema change that nobody has read yet.
                        self._consumer.seek(place, record.offset)
                        break
                    where = f"topic {place.topic}/{place.partition} offset {record.offset}"
                    if record.value is not None:
                        take(place, record.key, record.value, where)
            if polled:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > _SILENCE_S:
                raise DeliveryTooSlow(
                    f"the topic gave nothing for {_SILENCE_S:g} s before its end",
                    object=f"topic {self._settings.topic}",
                    hint="see whether the brokers are well, and whether a transaction is open",
                )
