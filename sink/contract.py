"""What a processor needs of any sink; the sinks' own words stay behind it.

A sink has two sides. The **driver** side lives in the capture: it verifies, makes destinations and
recovers. The **worker** side lives in a Spark Python worker: it encodes and delivers windows. They
share only the ledger, which the sink keeps where the data is.

A destination is what must stay in order: ``(name, number)``, for Kafka topic and partition, for a
database its bucket.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.coord.snapshot_config import OnExisting
from cdc.rows.batch import Order, RowBatch
from cdc.rows.plan import Matrix, PlanSet
from cdc.rows.route import Route as CodecRoute
from cdc.schema.table import Table
from sink.dispatch.rules import Route
from sink.first_rows import FirstRows
from sink.new_tables import NewTables
from sink.schema_change import SchemaChanger
from sink.sync_points import SyncPoints

RECOVERY_BITS = 16
"""An epoch of a ledger is the owner's, shifted by so many bits, and a count of recoveries in it."""

Destination = tuple[str, int]
Entry = tuple[Table, TableMap, CodecRoute]
"""One delivered table of the log."""


@dataclass(frozen=True)
class Layout:
    """Where rows may go, from one recovery to the next; workers are sent it.

    ``counts``: how many numbers each name has. ``placed`` is the sink's own word on single
    tables (``schema.table``).
    """

    counts: Mapping[str, int]
    placed: Mapping[str, int] = field(default_factory=dict)

    def destinations(self) -> tuple[Destination, ...]:
        """Every destination, by name and number."""
        return tuple((name, n) for name in sorted(self.counts) for n in range(self.counts[name]))


@dataclass(frozen=True)
class Recovered:
    """What a recovery found: how far each destination stands, ``{}`` without a ledger.

    ``kept``: the layout is an older one, which holds until all destinations stand at one position;
    then recover once more. ``parted`` are tables (lower-case ``schema.table``) that it sets apart
    though they must not be any more: of these only rows that a destination may have go by it.
    ``recorded``: there is a ledger.
    """

    layout: Layout
    positions: Mapping[Destination, Position]
    kept: bool = False
    parted: frozenset[str] = frozenset()
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows of a window and the bytes that they took, before any compression.

    ``sent_bytes``: what went to the sink, compressed if it was; ``requests``: in so many batches of
    records, statements or files.
    """

    rows: int
    bytes: int
    sent_bytes: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """How a sink takes the rows of a table (``schema.table``), and why so."""

    table: str
    method: str
    reason: str


class Routes(Protocol):
    """Which destinations a table's rows go to."""

    def route(self, table: Table) -> Route:
        """The route of a table; definite or transient errors say why there is none."""


class SinkDriver(Protocol):
    """Driver side, one for each changefeed and recovery."""

    @property
    def wants_watermarks(self) -> bool:
        """Whether destinations are told how far they are complete."""

    def verify(self, tables: Iterable[Table], *, mariadb: bool) -> None:
        """Check, without delivering, that all that these tables need is there and allowed.

        ``mariadb``: whether the upstream is one. Raises one error, with one hint, for the first
        thing that is missing.
        """

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
        """Make destinations for ``tables``, fence every earlier worker, read what is delivered.

        All up to ``position`` (a ``Stand``, where single tables stand lower) is known to be
        delivered; ``begun``: that is more than nothing, so a ledger must be there. A running
        changefeed takes a new, larger epoch for each recovery. What older incarnations have left is
        fenced and forgotten.
        """

    def outgrown(self, layout: Layout, tables: Iterable[Table]) -> bool:
        """Whether rows of one of these tables, whose schema has changed, belong elsewhere now.

        Then recover. Tables that the layout does not know are none of its business; none are read
        where the schema does not matter.
        """

    def applied(
        self, tables: Iterable[tuple[Table, TableMap | None]], *, mariadb: bool
    ) -> list[Applied]:
        """How rows of each table are taken, for people; ``[]`` where there is but one way.

        A table comes with its TABLE_MAP if its rows were seen. ``mariadb``: whether the upstream is
        one.
        """

    def delivered(self, feed: FeedId, *, wait: bool = True) -> Mapping[Destination, Position]:
        """What the ledger says, without taking the changefeed over. ``{}`` without a ledger.

        ``wait`` for what is just being committed; else only for a moment, as whoever commits may
        be frozen: then a position may go up behind this.
        """

    def admit(self, feed: FeedId) -> Collection[FeedId]:
        """Check that a changefeed may keep a ledger here; all of its name that have one already.

        These may be of other installations, and older incarnations. Nothing of theirs is changed.
        ``()`` without a ledger. Raises what ``verify`` raises.
        """

    def forget(self, feed: FeedId, slots: int) -> None:
        """Fence the workers of the changefeed's incarnations up to this one, clear their ledger."""


