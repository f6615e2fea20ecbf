"""The ledger topic: what each changefeed has delivered to each partition, and in which epoch.

``tidegate-ledger`` is compacted. A changefeed's records are all in one partition (CRC32 of its id),
so a compacted read from the beginning gives its whole state. Keys and values are JSON:

| key | value |
| --- | --- |
| ``["feed", 7]`` | ``{"epoch": 7}``, outside of any transaction; the largest is valid |
| ``["feed", "topic", 3]`` | ``{"ts": …, "row": …, "epoch": 7}``, in the transaction of the data |

A position may have ``"held": {"schema.table": [ts, row]}``: tables that stand lower.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka import TopicPartition
from kafka.errors import TopicAlreadyExistsError

from cdc.base.errors import InvalidError
from cdc.base.position import Position, Stand, stand
from sink.kafka.batch import ReadyRecords, discard, enqueue
from sink.kafka.clients import mapped, open_admin, open_consumer, open_producer
from sink.kafka.errors import KafkaInternal, KafkaLedgerBlocked, KafkaUnavailable, map_error
from sink.kafka.records import SmallRecord, frame
from sink.kafka.settings import KafkaSettings

LEDGER_TOPIC = "tidegate-ledger"
LEDGER_PARTITIONS = 16
_TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    # Only closed segments are compacted, and recovery reads what is not.
    "segment.bytes": str(4 * 1024 * 1024),
    "segment.ms": str(60 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}
_READ_TIMEOUT_S = 10.0
_POLL_MS = 100

Destination = tuple[str, int]


class LedgerInvalid(InvalidError):
    """The ledger topic is not one that we can rely on."""

    code = "TG:ErrKafkaLedgerInvalid"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger says of a changefeed: its epochs and how far each destination stands."""

    epochs: frozenset[int] = frozenset()
    positions: Mapping[Destination, Position] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The valid epoch, 0 if there is none."""
        return max(self.epochs, default=0)


def ledger_partition(feed: str) -> TopicPartition:
    """The partition that holds a changefeed's records."""
    return TopicPartition(LEDGER_TOPIC, zlib.crc32(feed.encode()) % LEDGER_PARTITIONS)


def epoch_records(feed: str, epoch: int, older: Iterable[int]) -> list[SmallRecord]:
    """The records that add ``epoch`` and remove older ones.

    Each epoch has its own key, so that a late record of an old epoch changes nothing.
    """
    added = SmallRecord(_json([feed, epoch]), _json({"epoch": epoch}))
    return [added, *(SmallRecord(_json([feed, old]), None) for old in older if old < epoch)]


def position_records(
    feed: str, epoch: int, positions: Mapping[Destination, Position]
) -> list[SmallRecord]:
    """The records that say how far each destination has been delivered."""
    return [
        SmallRecord(_json([feed, topic, partition]), _json(_value(at, epoch)))
        for (topic, partition), at in positions.items()
    ]


def _value(at: Position, epoch: int) -> dict[str, Any]:
    held = stand(at).to_json()
    return {"ts": at.ts, "row": at.row, "epoch": epoch} | ({"held": held} if held else {})


def ensure_topic(admin: Any, settings: KafkaSettings) -> None:
    """Create the ledger topic if it is missing, and check that it is compacted and whole."""
    described = admin.describe_topics([LEDGER_TOPIC])
    if not described or described[0].get("error_code"):
        with suppress(TopicAlreadyExistsError):
            admin.create_topics(
                {
                    LEDGER_TOPIC: {
                        "num_partitions": LEDGER_PARTITIONS,
                        "replication_factor": settings.replication_factor,
                        "configs": _TOPIC_CONFIG,
                    }
                }
            )
        admin.wait_for_topics([LEDGER_TOPIC], timeout_ms=int(settings.delivery_timeout_s * 1000))
        described = admin.describe_topics([LEDGER_TOPIC])
    partitions = len(described[0]["partitions"])
    if partitions < LEDGER_PARTITIONS:
        raise LedgerInvalid(
            f"it has {partitions} partitions, {LEDGER_PARTITIONS} are needed",
            object=f"topic {LEDGER_TOPIC}",
            hint="delete the topic while no changefeed runs; it is created again",
        )


def write_epoch(settings: KafkaSettings, feed: str, epoch: int, older: Iterable[int] = ()) -> None:
    """Add ``epoch``, durably, outside of any transaction; ``older`` ones are removed."""
    write_plain(settings, ledger_partition(feed), epoch_records(feed, epoch, older))


