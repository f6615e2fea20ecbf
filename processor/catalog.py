"""Which tables of a log a changefeed delivers, with their schema and their destinations.

A table id of the log is a table name with one TABLE_MAP; which version of the table's schema its
rows have is decided by their ts. A window never crosses a schema change of a table (the owner's
barriers see to that), so each table has one version in it; this is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
from cdc.rows.plan import planned
from cdc.rows.route import Route as CodecRoute
from cdc.rows.route import RouteMode
from cdc.schema.catalog import Catalog as Schemas
from cdc.schema.session import Session
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.source.statements import History
from filter.online import OnlineDdl
from filter.rules import TableRules
from processor.log_news import Awaited
from sink.contract import Destination, Layout, Routes
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode
from sink.errors import LayoutOutgrown


class TableNotInSchema(DefiniteError):
    """Rows of a table that the tracked schema does not know."""

    code = "TG:ErrTableNotInSchema"


class TableKeyless(DefiniteError):
    """Rows of a table that has no key to tell them apart: it came without one, or lost it."""

    code = "TG:ErrTableKeyless"


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


class DeliveredTables:
    """The delivered tables among those the log has seen; grows as the log sees new ones.

    The changefeed began at ``start_ts``; rows above ``known_above`` are asked about, and no others.
    ``routes`` are the sink's, under its layout. Raises LogCollected.
    """

    def __init__(
        self,
        log: ChangeLog,
        start_ts: Ts,
        config: FeedConfig,
        routes: Routes | None = None,
        *,
        known_above: Ts | None = None,
    ) -> None:
        self._log = log
        self._start_ts = start_ts
        self._above = start_ts if known_above is None else known_above
        self._history = History(log, self._above)
        self._config = config
        self._rules = _rules(config)
        self._online = OnlineDdl(config)
        self._routes = routes
        self._seen = 0
        self._entries: dict[int, TableEntry] = {}
        self._ids: dict[str, list[int]] = {}
        self._changes: dict[str, list[Ts]] = {}
        self._untold: dict[str, list[Ts]] = {}
        self._known: dict[int, tuple[Table, Replicated | Unfit | None]] = {}

    def use(self, routes: Routes) -> None:
        """Routes of another layout."""
        self._routes = routes
        self._known.clear()

    def refresh(self, upto: Ts) -> None:
        """Take up tables that the log has seen since, and schema changes at or below ``upto``."""
        for ddl in self._history.refresh(upto):
            if ddl.statement is not None:
                for name in (*ddl.statement.tables, *ddl.statement.referenced):
                    key = ".".join(name).lower()
                    for changes in (self._changes, self._untold):
                        changes.setdefault(key, []).append(ddl.ts)
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

    @property
    def awaited(self) -> Awaited:
        """Rows of which tables will be delivered, as far as the log's dictionary is known."""
        return Awaited(self.ids, self._seen)

    def ids_of(self, name: str) -> list[int]:
        """Ids of one table, by lower-case ``schema.table``."""
        return self._ids.get(name, [])

    def crossed(self, upto: Ts, caps: Mapping[str, Ts]) -> set[str]:
        """Tables (lower-case ``schema.table``) that pass a schema change now, told once.

        They come up to ``upto``, or to what ``caps`` say.
        """
        return {
            name for name in list(self._untold) if _cut(self._untold, name, caps.get(name, upto))
        }

    def named(self, name: str, ts: Ts) -> list[Table]:
        """The table of a lower-case ``schema.table`` as it is at ``ts``.

        Of names that differ only in case all; ``[]`` if it is not there, or cannot be followed.
        """
        found = []
        for key in (schemas := self.at(ts)):
            if f"{key[0]}.{key[1]}".lower() == name and not self._online.hides(schemas, *key):
                with suppress(DefiniteError):
                    found.append(self._history.versions.table(*key, ts))
        return [table for table in found if table is not None]

    def at(self, ts: Ts) -> Schemas:
        """The upstream's schema for rows at ``ts``."""
        return self._history.versions.at(ts)

    def knows_above(self, ts: Ts) -> bool:
        """Whether it can be asked for all rows above ``ts``, and go on from what it has seen."""
        return self._above <= ts and self._history.seen_ts >= self._log.state.first_ts

    def collect(self, below: Ts) -> None:
        """No row at or below ``below`` will be asked for any more."""
        if below <= self._above:
            return
        self._above = below
        self._history.versions.collect(below)
        self._log.forget_below(below)
        # Whoever asks which tables pass a change has been told of these.
        for name in list(self._untold):
            _cut(self._untold, name, below)
        for name in list(self._changes):
            if _cut(self._changes, name, below):
                self._forget_versions(name)

    def _forget_versions(self, name: str) -> None:
        """Forget what rows to come cannot have of a table that has changed."""
        for table_id in self._ids.get(name, ()):
            known = self._known.get(table_id)
            if known is not None and not self._still(table_id, known[0]):
                del self._known[table_id]

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
        if self._hidden(entry, lo) and self._hidden(entry, hi):
            return None
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
        if table is None:
            # MariaDB logs NEXTVAL of a sequence as a row of it; sequences are not delivered.
            sequence = versions.at(lo).has_other(entry.schema, entry.name)
            return None if sequence else _not_there(f"{entry.schema}.{entry.name}")
        known = self._known.get(table_id)
        if known is None or known[0] is not table:
            known = self._known[table_id] = (table, self._judged(table_id, entry, table))
        return known[1]

    def _hidden(self, entry: TableEntry, ts: Ts) -> bool:
        """Whether a tool of online schema change made the table that has rows at ``ts``."""
        return self._online.hides(self._history.versions.at(ts), entry.schema, entry.name)

    def _still(self, table_id: int, table: Table) -> bool:
        """Whether rows to come may have this version of a table, by its last change."""
        entry, versions = self._entries[table_id], self._history.versions
        with suppress(DefiniteError):
            return any(
                versions.table(entry.schema, entry.name, ts) is table
                for ts in (self._above, MAX_TS)
            )
        return False

    def _lost_its_key(self, table: Table) -> bool:
        """Whether rows of the table were delivered when it still had a key."""
        key = self._history.versions.key((table.schema, table.name))
        return self._history.unkeyed.get(key, 0) > self._start_ts

    def _judged(self, table_id: int, entry: TableEntry, table: Table) -> Replicated | Unfit | None:
        name = f"{entry.schema}.{entry.name}"
        try:
            if not table.handle_key and not self._config.force_replicate:
                if self._config.ignore_ineligible_table and not self._lost_its_key(table):
                    return None
                raise TableKeyless(
                    "it has no primary key and no unique key without NULL, so that its rows cannot"
                    " be told apart",
                    object=name,
                    hint="take it out of filter.rules, or set force-replicate, and resume",
                )
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


