"""Reading a partition of the ledger topic up to its end, as often as changefeeds begin.

A partition has the records of many changefeeds, of which each reads it several times as it begins.
A process remembers what a partition held, and reads on from the last record of that. Compaction
takes no state away, only records that others have replaced: so where that record is still there,
the state before it is what it was.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka import TopicPartition

from sink.kafka.clients import open_admin, open_consumer
from sink.kafka.errors import KafkaLedgerBlocked, KafkaUnavailable
from sink.kafka.settings import KafkaSettings

_READ_TIMEOUT_S = 10.0
_POLL_MS = 100
# Partitions that a process remembers: some of each cluster that it delivers to.
_REMEMBERED = 256

Pairs = list[tuple[bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class _State:
    """What a partition holds by key, up to the record ``last``: its offset, time, key and value."""

    values: dict[bytes | None, bytes]
    last: tuple[int, int, bytes | None, bytes | None]

    def with_records(self, records: Sequence[Any]) -> _State:
        values = dict(self.values)
        for record in records:
            # What comes again is behind all others, as in the log.
            values.pop(record.key, None)
            if record.value is not None:
                values[record.key] = record.value
        return _State(values, _what(records[-1]) if records else self.last)


_NOTHING = _State({}, (-1, 0, None, None))
_Place = tuple[tuple[str, ...], TopicPartition, str]
_remembered: dict[_Place, _State] = {}


def scan(settings: KafkaSettings, at: TopicPartition, isolation: str, admin: Any = None) -> Pairs:
    """(key, value) of what a ledger partition holds, up to its end as it is now.

    Raises KafkaUnavailable, and KafkaLedgerBlocked where a transaction is open below the end.
    """
    place = (settings.servers, at, isolation)
    known = _remembered.get(place, _NOTHING)
    with open_consumer(settings, isolation) as consumer:
        end = _end(settings, consumer, at, isolation, admin)
        if not -1 < known.last[0] < end:
            known = _NOTHING
        found = _records(consumer, at, known.last[0], end)
        if known is not _NOTHING and (not found or _what(found[0]) != known.last):
            # Another topic of this name, or one of which that record has been compacted.
            known = _NOTHING
            found = _records(consumer, at, -1, end)
    state = known.with_records(found)
    if place in _remembered or len(_remembered) < _REMEMBERED:
        _remembered[place] = state
    return list(state.values.items())


def _what(record: Any) -> tuple[int, int, bytes | None, bytes | None]:
    return record.offset, record.timestamp, record.key, record.value


def _records(consumer: Any, at: TopicPartition, begin: int, end: int) -> list[Any]:
    """Those from ``begin``, or from the first one, below ``end``, in log order."""
    consumer.assign([at])
    if begin < 0:
        consumer.seek_to_beginning(at)
    else:
        consumer.seek(at, begin)
    records: list[Any] = []
    deadline = time.monotonic() + _READ_TIMEOUT_S
    # Without a leader the client does not know where it stands.
    while (stands := consumer.position(at, timeout_ms=_POLL_MS)) is None or stands < end:
        polled = consumer.poll(timeout_ms=_POLL_MS)
        records += polled.get(at, ())
        if polled:
            deadline = time.monotonic() + _READ_TIMEOUT_S
        elif time.monotonic() > deadline and stands is None:
            raise KafkaUnavailable(
                "it cannot be read: nobody leads it",
                object=f"topic {at.topic}/{at.partition}",
                hint="check that the brokers run and can be reached",
            )
        elif time.monotonic() > deadline:
            raise KafkaLedgerBlocked(
                f"it can be read to offset {stands} of {end} only",
                object=f"topic {at.topic}/{at.partition}",
                hint="another changefeed's transaction is open; its server should recover",
            )
    return records


def _end(
    settings: KafkaSettings, consumer: Any, at: TopicPartition, isolation: str, admin: Any
) -> int:
    """The high watermark: a consumer of committed records would be told of their end."""
    if admin is not None:
        return int(admin.list_partition_offsets({at: -1})[at].offset)
    if isolation == "read_uncommitted":
        return int(consumer.end_offsets([at])[at])
    with open_admin(settings) as own:
        return _end(settings, consumer, at, isolation, own)
