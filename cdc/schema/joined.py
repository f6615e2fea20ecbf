"""The least definition that takes the rows of several tables: their join.

Rows of a table that lacks a column name only their own columns, so the join gives the column the
value that the table's rows would have, if it were added there. Fewer constraints take more rows: a
key is in the join if all tables have it. The order of types is DM's (``pkg/util/schemacmp``), but
what has no join is said, never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cdc.schema.table import Column, Generated, Index, Table
from cdc.schema.types import NUMBERS, TEMPORAL

Part = tuple[str, str]
"""``("column", name)`` or ``("key", name)`` in lower case; the primary key is ``primary``."""


@dataclass(frozen=True)
class TableJoin:
    """``conflicts`` are parts of which the tables have no join, each with why.

    There ``table`` has a column as the first of the tables that have it, and a key not at all.
    """

    table: Table
    conflicts: dict[Part, str] = field(default_factory=dict)


def join(tables: Sequence[Table], like: Table | None = None) -> TableJoin:
    """The join of at least one table.

    ``like`` is what has its place: order of columns, name, options and all else in which rows do
    not differ; without it that is the first of them.
    """
    model = tables[0] if like is None else like
    names = _order(tables, model)
    conflicts: dict[Part, str] = {}
    columns = []
    for name in names:
        there = [t.columns[t.positions[name]] for t in tables if name in t.positions]
        column, why = _column(there, lacking=len(there) < len(tables))
        columns.append(column)
        if why:
            conflicts["column", name] = f"column {column.name}: {why}"
    indexes = _indexes(tables, conflicts)
    order = {index.name.lower(): i for i, index in enumerate(model.indexes)}
    indexes.sort(key=lambda index: order.get(index.name.lower(), len(order)))
    wide = next((t for t in (model, *tables) if t.charset == "utf8mb4"), model)
    table = replace(
        model,
        columns=tuple(columns),
        indexes=tuple(indexes),
        charset=wide.charset if _utf8(model.charset) else model.charset,
        collation=wide.collation if _utf8(model.charset) else model.collation,
    )
    return TableJoin(table, conflicts)


def _order(tables: Sequence[Table], model: Table) -> list[str]:
    """Names of all columns, each new one behind the one that it follows in its own table."""
    there = {name for t in tables for name in t.positions}
    found = [name for name in model.positions if name in there]
    for table in tables:
        last = -1
        for name in table.positions:
            if name in found:
                last = found.index(name)
            else:
                last += 1
                found.insert(last, name)
    return found


def _column(there: Sequence[Column], *, lacking: bool) -> tuple[Column, str]:
    """A column of the join, and why there is none."""
    first = there[0]
    joined = first
    for other in there[1:]:
        found = _types(joined, other)
        if isinstance(found, str):
            return first, found
        joined = found
    for what in ("generated", "expression", "on_update", "srid"):
        values = [getattr(c, what) for c in there]
        if len(set(values)) > 1:
            return first, f"{what.replace('_', ' ')} is {values[0]} there and {_other(values)} here"
    nullable = any(c.nullable for c in there)
    joined = joined.but(
        nullable=nullable,
        auto_increment=not lacking and all(c.auto_increment for c in there),
        invisible=all(c.invisible for c in there),
        comment=first.comment,
    )
    if joined.generated is not Generated.NO:
        return joined, ""
    return _with_default(joined, there, lacking=lacking)


def _with_default(joined: Column, there: Sequence[Column], *, lacking: bool) -> tuple[Column, str]:
    """With the default of those that have one: no default is less than any (DM)."""
    defaults = ((c.default, c.default_expression) for c in there if c.default is not None)
    given = list(dict.fromkeys(defaults))
    if len(given) > 1:
        return joined, f"the default is {given[0][0]} there and {given[1][0]} here"
    if given:
        joined = joined.but(default=given[0][0], default_expression=given[0][1])
    if not lacking:
        return joined, ""
    if any(c.auto_increment for c in there):
        return joined, "AUTO_INCREMENT, and some tables have no such column"
    filled = {_filled(c) for c in there}
    if len(filled) > 1:
        shown = sorted("NULL" if value is None else repr(value) for value, _ in filled)
        return joined, f"rows without it would have {' here and '.join(shown)} there"
    ((value, expression),) = filled
    if value is None and not joined.nullable:
        return joined, f"{joined.column_type} NOT NULL has no default for rows without it"
    return joined.but(default=value, default_expression=expression), ""


def _filled(column: Column) -> tuple[str | None, bool]:
    """What ADD COLUMN gives rows that are there; None for NULL, and where it gives nothing."""
    if column.default is not None or column.nullable:
        return column.default, column.default_expression
    kind = column.data_type
    if kind in NUMBERS:
        return "0", False
    if kind in ("char", "varchar", "binary", "varbinary", "set"):
        return "", False
    if kind == "enum":
        return column.members[0], False
    if kind == "bit":
        return "b'0'", False
    if kind == "time":
        return "00:00:00" + ("." + "0" * column.scale if column.scale else ""), False
    return None, False


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_LONG = [tuple(size + kind for size in ("tiny", "", "medium", "long")) for kind in ("text", "blob")]
_ORDERS = (_INTEGERS, *_LONG)
# By length alone; a longer BINARY has other values, and CHAR is padded.
_LENGTHS = frozenset({"varchar", "varbinary", "char", "bit"})


def _types(a: Column, b: Column) -> Column | str:
    """The wider of two columns with the charset of both, or why there is none."""
    unlike = f"it is {_shown(a)} there and {_shown(b)} here"
    if (a.unsigned, a.zerofill) != (b.unsigned, b.zerofill):
        return unlike
    wide = _wider(a, b)
    if wide is None:
        return unlike
    if (a.charset, a.collation) == (b.charset, b.collation):
        return wide
    if _utf8(a.charset) and _utf8(b.charset) and a.charset != b.charset:
        big = a if a.charset == "utf8mb4" else b
        if _order_of(a) == _order_of(b):
            return wide.but(charset=big.charset, collation=big.collation)
    return unlike


def _wider(a: Column, b: Column) -> Column | None:
    for order in _ORDERS:
        if a.data_type in order and b.data_type in order:
            return a if order.index(a.data_type) >= order.index(b.data_type) else b
    if a.data_type != b.data_type:
        return None
    if a.data_type in _LENGTHS:
        return a if (a.length or 0) >= (b.length or 0) else b
    if a.data_type in TEMPORAL:
        return a if (a.scale or 0) >= (b.scale or 0) else b
    if a.data_type in ("enum", "set"):
        long, short = (a, b) if len(a.members) >= len(b.members) else (b, a)
        return long if long.members[: len(short.members)] == short.members else None
    return a if a.data_type == "year" or a.column_type == b.column_type else None


def _utf8(charset: str | None) -> bool:
    return charset in ("utf8", "utf8mb3", "utf8mb4")


def _order_of(column: Column) -> str:
    """The collation without its charset."""
    return (column.collation or "").partition("_")[2]


def _shown(c: Column) -> str:
    return c.column_type + (f" COLLATE {c.collation}" if c.collation else "")


def _other(values: Sequence[object]) -> object:
    return next(value for value in values if value != values[0])


def _indexes(tables: Sequence[Table], conflicts: dict[Part, str]) -> list[Index]:
    """Keys that all tables have."""
    by_table = [{i.name.lower(): i for i in t.indexes} for t in tables]
    found = []
    for name in dict.fromkeys(name for indexes in by_table for name in indexes):
        there = [indexes[name] for indexes in by_table if name in indexes]
        primary = any(i.primary for i in there)
        texts = list(dict.fromkeys(_parts(i) for i in there))
        if len(texts) > 1:
            what = "the primary key" if primary else f"key {there[0].name}"
            shown = [", ".join(n or "…" for n in columns) for columns, *_ in texts[:2]]
            conflicts["key", name] = f"{what} is ({shown[0]}) there and ({shown[1]}) here"
        elif primary and len(there) < len(tables):
            conflicts["key", name] = "not all tables have the primary key"
        elif len(there) == len(tables):
            found.append(replace(there[0], unique=all(i.unique for i in there)))
    return found


def _parts(index: Index) -> tuple[tuple[str, ...], object, object, object]:
    """What two keys of one name must have in common."""
    names = tuple(name.lower() for name in index.columns)
    return names, index.prefixes, index.expressions, (index.kind, index.descending)
