"""Which tables of a log a changefeed delivers, with their schema and their destinations.

A table id of the log is a table name with one TABLE_MAP; which version of the table's schema its
rows have is decided by their ts. A window never crosses a schema change of a table (the owner's
barriers see to that), so each table has one version in it; this is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from cdc.base.collector import collection_paused
from cdc.base.errors import DefiniteError, InternalError, TransientError
from cdc.base.position import Position
from cdc.base.ts import MAX_TS, Ts
from cdc.binlog.table_map import TableMap
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.tables import TableEntry
from cdc.coord.feed_config import FeedConfig
from cdc.schema.catalog import Catalog as Schemas
from cdc.schema.session import Session
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.source.statements import History
from filter.rules import TableRules
from sink.codec.plan import planned
from sink.codec.route import Route as CodecRoute
from sink.codec.route import RouteMode
from sink.contract import Destination, Layout, Routes
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.errors import LayoutOutgrown


class TableNotInSchema(DefiniteError):
    """Rows of a table that the tracked schema does not know."""

    code = "TG:ErrTableNotInSchema"


class SchemaChangeCrossed(InternalError):
    """A window holds rows of a table from both sides of a schema change."""

    code = "TG:ErrSchemaChangeCrossed"


class TableNotRouted(TransientError):
    """A table that came after the last recovery, which made the layout."""

    code = "TG:ErrTableNotRouted"
    table: Table


@dataclass(frozen=True)
class Replicated:
    """A table id of the log that is delivered, as it is in one version of its schema."""

    id: int
    table: Table
    table_map: TableMap
    route: Route

    @property
    def name(self) -> str:
        """``schema.table``."""
        return self.table.full_name


@dataclass(frozen=True)
class Unfit:
    """A table id that the rules match, but whose rows cannot be delivered, and why."""

    name: str
    error: DefiniteError


@dataclass(frozen=True, slots=True)
class Span:
    """``(lo, hi]`` of a table that does not stand where the others do."""

    lo: Position
    hi: Position


Spans = Mapping[str, Span]
"""By lower-case ``schema.table``."""

# A check needs some route; where rows go does not change whether they can be read.
_ANY_ROUTE = CodecRoute(RouteMode.CONSTANT, 1, 0)


class Catalog:
    """The delivered tables among those the log has seen; grows as the log sees new ones.

    ``start_ts`` chooses the schema snapshot; ``routes`` are the sink's, under its layout.
    """

    def __init__(
        self,
        log: ChangeLog,
        start_ts: Ts,
        config: FeedConfig,
        routes: Routes | None = None,
    ) -> None:
        self._log = log
        self._history = History(log, start_ts)
        self._config = config
        self._rules = _rules(config)
        self._routes = routes
        self._seen = 0
        self._entries: dict[int, TableEntry] = {}
        self._ids: dict[str, list[int]] = {}
        self._known: dict[int, tuple[Table | None, Replicated | Unfit | None]] = {}

    def use(self, routes: Routes) -> None:
        """Routes of another layout."""
        self._routes = routes
        self._known.clear()

    def refresh(self, upto: Ts) -> None:
        """Take up tables that the log has seen since, and schema changes at or below ``upto``."""
        self._history.refresh(upto)
        entries = self._log.tables
        for table_id in range(self._seen, len(entries)):
            entry = entries[table_id]
            if self._rules.matches(entry.schema, entry.name):
                self._entries[table_id] = entry
                self._ids.setdefault(_key(entry), []).append(table_id)
        self._seen = len(entries)

    @property
    def mariadb(self) -> bool:
        """Whether the upstream is MariaDB."""
        return self._history.base.mariadb

    @property
    def session(self) -> Session:
        """How the upstream's server reads SQL."""
        return self._history.base

    @property
    def ids(self) -> Collection[int]:
        """Ids of all tables that the rules match."""
        return self._entries.keys()

    def ids_of(self, name: str) -> list[int]:
        """Ids of one table, by lower-case ``schema.table``."""
        return self._ids.get(name, [])

    def named(self, name: str, ts: Ts) -> list[Table]:
        """The table of a lower-case ``schema.table`` as it is at ``ts``.

        Of names that differ only in case all; ``[]`` if it is not there, or cannot be followed.
        """
        found = []
        for key in self.at(ts):
            if f"{key[0]}.{key[1]}".lower() == name:
                with suppress(DefiniteError):
                    found.append(self._history.versions.table(*key, ts))
        return [table for table in found if table is not None]

    def at(self, ts: Ts) -> Schemas:
        """The upstream's schema for rows at ``ts``."""
        return self._history.versions.at(ts)

    def collect(self, below: Ts) -> None:
        """No row at or below ``below`` will be asked for any more."""
        self._history.versions.collect(below)

    def inside(self, runs: Runs, spans: Spans) -> Runs:
        """The runs that ``spans`` let pass: of a table that has one, those in it."""
        keep = np.ones(len(runs), np.bool_)
        for name, span in spans.items():
            for table_id in self._ids.get(name, ()):
                ours = np.flatnonzero(runs.table == table_id)
                if len(ours):
                    keep[ours] = _within(runs, ours, span)
        return runs if keep.all() else runs.take(keep)

    def in_force(self, runs: Runs) -> dict[int, Replicated | Unfit | None]:
        """By id of each table in ``runs`` what it is there; None if it is not to be delivered.

        Raises SchemaChangeCrossed, or what the sink's routes raise for a table that they do not
        know.
        """
        bounds: dict[str, tuple[Ts, Ts]] = {}
        ids = []
        for table_id, first, last in _bounds(runs):
            ids.append(table_id)
            name = _key(self._entries[table_id])
            lo, hi = bounds.get(name, (MAX_TS, 0))
            bounds[name] = (min(lo, first), max(hi, last))
        return {i: self._in_force(i, *bounds[_key(self._entries[i])]) for i in ids}

    def is_current(self, one: Replicated) -> bool:
        """Whether the newest schema has the table as it is in this version."""
        entry, versions = self._entries[one.id], self._history.versions
        try:
            return versions.table(entry.schema, entry.name, MAX_TS) is one.table
        except DefiniteError:
            return False

    def _in_force(self, table_id: int, lo: Ts, hi: Ts) -> Replicated | Unfit | None:
        entry = self._entries[table_id]
        versions = self._history.versions
        try:
            table = versions.table(entry.schema, entry.name, lo)
            if table is not versions.table(entry.schema, entry.name, hi):
                raise SchemaChangeCrossed(
                    f"rows from ts {lo} to {hi} lie on both sides of a schema change",
                    object=f"{entry.schema}.{entry.name}",
                    position=f"ts {lo}",
                    hint="report this with the capture's log",
                )
        except DefiniteError as e:
            return Unfit(f"{entry.schema}.{entry.name}", e)
        known = self._known.get(table_id)
        if known is None or known[0] is not table:
            known = self._known[table_id] = (table, self._judged(table_id, entry, table))
        return known[1]

    def _judged(
        self, table_id: int, entry: TableEntry, table: Table | None
    ) -> Replicated | Unfit | None:
        name = f"{entry.schema}.{entry.name}"
        try:
            if table is None:
                raise TableNotInSchema(
                    "rows of a table that the tracked schema does not know",
                    object=name,
                    hint="create the changefeed anew; it then starts with the present schema",
                )
            if not table.handle_key and not self._config.force_replicate:
                return None
            stored = TableMap.parse(entry.map_body)
            planned(table, stored, _ANY_ROUTE)
            assert self._routes is not None
            try:
                return Replicated(table_id, table, stored, self._routes.route(table))
            except LayoutOutgrown as e:
                error = TableNotRouted(e.message, object=table.full_name, hint=e.hint)
                error.table = table
                raise error from None
        except DefiniteError as e:
            return Unfit(name, e)


