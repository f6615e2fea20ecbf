"""Which tables of nodes are parts, where a coordinator's marks say it.

Parts that move are there twice for a while: rows are copied into new tables, and written to both.
From a mark on the new ones are the parts, and what was left behind is dropped later. So a table
that a node makes is *awaited* until a mark tells whose part it is, and the rows in it are nobody's.
The topology is PolarDB-X's: JSON in ``META_INFO`` of the mark, as its CDC component reads it. It is
of one table (``logicTableMeta``, with the tables of each database in ``phySchemas``), or of a
database (``logicDbMeta``, with the databases alone).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ts import Ts
from cdc.logical.errors import MarkMalformed, MarkRefused
from cdc.logical.marks import MARKS, DdlMark
from cdc.logical.names import Part, PartNames, TableName


@dataclass(frozen=True, slots=True)
class Topology:
    """Where the parts of a logical table are from a mark on, or those of a database's tables.

    ``table`` is "" for a database. ``places`` are storage instances with a database and a table
    there, which is "" where all of a database are meant.
    """

    schema: str
    table: str
    places: frozenset[Part]

    def parts(self, known: Collection[Part], nodes: Collection[str], where: str) -> frozenset[Part]:
        """The parts among ``known``, the tables that ``nodes`` have at the mark.

        A node is known by the tables that it alone has, or as it is called if that is the name of
        its storage instance. Raises MarkRefused.
        """
        having: dict[tuple[str, str], set[str]] = defaultdict(set)
        for node, schema, table in known:
            having[schema, table if self.table else ""].add(node)
        chosen: set[Part] = set()
        for storage, schema, table in self.places:
            there = having[schema, table]
            if storage in nodes:
                there = there & {storage}
            if len(there) > 1 or (self.table and not there):
                raise self._refused(".".join(filter(None, (schema, table))), storage, where)
            chosen.update((node, schema, table) for node in there)
        if self.table:
            return frozenset(chosen)
        return frozenset(part for part in known if (*part[:2], "") in chosen)

    def _refused(self, what: str, storage: str, where: str) -> MarkRefused:
        return MarkRefused(
            f"it names {what} on {storage}, which is not on one node alone",
            object=".".join(filter(None, (self.schema, self.table))),
            position=where,
            hint="where nodes have tables of one name, call each node as its storage instance in a"
            " new upstream",
        )


def topology_of(mark: DdlMark) -> Topology | None:
    """What a mark says of the parts of its table, if it does. Raises MarkMalformed."""
    if not mark.meta:
        return None
    try:
        meta = json.loads(mark.meta) or {}
        table, database = meta.get("logicTableMeta"), meta.get("logicDbMeta")
        if table and table.get("phySchemas"):
            name = str(table.get("tableName") or mark.table)
            return Topology(mark.schema, name, frozenset(_places(table["phySchemas"], tables=True)))
        if database and database.get("phySchemas"):
            return Topology(mark.schema, "", frozenset(_places(database["phySchemas"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MarkMalformed(
            "the topology in its META_INFO cannot be read",
            object=".".join(MARKS),
            position=f"mark {mark.id}",
            hint="it is JSON with logicTableMeta.phySchemas, as docs/cluster-db.md says",
        ) from None
    return None


def _places(listed: Iterable[Mapping[str, Any]], *, tables: bool = False) -> Iterable[Part]:
    for one in listed:
        for table in one["phyTables"] if tables else ("",):
            yield str(one.get("storageInstId") or ""), str(one["schema"]), str(table)


def placed_by(
    topology: Topology, parts: Collection[Part], before: Mapping[Part, TableName], names: PartNames
) -> dict[TableName, list[Part]]:
    """By table all of its ``parts`` behind a mark; ``before``: the parts that there were.

    A database moves under its name: what has the name of a part is that part on another node.
    Names of marks are compared without their case, and are those that the parts tell.
    """
    if topology.table:
        name = topology.schema, topology.table
        known = sorted(set(before.values()))
        alike = (one for one in known if _lower(one) == _lower(name))
        return {next(alike, name): list(parts)}
    schema = topology.schema.lower()
    by_name = {
        part[1:]: table
        for part, table in before.items()
        if table[0].lower() == schema and names.marked(*part[1:])
    }
    found: dict[TableName, list[Part]] = {table: [] for table in by_name.values()}
    for part in parts:
        if part[1:] in by_name:
            found[by_name[part[1:]]].append(part)
    return found


def _lower(name: TableName) -> TableName:
    return name[0].lower(), name[1].lower()


@dataclass(eq=False)
class AwaitedParts:
    """Tables that nodes have made and no mark has told of; ts are those of the nodes' logs.

    ``since``: by table, in order, when it was made, with what is made anew before its mark has come
    to be read. ``upto``: by node, up to which ts of its log statements are known already, however
    far back it is read again; a node that it does not have is read for the first time.
    """

    since: dict[Part, list[Ts]] = field(default_factory=dict)
    upto: Mapping[str, Ts] = field(default_factory=dict)

    def made(self, node: str, tables: Iterable[tuple[Ts, TableName]]) -> None:
        """Take up tables that a node has made, at their ts."""
        for ts, table in tables:
            if ts > self.upto.get(node, -1):
                self.since.setdefault((node, *table), []).append(ts)

    def holds(self, node: str, table: TableName, ts: Ts) -> bool:
        """Whether rows that a node commits at ``ts`` lie in what is awaited."""
        return any(at <= ts for at in self.since.get((node, *table), ()))

    def told(self, parts: Iterable[Part], places: Mapping[str, Ts]) -> None:
        """A mark tells of these; ``places``: by node the mark's ts."""
        parts = set(parts)
        for part, ts in list(self.since.items()):
            if part in parts and part[0] in places:
                self._keep(part, [at for at in ts if at > places[part[0]]])

    def forget(self, parts: Iterable[Part]) -> None:
        """These are not there any more."""
        for part in parts:
            del self.since[part]

    def _keep(self, part: Part, ts: list[Ts]) -> None:
        if ts:
            self.since[part] = ts
        else:
            del self.since[part]

    def to_list(self, known: Mapping[str, Ts]) -> list[Any]:
        """As JSON, where statements above ``known`` are taken up again."""
        kept = [
            [list(part), [at for at in ts if at <= known.get(part[0], 0)]]
            for part, ts in sorted(self.since.items())
        ]
        return [one for one in kept if one[1]]

    @classmethod
    def of(cls, value: Iterable[Any], upto: Mapping[str, Ts]) -> AwaitedParts:
        """Inverse of :meth:`to_list`; ``upto`` is what ``known`` was there."""
        return cls({(a, b, c): [int(at) for at in ts] for (a, b, c), ts in value}, dict(upto))

    def over_other_logs(self, at: Mapping[str, Ts], upto: Mapping[str, Ts]) -> AwaitedParts:
        """The same where nodes have other logs: what was made has the ts ``at`` there."""
        return AwaitedParts({part: [at.get(part[0], 0)] for part in self.since}, dict(upto))