def _not_there(name: str) -> Unfit:
    what = "rows of a table that the tracked schema does not know"
    hint = "create the changefeed anew; it then starts with the present schema"
    return Unfit(name, TableNotInSchema(what, object=name, hint=hint))


def _cut(changes: dict[str, list[Ts]], name: str, upto: Ts) -> bool:
    """Take out a table's changes at or below ``upto``; whether there were any."""
    left = [ts for ts in changes[name] if ts > upto]
    taken = len(left) < len(changes[name])
    if left:
        changes[name] = left
    else:
        del changes[name]
    return taken


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
    rules, online = _rules(config), OnlineDdl(config)
    names = list(schema.tables_of(rules.matches_schema))
    online.learn(names)

    def delivered(database: str, name: str) -> bool:
        return rules.matches(database, name) and not online.hides(schema, database, name)

    with collection_paused():
        if isinstance(schema, Schema):
            matched = [schema[key] for key in names if delivered(*key)]
        else:
            matched = list(_readable(schema, names, delivered))
    return [t for t in matched if t.handle_key or config.force_replicate]


def _readable(
    schemas: Schemas, names: Iterable[tuple[str, str]], delivered: Callable[[str, str], bool]
) -> Iterator[Table]:
    for database, name in names:
        if delivered(database, name):
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
            RouteMode.COLUMNS,
            route.partitions,
            base=base,
            columns=columns,
            block=route.block,
            hashed=route.hashed,
        )
