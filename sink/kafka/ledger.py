"""The ledger topic: what each changefeed has delivered to each partition, and in which epoch.

``tidegate-ledger`` is compacted. The records of all changefeeds of one name are in one partition
(CRC32 of the name), so a compacted read from the beginning gives their whole state. Keys and values
are JSON. A key begins with a word, then says whose it is (``cdc.base.ids.FeedId``: installation,
name, incarnation), then what it is about:

| key | value |
| --- | --- |
| ``["epoch", "5f1c…", "feed", 1, 7]`` | ``{"epoch": 7, "slots": 8, "delivers": true}``, outside |
|  | of any transaction; the largest incarnation's largest is valid |
| ``["position", "5f1c…", "feed", 1, "topic", 3]`` | ``{"ts": …, "row": …, "epoch": 7}``, in the |
|  | transaction of the data |
| ``["partitions", "5f1c…", "feed", 1, "topic", 7]`` | ``{"count": 3}``, outside of any |
|  | transaction: over how many the rows of positions went since epoch 7; the largest is valid |

A position may have ``"held": {"schema.table": [ts, row]}``, tables that stand lower, and in it
``"transactions": {"<ts>": [ts, source, number, file]}``, what the upstream calls the transactions
there (``cdc.base.position.TransactionName``); of shards with a cut behind it, ``[[source, number,
statement], …]``. Words that are not known are passed over.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka import TopicPartition

from cdc.base.errors import InvalidError
from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand, stand
from sink.kafka.batch import ReadyRecords, enqueue
from sink.kafka.clients import mapped, partitions_of, plain_producer
from sink.kafka.errors import KafkaInternal, KafkaUnavailable, map_error
from sink.kafka.ledger_scan import scan
from sink.kafka.records import SmallRecord, frame
from sink.kafka.settings import KafkaSettings

LEDGER_TOPIC = "tidegate-ledger"
LEDGER_PARTITIONS = 16
_EPOCH = "epoch"
_POSITION = "position"
_PARTITIONS = "partitions"

Destination = tuple[str, int]


class LedgerInvalid(InvalidError):
    """The ledger topic is not one that we can rely on."""

    code = "TG:ErrKafkaLedgerInvalid"


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the ledger says of a changefeed: its epochs and how far each destination stands.

    ``counts``: by (topic, epoch), over how many partitions rows were spread since then.
    ``newest`` is the valid (incarnation, epoch) among all incarnations, (0, 0) if there is none;
    ``older`` are incarnations before ours of which there is something. ``delivers``: rows of ours
    were taken over once, not only schema changes. ``slots``: transactional ids that were in use.
    """

    newest: tuple[int, int] = (0, 0)
    epochs: frozenset[int] = frozenset()
    older: frozenset[int] = frozenset()
    slots: int = 0
    delivers: bool = False
    positions: Mapping[Destination, Position] = field(default_factory=dict)
    counts: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @property
    def partitions(self) -> dict[str, int]:
        """By topic, over how many partitions the rows went that positions speak of."""
        return {topic: count for (topic, _), count in sorted(self.counts.items())}

    def over(self, found: Mapping[str, int], here: Stand) -> dict[str, int]:
        """Over how many partitions rows go, by topic, where the brokers have ``found`` so many.

        A topic keeps its number while a destination of it is ahead of ``here``: with another, rows
        that one has would be another's, which does not know that they came.
        """
        ahead = {t for (t, _), at in self.positions.items() if not stand(at).within(here)}
        kept = self.partitions
        return {t: kept.get(t, count) if t in ahead else count for t, count in found.items()}

    @property
    def epoch(self) -> int:
        """Our incarnation's epoch, 0 if there is none."""
        return max(self.epochs, default=0)


def ledger_partition(feed: FeedId) -> TopicPartition:
    """The partition that holds a changefeed's records, and those of all others of its name."""
    return TopicPartition(LEDGER_TOPIC, zlib.crc32(feed.name.encode()) % LEDGER_PARTITIONS)


