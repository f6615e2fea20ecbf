"""What the ledger topic says of a changefeed's schema changes.

| key | value |
| --- | --- |
| ``["change", "5f1c…", "feed", 1, ts]`` | ``{"state": "done", "epoch": 7}``, in the messages' |
|  | transaction |

They lie in another partition than the changefeed's positions: what a worker that died left open
there must not hide what the owner asks for first.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

from kafka import TopicPartition

from cdc.base.ids import FeedId
from cdc.base.ts import Ts
from sink.kafka.errors import KafkaInternal
from sink.kafka.ledger import (
    LEDGER_PARTITIONS,
    LEDGER_TOPIC,
    LedgerEntry,
    json_of,
    key_of,
    live,
    write_plain,
)
from sink.kafka.ledger_scan import scan
from sink.kafka.records import SmallRecord
from sink.kafka.settings import KafkaSettings
from sink.schema_change import Recorded

_CHANGE = "change"


def change_partition(feed: FeedId) -> TopicPartition:
    """The partition that holds the records of a changefeed's schema changes."""
    number = zlib.crc32(feed.name.encode()) + LEDGER_PARTITIONS // 2
    return TopicPartition(LEDGER_TOPIC, number % LEDGER_PARTITIONS)


def change_record(feed: FeedId, ts: Ts, state: Recorded | None, epoch: int) -> SmallRecord:
    """What is recorded of one change; without a state it is forgotten."""
    value = None if state is None else json_of({"state": state, "epoch": epoch})
    return SmallRecord(key_of(_CHANGE, feed, ts), value)


def read_changes(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> dict[Ts, Recorded]:
    """All that is committed; what older incarnations have left is removed.

    The producers of their changes, and of ours, must have been fenced. Raises what
    :func:`sink.kafka.ledger.read` raises.
    """
    at = change_partition(feed)
    records = scan(settings, at, "read_committed", admin)
    older = [e for e in _changes(feed, records) if e.feed.upto(feed) and e.feed != feed]
    _remove(settings, at, older)
    return fold(feed, records)


def forget_changes(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> None:
    """Remove all of the changefeed's incarnations up to this one; fence their producers first."""
    at = change_partition(feed)
    found = _changes(feed, scan(settings, at, "read_committed", admin))
    _remove(settings, at, [e for e in found if e.feed.upto(feed)])


def _remove(settings: KafkaSettings, at: TopicPartition, entries: list[LedgerEntry]) -> None:
    if entries:
        write_plain(settings, at, [SmallRecord(json_of(e.key), None) for e in entries])


def fold(feed: FeedId, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[Ts, Recorded]:
    """State after (key, value) pairs in log order; other records are passed over."""
    try:
        return {
            int(e.about[0]): Recorded(e.value["state"])
            for e in _changes(feed, records)
            if e.feed == feed
        }
    except (ValueError, TypeError, KeyError, IndexError) as e:
        raise KafkaInternal(
            f"a record of a schema change cannot be read: {e}", object=f"topic {LEDGER_TOPIC}"
        ) from e


def _changes(
    feed: FeedId, records: Iterable[tuple[bytes | None, bytes | None]]
) -> list[LedgerEntry]:
    return [e for e in live(feed.name, records) if e.word == _CHANGE]
