"""Which tables of a log a changefeed delivers, with their schema and their destinations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts
from cdc.binlog.table_map import TableMap
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.tables import TableEntry
from cdc.coord.feed_config import FeedConfig
from cdc.schema.snapshot import Schema, load
from cdc.schema.table import Table
from filter.rules import TableRules
from sink.codec.plan import planned
from sink.codec.route import Route as CodecRoute
from sink.codec.route import RouteMode
from sink.contract import Destination, Layout, Routes
from sink.dispatch.rules import Route
from sink.dispatch.settings import PartitionMode


class TableNotInSchema(DefiniteError):
    """Rows of a table that the schema snapshot does not know."""

    code = "TG:ErrTableNotInSchema"


@dataclass(frozen=True)
class Replicated:
    """A table id of the log that is delivered."""

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


# A check needs some route; where rows go does not change whether they can be read.
_ANY_ROUTE = CodecRoute(RouteMode.CONSTANT, 1, 0)


class Catalog:
    """The delivered tables among those the log has seen; grows as the log sees new ones.

    ``start_ts`` chooses the schema snapshot; ``routes`` are the sink's, under its layout.
    ``unfit``: table ids whose rows must stop their table where they first appear.
    """

    def __init__(
        self,
        log: ChangeLog,
        start_ts: Ts,
        config: FeedConfig,
        routes: Routes,
    ) -> None:
        self._log = log
        self._schema = load(log.snapshot_at(start_ts))
        self._config = config
        self._rules = _rules(config)
        self._routes = routes
        self._seen = 0
        self.tables: dict[int, Replicated] = {}
        self.unfit: dict[int, Unfit] = {}

    def refresh(self) -> bool:
        """Take up tables that the log has seen since; True if any of them is delivered."""
        entries = self._log.tables
        found = False
        for table_id in range(self._seen, len(entries)):
            entry = entries[table_id]
            if not self._rules.matches(entry.schema, entry.name):
                continue
            try:
                replicated = self._replicated(table_id, entry)
            except DefiniteError as e:
                # Its rows may lie behind the DDL that stops the table: they decide, not we.
                self.unfit[table_id] = Unfit(f"{entry.schema}.{entry.name}", e)
                continue
            if replicated is not None:
                self.tables[table_id] = replicated
                found = True
        self._seen = len(entries)
        return found

    @property
    def mariadb(self) -> bool:
        """Whether the upstream is MariaDB."""
        return self._schema.session.mariadb

    @property
    def ids(self) -> list[int]:
        """Ids of all tables that the rules match and that a schema may be needed for."""
        return [*self.tables, *self.unfit]

    def under(self, runs: Runs, caps: Mapping[str, Ts]) -> Runs:
        """The runs that ``caps`` let pass: of a table with a cap, nothing above it."""
        lowered = {name.lower(): cap for name, cap in caps.items()}
        keep = np.ones(len(runs), np.bool_)
        for known in (self.tables, self.unfit):
            for table_id, one in known.items():
                cap = lowered.get(one.name.lower())
                if cap is not None:
                    keep &= (runs.table != table_id) | (runs.commit_ts <= cap)
        return runs if keep.all() else runs.take(keep)

    def first_unfit(self, runs: Runs) -> dict[str, tuple[Ts, DefiniteError]]:
        """By name of each unfit table in ``runs``: the ts of its first run, and what is wrong."""
        found: dict[str, tuple[Ts, DefiniteError]] = {}
        for table_id, unfit in self.unfit.items():
            at = np.flatnonzero(runs.table == table_id)
            if len(at):
                ts = int(runs.commit_ts[at[0]])
                if unfit.name not in found or ts < found[unfit.name][0]:
                    found[unfit.name] = (ts, unfit.error)
        return found

    def ids_for(self, destinations: Collection[Destination]) -> list[int]:
        """Ids of the tables with a row for any of these destinations."""
        wanted = set(destinations)
        return [i for i, r in self.tables.items() if not wanted.isdisjoint(r.route.destinations())]

    def _replicated(self, table_id: int, entry: TableEntry) -> Replicated | None:
        """The table, or None if it is left out; a ``DefiniteError`` if it cannot be delivered."""
        table = self._table(entry.schema, entry.name)
        if not table.handle_key and not self._config.force_replicate:
            return None
        stored = TableMap.parse(entry.map_body)
        planned(table, stored, _ANY_ROUTE)
        return Replicated(table_id, table, stored, self._routes.route(table))

    def _table(self, schema: str, name: str) -> Table:
        try:
            return self._schema[schema, name]
        except KeyError:
            raise TableNotInSchema(
                "rows of a table that did not exist when the changefeed began",
                object=f"{schema}.{name}",
                hint="create the changefeed anew; it then starts with the present schema",
            ) from None


def _rules(config: FeedConfig) -> TableRules:
    return TableRules(config.filter.rules, case_sensitive=config.case_sensitive)


def delivered_tables(schema: Schema, config: FeedConfig) -> list[Table]:
    """Tables of the schema that the rules match and that can be delivered."""
    rules = _rules(config)
    matched = [schema[key] for key in schema if rules.matches(*key)]
    return [t for t in matched if t.handle_key or config.force_replicate]


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
        return CodecRoute(RouteMode.COLUMNS, route.partitions, base=base, columns=columns)
