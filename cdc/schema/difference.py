"""What ALTER TABLE makes one table of another, from their definitions alone.

It is for changes whose statements nobody has seen. A column that goes while another comes could be
one that was renamed, and its values would be lost: then there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable

from cdc.base.errors import DefiniteError
from cdc.schema.printed import Family, column_text, key_text, string_text
from cdc.schema.session import Session
from cdc.schema.table import Column, Index, Table
from cdc.schema.tokens import quoted


class DifferenceUnclear(DefiniteError):
    """Two definitions of a table from which the statement between them cannot be told."""

    code = "TG:ErrSchemaDifferenceUnclear"


def actions_between(
    before: Table, after: Table, session: Session, *, renamed: bool = True
) -> list[str]:
    """Actions of one ALTER TABLE, in the words of the session's server; none if nothing differs.

    Foreign keys and the counter are not looked at. ``renamed``: a column that goes may be one that
    comes. Raises DifferenceUnclear.
    """
    family, backslash = Family(session.mariadb), not session.no_backslash_escapes
    gone = [c for c in before.columns if c.name.lower() not in after.positions]
    new = [c for c in after.columns if c.name.lower() not in before.positions]
    if renamed and gone and new:
        names = ", ".join(quoted(c.name) for c in (*gone, *new))
        raise _unclear(after, f"some of its columns may have been renamed: {names}")
    for what in ("partitioning", "versioned", "periods"):
        if getattr(before, what) != getattr(after, what):
            raise _unclear(after, f"its {what} differs")
    kept, came = _keys(before, after)
    found = [_drop(index) for index in before.indexes if index not in kept]
    found += [f"DROP COLUMN {quoted(c.name)}" for c in gone]
    found += _columns(before, after, lambda c: column_text(c, family, backslash=backslash))
    found += [f"ADD {key_text(index, family)}" for index in came]
    if before.engine != after.engine:
        found.append(f"ENGINE = {after.engine}")
    if (before.charset, before.collation) != (after.charset, after.collation) and after.collation:
        found.append(f"DEFAULT CHARACTER SET {after.charset} COLLATE {after.collation}")
    if before.comment != after.comment:
        found.append(f"COMMENT = {string_text(after.comment, backslash)}")
    options = dict(before.options)
    found += [f"{name} = {value}" for name, value in after.options if options.get(name) != value]
    return found


def _columns(before: Table, after: Table, text: Callable[[Column], str]) -> list[str]:
    """ADD and MODIFY, in the order of the table, each behind the one before it."""
    left = [c.name.lower() for c in before.columns if c.name.lower() in after.positions]
    stays = [c.name.lower() for c in after.columns if c.name.lower() in before.positions]
    moving = left != stays
    found = []
    place = "FIRST"
    for column in after.columns:
        name = column.name.lower()
        if name not in before.positions:
            found.append(f"ADD COLUMN {text(column)} {place}")
        elif moving or column != before.columns[before.positions[name]]:
            found.append(f"MODIFY COLUMN {text(column)}" + (f" {place}" if moving else ""))
        place = f"AFTER {quoted(column.name)}"
    return found


def _keys(before: Table, after: Table) -> tuple[list[Index], list[Index]]:
    """Keys of ``before`` that stay, and those that ``after`` has besides."""
    kept = [index for index in before.indexes if index in after.indexes]
    return kept, [index for index in after.indexes if index not in kept]


def _drop(index: Index) -> str:
    return "DROP PRIMARY KEY" if index.primary else f"DROP KEY {quoted(index.name)}"


def _unclear(table: Table, what: str) -> DifferenceUnclear:
    return DifferenceUnclear(
        f"{what}, and the statement that did it is not known",
        object=table.full_name,
        hint="carry it out at the target by hand, then skip it: cdc cli ddl skip",
    )