def forget(settings: KafkaSettings, feed: str) -> None:
    """Remove everything about a changefeed (tombstones), its epoch included.

    Fence the changefeed's slots first: a deliverer that starts later finds no epoch and stops.
    """
    ledger = read(settings, feed)
    keys: list[list[Any]] = [[feed, topic, partition] for topic, partition in ledger.positions]
    keys += [[feed, epoch] for epoch in ledger.epochs]
    if keys:
        tombstones = [SmallRecord(_json(key), None) for key in keys]
        write_plain(settings, ledger_partition(feed), tombstones)


def read(settings: KafkaSettings, feed: str, *, admin: Any = None) -> Ledger:
    """Committed state of a changefeed, up to the end of the ledger as it is now.

    The end is the high watermark, not the last stable offset: an open transaction of another
    changefeed is waited for, and :class:`KafkaLedgerBlocked` raised if it does not end. Our own
    open transactions must have been fenced before.
    """
    return fold(feed, scan(settings, ledger_partition(feed), "read_committed", admin))


def read_epochs(settings: KafkaSettings, feed: str, *, admin: Any = None) -> Ledger:
    """The epochs of a changefeed, as they are now. Waits for no transaction; no positions."""
    records = scan(settings, ledger_partition(feed), "read_uncommitted", admin)
    return Ledger(fold(feed, records).epochs)


def write_plain(settings: KafkaSettings, at: TopicPartition, records: list[SmallRecord]) -> None:
    """Write records durably, outside of any transaction."""
    now = time.time_ns() // 1_000_000
    producer = open_producer(settings.model_copy(update={"required_acks": -1}))
    try:
        with mapped(settings, f"topic {LEDGER_TOPIC}"):
            producer.partitions_for(LEDGER_TOPIC)
            future = enqueue(producer, at, ReadyRecords(frame(records), len(records), now, now, 0))
        if not future.wait(settings.delivery_timeout_s):
            raise KafkaUnavailable(
                "the ledger could not be written in time",
                object=f"topic {LEDGER_TOPIC}",
                hint="check that the brokers run and can be reached",
            )
        failure = future.value[2]
        if failure is not None:
            raise map_error(failure(0), object=f"topic {LEDGER_TOPIC}")
    finally:
        discard(producer)


def fold(feed: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> Ledger:
    """State after (key, value) pairs in log order; records of other changefeeds are passed over."""
    epochs: set[int] = set()
    positions: dict[Destination, Position] = {}
    for key_text, value_text in records:
        try:
            key = json.loads(key_text or b"null")
            value = None if value_text is None else json.loads(value_text)
            if key[0] != feed:
                continue
            if len(key) == 2:
                (epochs.discard if value is None else epochs.add)(int(key[1]))
                continue
            destination = (str(key[1]), int(key[2]))
            if value is None:
                positions.pop(destination, None)
            else:
                at = Stand.from_json(int(value["ts"]), int(value["row"]), value.get("held"))
                positions[destination] = at
        except (ValueError, TypeError, KeyError, IndexError) as e:
            raise KafkaInternal(
                f"a ledger record cannot be read: {key_text!r}", object=f"topic {LEDGER_TOPIC}"
            ) from e
    return Ledger(frozenset(epochs), positions)


def scan(
    settings: KafkaSettings, at: TopicPartition, isolation: str, admin: Any = None
) -> list[tuple[bytes | None, bytes | None]]:
    """(key, value) of a ledger partition up to its end as it is now; errors as of :func:`read`."""
    if admin is None:
        with open_admin(settings) as own:
            end = _end(own, at)
    else:
        end = _end(admin, at)
    records: list[tuple[bytes | None, bytes | None]] = []
    with open_consumer(settings, isolation) as consumer:
        consumer.assign([at])
        consumer.seek_to_beginning(at)
        deadline = time.monotonic() + _READ_TIMEOUT_S
        # Without a leader the client does not know where it stands.
        while (stands := consumer.position(at, timeout_ms=_POLL_MS)) is None or stands < end:
            found = consumer.poll(timeout_ms=_POLL_MS)
            records += [(r.key, r.value) for r in found.get(at, ())]
            if found:
                deadline = time.monotonic() + _READ_TIMEOUT_S
            elif time.monotonic() > deadline and stands is None:
                raise KafkaUnavailable(
                    "it cannot be read: nobody leads it",
                    object=f"topic {LEDGER_TOPIC}/{at.partition}",
                    hint="check that the brokers run and can be reached",
                )
            elif time.monotonic() > deadline:
                raise KafkaLedgerBlocked(
                    f"it can be read to offset {stands} of {end} only",
                    object=f"topic {LEDGER_TOPIC}/{at.partition}",
                    hint="another changefeed's transaction is open; its server should recover",
                )
    return records


def _end(admin: Any, at: TopicPartition) -> int:
    return int(admin.list_partition_offsets({at: -1})[at].offset)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
