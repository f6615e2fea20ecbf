"""A Kafka sink as the processor sees it (``sink.contract.Sink``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc.base.ids import FeedId
from cdc.coord.snapshot_config import OnExisting
from sink.codec.contract import MessageCodec
from sink.codec.protocols import FORMATS
from sink.contract import Deliverer, Layout, Routes, SinkDriver
from sink.dispatch.rules import Router
from sink.first_rows import FirstRows, appended
from sink.kafka.changer import KafkaChanger
from sink.kafka.deliverer import KafkaDeliverer
from sink.kafka.driver import KafkaDriver, router_of
from sink.kafka.settings import KafkaSettings
from sink.kafka.worker import KafkaWorker
from sink.new_tables import NewTables, none_made
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints, none_kept


class KafkaSink:
    """The two sides of a Kafka sink. Raises an ``InvalidError`` for what cannot be used."""

    whole_transactions = False
    interval_s = 0.0

    snapshot_obstacle = ""
    refuses_keys = False
    tables_apart = False

    def __init__(
        self,
        sink_uri: str,
        sink_config: Mapping[str, Any],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        self._settings = KafkaSettings.parse(sink_uri, sink_config)
        self._case_sensitive = case_sensitive
        self._merging = merging

    @property
    def patience_s(self) -> float:
        """How long a request may take."""
        return self._settings.write_timeout

    @property
    def single_stream(self) -> bool:
        """Messages of tables are apart."""
        return False

    @property
    def routing(self) -> tuple[object, ...]:
        """What decides which partition a row goes to."""
        settings = self._settings
        return (
            settings.topic,
            settings.partition_num,
            settings.dispatchers,
            self._case_sensitive,
            self._merging,
        )

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """It appends."""
        return appended(existing)

    def new_tables(self) -> NewTables:
        """It is no database."""
        return none_made()

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """It is no database."""
        return none_kept()

    def repeatable(self) -> KafkaSink:
        """Messages say what a row is; whether it was there before is the reader's."""
        return self

    def serve(self) -> None:
        """Nothing is offered beside delivery."""

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return KafkaDriver(
            self._settings, case_sensitive=self._case_sensitive, merging=self._merging
        )

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; claims the slot."""
        return KafkaWorker(KafkaDeliverer(self._settings, feed, epoch, slot), self._codec())

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """The owner's side: schema changes as messages."""
        return KafkaChanger(self._settings, self._codec(), self._router(), feed, epoch)

    def routes(self, layout: Layout) -> Routes:
        """Topics and partition rules."""
        return self._router(layout.counts)

    def _router(self, partitions: Mapping[str, int] | None = None) -> Router:
        return router_of(
            self._settings,
            partitions,
            case_sensitive=self._case_sensitive,
            merging=self._merging,
        )

    def _codec(self) -> MessageCodec[Any]:
        settings = self._settings
        return FORMATS[settings.protocol].codec(settings, self._case_sensitive, self._merging)
