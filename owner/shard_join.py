"""Schema changes of an optimistic shard group: the target has the join of its tables' definitions.

Each table waits at its own barrier below its own change, as in :mod:`owner.shard_ddl`. What it has
there is its *standing*, and the target the join of all standings (:mod:`cdc.schema.joined`). Once
it has come to a change, the target is given what the join with the table's new definition needs
beyond the join before: often nothing. What no join can tell (a new name, types that have none)
waits until all tables have come to the same. A group has one change under way at a time, so that
whoever takes it over finds the same join.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from cdc.base.nodes import plain
from cdc.schema.ddl import read_ddl
from cdc.schema.difference import actions_between
from cdc.schema.effect import TableEffect
from cdc.schema.joined import Part, TableJoin, join
from cdc.schema.table import Column, Index, Table
from cdc.schema.tokens import quoted
from owner.ddl import Ddl
from owner.shard_part import ShardPart, ShardRole, TableName
from owner.shard_remnants import Remnants, still_there
from sink.schema_change import SchemaChange

_PRIMARY: Part = ("key", "primary")
_JOINABLE = frozenset({"column", "key", "order of columns", "collation"})


@dataclass(frozen=True)
class Standings:
    """What the tables of a group have where they stand, by lower-case name."""

    group: TableName
    tables: Mapping[str, Table]

    @cached_property
    def joined(self) -> TableJoin | None:
        """What the target has; None where there is no table."""
        return self._join(None)

    def behind(self, changed: Mapping[str, Table]) -> TableJoin | None:
        """What it has once these tables have another definition, or are made."""
        like = self.joined.table if self.joined is not None else None
        return Standings(self.group, {**self.tables, **changed})._join(like)

    def _join(self, like: Table | None) -> TableJoin | None:
        found = _distinct(table for _, table in sorted(self.tables.items()))
        return join(found, like) if found else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a change of one table.

    ``before`` and ``after`` are the target's definitions, None where it has none that is known.
    ``together``: it waits until all tables have come to the same; ``beyond`` are then the parts of
    which definitions have no join, if that is why. ``alone``: there is no other table.
    ``obstacle``: why it cannot be carried out as things are, as a clause.
    """

    before: Table | None = None
    after: Table | None = None
    together: bool = False
    beyond: frozenset[Part] = frozenset()
    alone: bool = False
    obstacle: str = ""

    @property
    def runs(self) -> bool:
        """Whether the target has anything to do."""
        return not same_rows(self.before, self.after)


def verdict(
    part: ShardPart, standings: Standings, remnants: Remnants, *, accepted: bool
) -> Verdict:
    """Of a change, or the making, of a table. ``accepted``: the target follows as far as it can."""
    new = part.after
    before = standings.joined
    if before is None or new is None:
        return Verdict()
    after = standings.behind({part.table: new})
    assert after is not None
    found = Verdict(before.table, after.table)
    old = part.definition if part.role is ShardRole.CHANGE else None
    added = [name for name in new.positions if old is None or name not in old.positions]
    left = still_there(remnants, part.group, part.table, added, before.table)
    if left and not accepted:
        return replace(found, obstacle=left)
    if not standings.tables.keys() - {part.table}:
        return replace(found, alone=True)
    together = replace(found, together=True)
    if _beyond_joins(part) or (_recollated(part) and after.table.collation != new.collation):
        return together
    beyond: frozenset[Part] = frozenset()
    for where, why in after.conflicts.items():
        if where in before.conflicts:
            continue
        new_column = where[0] == "column" and where[1] not in before.table.positions
        if _has(old, where) or where == _PRIMARY or new_column:
            # Others may come to it: of a column that nobody has yet there is one definition.
            beyond |= {where}
        elif not accepted:
            return replace(found, obstacle=why)
    if beyond:
        return replace(together, beyond=beyond)
    if not accepted and (why := _refilled(part, standings, before.table, after.table)):
        return replace(found, obstacle=why)
    return found


