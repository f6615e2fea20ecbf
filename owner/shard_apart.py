"""Whether a table of an optimistic group can come to a change for which the group waits.

A change that no join can tell waits until all tables have come to the same (``owner.shard_join``).
A table that has nothing of what it is about need not come. One that has gone another way cannot
come as things are, so that nobody may wait for it unseen. All here are steps over values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cdc.base.errors import DefiniteError
from cdc.schema.apply import apply
from cdc.schema.effect import TableEffect, unshown
from cdc.schema.joined import Part, join
from cdc.schema.table import Column, Index, Table
from owner.barrier import Pending
from owner.shard_join import between, same_rows
from owner.shard_part import ShardPart


def untouched(p: Pending, part: ShardPart, others: Mapping[str, Table]) -> frozenset[str]:
    """Names of the tables that need not come to a change, as they have nothing of what it is about.

    So it is only where the statement does to the target, whose column they lack, what it does to
    the table's own, and their rows have there what they would have behind it.
    """
    effect, old, new, change = part.effect, part.definition, part.after, p.ddl.change
    if effect is None or old is None or new is None or change is None or p.ddl.statement is None:
        return frozenset()
    found = {name: other for name, other in others.items() if _has_nothing(effect, old, other)}
    if not found:
        return frozenset()
    before, after = join([old, *found.values()]), join([new, *found.values()])
    names = dict(effect.renamed)
    given = {names.get(n, n): value for n, value in _defaults(before.table).items()}
    then = _defaults(after.table)
    if before.conflicts or after.conflicts or any(given[n] != then[n] for n in given.keys() & then):
        return frozenset()
    told = between(change, new, before.table, after.table)
    try:
        made = apply(told.before, p.ddl.statement).table(new.schema, new.name)
    except DefiniteError:
        return frozenset()
    return frozenset(found) if same_rows(made, after.table) else frozenset()


def _defaults(table: Table) -> Mapping[str, tuple[str | None, bool]]:
    return {c.name.lower(): (c.default, c.default_expression) for c in table.columns}


def _has_nothing(effect: TableEffect, old: Table, other: Table) -> bool:
    about = set(effect.dropped & old.positions.keys())
    come = {name for _, name in effect.renamed}
    for kind, *rest in effect.parts:
        if kind == "column":
            (name,) = rest
            if name in come:
                if name in other.positions:
                    return False
            elif name in old.positions:
                about.add(name)
            else:
                return False
        elif kind == "key":
            if _part(other, ("key", rest[0])) is not None:
                return False
        elif kind != "order of columns":
            return False
    return bool(about) and not effect.words and not about & other.positions.keys()


def gone_another_way(part: ShardPart, beyond: Collection[Part], other: Table) -> str:
    """Why a table cannot come to the same change as it is now, as a clause; "" if it can.

    ``beyond`` are the parts of which definitions have no join.
    """
    effect, old, new = part.effect, part.definition, part.after
    if effect is None or old is None or new is None:
        return ""
    for was, name in sorted(effect.renamed):
        if name in other.positions:
            return f"has a column {name} already"
        if was not in other.positions:
            return f"has no column {was}"
    for name in sorted(effect.dropped & new.positions.keys()):
        if name not in other.positions:
            return f"has no column {name}"
    for where in sorted(beyond):
        there = _part(other, where)
        if there is not None and there not in (_part(old, where), _part(new, where)):
            kind, name = where
            return f"has another {kind} {name} than the table had, or gets"
    return ""


def _part(table: Table, where: Part) -> Column | Index | None:
    kind, name = where
    if kind == "column":
        there = name in table.positions
        return unshown(table.columns[table.positions[name]]).but(comment="") if there else None
    return next((i for i in table.indexes if i.name.lower() == name), None)
