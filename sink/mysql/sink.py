"""A MySQL or MariaDB sink as the processor sees it (``sink.contract.Sink``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sink.contract import Deliverer, Layout, Routes, SinkDriver
from sink.mysql.driver import MysqlDriver
from sink.mysql.placement import BucketRoutes
from sink.mysql.settings import Atomicity, MysqlSettings
from sink.mysql.worker import MysqlWorker


class MysqlSink:
    """The two sides of a MySQL sink. Raises an ``InvalidError`` for what cannot be used."""

    def __init__(
        self, sink_uri: str, sink_config: Mapping[str, Any], *, case_sensitive: bool = False
    ) -> None:
        self._settings = MysqlSettings.parse(sink_uri, sink_config)

    @property
    def routing(self) -> tuple[object, ...]:
        """One for all: the ledger keeps the placement that its positions belong to."""
        return ("mysql",)

    @property
    def whole_transactions(self) -> bool:
        """All of an upstream transaction that a bucket gets is one transaction there."""
        return self._settings.transaction_atomicity is not Atomicity.NONE

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return MysqlDriver(self._settings)

    def deliverer(self, feed: str, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; a database knows no slots."""
        return MysqlWorker(self._settings, feed, epoch)

    def routes(self, layout: Layout) -> Routes:
        """The buckets of tables."""
        return BucketRoutes(layout)
