"""What a statement does to a table, apart from the table's name and the words that ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc.schema.statement import DdlStatement
from cdc.schema.table import Column, Table
from cdc.schema.types import INTEGERS

Part = tuple[str, ...]

# What stands behind them in parentheses is how wide they are shown.
_WITH_WIDTH = frozenset({*INTEGERS, "year"})
_OF_THE_MOMENT = re.compile(
    r"\b(?:current_\w+|cur(?:date|time)|now|localtime(?:stamp)?|sysdate|utc_\w+|unix_timestamp"
    r"|uuid\w*|sys_guid|rand|random_bytes|connection_id|user|session_user|next\s+value|nextval)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TableEffect:
    """``parts`` are those of the table's definition that it changes, as they are behind it (None:
    gone). ``dropped`` and ``renamed`` (old, new) are columns, in lower case, whose values go or
    stay though the definitions do not tell. ``words`` are those of a statement about constraints,
    which definitions do not hold.
    """

    parts: Mapping[Part, Any]
    dropped: frozenset[str] = frozenset()
    renamed: frozenset[tuple[str, str]] = frozenset()
    words: tuple[str, ...] = ()


def effect_of(statement: DdlStatement, before: Table, after: Table) -> TableEffect:
    """Of a statement that changes one table. Raises ``DDLNotUnderstood``."""
    old, new = dict(_parts(before)), dict(_parts(after))
    changed = {part: new.get(part) for part in {*old, *new} if old.get(part) != new.get(part)}
    renamed = {pair for action in statement.actions for pair in action.plan.renames.items()}
    renamed |= {
        (draft.old_name.lower(), draft.column.name.lower())
        for action in statement.actions
        for draft in action.plan.changes
        if draft.old_name
    }
    return TableEffect(
        changed,
        statement.dropped_columns & before.positions.keys(),
        frozenset((a.lower(), b.lower()) for a, b in renamed if a.lower() != b.lower()),
        _constraint_words(statement),
    )


def filled_by_the_moment(statement: DdlStatement, before: Table, after: Table) -> str:
    """A new column whose values in rows that are there depend on when, or in which table, the
    statement runs; "" if there is none.
    """
    effect = effect_of(statement, before, after)
    kept = {new for _, new in effect.renamed} | (before.positions.keys() - effect.dropped)
    for column in after.columns:
        if column.name.lower() not in kept and _of_the_moment(column):
            return column.name
    return ""


def unshown(column: Column) -> Column:
    """A column without the width in which its numbers are shown."""
    if column.data_type in _WITH_WIDTH:
        return column.but(column_type="", length=None)
    return column


def _constraint_words(statement: DdlStatement) -> tuple[str, ...]:
    items = statement.cursor(statement.body).items[statement.body :]
    if not any(item.is_word("CHECK", "CONSTRAINT", "FOREIGN", "REFERENCES") for item in items):
        return ()
    return tuple(item.word or item.text for item in items)


def _of_the_moment(column: Column) -> bool:
    text = column.default or "" if column.default_expression else ""
    return column.auto_increment or bool(_OF_THE_MOMENT.search(text))


def _parts(table: Table) -> Iterator[tuple[Part, Any]]:
    for column in table.columns:
        yield ("column", column.name.lower()), unshown(column)
    yield ("order of columns",), tuple(c.name.lower() for c in table.columns)
    for index in table.indexes:
        yield ("key", index.name.lower()), index
    yield ("collation",), (table.charset, table.collation)
    yield ("comment",), table.comment
    yield ("engine",), table.engine
    yield ("system versioning",), table.versioned
    for name, columns in table.periods:
        yield ("period", name), columns
    for option, value in table.options:
        yield ("option", option), value
    for name in table.foreign_keys:
        # The server's own names begin with the table's.
        yield ("foreign key", name.lower().removeprefix(table.name.lower())), True
    yield ("partitions",), table.partitioning
