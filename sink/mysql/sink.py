"""A MySQL or MariaDB sink as the processor sees it (``sink.contract.Sink``)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from sink.contract import Deliverer, Layout, Routes, SinkDriver
from sink.errors import SinkOptionNotSupported, SinkURIInvalid
from sink.first_rows import FirstRows
from sink.mysql.ddl.changer import MysqlChanger
from sink.mysql.ddl.new_tables import MysqlNewTables
from sink.mysql.driver import MysqlDriver
from sink.mysql.first_rows import MysqlFirstRows
from sink.mysql.placement import BucketRoutes
from sink.mysql.settings import Apply, Atomicity, MysqlSettings
from sink.mysql.sync_points import MysqlSyncPoints
from sink.mysql.worker import MysqlWorker
from sink.new_tables import NewTables
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints


class MysqlSink:
    """The two sides of a MySQL sink. Raises an ``InvalidError`` for what cannot be used."""

    interval_s = 0.0

    snapshot_obstacle = ""
    tables_apart = False

    def __init__(
        self,
        sink_uri: str,
        sink_config: Mapping[str, Any],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        self._settings = MysqlSettings.parse(
            sink_uri, sink_config, case_sensitive=case_sensitive, merging=merging
        )

    @property
    def patience_s(self) -> float:
        """How long a statement may take."""
        return min(self._settings.read_timeout, self._settings.write_timeout)

    @property
    def single_stream(self) -> bool:
        """With ``transaction-atomicity=global`` each upstream transaction is one at the target."""
        return self._settings.transaction_atomicity is Atomicity.GLOBAL

    @property
    def refuses_keys(self) -> bool:
        """A table has one row of a key, unless rows are to be replaced."""
        return not self._settings.repeatable

    @property
    def routing(self) -> tuple[object, ...]:
        """The ledger keeps the placement that its positions belong to; the names are ours."""
        names = self._settings.names
        return ("mysql", names.merging, *(r for r in self._settings.dispatchers if r.routes))

    @property
    def whole_transactions(self) -> bool:
        """All of an upstream transaction that a bucket gets is one transaction there."""
        return self._settings.transaction_atomicity is not Atomicity.NONE

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """Its tables may have rows; where they are to be replaced, that must be possible."""
        if existing is OnExisting.UPSERT:
            self.repeatable()
        return MysqlFirstRows(self._settings, existing)

    def new_tables(self) -> NewTables:
        """Its server makes them, by the words that a CREATE TABLE of the log would have there."""
        return MysqlNewTables(self._settings, self._route)

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """A table of the target has them.

        Raises SinkOptionNotSupported where workers of before may still write.
        """
        if not self._settings.exactly_once:
            raise SinkOptionNotSupported(
                "without the ledger nobody can say that no other rows are there",
                object="enable-sync-point",
                hint="set exactly-once=true, or leave sync points out",
            )
        return MysqlSyncPoints(self._settings, feed, epoch, kept_s)

    def repeatable(self) -> MysqlSink:
        """It writes SQL that replaces rows; row images could not, so they must not be asked for."""
        if self._settings.apply is Apply.ROWS:
            raise SinkURIInvalid(
                "rows that are there already cannot be replaced by row images",
                object="apply",
                hint="set apply=auto",
            )
        found = copy(self)
        found._settings = self._settings.model_copy(update={"safe_mode": True})
        return found

    def by_name(self) -> MysqlSink:
        """It names the columns that it writes; row images would put values into others' places."""
        if self._settings.apply is Apply.ROWS:
            raise SinkURIInvalid(
                "row images fit only a target that has the columns of each table of a shard group",
                object="apply",
                hint="set apply=auto, or shard-mode=pessimistic",
            )
        found = copy(self)
        found._settings = self._settings.by_name()
        return found

    def serve(self) -> None:
        """Nothing is offered beside delivery."""

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return MysqlDriver(self._settings)

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side."""
        return MysqlWorker(self._settings, feed, epoch, slot)

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """Who carries out schema changes."""
        return MysqlChanger(self._settings, feed, epoch, self._route)

    def _route(self, schema: str, table: str) -> tuple[str, str]:
        """The target's name of a table; of a database where ``table`` is empty."""
        names = self._settings.names
        if table:
            return names.target(schema, table)
        return names.target_schema(schema) if schema else "", ""

    def routes(self, layout: Layout) -> Routes:
        """The buckets of tables."""
        return BucketRoutes(layout, self._settings.names)
