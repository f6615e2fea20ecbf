"""What a statement says of columns and keys, before defaults of table and server are filled in."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc.schema.table import Column

FIRST = ""


@dataclass(slots=True)
class ColumnDraft:
    """A column definition as written.

    ``null`` is what was said of NULL, None for nothing. ``place`` is None, ``FIRST`` (the empty
    name) or the name behind AFTER. ``old_name`` is set by CHANGE and MODIFY.
    """

    column: Column
    null: bool | None = None
    has_default: bool = False
    binary: bool = False
    byte: bool = False
    national: bool = False
    default_collation: bool = False
    primary: bool = False
    unique: bool = False
    references: bool = False
    constraint: str = ""
    versioned: bool = False
    place: str | None = None
    old_name: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class KeyPart:
    """A column of a key, or an expression (then the name is empty)."""

    name: str
    prefix: int | None = None
    descending: bool = False
    expression: str = ""
    without_overlaps: bool = False


@dataclass(slots=True)
class KeyDraft:
    """A key as written; ``kind`` is PRIMARY, UNIQUE, KEY, FULLTEXT, SPATIAL or VECTOR.

    ``present`` is one that the table had before. ``described`` says that it has options that a key
    need not have: a comment, a parser. ``foreign`` are the names of the constraint and of its key
    where a foreign key makes it.
    """

    kind: str
    name: str
    parts: list[KeyPart]
    visible: bool = True
    generated: bool = False
    conditional: bool = False
    present: bool = False
    described: bool = False
    foreign: tuple[str, str] | None = None


@dataclass(slots=True)
class Options:
    """Table or database options as written; None where nothing was said."""

    charset: str | None = None
    collation: str | None = None
    comment: str | None = None
    engine: str | None = None
    versioned: bool | None = None
    default_charset: bool = False
    default_collation: bool = False
    others: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Body:
    """Columns, keys and periods between the parentheses of CREATE TABLE, or behind ADD."""

    columns: list[ColumnDraft] = field(default_factory=list)
    keys: list[KeyDraft] = field(default_factory=list)
    periods: dict[str, tuple[str, str]] = field(default_factory=dict)
    conditional_periods: set[str] = field(default_factory=set)
