"""The TABLE_MAP that a server would log for a table, made of the schema alone."""

from __future__ import annotations

from typing import Final

from cdc.binlog.column_types import ColumnType
from cdc.binlog.table_map import TableMap
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.schema.table import Column, Table
from cdc.schema.types import GEOMETRIES

# Bits of an odd length in BIT columns are told (TM_BIT_LEN_EXACT_F): every server that we read.
_FLAGS: Final = 1
_T = ColumnType
_FIXED: Final[dict[str, tuple[int, int]]] = {
    "tinyint": (_T.TINY, 0),
    "smallint": (_T.SHORT, 0),
    "mediumint": (_T.INT24, 0),
    "int": (_T.LONG, 0),
    "bigint": (_T.LONGLONG, 0),
    "float": (_T.FLOAT, 4),
    "double": (_T.DOUBLE, 8),
    "date": (_T.DATE, 0),
    "year": (_T.YEAR, 0),
    "tinyblob": (_T.BLOB, 1),
    "tinytext": (_T.BLOB, 1),
    "blob": (_T.BLOB, 2),
    "text": (_T.BLOB, 2),
    "mediumblob": (_T.BLOB, 3),
    "mediumtext": (_T.BLOB, 3),
    "longblob": (_T.BLOB, 4),
    "longtext": (_T.BLOB, 4),
    "uuid": (_T.STRING, _T.STRING << 8 | 16),
    "inet6": (_T.STRING, _T.STRING << 8 | 16),
    "inet4": (_T.STRING, _T.STRING << 8 | 4),
    "geomcollection": (_T.GEOMETRY, 4),
    **dict.fromkeys(GEOMETRIES, (_T.GEOMETRY, 4)),
}
_FRACTIONS: Final = {
    "time": _T.TIME2,
    "datetime": _T.DATETIME2,
    "timestamp": _T.TIMESTAMP2,
}
_LONGEST_CHARACTER: Final = {
    "utf8mb4": 4, "utf16": 4, "utf16le": 4, "utf32": 4, "gb18030": 4,
    "utf8mb3": 3, "utf8": 3, "ujis": 3, "eucjpms": 3,
    "ucs2": 2, "gbk": 2, "gb2312": 2, "big5": 2, "sjis": 2, "cp932": 2, "euckr": 2,
}  # fmt: skip


def table_map(table: Table, table_number: int, server_kind: str) -> TableMap:
    """How a server of this kind (``mysql``, ``mariadb``) stores the table's rows.

    ``table_number`` is what rows events call it (below 2**48). The optional part is left out:
    names, signs and character sets are the table's. Raises ``ColumnTypeNotSupported``.
    """
    stored = [_stored(table, column, server_kind) for column in table.columns]
    return TableMap(
        table_id=table_number,
        flags=_FLAGS,
        schema=table.schema,
        name=table.name,
        types=bytes(code for code, _ in stored),
        metadata=tuple(meta for _, meta in stored),
        nullable=tuple(column.nullable for column in table.columns),
    )


def _stored(table: Table, column: Column, server_kind: str) -> tuple[int, int]:
    """Type code and metadata (``cdc.binlog.column_types``)."""
    name, length = column.data_type, column.length or 0
    if column.compressed:
        raise ColumnTypeNotSupported(
            "values of a COMPRESSED column are not decoded",
            object=f"{table.full_name}.{column.name}",
            hint="exclude the table by filter.rules, or change the column to one that is not "
            "COMPRESSED",
        )
    if name in _FIXED:
        return _FIXED[name]
    if name in _FRACTIONS:
        return _FRACTIONS[name], column.scale or 0
    if name == "decimal":
        return _T.NEWDECIMAL, (column.length or 10) << 8 | (column.scale or 0)
    if name == "bit":
        bits = column.length or 1
        return _T.BIT, bits % 8 | bits // 8 << 8
    if name == "json":
        # MariaDB's is another word for LONGTEXT.
        return (_T.BLOB if server_kind == "mariadb" else _T.JSON), 4
    if name == "vector":
        return (_T.VARCHAR, 4 * length) if server_kind == "mariadb" else (_T.VECTOR, 4)
    if name in ("varchar", "varbinary"):
        return _T.VARCHAR, length * _character_bytes(column)
    if name in ("char", "binary"):
        size = length * _character_bytes(column)
        return _T.STRING, (_T.STRING ^ (size & 0x300) >> 4) << 8 | size & 0xFF
    if name == "enum":
        return _T.STRING, _T.ENUM << 8 | (1 if len(column.members) < 256 else 2)
    if name == "set":
        size = (len(column.members) + 7) // 8
        return _T.STRING, _T.SET << 8 | (8 if size > 4 else size)
    raise ColumnTypeNotSupported(
        f"values of type {column.column_type} are not read",
        object=f"{table.full_name}.{column.name}",
        hint="exclude the table by filter.rules",
    )


def _character_bytes(column: Column) -> int:
    if column.data_type in ("binary", "varbinary"):
        return 1
    return _LONGEST_CHARACTER.get(column.charset or "utf8mb4", 1)
