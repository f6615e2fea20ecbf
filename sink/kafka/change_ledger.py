"""What the ledger topic says of a changefeed's schema changes.

| key | value |
| --- | --- |
| ``[["feed", "ddl"], ts]`` | ``{"state": "done", "epoch": 7}``, in the messages' transaction |

A first member that is no text cannot be taken for a changefeed's id, so readers of positions pass
these records over. They lie in another partition than the changefeed's positions: what a worker
that died left open there must not hide what the owner asks for first.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

from kafka import TopicPartition

from cdc.base.ts import Ts
from sink.kafka.errors import KafkaInternal
from sink.kafka.ledger import LEDGER_PARTITIONS, LEDGER_TOPIC, scan, write_plain
from sink.kafka.records import SmallRecord
from sink.kafka.settings import KafkaSettings
from sink.schema_change import Recorded


def change_partition(feed: str) -> TopicPartition:
    """The partition that holds the records of a changefeed's schema changes."""
    number = zlib.crc32(feed.encode()) + LEDGER_PARTITIONS // 2
    return TopicPartition(LEDGER_TOPIC, number % LEDGER_PARTITIONS)


def change_record(feed: str, ts: Ts, state: Recorded | None, epoch: int) -> SmallRecord:
    """What is recorded of one change; without a state it is forgotten."""
    if state is None:
        return SmallRecord(_key(feed, ts), None)
    return SmallRecord(_key(feed, ts), json.dumps({"state": state, "epoch": epoch}).encode())


def read_changes(settings: KafkaSettings, feed: str, *, admin: Any = None) -> dict[Ts, Recorded]:
    """All that is committed. The producer of the changefeed's changes must have been fenced.

    Raises what :func:`sink.kafka.ledger.read` raises.
    """
    return fold(feed, scan(settings, change_partition(feed), "read_committed", admin))


def forget_changes(settings: KafkaSettings, feed: str, *, admin: Any = None) -> None:
    """Remove all of them; fence their producer first."""
    found = read_changes(settings, feed, admin=admin)
    if found:
        tombstones = [change_record(feed, ts, None, 0) for ts in found]
        write_plain(settings, change_partition(feed), tombstones)


def fold(feed: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[Ts, Recorded]:
    """State after (key, value) pairs in log order; other records are passed over."""
    found: dict[Ts, Recorded] = {}
    for key_text, value_text in records:
        try:
            key = json.loads(key_text or b"null")
            if key[0] != [feed, "ddl"]:
                continue
            if value_text is None:
                found.pop(int(key[1]), None)
            else:
                found[int(key[1])] = Recorded(json.loads(value_text)["state"])
        except (ValueError, TypeError, KeyError, IndexError) as e:
            raise KafkaInternal(
                f"a ledger record cannot be read: {key_text!r}", object=f"topic {LEDGER_TOPIC}"
            ) from e
    return found


def _key(feed: str, ts: Ts) -> bytes:
    return json.dumps([[feed, "ddl"], ts], separators=(",", ":"), ensure_ascii=False).encode()