def _refilled(part: ShardPart, standings: Standings, before: Table, after: Table) -> str:
    """Whether rows of others have another value of a column than they would be given now."""
    for name, at in after.positions.items():
        old = before.columns[before.positions[name]] if name in before.positions else None
        new = after.columns[at]
        if old is None or (old.default, old.default_expression) == (
            new.default,
            new.default_expression,
        ):
            continue
        for table, other in sorted(standings.tables.items()):
            if table != part.table and name not in other.positions:
                values = ["NULL" if c.default is None else repr(c.default) for c in (old, new)]
                return (
                    f"rows of {table}, which lacks column {name}, have {values[0]} there, and"
                    f" would get {values[1]}"
                )
    return ""


def _recollated(part: ShardPart) -> bool:
    return part.effect is not None and ("collation",) in part.effect.parts


def _beyond_joins(part: ShardPart) -> bool:
    """Whether definitions do not tell all that the change does to rows."""
    effect = part.effect
    if effect is None or part.after is None:
        return False
    again = effect.dropped & part.after.positions.keys()
    beside = any(p[0] not in _JOINABLE for p in effect.parts)
    return bool(effect.renamed or effect.words or again or beside)


def _has(table: Table | None, where: Part) -> bool:
    kind, name = where
    if table is None:
        return False
    if kind == "column":
        return name in table.positions
    return any(index.name.lower() == name for index in table.indexes)


def same_effect(one: TableEffect | None, other: TableEffect | None) -> bool:
    """Whether two changes are the same; tables may have other columns beside those."""
    return one is not None and other is not None and _unplaced(one) == _unplaced(other)


def _unplaced(effect: TableEffect) -> TableEffect:
    parts = {k: v for k, v in effect.parts.items() if k != ("order of columns",)}
    return replace(effect, parts=parts)


def same_rows(one: Table | None, other: Table | None) -> bool:
    """Whether two definitions are the same to rows: the order of columns is not looked at."""
    if one is None or other is None:
        return one is other
    return _form(one) == _form(other)


_Form = tuple[frozenset[Column], frozenset[Index], str | None]


def _form(table: Table) -> _Form:
    return frozenset(table.columns), frozenset(table.indexes), table.collation


def _distinct(tables: Iterable[Table]) -> list[Table]:
    """One of each definition: hundreds of tables have two or three."""
    found: dict[Hashable, Table] = {}
    for table in tables:
        found.setdefault(definition_of(table), table)
    return list(found.values())


def definition_of(table: Table) -> Hashable:
    """What two tables have in common whose rows and keys are alike."""
    return table.columns, table.indexes, table.collation


def by_definition(tables: Mapping[str, Table]) -> dict[Hashable, list[str]]:
    """Names of tables by what they have in common, in their order."""
    found: dict[Hashable, list[str]] = {}
    for name, table in tables.items():
        found.setdefault(definition_of(table), []).append(name)
    return found


def carried_out(ddl: Ddl, part: ShardPart, found: Verdict) -> Ddl | None:
    """The change as the target is given it, its own words where they say the same; None: nothing.

    Raises DifferenceUnclear.
    """
    change, name = ddl.change, part.after
    assert change is not None
    if name is None or found.before is None or found.after is None:
        return ddl if part.role is ShardRole.CHANGE else None
    told = between(change, name, found.before, found.after)
    own = part.role is ShardRole.CHANGE and same_rows(found.before, part.definition)
    if found.alone or (found.runs and own and same_rows(found.after, part.after)):
        return replace(ddl, change=told)
    if not found.runs:
        return None
    session = replace(change.session, failed=False)
    actions = actions_between(found.before, found.after, session, renamed=False)
    if not actions:
        return None
    sql = f"ALTER TABLE {quoted(plain(name.schema), name.name)} {', '.join(actions)}"
    statement = read_ddl(sql, session)
    told = replace(
        told, sql=sql, kind=statement.kind, tables=statement.tables, replicated=statement.tables,
        session=session,
    )  # fmt: skip
    return replace(ddl, sql=sql, statement=statement, change=told)


def between(change: SchemaChange, name: Table, before: Table, after: Table) -> SchemaChange:
    """With the target's definitions in place of the table's own."""
    old = replace(before, schema=name.schema, name=name.name)
    new = replace(after, schema=name.schema, name=name.name)
    return replace(
        change,
        before=change.before.with_table(old),
        after=change.after.with_table(new),
        any_order=True,
    )
