"""Whether a table of the schema is the one that a TABLE_MAP describes; if not, both by name."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Final

from cdc.base.errors import DefiniteError
from cdc.binlog.column_types import ColumnType, real_type
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import Dialect
from cdc.binlog.table_map import TableMap
from cdc.binlog.table_metadata import TableMetadata
from cdc.kernels.charsets import collations
from cdc.rows.storage import ColumnTypeNotSupported, type_matches
from cdc.schema.charsets import decode
from cdc.schema.table import Column, Table


class SchemaMismatch(DefiniteError):
    """A TABLE_MAP disagrees with the tracked schema."""

    code = "TG:ErrSchemaMismatch"


class SystemVersionedTable(DefiniteError):
    """A MariaDB table whose images hold hidden history columns."""

    code = "TG:ErrSystemVersionedTable"


# Integers: the only types whose bytes read differently by sign.
_SIGNED: Final = frozenset((1, 2, 3, 8, 9))
_COMPRESSED: Final = frozenset({ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED})
_TEXTS: Final = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"},
)
# With timestamps, or with transaction ids.
_HISTORY: Final = ([(17, 6), (17, 6)], [(8, 0), (8, 0)])


def check(table: Table, stored: TableMap) -> None:
    """Compare number, names, types, signs and character sets as far as the TABLE_MAP tells them.

    Raises ``SchemaMismatch``, ``ColumnTypeNotSupported`` (MariaDB's COMPRESSED) or
    ``SystemVersionedTable``.
    """
    types, metas, readings = stored.types, stored.metadata, _readings(stored)
    details = readings[0]
    if len(types) != len(table.columns):
        if _has_hidden_history(table, stored, details):
            raise SystemVersionedTable(
                "a system-versioned table whose row_start and row_end are hidden: its images are "
                "versions of rows, not rows",
                object=table.full_name,
                hint="exclude it by filter.rules, or declare the two columns "
                "(GENERATED ALWAYS AS ROW START and END) to get every version as a row",
            )
        raise mismatch(
            table, f"{len(table.columns)} columns in the schema, {len(types)} in the binlog"
        )
    for i, column in enumerate(table.columns):
        if details.names and details.names[i].lower() != column.name.lower():
            raise mismatch(
                table,
                f"column {i + 1} is {column.name} in the schema, {details.names[i]} in the binlog",
            )
        if types[i] in _COMPRESSED:
            raise ColumnTypeNotSupported(
                "values of a COMPRESSED column are not decoded",
                object=f"{table.full_name}.{column.name}",
                hint="exclude the table by filter.rules, or change the column to one that is not "
                "COMPRESSED",
            )
        if details.unsigned and types[i] in _SIGNED and details.unsigned[i] != column.unsigned:
            raise mismatch(table, f"column {column.name} has another sign in the binlog")
        if not type_matches(column, types[i], metas[i]):
            raise mismatch(
                table,
                f"column {column.name} is {column.column_type} in the schema, "
                f"binlog type {real_type(types[i], metas[i])} (metadata {metas[i]}) in the binlog",
            )
    _check_members(table, details)
    _check_charsets(table, readings)


def _check_members(table: Table, details: TableMetadata) -> None:
    """Members of enum and set columns: rows hold their numbers only."""
    for column, raw in zip(table.columns, details.members, strict=False):
        # A table that was made of a TABLE_MAP alone does not know them.
        if not raw or not column.members or column.data_type not in ("enum", "set"):
            continue
        logged = tuple(decode(member, column.charset or "utf8mb4") for member in raw)
        if logged != column.members:
            raise mismatch(
                table,
                f"column {column.name} is {column.column_type} in the schema, its members are "
                f"{', '.join(logged)[:200]} in the binlog",
            )


def mismatch(table: Table, message: str) -> SchemaMismatch:
    """The error for two sides that differ."""
    return SchemaMismatch(
        message,
        object=table.full_name,
        hint="a schema change was missed; take a new snapshot of the table",
    )


def _has_hidden_history(table: Table, stored: TableMap, details: TableMetadata) -> bool:
    # SHOW CREATE TABLE does not show the two columns of a table WITH SYSTEM VERSIONING.
    known = len(table.columns)
    extra = list(zip(stored.types[known:], stored.metadata[known:], strict=True))
    names = details.names[known:] or ("row_start", "row_end")
    return extra in _HISTORY and names == ("row_start", "row_end")


def _check_charsets(table: Table, readings: list[TableMetadata]) -> None:
    differing = [_first_difference(table, details) for details in readings]
    if all(differing):
        column, logged = differing[0] or (table.columns[0], "")
        raise mismatch(
            table,
            f"column {column.name} is of character set {column.charset or 'binary'} in the "
            f"schema, {logged} in the binlog",
        )


def _readings(stored: TableMap) -> list[TableMetadata]:
    # The families count different columns as text, and a TABLE_MAP does not say which family
    # wrote it: where there is a geometry, every reading that is possible may agree.
    if ColumnType.GEOMETRY not in stored.types:
        return [stored.details()]
    found: list[TableMetadata] = []
    for dialect in Dialect:
        with suppress(EventMalformed):
            found.append(stored.details(dialect))
    return found or [stored.details()]


def _first_difference(table: Table, details: TableMetadata) -> tuple[Column, str] | None:
    if not details.collations:
        return None
    for column, collation in zip(table.columns, details.collations, strict=True):
        logged = None if collation is None else _charsets().get(collation)
        if logged is None:
            continue
        if column.data_type in _TEXTS and column.charset is not None:
            expected = "utf8mb3" if column.charset == "utf8" else column.charset
        elif column.data_type in _BYTES:
            expected = "binary"
        else:
            continue
        if logged != expected:
            return column, logged
    return None


@lru_cache(maxsize=1)
def _charsets() -> dict[int, str]:
    # No id means one character set in one family and another in the other.
    return {**collations("mysql"), **collations("mariadb")}
