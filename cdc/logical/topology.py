"""Which tables of nodes are parts, where a coordinator's marks say it.

Parts that move are there twice for a while: rows are copied into new tables, and written to both.
From a mark on the new ones are the parts, and what was left behind is dropped later. So a table
that a node makes is *awaited* until a mark tells whose part it is, and the rows in it are nobody's.
The topology is PolarDB-X's: JSON in ``META_INFO`` of the mark (``logicTableMeta``, with the tables
of each database in ``phySchemas``), as its CDC component reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ts import Ts
from cdc.logical.errors import MarkMalformed
from cdc.logical.marks import MARKS, DdlMark
from cdc.logical.names import TableName

# Node, database, table.
Part = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Topology:
    """The tables of nodes that are the parts of a logical table from a mark on."""

    table: TableName
    parts: frozenset[TableName]


def topology_of(mark: DdlMark) -> Topology | None:
    """What a mark says of the parts of its table, if it does. Raises MarkMalformed."""
    if not mark.meta:
        return None
    try:
        table = (json.loads(mark.meta) or {}).get("logicTableMeta")
        if not table or not table.get("phySchemas"):
            return None
        parts = [
            (str(one["schema"]), str(name))
            for one in table["phySchemas"]
            for name in one["phyTables"]
        ]
        name = str(table.get("tableName") or mark.table)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MarkMalformed(
            "the topology in its META_INFO cannot be read",
            object=".".join(MARKS),
            position=f"mark {mark.id}",
            hint="it is JSON with logicTableMeta.phySchemas, as docs/cluster-db.md says",
        ) from None
    return Topology((mark.schema, name), frozenset(parts))


@dataclass(eq=False)
class AwaitedParts:
    """Tables that nodes have made and no mark has told of; ts are those of the nodes' logs.

    ``since``: by table, in order, when it was made, with what is made anew before its mark has come
    to be read. ``upto``: by node, up to which ts of its log statements are known already, however
    far back it is read again.
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

    def told(self, parts: Iterable[TableName], places: Mapping[str, Ts]) -> None:
        """A mark tells of these; ``places``: by node the mark's ts."""
        parts = set(parts)
        for part, ts in list(self.since.items()):
            if part[1:] in parts and part[0] in places:
                self._keep(part, [at for at in ts if at > places[part[0]]])

    def forget(self, node: str, tables: Iterable[TableName]) -> None:
        """These are not there any more."""
        for table in tables:
            self.since.pop((node, *table), None)

    def _keep(self, part: Part, ts: list[Ts]) -> None:
        if ts:
            self.since[part] = ts
        else:
            del self.since[part]

    def to_list(self, merged: Mapping[str, Ts]) -> list[Any]:
        """As JSON, where statements above ``merged`` are read again."""
        kept = [
            [list(part), [at for at in ts if at <= merged.get(part[0], 0)]]
            for part, ts in sorted(self.since.items())
        ]
        return [one for one in kept if one[1]]

    @classmethod
    def of(cls, value: Iterable[Any], upto: Mapping[str, Ts]) -> AwaitedParts:
        """Inverse of :meth:`to_list`; ``upto`` is what ``merged`` was there."""
        return cls({(a, b, c): [int(at) for at in ts] for (a, b, c), ts in value}, dict(upto))
