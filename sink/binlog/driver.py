"""The driver side of a binlog sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.binlog.ledger import StreamLedger
from sink.binlog.settings import BinlogSettings
from sink.binlog.worker import STREAM
from sink.contract import Applied, Destination, Layout, Recovered
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.file.errors import mapped
from sink.file.folder import admitted, writable
from sink.file.ledger import ledgers


class BinlogDriver:
    """Recovery and routes of one changefeed's stream."""

    def __init__(self, settings: BinlogSettings) -> None:
        self._settings = settings

    @property
    def wants_watermarks(self) -> bool:
        """Where the stream ends says up to where it is."""
        return False

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """The folder can be written to; no two tables get one name."""
        self._settings.names.check((table.schema, table.name) for table in tables)
        writable(self._settings.folder)

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
        """Take the stream over and complete it; what is not committed goes."""
        with mapped():
            ledger = self._ledger(feed)
            ledger.claim(epoch, begun=begun)
            reached = ledger.begin(epoch)
            if self._settings.retention:
                ledger.purge(self._settings.retention, ledger.tail().file)
        name, number = STREAM
        return Recovered(Layout({name: number + 1}), {d: known.at for d, known in reached.items()})

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """All tables are in the one stream."""
        return False

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """Every row stays the image that it is."""
        return []

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """Where the stream stands."""
        with mapped():
            found = self._ledger(feed).reached()
        return {destination: known.at for destination, known in found.items()}

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """A folder is of one changefeed: a stream has one writer."""
        return admitted(self._settings.folder, feed)

    def forget(self, feed: FeedId, slots: int) -> None:
        """Fence the workers of all incarnations up to this one, remove their ledgers."""
        with mapped():
            for known in ledgers(self._settings.folder):
                if known.upto(feed):
                    self._ledger(known).forget()

    def _ledger(self, feed: FeedId) -> StreamLedger:
        return StreamLedger(self._settings.folder, feed, self._settings.name)


class StreamRoutes:
    """One destination for every table."""

    def route(self, table: Table) -> Route:
        """The stream."""
        name, number = STREAM
        return Route(name, PartitionMode.TABLE, (), 1, number)
