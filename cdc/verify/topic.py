"""The Kafka topics of a changefeed as a target: read to their end by an ordinary consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Any

from kafka import TopicPartition

from cdc.base.matcher import parse_matcher
from cdc.verify.fold import Fold, FoldedTable
from cdc.verify.layout import TableInfo
from cdc.verify.topic_places import TopicPlaces
from sink.dispatch.settings import PartitionMode
from sink.kafka.clients import mapped, open_admin, open_consumer
from sink.kafka.driver import router_of
from sink.kafka.settings import KafkaSettings


class TopicReader:
    """Read_committed consumers without a group, over the topics of some tables.

    Where schema changes are told apart from rows, another consumer reads them before and behind
    each look at the rows' ends: so those are known that any of these rows is behind.
    """

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
        self._open = ExitStack()
        try:
            admin: Any = self._open.enter_context(open_admin(settings))

            def places() -> TopicPlaces:
                consumer = self._open.enter_context(open_consumer(settings, "read_committed"))
                return TopicPlaces(settings, consumer, admin, stop)

            self._rows = places()
            self._changes = places() if fold.topic_form.changes_apart else None
        except BaseException:
            self.close()
            raise

    def snapshot(self) -> None:
        """Read what is committed by now. Raises DeliveryTooSlow if the brokers do not give it.

        A table that was renamed has its first messages in the topic of its earlier name.
        """
        with mapped(self._settings):
            if not self._rows.assigned:
                # A changefeed that has just been created makes its topics when it starts.
                self._rows.add(self._first)
            self._read()
            while more := self._earlier():
                self._rows.add(more)
                self._read()

    def _earlier(self) -> set[str]:
        topics = {self._topic(*name) for name in self.fold.earlier_names}
        known = {place.topic for place in self._rows.assigned}
        return {name for name in topics - known if self._rows.known(name)}

    def _read(self) -> None:
        """Read rows to what are their ends now, and the schema changes that concern them.

        One that is known before the ends are looked at is behind all rows below them that it
        concerns; one that is told since counts where a row shows that it is behind it.
        """
        self._read_changes()
        known = self.fold.told_apart
        ends = self._rows.ends()
        self._read_changes()
        self._rows.read(ends, self.fold.add)
        self.fold.settle(known, self._rows.assigned)

    def _read_changes(self) -> None:
        """Schema changes that are told apart are in the first partition of the sink's topic."""
        changes = self._changes
        if changes is None:
            return
        if not changes.assigned:
            if not changes.known(self._settings.topic):
                # It is made for the first of them.
                return
            changes.add_places([TopicPartition(self._settings.topic, 0)])
        changes.read(changes.ends(), lambda _, *record: self.fold.add_change(*record))

    def interrupt(self) -> None:
        """It looks at the stop by itself."""

    def close(self) -> None:
        """End the consumers."""
        self._open.close()


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
    if not key and not settings.debezium_output_old_value:
        return None, "without a key and old values its rows cannot be counted"
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
