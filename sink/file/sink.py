"""A file sink as the processor sees it (``sink.contract.Sink``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from sink.codec.contract import MessageCodec
from sink.codec.protocols import FORMATS
from sink.contract import Deliverer, Layout, Routes, SinkDriver
from sink.file.changer import FileChanger
from sink.file.driver import FileDriver, FileRoutes
from sink.file.ledger import FileLedger
from sink.file.settings import FileSettings
from sink.file.worker import FileWorker
from sink.first_rows import FirstRows, appended
from sink.new_tables import NewTables, none_made
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints, none_kept


class FileSink:
    """The two sides of a file sink. Raises an ``InvalidError`` for what cannot be used."""

    whole_transactions = False
    single_stream = False
    refuses_keys = False
    tables_apart = True
    patience_s = 60.0
    snapshot_obstacle = ""

    def __init__(
        self,
        sink_uri: str,
        sink_config: Mapping[str, Any],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        self._settings = FileSettings.parse(sink_uri, sink_config)
        self._case_sensitive = case_sensitive
        self._merging = merging

    @property
    def interval_s(self) -> float:
        """How long rows are gathered, as each window makes files."""
        return self._settings.flush_interval

    @property
    def routing(self) -> tuple[object, ...]:
        """A table's folder goes by its name."""
        return (self._settings.folder,)

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """It appends."""
        return appended(existing)

    def new_tables(self) -> NewTables:
        """It is no database."""
        return none_made()

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """It is no database."""
        return none_kept()

    def repeatable(self) -> FileSink:
        """Messages say what a row is; whether it was there before is the reader's."""
        return self

    def serve(self) -> None:
        """Nothing is offered beside delivery."""

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return FileDriver(
            self._settings, case_sensitive=self._case_sensitive, merging=self._merging
        )

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; claims the slot."""
        return FileWorker(self._settings, self._codec(), self._ledger(feed), epoch, slot)

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """The owner's side: schema changes as messages."""
        return FileChanger(self._codec(), self._ledger(feed), epoch)

    def routes(self, layout: Layout) -> Routes:
        """Folders."""
        return FileRoutes(layout)

    def _ledger(self, feed: FeedId) -> FileLedger:
        return FileLedger(self._settings.folder, feed)

    def _codec(self) -> MessageCodec[Any]:
        settings = self._settings
        return FORMATS[settings.protocol].codec(settings, self._case_sensitive, self._merging)
