"""The driver side of a Kafka sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cdc.base.ids import FeedId
from cdc.base.position import Position, stand
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.codec.given import given_of
from sink.codec.protocols import FORMATS
from sink.contract import Applied, Layout, Recovered
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.rules import Router
from sink.dispatch.settings import PartitionMode
from sink.dispatch.target import TargetRouter
from sink.kafka.change_ledger import forget_changes
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import DDL_SLOT, transactional_id
from sink.kafka.ledger import Ledger, feeds, forget, read, read_epochs
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.recovery import fence, older_feeds, recover
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import Topics, verify


class KafkaDriver:
    """Topics, recovery and routes of one changefeed's Kafka sink."""

    def __init__(
        self, settings: KafkaSettings, *, case_sensitive: bool = False, merging: bool = False
    ) -> None:
        self._settings = settings
        self._case_sensitive = case_sensitive
        self._merging = merging
        self._topics = Topics(settings)

    @property
    def wants_watermarks(self) -> bool:
        """Whether the format has them under the sink's options."""
        return FORMATS[self._settings.protocol].watermarks(self._settings)

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """Brokers, user, topics and ledger; every rule fits the tables that it matches."""
        listed = list(tables)
        names = self._router().topics(listed)
        router = self._router(dict.fromkeys(names, 1))
        settings = self._settings
        columns = ColumnSelectors(settings.column_selectors, case_sensitive=self._case_sensitive)
        targets = TargetRouter.of(
            settings.dispatchers, case_sensitive=self._case_sensitive, merging=self._merging
        )
        targets.check((table.schema, table.name) for table in listed)
        for table in listed:
            given_of(table, settings.dispatchers, targets)
            route = router.route(table)
            named = route.mode is PartitionMode.COLUMNS
            columns.check(table, route.columns if named else ())
        verify(self._settings, names)

    def recover(
        self,
        feed: FeedId,
        epoch: int,
        slots: int,
        tables: Sequence[Table],
        position: Position,
        *,
        begun: bool = False,
    ) -> Recovered:
        """Create missing topics, then see :func:`sink.kafka.recovery.recover`.

        A topic that has got partitions uses them when none of its destinations is ahead of
        ``position`` any more.
        """
        found = self._topics.ensure(self._router().topics(tables))
        counts = wanted = {name: topic.partitions for name, topic in found.items()}

        def choose(known: Ledger) -> Mapping[str, int]:
            nonlocal counts
            counts = known.over(wanted, stand(position))
            return counts

        positions = recover(self._settings, feed, epoch, slots, choose, begun=begun)
        recorded = self._settings.exactly_once
        return Recovered(Layout(counts), positions, kept=counts != wanted, recorded=recorded)

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Topics go by names; columns are looked up when rows are sent."""
        return False

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """Every row becomes a message."""
        return []

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[tuple[str, int], Position]:
        """Positions in the ledger, committed ones only."""
        if not self._settings.exactly_once:
            return {}
        with open_admin(self._settings) as admin:
            ensure_topic(admin, self._settings)
            return read(self._settings, feed, admin=admin).positions

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """The ledger topic, and the right to transactions, which only its use shows."""
        if not self._settings.exactly_once:
            return ()
        with open_admin(self._settings) as admin:
            ensure_topic(admin, self._settings)
            # No changefeed has this incarnation, so nobody is fenced.
            fence(admin, self._settings, [transactional_id(replace(feed, incarnation=0), 0)])
            return feeds(self._settings, feed, admin=admin)

    def forget(self, feed: FeedId, slots: int) -> None:
        """Fence the producers of all incarnations up to this one, remove their ledger records."""
        if not self._settings.exactly_once:
            return
        with open_admin(self._settings) as admin:
            known = read_epochs(self._settings, feed, admin=admin)
            numbers = (DDL_SLOT, *range(max(slots, known.slots)))
            ours = (feed, *older_feeds(feed, known))
            fence(admin, self._settings, [transactional_id(f, n) for f in ours for n in numbers])
            forget_changes(self._settings, feed, admin=admin)
            forget(self._settings, feed, admin=admin)

    def _router(self, partitions: Mapping[str, int] | None = None) -> Router:
        return router_of(
            self._settings,
            partitions,
            case_sensitive=self._case_sensitive,
            merging=self._merging,
        )


def router_of(
    settings: KafkaSettings,
    partitions: Mapping[str, int] | None = None,
    *,
    case_sensitive: bool = False,
    merging: bool = False,
) -> Router:
    """The compiled dispatchers of a sink."""
    return Router(
        settings.dispatchers,
        settings.topic,
        partitions,
        case_sensitive=case_sensitive,
        merging=merging,
    )
