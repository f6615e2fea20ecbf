"""Columns whose values come out of names, in the text of a table that is made at the target.

They are the last ones of the primary key: rows of two tables with one key then do not meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdc.schema.definition import TableDefinition
from cdc.schema.table import Index
from cdc.schema.tokens import quoted
from sink.dispatch.extracted import CHARACTERS, CHARSET, COLLATION, Given, given_column
from sink.mysql.ddl.errors import DDLNotTranslatable


def with_given(definition: TableDefinition, given: Given) -> TableDefinition:
    """A table and its printed text, if there is one, with these columns behind its own.

    Raises DDLNotTranslatable for a column that it has itself, and for a text whose primary key is
    not found.
    """
    if not given:
        return definition
    table, names = definition.table, [name for name, _ in given]
    there = {column.name.lower() for column in table.columns}
    if known := [name for name in names if name.lower() in there]:
        raise DDLNotTranslatable(
            f"column {known[0]}, which is to be extracted from names, is its own too"
        )
    primary = next((index for index in table.indexes if index.primary), None)
    wider = replace(
        table,
        columns=(*table.columns, *map(given_column, names)),
        indexes=tuple(_longer(i, names) if i is primary else i for i in table.indexes),
    )
    text = definition.text
    if text:
        text = _with_columns(text, names)
        text = _with_key(text, primary, names) if primary is not None else text
    return replace(definition, table=wider, text=text)


def _longer(primary: Index, names: list[str]) -> Index:
    more = len(names)
    return replace(
        primary,
        columns=(*primary.columns, *names),
        prefixes=(*primary.prefixes, *[None] * more) if primary.prefixes else (),
        descending=(*primary.descending, *[False] * more) if primary.descending else (),
    )


def _with_columns(text: str, names: Iterable[str]) -> str:
    """Servers print a line for each column, which alone begin with a name."""
    lines = text.split("\n")
    last = max(i for i, line in enumerate(lines) if line.startswith("  `"))
    column = f"varchar({CHARACTERS}) CHARACTER SET {CHARSET} COLLATE {COLLATION} NOT NULL"
    made = [f"  {quoted(name)} {column}," for name in names]
    if not lines[last].endswith(","):
        lines[last] += ","
        made[-1] = made[-1].rstrip(",")
    return "\n".join([*lines[: last + 1], *made, *lines[last + 1 :]])


def _with_key(text: str, primary: Index, names: Iterable[str]) -> str:
    parts = []
    for i, column in enumerate(primary.columns):
        prefix = primary.prefixes[i] if primary.prefixes else None
        falls = bool(primary.descending) and primary.descending[i]
        length = f"({prefix})" if prefix is not None else ""
        parts.append(f"{quoted(column)}{length}{' DESC' if falls else ''}")
    begins = f"\n  PRIMARY KEY ({','.join(parts)}"
    before, found, after = text.partition(begins + ")")
    if not found:
        raise DDLNotTranslatable("its primary key is not found in its printed definition")
    more = "".join(f",{quoted(name)}" for name in names)
    return f"{before}{begins}{more}){after}"