def epoch_records(
    feed: FeedId, epoch: int, older: Iterable[int], slots: int = 0, *, delivers: bool = False
) -> list[SmallRecord]:
    """The records that add ``epoch`` and remove older ones.

    Each epoch has its own key, so that a late record of an old epoch changes nothing.
    """
    value = json_of({"epoch": epoch, "slots": slots, "delivers": delivers})
    gone = [SmallRecord(key_of(_EPOCH, feed, old), None) for old in older if old < epoch]
    return [SmallRecord(key_of(_EPOCH, feed, epoch), value), *gone]


def position_records(
    feed: FeedId, epoch: int, positions: Mapping[Destination, Position]
) -> list[SmallRecord]:
    """The records that say how far each destination has been delivered."""
    return [
        SmallRecord(key_of(_POSITION, feed, topic, partition), json_of(_value(at, epoch)))
        for (topic, partition), at in positions.items()
    ]


def partition_records(
    feed: FeedId, epoch: int, counts: Mapping[str, int], known: Iterable[tuple[str, int]]
) -> list[SmallRecord]:
    """The records that say over how many partitions rows go, and remove those ``known`` before.

    Each epoch has its own key, so that a late record of an old epoch changes nothing.
    """
    added = [
        SmallRecord(key_of(_PARTITIONS, feed, topic, epoch), json_of({"count": count}))
        for topic, count in counts.items()
    ]
    gone = [(topic, old) for topic, old in known if topic in counts and old < epoch]
    return [*added, *(SmallRecord(key_of(_PARTITIONS, feed, *one), None) for one in gone)]


def _value(at: Position, epoch: int) -> dict[str, Any]:
    held = stand(at).to_json()
    return {"ts": at.ts, "row": at.row, "epoch": epoch} | ({"held": held} if held else {})


def write_epoch(
    settings: KafkaSettings,
    feed: FeedId,
    epoch: int,
    older: Iterable[int] = (),
    slots: int = 0,
    *,
    delivers: bool = False,
) -> None:
    """Add ``epoch``, durably, outside of any transaction; ``older`` ones are removed."""
    records = epoch_records(feed, epoch, older, slots, delivers=delivers)
    write_plain(settings, ledger_partition(feed), records)


