"""The Kafka topics of a changefeed as a target: read to their end by an ordinary consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import TopicPartition

from cdc.base.errors import TransientError
from cdc.base.matcher import parse_matcher
from cdc.verify.delivery import DeliveryTooSlow
from cdc.verify.fold import Fold, FoldedTable
from cdc.verify.layout import TableInfo
from cdc.verify.report import Stopped
from sink.dispatch.settings import PartitionMode
from sink.kafka.clients import mapped, open_admin, open_consumer
from sink.kafka.driver import router_of
from sink.kafka.settings import KafkaSettings

_POLL_MS = 200
# A transaction whose writer died stays open for two minutes.
_SILENCE_S = 150.0


class TopicMissing(TransientError):
    """A topic of the changefeed is not there."""

    code = "TG:ErrVerifyTopicMissing"


class TopicReader:
    """A read_committed consumer without a group, over the topics of some tables."""

    def __init__(
        self,
        settings: KafkaSettings,
        first: Collection[str],
        topic: Callable[[str, str], str],
        fold: Fold,
        stop: threading.Event,
    ) -> None:
        """``first`` are the tables' topics, ``topic`` says that of one more."""
        self.fold = fold
        self._first = first
        self._topic = topic
        self._settings = settings
        self._stop = stop
        self._places: list[TopicPartition] = []
        self._open = ExitStack()
        self._consumer: Any = self._open.enter_context(open_consumer(settings, "read_committed"))
        try:
            self._admin: Any = self._open.enter_context(open_admin(settings))
        except BaseException:
            self.close()
            raise

    def snapshot(self) -> None:
        """Read what is committed by now. Raises DeliveryTooSlow if the brokers do not give it.

        A table that was renamed has its first messages in the topic of its earlier name.
        """
        with mapped(self._settings):
            if not self._places:
                # A changefeed that has just been created makes its topics when it starts.
                self._assign(self._first)
            self._read()
            while more := self._earlier():
                self._assign(more)
                self._read()

    def _earlier(self) -> set[str]:
        topics = {self._topic(*name) for name in self.fold.earlier_names}
        known = {place.topic for place in self._places}
        return {name for name in topics - known if self._consumer.partitions_for_topic(name)}

    def _assign(self, topics: Collection[str]) -> None:
        """Read these topics too, from their beginning."""
        stands = {place: self._consumer.position(place) for place in self._places}
        fresh = [p for name in sorted(topics) for p in self._partitions(name)]
        self._places += fresh
        self._consumer.assign(self._places)
        self._consumer.seek_to_beginning(*fresh)
        for place, offset in stands.items():
            self._consumer.seek(place, offset)

    def _read(self) -> None:
        # Not the last stable offset: a commit is acknowledged before the partitions show it.
        found = self._admin.list_partition_offsets(dict.fromkeys(self._places, -1))
        ends = {place: int(said.offset) for place, said in found.items()}
        last_s = time.monotonic()
        while any(self._consumer.position(p) < end for p, end in ends.items()):
            if self._stop.is_set():
                raise Stopped("the verification was stopped")
            polled = self._consumer.poll(timeout_ms=_POLL_MS)
            for place, records in polled.items():
                for record in records:
                    where = f"topic {place.topic}/{place.partition} offset {record.offset}"
                    if record.value is not None:
                        self.fold.add(place, record.value, where)
            if polled:
                last_s = time.monotonic()
            elif time.monotonic() - last_s > _SILENCE_S:
                raise DeliveryTooSlow(
                    f"the topic gave nothing for {_SILENCE_S:g} s before its end",
                    object=f"topic {self._settings.topic}",
                    hint="see whether the brokers are well, and whether a transaction is open",
                )

    def interrupt(self) -> None:
        """It looks at the stop by itself."""

    def close(self) -> None:
        """End the consumer."""
        self._open.close()

    def _partitions(self, name: str) -> list[TopicPartition]:
        numbers = self._consumer.partitions_for_topic(name)
        if not numbers:
            raise TopicMissing(
                "there is no such topic",
                object=f"topic {name}",
                hint="it is created when the changefeed first delivers",
            )
        return [TopicPartition(name, n) for n in sorted(numbers)]


def topic_of(settings: KafkaSettings, schema: str, name: str, *, case_sensitive: bool) -> str:
    """The topic of a table."""
    return router_of(settings, case_sensitive=case_sensitive).topic(schema, name)


def folded(
    settings: KafkaSettings,
    tables: Sequence[TableInfo],
    key: tuple[str, ...],
    *,
    whole: bool,
    case_sensitive: bool,
) -> tuple[FoldedTable | None, str]:
    """The empty fold of what some tables become, or why its messages cannot be folded."""
    placings = [_placing(settings, table, case_sensitive) for table in tables]
    if any(mode is PartitionMode.TS for mode, _ in placings):
        return None, "partition = ts keeps no order of a key's messages"
    if not key and not whole:
        return None, "without a key its rows can only be counted, which needs --whole"
    return FoldedTable(key, spread=any(by_other for _, by_other in placings)), ""


def _placing(
    settings: KafkaSettings, table: TableInfo, case_sensitive: bool
) -> tuple[PartitionMode, bool]:
    """How rows are placed, and whether a key can change its partition."""
    for rule in settings.dispatchers:
        matcher = parse_matcher(rule.matcher, case_sensitive=case_sensitive)
        if matcher.matches(*table.source):
            named = rule.mode is PartitionMode.INDEX_VALUE and bool(rule.index)
            return rule.mode, rule.mode is PartitionMode.COLUMNS or named
    return PartitionMode.TABLE, False
