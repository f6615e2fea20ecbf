"""Whether a table's raw row images mean the same at the target: row apply's precondition.

The servers compare types and metadata of TABLE_MAP with their table and refuse what differs, but
not names, signs, character sets, or the members of enum and set: rows that disagree there would be
applied as other values. So both sides are compared here, before the first row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cdc.binlog.column_types import ColumnType, real_type
from cdc.binlog.table_map import TableMap
from cdc.schema.table import Column, Table
from sink.mysql.errors import TargetIncompatible
from sink.mysql.target import TargetTable

_T = ColumnType
# How every server that we write to stores them; the formats before MySQL 5.6 are others.
_STORED: Final[dict[str, frozenset[int]]] = {
    "time": frozenset({_T.TIME2}),
    "datetime": frozenset({_T.DATETIME2}),
    "timestamp": frozenset({_T.TIMESTAMP2}),
}
_COMPRESSED: Final = frozenset({_T.BLOB_COMPRESSED, _T.VARCHAR_COMPRESSED})
# One name, another binary form in each family.
_FAMILY_FORMS: Final = frozenset({"json", "vector"})
# Their length is a display width.
_WIDTH_ONLY: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_BLOBS: Final = frozenset(
    {"tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext"}
)
_GEOMETRY_COLLECTION: Final = {"geomcollection": "geometrycollection"}
_Difference = Callable[[Column, Column], str | None]


def reasons(
    source: Table, stored: TableMap | None, target: TargetTable, *, same_family: bool
) -> list[str]:
    """Why rows of ``source`` cannot be applied to ``target`` as images; empty if they can.

    ``stored`` is the TABLE_MAP of the rows, None to compare definitions only; ``same_family``
    whether both servers are MySQL or both MariaDB. Each reason says both sides.
    """
    found = []
    if not target.transactional:
        found.append(f"the target's engine {target.engine or '?'} has no transactions")
    ours, theirs = source.columns, target.table.columns
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} columns upstream, {len(theirs)} at the target")
    if stored is not None and len(ours) != len(stored.types):
        found.append(f"{len(ours)} columns in the schema, {len(stored.types)} in the binlog")
    if found:
        return found
    for i, (column, other) in enumerate(zip(ours, theirs, strict=True)):
        reason = _column(column, other)
        if reason is None and not same_family and column.data_type in _FAMILY_FORMS:
            reason = f"MySQL and MariaDB store {column.data_type} in different forms"
        if reason is None and stored is not None:
            reason = _form(column, real_type(stored.types[i], stored.metadata[i]))
        if reason is not None:
            found.append(f"column {column.name}: {reason}")
    return found


def check(source: Table, stored: TableMap, target: TargetTable, *, same_family: bool) -> None:
    """Raise TargetIncompatible with the first reasons, if there are any."""
    _refuse(target, reasons(source, stored, target, same_family=same_family))


def _refuse(target: TargetTable, found: list[str]) -> None:
    if found:
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise TargetIncompatible(
            "rows cannot be applied as they are: " + "; ".join(found[:3]) + more,
            object=target.name,
            hint="give the table at the target the definition that it has upstream",
        )


def _column(source: Column, target: Column) -> str | None:
    if source.name.lower() != target.name.lower():
        return f"it is called {target.name} at the target"
    if _type_name(source) != _type_name(target):
        return _sides(source.column_type, target.column_type)
    for difference in _DIFFERENCES:
        reason = difference(source, target)
        if reason is not None:
            return reason
    return None


def _form(source: Column, code: int) -> str | None:
    name = source.data_type
    if code in _COMPRESSED:
        return "its values are stored compressed"
    if code not in _STORED.get(name, {code}):
        return f"the upstream stores {name} in the format before MySQL 5.6"
    return None


def _type_name(column: Column) -> str:
    return _GEOMETRY_COLLECTION.get(column.data_type, column.data_type)


def _sides(upstream: object, target: object) -> str:
    return f"{upstream} upstream, {target} at the target"


def _sign(source: Column, target: Column) -> str | None:
    if source.unsigned == target.unsigned:
        return None
    return _sides(source.column_type, target.column_type)


def _size(source: Column, target: Column) -> str | None:
    name = source.data_type
    if name in _WIDTH_ONLY or name in _BLOBS or name in ("enum", "set"):
        return None
    if (source.length, source.scale or 0) == (target.length, target.scale or 0):
        return None
    return _sides(source.column_type, target.column_type)


def _charset(source: Column, target: Column) -> str | None:
    if source.charset == target.charset:
        return None
    return _sides(f"character set {source.charset}", target.charset)


def _members(source: Column, target: Column) -> str | None:
    if source.members == target.members:
        return None
    return _sides(source.column_type, target.column_type)


def _generated(source: Column, target: Column) -> str | None:
    if source.generated == target.generated:
        return None
    return _sides(f"generated {source.generated or 'no'}", f"generated {target.generated or 'no'}")


def _nulls(source: Column, target: Column) -> str | None:
    if target.nullable or not source.nullable:
        return None
    return _sides("NULL is allowed", "NOT NULL")


_DIFFERENCES: tuple[_Difference, ...] = (_sign, _size, _charset, _members, _generated, _nulls)