class Deliverer(Protocol):
    """Worker side: ``plan`` when tables are new; ``begin``, ``deliver`` …, ``commit``, and again.

    Any error ends the object. Not thread-safe.
    """

    def plan(self, entries: Sequence[Entry], *, mariadb: bool, more: bool = False) -> PlanSet:
        """How rows of these tables are read; the index in ``entries`` is the plan index of runs.

        With ``more`` they come behind those that are planned already, which stay as they are;
        without it all others are forgotten. ``mariadb``: whether the upstream is one. Not while a
        window is open. After an error only a call without ``more`` is allowed.
        """

    def begin(
        self, destinations: Collection[Destination], at_once: int | None = None
    ) -> Mapping[Destination, Position]:
        """Start a window; for destinations whose ledger it has read, what is delivered.

        ``at_once``: no more bytes are to be on their way at a time, as more was too much for the
        sink; None leaves it to the deliverer.
        """

    def deliver(
        self, located: RowBatch, runs: Matrix, order: Order, destination: Destination
    ) -> None:
        """Take ``located.refs[order]`` (in commit order, not empty) for one destination.

        ``runs`` are those that ``located`` was made of. May return before they have arrived; waits
        while too much is on its way.
        """

    def watermark(self, destination: Destination, ts: Ts, now_ms: int) -> None:
        """Tell a destination that everything at or below ``ts`` has been sent."""

    def commit(self, ledger: Mapping[Destination, Position]) -> Sent:
        """Make all since ``begin`` durable, atomically with the new positions of each destination.

        Returns when it is; several destinations need not do so in one step.
        """

    def abort(self) -> None:
        """Give the window up and end the object."""


class Service(Protocol):
    """What a capture offers of a sink beside delivery."""

    def close(self) -> None:
        """End it."""


class Sink(Protocol):
    """A configured sink, as its URI and ``sink`` section describe it."""

    @property
    def routing(self) -> tuple[object, ...]:
        """What decides which destination a row goes to; equal values send it to the same one."""

    @property
    def patience_s(self) -> float:
        """How long it waits for an answer: what failed sooner did not fail for being slow."""

    @property
    def interval_s(self) -> float:
        """How long rows are gathered into a window where all were delivered; 0: they are not."""

    @property
    def whole_transactions(self) -> bool:
        """Whether a window must not end inside of a transaction."""

    @property
    def single_stream(self) -> bool:
        """Whether all tables are one stream, so that none may run apart from the others."""

    @property
    def tables_apart(self) -> bool:
        """Whether tables that have one name at the target stay apart there nevertheless."""

    @property
    def snapshot_obstacle(self) -> str:
        """Why it cannot take rows that were there before; "" if it can."""

    def first_rows(self, existing: OnExisting | None) -> FirstRows:
        """What is seen to before the rows that a changefeed begins with.

        Raises an ``InvalidError`` if it cannot deal so with rows that are there; None: as it would.
        """

    def new_tables(self) -> NewTables:
        """Who makes tables that it does not have. Raises SinkOptionNotSupported if nobody can."""

    def sync_points(self, feed: FeedId, epoch: int, kept_s: float) -> SyncPoints:
        """Who writes down sync points, each kept so long.

        Raises SinkOptionNotSupported if nobody can.
        """

    def repeatable(self) -> Sink:
        """The same, for windows with inserts of rows that may be there already.

        Raises an ``InvalidError`` if it is configured so that it cannot be.
        """

    @property
    def refuses_keys(self) -> bool:
        """Whether a row of a key that is there already is an error, but not as ``repeatable``."""

    def serve(self) -> Service | None:
        """Begin what is offered where the changefeed runs, and as long; None if that is nothing.

        Raises a transient error while it cannot begin.
        """

    def driver(self) -> SinkDriver:
        """The capture's side."""

    def deliverer(self, feed: FeedId, epoch: int, slot: int) -> Deliverer:
        """A Spark worker's side; claims the slot."""

    def routes(self, layout: Layout) -> Routes:
        """Where tables go under a layout."""

    def changer(self, feed: FeedId, epoch: int) -> SchemaChanger:
        """Who carries out schema changes; connects when it is first asked."""
