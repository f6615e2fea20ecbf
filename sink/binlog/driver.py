"""The driver side of a binlog sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.binlog.ledger import StreamLedger
from sink.binlog.listening import access
from sink.binlog.settings import BinlogSettings
from sink.contract import Applied, Destination, Layout, Recovered
from sink.file.errors import mapped
from sink.file.folder import writable


class BinlogDriver:
    """Recovery and routes of one changefeed's streams."""

    def __init__(self, settings: BinlogSettings) -> None:
        self._settings = settings

    @property
    def wants_watermarks(self) -> bool:
        """Where a stream ends says up to where it is."""
        return False

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """The folder can be written to; no two tables get one name."""
        self._settings.names.check((table.schema, table.name) for table in tables)
        writable(self._settings.folder)
        with mapped():
            self._settings.shared.assignment()
        if self._settings.listening is not None:
            access(self._settings.listening)

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
        """Take all streams over and complete them; what is not committed goes."""
        found: dict[Destination, Position] = {}
        with mapped():
            shared, streams = self._settings.shared, self._ledgers(feed)
            shared.assignment()
            for ledger in streams:
                ledger.claim(epoch, begun=begun)
            # Whoever was taken over from meanwhile has nothing to say of the streams.
            with streams[0].holding(epoch):
                assigned = shared.claim()
            for ledger in streams:
                found |= {d: known.at for d, known in ledger.begin(epoch).items()}
                if self._settings.retention:
                    ledger.purge(self._settings.retention, ledger.tail().file)
        return Recovered(assigned.layout, found)

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Whether a table has a new name, under which workers must find its stream."""
        if self._settings.streams == 1:
            return False
        with mapped():
            return self._settings.shared.assignment().placed != layout.placed

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """Every row stays the image that it is."""
        return []

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """Where each stream stands."""
        with mapped():
            found = [ledger.reached() for ledger in self._ledgers(feed)]
        return {d: known.at for reached in found for d, known in reached.items()}

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """A folder is of one changefeed: a stream has one writer."""
        with mapped():
            return self._settings.shared.admit(feed)

    def forget(self, feed: FeedId, slots: int) -> None:
        """Fence the workers of all incarnations up to this one, remove their ledgers."""
        with mapped():
            shared = self._settings.shared
            for known in shared.known():
                if known.upto(feed):
                    for ledger in self._ledgers(known):
                        ledger.forget()
            if not shared.known():
                shared.forget()

    def _ledgers(self, feed: FeedId) -> list[StreamLedger]:
        folders = self._settings.shared.folders
        return [StreamLedger(folder, feed, self._settings.name) for folder in folders]
