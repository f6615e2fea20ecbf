"""The driver side of a Kafka sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.contract import Applied, Layout, Recovered
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.rules import Router
from sink.dispatch.settings import PartitionMode
from sink.dispatch.target import TargetRouter
from sink.kafka.change_ledger import forget_changes
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import DDL_SLOT, transactional_id
from sink.kafka.ledger import ensure_topic, forget, read
from sink.kafka.recovery import fence, recover
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import Topics, verify


class KafkaDriver:
    """Topics, recovery and routes of one changefeed's Kafka sink."""

    def __init__(self, settings: KafkaSettings, *, case_sensitive: bool = False) -> None:
        self._settings = settings
        self._case_sensitive = case_sensitive
        self._topics = Topics(settings)

    @property
    def wants_watermarks(self) -> bool:
        """Watermarks are part of TiDB's extension of canal-json."""
        return self._settings.enable_tidb_extension

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """Brokers, user, topics and ledger; every rule fits the tables that it matches."""
        listed = list(tables)
        names = self._router().topics(listed)
        router = self._router(dict.fromkeys(names, 1))
        settings = self._settings
        columns = ColumnSelectors(settings.column_selectors, case_sensitive=self._case_sensitive)
        targets = TargetRouter.of(settings.dispatchers, case_sensitive=self._case_sensitive)
        targets.check((table.schema, table.name) for table in listed)
        for table in listed:
            route = router.route(table)
            named = route.mode is PartitionMode.COLUMNS
            columns.check(table, route.columns if named else ())
        verify(self._settings, names)

    def recover(
        self,
        feed: str,
        epoch: int,
        slots: int,
        tables: Sequence[Table],
        position: Position,
        *,
        begun: bool = False,
    ) -> Recovered:
        """Create missing topics, then see :func:`sink.kafka.recovery.recover`."""
        found = self._topics.ensure(self._router().topics(tables))
        layout = Layout({name: topic.partitions for name, topic in found.items()})
        return Recovered(layout, recover(self._settings, feed, epoch, slots))

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Topics go by names; columns are looked up when rows are sent."""
        return False

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """Every row becomes a message."""
        return []

    def delivered(self, feed: str) -> Mapping[tuple[str, int], Position]:
        """Positions in the ledger, committed ones only."""
        if not self._settings.exactly_once:
            return {}
        with open_admin(self._settings) as admin:
            ensure_topic(admin, self._settings)
            return read(self._settings, feed, admin=admin).positions

    def forget(self, feed: str, slots: int) -> None:
        """Fence the changefeed's producers and remove its ledger records."""
        if not self._settings.exactly_once:
            return
        with open_admin(self._settings) as admin:
            # At least one: a new changefeed without the right to transactions is refused here.
            ids = [transactional_id(feed, slot) for slot in (DDL_SLOT, *range(max(1, slots)))]
            fence(admin, self._settings, ids)
        forget_changes(self._settings, feed)
        forget(self._settings, feed)

    def _router(self, partitions: Mapping[str, int] | None = None) -> Router:
        return router_of(self._settings, partitions, case_sensitive=self._case_sensitive)


def router_of(
    settings: KafkaSettings,
    partitions: Mapping[str, int] | None = None,
    *,
    case_sensitive: bool = False,
) -> Router:
    """The compiled dispatchers of a sink."""
    return Router(settings.dispatchers, settings.topic, partitions, case_sensitive=case_sensitive)
