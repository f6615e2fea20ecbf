"""In which tables of which servers the rows of logical tables lie, as the nodes' logs tell it.

Not as the servers list them: what a user may not see would be missing without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc.base.nodes import qualified
from cdc.base.ts import Ts
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState
from cdc.logical.errors import PartsChanging, check_keyed
from cdc.logical.names import Part, PartNames, TableName
from cdc.logical.shape import readable_as
from cdc.schema.table import Table
from cdc.snapshot.definitions import Definitions
from cdc.source.merging import merged_to, schema_to


@dataclass(frozen=True, slots=True)
class TablePart:
    """A table of a node that has rows of a logical one."""

    node: str
    schema: str
    name: str

    @property
    def table(self) -> TableName:
        """Its name in an upstream of several nodes (``cdc.base.nodes``)."""
        return qualified(self.node, self.schema), self.name


@dataclass(frozen=True, slots=True)
class KnownParts:
    """Whose part a table is where a merged log stands; ``awaited``: tables that no mark has told of
    there.
    """

    names: PartNames
    awaited: frozenset[Part] = frozenset()

    @classmethod
    def at(cls, patterns: Sequence[str], position: Mapping[str, Any]) -> KnownParts:
        """``position`` is the log's."""
        kept = position.get("logical") or {}
        awaited = frozenset((node, s, t) for (node, s, t), _ in kept.get("awaited", ()))
        return cls(PartNames(tuple(patterns)).kept(kept), awaited)

    def of(self, node: str, schema: str, table: str) -> TableName | None:
        """The logical table of which a node's table is a part; None: it is none."""
        part = node, schema, table
        return None if part in self.awaited else self.names.of(*part)

    def same(self, other: KnownParts, table: TableName) -> bool:
        """Whether marks and statements tell ``other`` the same of where a table's rows lie.

        Which tables there are by their names alone the nodes know.
        """
        return self._told_of(table) == other._told_of(table)

    def _told_of(self, table: TableName) -> tuple[frozenset[Part], frozenset[Part], bool]:
        names = self.names
        has = frozenset(part for part, logical in names.told.items() if logical == table)
        lacks = frozenset(p for p in names.gone | self.awaited if names.by_name(*p[1:]) == table)
        return has, lacks, table in names.broadcast


def parts_of(
    known: KnownParts, nodes: Mapping[str, Iterator[TableName] | Sequence[TableName]]
) -> dict[TableName, tuple[TablePart, ...]]:
    """By logical table its parts, of the tables that each node has, in the order of nodes.

    Of a table each part of which has all rows it is one part.
    """
    found: dict[TableName, list[TablePart]] = {}
    for node, tables in nodes.items():
        for schema, name in sorted(tables):
            logical = known.of(node, schema, name)
            if logical is None:
                continue
            parts = found.setdefault(logical, [])
            if not (parts and known.names.everywhere(node, schema, name)):
                parts.append(TablePart(node, schema, name))
    return {table: tuple(parts) for table, parts in found.items()}


class PartsRead:
    """The parts that rows of logical tables are read from, and whether they stayed as they were.

    Of one thread. ``log`` is the merged log and ``nodes`` are those of its nodes, by name; both
    stay their owner's. Raises LogCollected where a node's log has lost what it said meanwhile.
    """

    def __init__(
        self, patterns: Sequence[str], log: ChangeLog, nodes: Mapping[str, ChangeLog]
    ) -> None:
        self._patterns = patterns
        self._log = log
        self._nodes = nodes
        self._definitions: dict[str, Definitions] = {}
        self._since: dict[str, Ts] = {}
        self._parts: dict[TableName, tuple[TablePart, ...]] = {}
        self._taken: dict[str, tuple[TableName, tuple[tuple[TablePart, Ts], ...]]] = {}
        # The log's state that parts were looked for in last, and what they were there.
        self._looked: tuple[LogState | None, dict[TableName, tuple[TablePart, ...]]] = None, {}

    def begin(self, since: Mapping[str, Ts]) -> None:
        """Look where parts are; ``since``: by node the ts of its log that whoever reads sees.

        Raises PartsChanging where the log has come to have other nodes.
        """
        members = merged_to(self._log.state.position)
        if members.keys() != since.keys():
            raise PartsChanging(
                f"the log is now of nodes {', '.join(sorted(members))}",
                object=f"nodes {', '.join(sorted(since))}",
                hint="nothing to do: rows are read from the nodes that there are",
            )
        self._since = dict(since)
        for node, ts in since.items():
            if node not in self._definitions:
                self._definitions[node] = Definitions(self._nodes[node], min(ts, members[node]))
        self._looked = None, {}
        self._parts = self._parts_now()

    def _parts_now(self) -> dict[TableName, tuple[TablePart, ...]]:
        """Parts of all tables that there are for whoever reads, as of the log's position."""
        state, parts = self._looked
        if state is not self._log.state:
            state = self._log.state
            parts = self._parts_by(state.position)
            self._looked = state, parts
        return parts

    def _parts_by(self, position: dict[str, Any]) -> dict[TableName, tuple[TablePart, ...]]:
        known = KnownParts.at(self._patterns, position)
        known_to = schema_to(position)
        tables = {}
        for node, ts in self._since.items():
            there = self._definitions[node].at(ts)
            # What was made behind the position is awaited: no mark up to there has told of it.
            before = self._definitions[node].at(min(ts, known_to.get(node, ts)))
            tables[node] = [
                (schema, name)
                for schema, name in there
                if not known.names.marked(schema, name) or before.table(schema, name) is not None
            ]
        return parts_of(known, tables)

    def of(self, table: Table) -> tuple[Table, ...]:
        """The tables that a logical one is read from, each with the columns of the logical one.

        Raises LogicalTableKeyless, and PartsChanging where a SELECT of these columns would not give
        what the table has.
        """
        check_keyed(table)
        parts = self._parts.get((table.schema, table.name), ())
        if not parts:
            raise PartsChanging(
                "no node has a part of it",
                object=table.full_name,
                hint="rows are copied when the schema change has come to its mark",
            )
        for part in parts:
            ts = self._since[part.node]
            found = self._definitions[part.node].at(ts).table(part.schema, part.name)
            if found is None or not readable_as(found, table):
                raise PartsChanging(
                    f"its part {part.schema}.{part.name} on node {part.node} is not defined as it"
                    " is",
                    object=table.full_name,
                    position=f"ts {ts} of node {part.node}",
                    hint="rows are copied when the schema change has come to its mark",
                )
        taken = tuple((part, self._since[part.node]) for part in parts)
        self._taken[table.full_name] = (table.schema, table.name), taken
        return self.known(table)

    def known(self, table: Table) -> tuple[Table, ...]:
        """The same, of whatever definitions they are."""
        parts = self._parts.get((table.schema, table.name), ())
        return tuple(replace(table, schema=p.table[0], name=p.table[1]) for p in parts)

    def same(self, table: str) -> bool:
        """Whether ``schema.table`` still has the parts that were taken, and no statement was about
        them since.

        The log, and those of the nodes, have come to where they were read last.
        """
        if table not in self._taken:
            return True
        name, taken = self._taken[table]
        parts = tuple(part for part, _ in taken)
        if PartNames(tuple(self._patterns)).by_marks and self._parts_now().get(name, ()) != parts:
            return False
        return all(
            self._definitions[part.node].same(
                f"{part.schema}.{part.name}", ts, self._nodes[part.node].state.resolved_ts
            )
            for part, ts in taken
        )
