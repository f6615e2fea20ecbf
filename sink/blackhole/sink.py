"""``blackhole://``: rows are read, encoded if a protocol is named, counted, and dropped.

To see what a log and a configuration give without a target, and what delivering costs without
sending. There is no ledger: a changefeed that starts again goes on from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.coord.snapshot_config import OnExisting
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from cdc.schema.table import Table
from sink.blackhole.settings import BlackholeSettings
from sink.codec.contract import EncodeLimits, Framing, MessageCodec
from sink.codec.protocols import FORMATS
from sink.contract import (
    Applied,
    Deliverer,
    Destination,
    Entry,
    Layout,
    Recovered,
    Routes,
    Sent,
    SinkDriver,
)
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.rules import Route, table_hash
from sink.dispatch.settings import PartitionMode
from sink.first_rows import FirstRows, appended
from sink.new_tables import NewTables, none_made
from sink.schema_change import Recorded, SchemaChange, SchemaChanger
from sink.sync_points import SyncPoints, none_kept

_NAME = "blackhole"
# Tables spread over so many destinations, so that all cores have some.
_NUMBERS = 64
_LIMITS: Final = EncodeLimits(4_000_000, 1 << 30)


class BlackholeSink:
    """The sides of it. Raises an ``InvalidError`` for what cannot be used."""

    whole_transactions = False
    single_stream = False
    refuses_keys = False
    tables_apart = True
    patience_s = 60.0
    snapshot_obstacle = ""
    interval_s = 0.0
    routing: tuple[object, ...] = (_NAME,)

    def __init__(
        self,
        sink_uri: str,
        sink_config: Mapping[str, Any],
        *,
        case_sensitive: bool = False,
        merging: bool = False,
    ) -> None:
        self._settings = BlackholeSettings.parse(sink_uri, sink_config)
        self._case_sensitive = case_sensitive
        self._merging = merging

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """It appends."""
        return appended(existing)

    def new_tables(self) -> NewTables:
        """It is no database."""
        return none_made()

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """It is no database."""
        return none_kept()

    def repeatable(self) -> BlackholeSink:
        """Messages say what a row is; whether it was there before is the reader's."""
        return self

    def serve(self) -> None:
        """Nothing is offered beside delivery."""

    def driver(self) -> SinkDriver:
        """The capture's side."""
        return BlackholeDriver(self._settings, case_sensitive=self._case_sensitive)

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side."""
        settings = self._settings
        return BlackholeWorker(
            FORMATS[settings.protocol].codec(settings, self._case_sensitive, self._merging)
        )

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """The owner's side."""
        return BlackholeChanger()

    def routes(self, layout: Layout) -> Routes:
        """A table goes by its name."""
        return BlackholeRoutes()


class BlackholeDriver:
    """The capture's side (``sink.contract.SinkDriver``): nothing is kept, so nothing is found."""

    wants_watermarks = False

    def __init__(self, settings: BlackholeSettings, *, case_sensitive: bool) -> None:
        self._columns = ColumnSelectors(settings.column_selectors, case_sensitive=case_sensitive)

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """Every column rule fits the tables that it matches."""
        for table in tables:
            self._columns.check(table, ())

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
        """Nobody is fenced: what an older worker drops is dropped."""
        return Recovered(Layout({_NAME: _NUMBERS}), {}, recorded=False)

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Tables go by names."""
        return False

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """There is but one way."""
        return []

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """There is no ledger."""
        return {}

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """There is no ledger."""
        return ()

    def forget(self, feed: FeedId, slots: int) -> None:
        """There is no ledger."""


class BlackholeWorker:
    """The worker's side (``sink.contract.Deliverer``)."""

    def __init__(self, codec: MessageCodec[Any]) -> None:
        self._codec = codec
        self._plan = codec.no_tables
        self._rows = self._bytes = 0

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """Plans of the format."""
        self._plan = self._codec.plan(entries, self._plan if more else self._codec.no_tables)
        plans: PlanSet = self._plan.plans
        return plans

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Start to count."""
        self._rows = self._bytes = 0
        return {}

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Encode and count."""
        for batch in self._codec.encode(
            located,
            self._plan,
            order,
            time.time_ns() // 1_000_000,
            limits=_LIMITS,
            framing=Framing.RECORDS,
            buffer=None,
        ):
            self._rows += batch.rows
            self._bytes += batch.data.nbytes

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """Dropped."""

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """What was dropped."""
        return Sent(self._rows, self._bytes)

    def abort(self) -> None:
        """Nothing is held."""


class BlackholeRoutes:
    """A table's number."""

    def route(self, table: Table) -> Route:
        """By its name."""
        number = table_hash(table.schema, table.name) % _NUMBERS
        return Route(_NAME, PartitionMode.TABLE, (), _NUMBERS, number)


class BlackholeChanger:
    """The owner's side (``sink.schema_change.SchemaChanger``): changes pass, and leave nothing."""

    def take_over(self) -> Mapping[Ts, Recorded]:
        """Nothing is recorded."""
        return {}

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing ties tables together."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """Dropped."""

    def skip(self, change: SchemaChange) -> None:
        """Dropped."""

    def forget_below(self, ts: Ts) -> None:
        """Nothing is recorded."""

    def close(self) -> None:
        """Nothing is held."""