def _key(entry: TableEntry) -> str:
    return f"{entry.schema}.{entry.name}".lower()


def _bounds(runs: Runs) -> Iterator[tuple[int, Ts, Ts]]:
    """(table id, least ts, greatest ts) of each table in ``runs``."""
    if not len(runs):
        return
    order = np.argsort(runs.table, kind="stable")
    tables, ts = runs.table[order], runs.commit_ts[order]
    starts = np.flatnonzero(np.diff(tables, prepend=-1))
    least, most = np.minimum.reduceat(ts, starts), np.maximum.reduceat(ts, starts)
    yield from zip(tables[starts].tolist(), least.tolist(), most.tolist(), strict=True)


def _within(runs: Runs, ours: np.ndarray[tuple[int], np.dtype[np.int64]], span: Span) -> object:
    """Which of the runs ``ours`` lie in a span; its ends lie between runs."""
    ts, row = runs.commit_ts[ours], runs.first_row[ours]
    behind = (ts > span.lo.ts) | ((ts == span.lo.ts) & (row >= span.lo.row))
    return behind & ((ts < span.hi.ts) | ((ts == span.hi.ts) & (row < span.hi.row)))


def _rules(config: FeedConfig) -> TableRules:
    return TableRules(config.filter.rules, case_sensitive=config.case_sensitive)


def delivered_tables(schema: Schema | Schemas, config: FeedConfig) -> list[Table]:
    """Tables of the schema that the rules match and that can be delivered.

    One whose definition cannot be read raises, or is left out where its rows decide about it.
    """
    rules = _rules(config)
    with collection_paused():
        if isinstance(schema, Schema):
            matched = [schema[key] for key in schema if rules.matches(*key)]
        else:
            matched = list(_readable(schema, rules))
    return [t for t in matched if t.handle_key or config.force_replicate]


def _readable(schemas: Schemas, rules: TableRules) -> Iterator[Table]:
    for database, name in schemas:
        if rules.matches(database, name):
            with suppress(DefiniteError):
                table = schemas.table(database, name)
                if table is not None:
                    yield table


@dataclass(frozen=True)
class Numbering:
    """Destinations of a job as numbers: partitions of its topics, one topic after the other."""

    bases: Mapping[str, int]
    destinations: tuple[Destination, ...]

    @classmethod
    def of(cls, layout: Layout) -> Numbering:
        """Numbering of a layout's destinations, in their order."""
        destinations = layout.destinations()
        return cls({name: destinations.index((name, 0)) for name in layout.counts}, destinations)

    def number(self, destination: Destination) -> int:
        """The number of a destination."""
        topic, partition = destination
        return self.bases[topic] + partition

    def codec_route(self, replicated: Replicated) -> CodecRoute:
        """A table's route as the encoder wants it."""
        route, positions = replicated.route, replicated.table.positions
        base = self.bases[route.topic]
        if route.mode is PartitionMode.TABLE:
            return CodecRoute(RouteMode.CONSTANT, route.partitions, route.constant, base)
        if route.mode is PartitionMode.TS:
            return CodecRoute(RouteMode.TS, route.partitions, base=base)
        columns = tuple(positions[c.lower()] for c in route.columns)
        return CodecRoute(
            RouteMode.COLUMNS, route.partitions, base=base, columns=columns, block=route.block
        )
