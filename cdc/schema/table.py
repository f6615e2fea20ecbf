"""Tables as immutable values.

A ``Table`` is what ``information_schema`` says of a table at one moment; it is made from DDL text
(``cdc.schema.parse``) and never changes. Row images are decoded with it together with the
TABLE_MAP of the binlog, which says how values are stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from operator import attrgetter
from typing import Any


class Generated(StrEnum):
    """How a generated column is kept."""

    NO = ""
    STORED = "STORED"
    VIRTUAL = "VIRTUAL"


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in the words of ``information_schema.columns``.

    ``data_type`` is the bare lower-case type (``int``, ``varchar``, ``enum``, ``uuid`` …);
    ``column_type`` the full text with parameters (``int(11) unsigned``, ``enum('a','b')``).
    ``length`` is in characters for text and bytes for binary types, display width or precision
    for numbers; ``scale`` is the number of decimals, or of fractional digits (fsp) of a time type.
    ``members`` are the members of enum and set, in order. ``default`` is the value of a literal, or
    the text of an expression where ``default_expression`` says so; None is no default, or NULL.
    ``expression`` is the text of a generated column; ``on_update`` is ``current_timestamp(n)``.
    """

    name: str
    data_type: str
    column_type: str
    unsigned: bool = False
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    collation: str | None = None
    nullable: bool = True
    default: str | None = None
    generated: Generated = Generated.NO
    invisible: bool = False
    auto_increment: bool = False
    members: tuple[str, ...] = ()
    comment: str = ""
    default_expression: bool = False
    on_update: str | None = None
    expression: str | None = None
    zerofill: bool = False
    srid: int | None = None
    compressed: bool = False

    def but(self, **changes: Any) -> Column:
        """A copy with other values in these fields, in half the time of ``dataclasses.replace``.

        Copies of columns are what reading many tables spends its time on.
        """
        values = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Column(*values)


_values = attrgetter(*Column.__slots__)
_PLACES = {name: i for i, name in enumerate(Column.__slots__)}


@dataclass(frozen=True, slots=True)
class Index:
    """A key; ``columns`` are names in key order. A functional key part has the name ``""``.

    ``prefixes`` are characters (bytes of binary types) of each part, None for the whole column;
    ``descending`` says so of each part. ``kind`` is ``""``, ``FULLTEXT``, ``SPATIAL`` or
    ``VECTOR``. ``generated`` keys were made by the server for a foreign key, and go when a key of
    the user can serve instead. ``expressions`` are the texts of functional parts.
    """

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False
    prefixes: tuple[int | None, ...] = ()
    descending: tuple[bool, ...] = ()
    kind: str = ""
    visible: bool = True
    generated: bool = False
    expressions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; ``values`` is what it takes, as written: ``LESS THAN (…)``, ``IN (…)``."""

    name: str
    values: str = ""
    comment: str = ""
    subpartitions: tuple[str, ...] = ()
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """How a table is partitioned; ``method`` is ``RANGE COLUMNS``, ``LINEAR HASH`` and the like.

    Expressions are texts as written.
    """

    method: str
    expression: str = ""
    sub_method: str = ""
    sub_expression: str = ""
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table as it was at one moment. Columns are in table order, invisible ones included.

    ``periods`` are MariaDB's, name to (start, end) columns. ``options`` are the other table
    options that were given, by upper-case name; ``foreign_keys`` are names.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    charset: str | None = None
    collation: str | None = None
    comment: str = ""
    engine: str = "innodb"
    versioned: bool = False
    partitioning: Partitioning | None = None
    periods: tuple[tuple[str, tuple[str, str]], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    foreign_keys: tuple[str, ...] = ()

    @cached_property
    def positions(self) -> dict[str, int]:
        """Ordinal of each column by lower-case name."""
        return {c.name.lower(): i for i, c in enumerate(self.columns)}

    @cached_property
    def handle_key(self) -> tuple[int, ...]:
        """Ordinals of the columns that identify a row, or ``()`` if no key can.

        The primary key; else the first unique key all of whose columns are NOT NULL and not
        virtual generated (TiCDC's "valid index").
        """
        for index in sorted(self.indexes, key=lambda i: not i.primary):
            if not (index.primary or index.unique) or "" in index.columns:
                continue
            ordinals = tuple(self.positions[name.lower()] for name in index.columns)
            columns = [self.columns[i] for i in ordinals]
            if index.primary or all(
                not c.nullable and c.generated is not Generated.VIRTUAL for c in columns
            ):
                return ordinals
        return ()

    @property
    def full_name(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"