def forget(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> None:
    """Remove everything about a changefeed's incarnations up to this one (tombstones), epochs too.

    Fence their slots first: a deliverer that starts later finds no epoch and stops.
    """
    at = ledger_partition(feed)
    found = live(feed.name, scan(settings, at, "read_committed", admin))
    tombstones = [SmallRecord(json_of(e.key), None) for e in found if e.feed.upto(feed)]
    if tombstones:
        write_plain(settings, at, tombstones)


def read(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> Ledger:
    """Committed state of a changefeed, up to the end of the ledger as it is now.

    The end is the high watermark, not the last stable offset: an open transaction of another
    changefeed is waited for, and :class:`KafkaLedgerBlocked` raised if it does not end. Our own
    open transactions must have been fenced before.
    """
    return fold(feed, scan(settings, ledger_partition(feed), "read_committed", admin))


def read_epochs(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> Ledger:
    """The epochs of a changefeed, as they are now. Waits for no transaction; no positions."""
    records = scan(settings, ledger_partition(feed), "read_uncommitted", admin)
    return replace(fold(feed, records), positions={})


def feeds(settings: KafkaSettings, feed: FeedId, *, admin: Any = None) -> frozenset[FeedId]:
    """All changefeeds of this one's name that have entries here, of any installation.

    Waits for no transaction: each has written its epoch before any.
    """
    records = scan(settings, ledger_partition(feed), "read_uncommitted", admin)
    return frozenset(e.feed for e in live(feed.name, records))


def write_plain(settings: KafkaSettings, at: TopicPartition, records: list[SmallRecord]) -> None:
    """Write records durably, outside of any transaction."""
    now = time.time_ns() // 1_000_000
    with plain_producer(settings) as producer:
        with mapped(settings, f"topic {LEDGER_TOPIC}"):
            partitions_of(producer, LEDGER_TOPIC)
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


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One record as it stands: its whole key, whose it is, what it is about, and what it says."""

    key: tuple[Any, ...]
    feed: FeedId
    about: tuple[Any, ...]
    value: Any

    @property
    def word(self) -> str:
        """What kind of record it is."""
        return str(self.key[0])


def live(name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[LedgerEntry]:
    """What (key, value) pairs in log order leave of changefeeds of a name, of any installation.

    Raises :class:`LedgerInvalid` if an earlier version has left something of this name.
    """
    found: dict[bytes, bytes] = {}
    for key_text, value_text in records:
        if value_text is None:
            found.pop(key_text or b"", None)
        else:
            found[key_text or b""] = value_text
    entries = []
    for key_text, value_text in found.items():
        try:
            key = json.loads(key_text or b"null")
            if len(key) <= 3 and key[0] in (name, [name, "ddl"]):
                raise _of_before(name)
            if len(key) <= 3 or key[2] != name:
                continue
            feed = FeedId(str(key[1]), str(key[2]), int(key[3]))
            entries.append(LedgerEntry(tuple(key), feed, tuple(key[4:]), json.loads(value_text)))
        except (ValueError, TypeError, KeyError, IndexError) as e:
            raise _unreadable(key_text) from e
    return entries


def fold(feed: FeedId, records: Iterable[tuple[bytes | None, bytes | None]]) -> Ledger:
    """State after (key, value) pairs in log order; records of other changefeeds are passed over."""
    epochs: dict[tuple[int, int], int] = {}
    delivers = False
    older: set[int] = set()
    positions: dict[Destination, Position] = {}
    counts: dict[tuple[str, int], int] = {}
    for entry in live(feed.name, records):
        number = entry.feed.incarnation
        if entry.feed.installation != feed.installation:
            continue
        if number < feed.incarnation:
            older.add(number)
        try:
            if entry.word == _EPOCH:
                epochs[number, int(entry.about[0])] = int(entry.value["slots"])
                ours = number == feed.incarnation
                delivers = delivers or (ours and bool(entry.value.get("delivers")))
            elif entry.word == _POSITION and entry.feed == feed:
                value = entry.value
                at = Stand.from_json(int(value["ts"]), int(value["row"]), value.get("held"))
                positions[str(entry.about[0]), int(entry.about[1])] = at
            elif entry.word == _PARTITIONS and entry.feed == feed:
                counts[str(entry.about[0]), int(entry.about[1])] = int(entry.value["count"])
        except (ValueError, TypeError, KeyError, IndexError) as e:
            raise _unreadable(json_of(entry.key)) from e
    return Ledger(
        newest=max(epochs, default=(0, 0)),
        epochs=frozenset(epoch for n, epoch in epochs if n == feed.incarnation),
        older=frozenset(older),
        slots=max(epochs.values(), default=0),
        delivers=delivers,
        positions=positions,
        counts=counts,
    )


def _of_before(name: str) -> LedgerInvalid:
    return LedgerInvalid(
        f"an earlier version has written records of a changefeed {name}, which do not say whose"
        " they are",
        object=f"topic {LEDGER_TOPIC}",
        hint="choose another id; or delete the topic while no changefeed runs, it is created again",
    )


def _unreadable(key: bytes) -> KafkaInternal:
    return KafkaInternal(f"a ledger record cannot be read: {key!r}", object=f"topic {LEDGER_TOPIC}")


def key_of(word: str, feed: FeedId, *about: Any) -> bytes:
    """The key of a record; ``word`` says of what kind it is."""
    return json_of([word, *feed.key, *about])


def json_of(value: Any) -> bytes:
    """The one text that a value has as a key."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
