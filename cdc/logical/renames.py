"""Columns that parts have renamed and their logical table has not: told by the parts' statements.

From definitions alone nobody can tell a column that was renamed from one that went while another
came. What a part has renamed is pending until the mark of the change, from which on its names are
those of the logical table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cdc.base.ts import Ts
from cdc.logical.names import TableName
from cdc.schema.statement import DdlStatement, Verb
from cdc.schema.tokens import DDLNotUnderstood
from cdc.source.statements import LoggedDdl

# Node, database, table.
_Part = tuple[str, str, str]
_Names = dict[str, str]


@dataclass(eq=False)
class ColumnRenames:
    """Of all parts of a cluster; names of columns are in lower case, ts those of the nodes' logs.

    ``pending``: by part, in order, the ts of a statement and the names before it by those behind
    it. ``marked``: by node and logical table the ts of its last mark there. ``upto``: by node, up
    to which ts of its log statements are known already, however far back it is read again.
    """

    pending: dict[_Part, list[tuple[Ts, _Names]]] = field(default_factory=dict)
    marked: dict[tuple[str, str, str], Ts] = field(default_factory=dict)
    upto: Mapping[str, Ts] = field(default_factory=dict)

    def follow(self, node: str, logged: Iterable[LoggedDdl]) -> None:
        """Take up what a node's log has read on."""
        for one in logged:
            names = renamed_by(one.statement) if one.statement is not None else {}
            if one.statement is not None and names and one.ts > self.upto.get(node, 0):
                part = node, *one.statement.targets[0].table
                self.pending.setdefault(part, []).append((one.ts, names))

    def mark(self, table: TableName, places: Mapping[str, Ts]) -> None:
        """A logical table has been changed; ``places``: by node the mark's ts."""
        for node, ts in places.items():
            self.marked[node, *table] = ts

    def at(self, node: str, part: TableName, table: TableName, ts: Ts) -> _Names:
        """By a part's names for its columns those of its logical table, where they differ.

        ``ts`` is a row's in its node's log.
        """
        found: _Names = {}
        since = self.marked.get((node, *table), -1)
        for at, names in self.pending.get((node, *part), ()):
            if since < at <= ts:
                kept = {n: old for n, old in found.items() if n not in names.values()}
                found = kept | {new: found.get(old, old) for new, old in names.items()}
        return {new: old for new, old in found.items() if new != old}

    def forget(self, merged: Mapping[str, Ts], tables: Mapping[_Part, TableName]) -> None:
        """Forget what no row above its node's ts of ``merged`` needs; ``tables``: by part."""
        for part, listed in list(self.pending.items()):
            since = self._since(part, tables.get(part))
            self.pending[part] = [one for one in listed if one[0] > since]
            if not self.pending[part]:
                del self.pending[part]
        self.marked = {k: ts for k, ts in self.marked.items() if ts > merged.get(k[0], 0)}

    def over_other_logs(
        self, at: Mapping[str, Ts], upto: Mapping[str, Ts], tables: Mapping[_Part, TableName]
    ) -> ColumnRenames:
        """The same where nodes have other logs: what is pending has the ts ``at`` there.

        ``tables``: by part.
        """
        live = {
            part: [(at.get(part[0], 0), names) for ts, names in listed if ts > since]
            for part, listed in self.pending.items()
            for since in [self._since(part, tables.get(part))]
        }
        return ColumnRenames(
            {part: listed for part, listed in live.items() if listed}, {}, dict(upto)
        )

    def _since(self, part: _Part, table: TableName | None) -> Ts:
        """The ts of the last mark of a part's table."""
        return -1 if table is None else self.marked.get((part[0], *table), -1)

    def to_dict(self, known: Mapping[str, Ts]) -> dict[str, Any]:
        """As JSON, where statements above ``known`` are taken up again."""
        pending = [
            [list(part), [[ts, names] for ts, names in listed if ts <= known.get(part[0], 0)]]
            for part, listed in sorted(self.pending.items())
        ]
        return {
            "pending": [one for one in pending if one[1]],
            "marked": [[list(key), ts] for key, ts in sorted(self.marked.items())],
            "upto": dict(known),
        }

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> ColumnRenames:
        """Inverse of :meth:`to_dict`."""
        return cls(
            {(a, b, c): [(int(ts), dict(n)) for ts, n in listed]
             for (a, b, c), listed in value.get("pending", ())},
            {(a, b, c): int(ts) for (a, b, c), ts in value.get("marked", ())},
            {str(node): int(ts) for node, ts in value.get("upto", {}).items()},
        )  # fmt: skip


def renamed_by(statement: DdlStatement) -> _Names:
    """By the names behind a statement those before it, of columns that it renames."""
    found: _Names = {}
    if statement.verb is not Verb.ALTER:
        return found
    # What cannot be read makes the table unknown, which is told where its rows are asked for.
    with suppress(DDLNotUnderstood):
        for action in statement.actions:
            found |= {new.lower(): old.lower() for old, new in action.plan.renames.items()}
            for draft in action.plan.changes:
                name = draft.column.name.lower()
                if draft.old_name is not None and draft.old_name != name:
                    found[name] = draft.old_name
    return found
