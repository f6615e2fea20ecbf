"""Tables as far as a TABLE_MAP itself tells them; what it leaves open is named, never guessed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from cdc.binlog.column_types import ColumnType, real_type
from cdc.binlog.events import Dialect
from cdc.binlog.table_map import TableMap
from cdc.binlog.table_metadata import TableMetadata
from cdc.kernels.charsets import collations
from cdc.schema.table import Column, Index, Table


class Unknown(StrEnum):
    """What neither the binlog nor a schema says about a column."""

    NOTHING = ""
    NAME = "its name"
    SIGN = "whether it is unsigned"
    CHARSET = "its character set"
    FRACTION = "its number of fractional digits"


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table for printing; ``unknown`` has one entry a column."""

    table: Table
    unknown: tuple[Unknown, ...]

    def first_unknown(self) -> tuple[str, Unknown] | None:
        """The first column of which something is not known."""
        for column, unknown in zip(self.table.columns, self.unknown, strict=True):
            if unknown:
                return column.name, unknown
        return None


_SIMPLE: dict[int, str] = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.NEWDECIMAL: "decimal",
    ColumnType.BIT: "bit",
    ColumnType.YEAR: "year",
    ColumnType.DATE: "date",
    ColumnType.NEWDATE: "date",
    ColumnType.TIME: "time",
    ColumnType.TIME2: "time",
    ColumnType.DATETIME: "datetime",
    ColumnType.DATETIME2: "datetime",
    ColumnType.TIMESTAMP: "timestamp",
    ColumnType.TIMESTAMP2: "timestamp",
    ColumnType.JSON: "json",
    ColumnType.GEOMETRY: "geometry",
    ColumnType.VECTOR: "vector",
    ColumnType.ENUM: "enum",
    ColumnType.SET: "set",
}
INTEGER_BITS: dict[str, int] = {
    "tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64,
}  # fmt: skip
_FRACTIONS = frozenset({ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2})
_OLD_TEMPORAL = frozenset({ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP})
_TEXTS = {1: "tinytext", 2: "text", 3: "mediumtext", 4: "longtext"}
_BLOBS = {1: "tinyblob", 2: "blob", 3: "mediumblob", 4: "longblob"}
_TEXT_TYPES = frozenset({"char", "varchar", *_TEXTS.values()})


def table_of_metadata(stored: TableMap, dialect: Dialect) -> KnownTable:
    """The table of a TABLE_MAP; columns without a name are ``@1``, ``@2`` …"""
    details = stored.details(dialect)
    names = details.names or tuple(f"@{i + 1}" for i in range(stored.columns))
    found = [_column(stored, details, dialect, i, names[i]) for i in range(stored.columns)]
    key = tuple(names[i] for i, _ in details.primary_key)
    indexes = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    table = Table(stored.schema, stored.name, tuple(c for c, _ in found), indexes)
    return KnownTable(table, tuple(u for _, u in found))


def table_of_schema(given: Table, stored: TableMap, dialect: Dialect) -> KnownTable:
    """A table out of a schema file; character sets that it leaves open come from the TABLE_MAP."""
    details = stored.details(dialect)
    columns: list[Column] = []
    unknown: list[Unknown] = []
    for i, column in enumerate(given.columns):
        missing = Unknown.NOTHING
        if column.charset == "" and column.data_type in ("enum", "set"):
            column = replace(column, charset=None)
        elif column.charset == "":
            logged = details.collations[i] if i < len(details.collations) else None
            charset = charset_name(logged, dialect)
            missing = Unknown.NOTHING if charset else Unknown.CHARSET
            column = replace(column, charset=charset)
        columns.append(column)
        unknown.append(missing)
    return KnownTable(replace(given, columns=tuple(columns)), tuple(unknown))


def _column(
    stored: TableMap, details: TableMetadata, dialect: Dialect, i: int, name: str
) -> tuple[Column, Unknown]:
    meta = stored.metadata[i]
    code = real_type(stored.types[i], meta)
    charset = charset_name(details.collations[i] if details.collations else None, dialect)
    data_type = _SIMPLE.get(code) or _text_type(code, meta, charset == "binary")
    length: int | None = None
    scale: int | None = None
    if code == ColumnType.NEWDECIMAL:
        length, scale = meta >> 8, meta & 0xFF
    elif code in _FRACTIONS:
        scale = meta
    elif code == ColumnType.BIT:
        length = (meta >> 8) * 8 + (meta & 0xFF)
    column = Column(
        name,
        data_type,
        data_type,
        unsigned=bool(details.unsigned and details.unsigned[i]),
        length=length,
        scale=scale,
        charset=charset,
        nullable=stored.nullable[i],
    )
    unknown = Unknown.NOTHING
    if code in _OLD_TEMPORAL and dialect is Dialect.MARIADB:
        unknown = Unknown.FRACTION
    elif data_type in _TEXT_TYPES and charset is None:
        unknown = Unknown.CHARSET
    elif data_type in INTEGER_BITS and not details.unsigned:
        unknown = Unknown.SIGN
    elif not details.names:
        unknown = Unknown.NAME
    return column, unknown


def _text_type(code: int, meta: int, binary: bool) -> str:
    if code == ColumnType.STRING:
        return "binary" if binary else "char"
    if code in (ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED):
        return "varbinary" if binary else "varchar"
    return (_BLOBS if binary else _TEXTS).get(meta, "blob" if binary else "text")


def charset_name(collation: int | None, dialect: Dialect) -> str | None:
    """Character set of a collation id; ``None`` if there is no id, or none that we know."""
    if collation is None:
        return None
    return collations("mariadb" if dialect is Dialect.MARIADB else "mysql").get(collation)
