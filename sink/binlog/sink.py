"""A binlog sink as the processor sees it (``sink.contract.Sink``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from sink.binlog.changer import BinlogChanger
from sink.binlog.driver import BinlogDriver
from sink.binlog.ledger import StreamLedger
from sink.binlog.listening import listening
from sink.binlog.settings import BinlogSettings
from sink.binlog.streams import StreamRoutes
from sink.binlog.worker import BinlogWorker
from sink.contract import Deliverer, Layout, Routes, Service, SinkDriver
from sink.first_rows import FirstRows, appended
from sink.new_tables import NewTables, none_made
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints, none_kept


class BinlogSink:
    """The two sides of a binlog sink. Raises an ``InvalidError`` for what cannot be used."""

    whole_transactions = True
    single_stream = True
    refuses_keys = False
    tables_apart = False
    patience_s = 60.0
    snapshot_obstacle = "each transaction of a binlog has the upstream's name, and they have none"

    def __init__(
        self,
        sink_uri: str,
        sink_config: Mapping[str, Any],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        self._settings = BinlogSettings.parse(
            sink_uri, sink_config, case_sensitive=case_sensitive, merging=merging
        )

    @property
    def interval_s(self) -> float:
        """How long rows are gathered: each window costs a few syncs."""
        return self._settings.flush_interval

    @property
    def routing(self) -> tuple[object, ...]:
        """Streams, and by what rows are assigned to them."""
        settings = self._settings
        return (settings.folder, settings.name, settings.streams, settings.split)

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """It appends."""
        return appended(existing)

    def new_tables(self) -> NewTables:
        """It is no database."""
        return none_made()

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """It is no database."""
        return none_kept()

    def repeatable(self) -> BinlogSink:
        """Messages say what a row is; whether it was there before is the reader's."""
        return self

    def serve(self) -> Service | None:
        """Servers of the streams, if the sink is to listen."""
        return listening(self._settings)

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return BinlogDriver(self._settings)

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; claims the slot."""
        return BinlogWorker(self._settings, self._ledgers(feed), epoch, slot)

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """The owner's side: schema changes as statements."""
        return BinlogChanger(self._settings, self._ledgers(feed), epoch)

    def routes(self, layout: Layout) -> Routes:
        """The streams."""
        return StreamRoutes(self._settings.split, layout, self._settings.names)

    def _ledgers(self, feed: FeedId) -> list[StreamLedger]:
        folders = self._settings.shared.folders
        return [StreamLedger(folder, feed, self._settings.name) for folder in folders]
