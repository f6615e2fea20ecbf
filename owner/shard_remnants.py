"""Columns that tables of an optimistic group have dropped, and that the target still has.

What such a table had there stays at the target until the last table has dropped the column. If it
adds the column again before, its rows would show what was dropped: it waits. DM:
``dropped-columns``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from cdc.schema.table import Table
from owner.shard_part import TableName

Remnants = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By the group's name at the target and the column, lower-case names of tables that had it."""

LEFT = "*"
"""In place of a table: one that has left the group, whose rows stay at the target."""


def still_there(
    remnants: Remnants, group: TableName, table: str, added: Collection[str], target: Table
) -> str:
    """Why a table may not add a column yet, as a clause; "" if it may."""
    of_group = remnants.get(".".join(group), {})
    for name in sorted(added):
        tables = of_group.get(name, ())
        if LEFT in tables:
            return (
                f"the target may still have column {name} of a table that has left the group,"
                " with the values of its rows"
            )
        if table in tables and name in target.positions:
            return (
                f"column {name}, which the table had dropped, is still at the target, with its"
                " values: other tables have not dropped it"
            )
    return ""


def after_change(
    remnants: Remnants,
    group: TableName,
    there: Collection[str],
    kept: Mapping[str, Collection[str]],
) -> Mapping[str, tuple[str, ...]]:
    """Those of a group, with columns that the target keeps of tables; without what it has not.

    ``there`` are the target's columns so far.
    """
    found = {
        column: tables
        for column, tables in remnants.get(".".join(group), {}).items()
        if LEFT in tables or column in there
    }
    for column, tables in kept.items():
        found[column] = tuple(sorted({*found.get(column, ()), *tables}))
    return found


def moved(of_group: Mapping[str, tuple[str, ...]], old: str, new: str) -> Mapping[str, Any]:
    """Those of a group in which a table has another name."""
    return {
        column: tuple(sorted(new if table == old else table for table in tables))
        for column, tables in of_group.items()
    }


def renamed(
    of_group: Mapping[str, tuple[str, ...]], columns: Iterable[tuple[str, str]]
) -> Mapping[str, tuple[str, ...]]:
    """Those of a group whose columns, in lower case, have other names at the target."""
    names = dict(columns)
    return {names.get(column, column): tables for column, tables in of_group.items()}
