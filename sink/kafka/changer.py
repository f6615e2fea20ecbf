"""Schema changes for the consumers of topics (``sink.schema_change.SchemaChanger``)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from cdc.base.errors import TransientError
from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts, physical_ms
from sink.codec.contract import MessageCodec
from sink.codec.protocols import FORMATS
from sink.contract import RECOVERY_BITS
from sink.dispatch.rules import Router
from sink.kafka.change_ledger import change_partition, change_record, read_changes
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import DDL_SLOT, KafkaDeliverer, transactional_id
from sink.kafka.ledger import Ledger, read
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.recovery import claim_epoch, fence, older_feeds
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import Topics
from sink.schema_change import Recorded, SchemaChange, TableName, proven

_log = logging.getLogger("sink.kafka")

_CLOSE_S = 1.0
_ENDED = frozenset({Recorded.DONE, Recorded.SKIPPED})


class KafkaChanger:
    """Sends each change once to every partition of the topics that it concerns.

    Messages and the record of the change are one Kafka transaction, of a producer whose
    transactional id is the changefeed's own for this. One change is sent after the other, so all
    partitions of a topic show them in the same order.

    Without ``exactly-once`` nothing is recorded: after a crash a change may be sent again.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        codec: MessageCodec[Any],
        router: Router,
        feed: FeedId,
        epoch: int,
    ) -> None:
        self._settings = settings
        self._codec = codec
        self._feed = feed
        self._epoch = epoch
        self._apart = FORMATS[settings.protocol].changes_apart
        self._router = router
        self._topics = Topics(settings)
        self._lock = threading.Lock()
        self._closed = False
        self._deliverer: KafkaDeliverer | None = None
        self._recorded: dict[Ts, Recorded] = {}
        self._positions: tuple[Position, ...] | None = None

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Write our epoch, fence the changer before us, read what it has recorded.

        A producer is opened for the first change only: most changefeeds have none for days.
        """
        with self._lock:
            self._drop()
            if self._settings.exactly_once:
                with open_admin(self._settings) as admin:
                    ensure_topic(admin, self._settings)
                    before = self._claimed(admin)
                    known = (self._feed, *older_feeds(self._feed, before))
                    fence(admin, self._settings, [transactional_id(f, DDL_SLOT) for f in known])
                    # Who has come since then has fenced nobody yet, or us.
                    self._claimed(admin)
                    self._recorded = read_changes(self._settings, self._feed, admin=admin)
            return dict(self._recorded)

    def _claimed(self, admin: Any) -> Ledger:
        """What the ledger knew before our epoch was in it; workers may have recovered in it."""
        return claim_epoch(admin, self._settings, self._feed, self._epoch, bits=RECOVERY_BITS)

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing ties messages of different tables together."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """Send it, unless it is recorded."""

        def send(deliverer: KafkaDeliverer) -> None:
            if self._recorded.get(change.ts) in _ENDED:
                return
            if proven(change, self._delivered()):
                deliverer.begin()
                self._commit(deliverer, {change.ts: Recorded.DONE})
                return
            tables, apart = self._tables(change), self._apart
            if apart and tables:
                names = [n for there in tables.values() for n in there]
                tables = {self._router.default_topic: names}
            found = self._topics.ensure(tables)
            now_ms = time.time_ns() // 1_000_000
            deliverer.begin()
            for topic, names in tables.items():
                message = self._codec.schema_change(change, names, now_ms)
                if message is None:
                    continue
                at_ms = physical_ms(change.ts)
                for partition in range(1 if apart else found[topic].partitions):
                    deliverer.send_small(topic, partition, message.value, at_ms, message.key)
            self._commit(deliverer, {change.ts: Recorded.DONE})

        self._carry_out(send)

    def skip(self, change: SchemaChange) -> None:
        """Record that it is not to be sent."""

        def record(deliverer: KafkaDeliverer) -> None:
            if self._recorded.get(change.ts) not in _ENDED:
                deliverer.begin()
                self._commit(deliverer, {change.ts: Recorded.SKIPPED})

        self._carry_out(record)

    def forget_below(self, ts: Ts) -> None:
        """Remove the records at or below ``ts``."""

        def remove(deliverer: KafkaDeliverer) -> None:
            old = [known for known in self._recorded if known <= ts]
            if old:
                deliverer.begin()
                self._commit(deliverer, dict.fromkeys(old))

        if any(known <= ts for known in tuple(self._recorded)):
            self._carry_out(remove)

    def close(self) -> None:
        """End the producer; one that is at work ends behind its change."""
        self._closed = True
        if self._lock.acquire(timeout=_CLOSE_S):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _carry_out(self, action: Callable[[KafkaDeliverer], None]) -> None:
        """Do it, a second time with a new producer if the first had become stale."""
        with self._lock:
            try:
                known = self._deliverer
                if known is not None:
                    try:
                        action(known)
                        return
                    except TransientError as e:
                        _log.info("changefeed %s: schema changes start anew: %s", self._feed, e)
                self._claim()
                assert self._deliverer is not None
                action(self._deliverer)
            except BaseException:
                self._drop()
                raise
            finally:
                if self._closed:
                    self._drop()

    def _claim(self) -> None:
        """A new producer, which fences the one before, and what the ledger holds then.

        Raises FencedEpoch if our epoch is not the ledger's any more.
        """
        self._drop()
        self._topics.refresh()
        self._deliverer = KafkaDeliverer(self._settings, self._feed, self._epoch, DDL_SLOT)
        if self._settings.exactly_once:
            self._recorded = read_changes(self._settings, self._feed)

    def _delivered(self) -> Iterable[Position]:
        """Where the partitions stood when this epoch sent its first change.

        Rows that it delivers later cannot be behind a change that is still to be sent.
        """
        if self._positions is None:
            ledger = read(self._settings, self._feed) if self._settings.exactly_once else Ledger()
            self._positions = tuple(ledger.positions.values())
        return self._positions

    def _drop(self) -> None:
        if self._deliverer is not None:
            self._deliverer.close()
            self._deliverer = None

    def _commit(self, deliverer: KafkaDeliverer, states: Mapping[Ts, Recorded | None]) -> None:
        if self._settings.exactly_once:
            records = [change_record(self._feed, ts, s, self._epoch) for ts, s in states.items()]
            deliverer.send_ledger(change_partition(self._feed), records)
        deliverer.commit({})
        for ts, state in states.items():
            if state is None:
                self._recorded.pop(ts, None)
            else:
                self._recorded[ts] = state

    def _tables(self, change: SchemaChange) -> dict[str, list[TableName]]:
        """The topics that need to know, each with the tables that are its own."""
        found: dict[str, list[TableName]] = {}
        if change.schemas:
            found[self._router.default_topic] = []
        for name in change.replicated:
            # A name that only stood in between, as in a swap, never had rows.
            if any(catalog.has_table(*name) for catalog in (change.before, change.after)):
                found.setdefault(self._router.topic(*name), []).append(name)
        if not found:
            named = {self._router.topic(*name): name for name in change.replicated}
            return {topic: [named[topic]] for topic in self._topics.present(named)}
        if change.schemas and not change.tables:
            beside = {self._router.topic(*name) for name in _inside(change)}
            for topic in sorted(self._topics.present(beside - found.keys())):
                found[topic] = []
        return found


def _inside(change: SchemaChange) -> Collection[TableName]:
    """All tables of the databases that a change is about."""
    keys = {change.before.key(schema) for schema in change.schemas}
    databases = [c.databases.get(k) for c in (change.before, change.after) for k in keys]
    return {(d.name, table) for d in databases if d is not None for table in d.tables}
