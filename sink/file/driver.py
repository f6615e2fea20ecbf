"""The driver side of a file sink (``sink.contract.SinkDriver``)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Table
from sink.contract import Applied, Destination, Layout, Recovered
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.dispatch.target import TargetRouter
from sink.errors import LayoutOutgrown
from sink.file.errors import mapped
from sink.file.folder import admitted, writable
from sink.file.ledger import FileLedger, ledgers
from sink.file.names import folder
from sink.file.settings import FileSettings


class FileDriver:
    """Folders, recovery and routes of one changefeed's files."""

    def __init__(
        self, settings: FileSettings, *, case_sensitive: bool = False, merging: bool = False
    ) -> None:
        self._settings = settings
        self._case_sensitive = case_sensitive
        self._merging = merging

    @property
    def wants_watermarks(self) -> bool:
        """A file's name says up to where it is."""
        return False

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """The folder can be written to; every column rule fits the tables that it matches.

        Raises RouteConflict where tables of several nodes have one name and are not to be one.
        """
        columns = ColumnSelectors(
            self._settings.column_selectors, case_sensitive=self._case_sensitive
        )
        listed = list(tables)
        names = TargetRouter.of((), case_sensitive=self._case_sensitive, merging=self._merging)
        names.check((table.schema, table.name) for table in listed)
        for table in listed:
            columns.check(table, ())
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
        """Take the folder over, put what is committed in its place, remove what is not."""
        with mapped():
            ledger = FileLedger(self._settings.folder, feed)
            ledger.claim(epoch, begun=begun)
            reached = ledger.begin(epoch)
        counts = {folder(table.schema, table.name): 1 for table in tables}
        return Recovered(Layout(counts), {d: known.at for d, known in reached.items()})

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Folders go by names."""
        return False

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """Every row becomes a line."""
        return []

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """Where each table's files stand."""
        with mapped():
            found = FileLedger(self._settings.folder, feed).reached()
        return {destination: known.at for destination, known in found.items()}

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """A folder is of one changefeed: readers know tables, and not who wrote them."""
        return admitted(self._settings.folder, feed)

    def forget(self, feed: FeedId, slots: int) -> None:
        """Fence the workers of all incarnations up to this one, remove their ledgers."""
        with mapped():
            for known in ledgers(self._settings.folder):
                if known.upto(feed):
                    FileLedger(self._settings.folder, known).forget()


class FileRoutes:
    """A table's folder, for the tables of the last recovery."""

    def __init__(self, layout: Layout) -> None:
        self._folders = layout.counts

    def route(self, table: Table) -> Route:
        """The route of a table: one folder, one file after the other."""
        name = folder(table.schema, table.name)
        if name not in self._folders:
            raise LayoutOutgrown(
                "it came after the last recovery",
                object=table.full_name,
                hint="delivery recovers by itself and takes the table in",
            )
        return Route(name, PartitionMode.TABLE, (), 1, 0)
