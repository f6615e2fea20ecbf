"""Columns that some tables of an optimistic shard group lack: what their rows have at the target.

The target gives such a row what adding the column would give it (``cdc.schema.joined``). Here that
is asked of the upstream's tables that have the column, so that a wrong default of the target shows.
Where no single value can be told, the column is left out of the comparison, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from cdc.base.nodes import plain
from cdc.schema.tokens import quoted
from cdc.verify.columns import ColumnInfo, Compared, compared
from cdc.verify.layout import ComparedColumns, Name, TableInfo
from cdc.verify.sessions import Sql, as_text

Kept = Mapping[str, Collection[str]]
"""By column of a target's table, in lower case, the tables that have dropped it (``owner``)."""

_Value = tuple[str, str | None]
_NULL: _Value = ("~", None)


def widened(
    plan: ComparedColumns,
    parts: Sequence[TableInfo],
    theirs: TableInfo,
    server: Callable[[str], Sql],
    target: Sql,
    kept: Kept,
) -> tuple[ComparedColumns, list[str]]:
    """The plan with values for what tables lack, and notes on columns that are not compared."""
    dropped = {n for n, tables in kept.items() if _names(plan.sources) & set(tables)}
    notes = [
        f"column {c.name} is not compared: a table has dropped it, and the target keeps its values"
        for c in plan.columns
        if c.name.lower() in dropped
    ]
    plan = plan.without(dropped)
    filled: dict[str, Compared] = {}
    untold: set[str] = set()
    for column in plan.columns:
        name = column.name.lower()
        if not any(name in absent for absent in plan.lacking.values()):
            continue
        having = {(p.schema, p.name): c for p in parts if (c := _column(p, name)) is not None}
        goal = _column(theirs, name)
        assert goal is not None
        found = _values(having, goal, theirs, server, target)
        if len(found) == 1:
            ((text, shown),) = found
            filled[name] = column.filled(text, shown)
        else:
            untold.add(name)
            notes.append(
                f"column {column.name} is not compared: not all tables have it, and what rows"
                " without it get is no single value"
            )
    return replace(plan.without(untold), filled=filled), notes


def _values(
    having: Mapping[Name, ColumnInfo],
    goal: ColumnInfo,
    theirs: TableInfo,
    server: Callable[[str], Sql],
    target: Sql,
) -> set[_Value]:
    """Text and shown value that rows without a column get, by each definition of it upstream."""
    how = compared(*having.values(), goal, value=f"DEFAULT({quoted(goal.name)})")
    found: set[_Value] = set()
    told: set[ColumnInfo] = set()
    for (schema, name), column in having.items():
        if column.computed:
            return set()
        if column in told:
            continue
        if column.nullable and column.default is None:
            value: _Value | None = _NULL
        elif column.default is None:
            # The type's own, which DEFAULT() does not tell here; there it is the column's default.
            value = _default(target, theirs.schema, theirs.name, how)
        else:
            value = _default(server(schema), schema, name, how)
        if value is not None:
            told.add(column)
            found.add(value)
    if not found:
        # No table that has it has a row to ask, so there is only the target's word.
        found.add(_default(target, theirs.schema, theirs.name, how) or _NULL)
    return found


def _default(session: Sql, schema: str, name: str, how: Compared) -> _Value | None:
    """A column's default, as its type prints it; None where there is no row to ask."""
    # As a row's text has it: of a number the driver would make one of its own.
    rows = session.rows(
        f"SELECT CONCAT({how.text}, '') AS t, {how.shown} AS s, DEFAULT({how.sql}) IS NULL AS n"
        f" FROM {quoted(plain(schema), name)} LIMIT 1"
    )
    if not rows:
        return None
    text, shown, null = rows[0]
    return _NULL if null else (as_text(text), as_text(shown))


def _column(table: TableInfo, name: str) -> ColumnInfo | None:
    return next((c for c in table.columns if c.name.lower() == name and not c.virtual), None)


def _names(tables: Sequence[Name]) -> set[str]:
    return {".".join(table).lower() for table in tables}
