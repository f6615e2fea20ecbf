"""Type names of canal-json: ``sqlType`` codes and ``mysqlType`` texts.

The codes are those of ``java.sql.Types`` in TiCDC's choice.
"""

from __future__ import annotations

from typing import Final

from cdc.rows.storage import BINARY_TYPES
from cdc.schema.table import Column

_SQL_TYPES: Final[dict[str, int]] = {
    "tinyint": -6,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "float": 7,
    "double": 8,
    "decimal": 3,
    "bit": -7,
    "char": 1,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 93,
    "enum": 4,
    "set": -7,
    "tinytext": 2005,
    "text": 2005,
    "mediumtext": 2005,
    "longtext": 2005,
}
_LARGE_SQL_TYPES: Final = {"tinyint": 5, "smallint": 4, "int": -5, "bigint": 3}
_VARCHAR_SQL_TYPE: Final = 12
_BLOB_SQL_TYPE: Final = 2004


def sql_type(column: Column) -> tuple[int, int | None]:
    """The ``sqlType`` code, and the code of an unsigned value that exceeds the signed type."""
    if column.data_type in BINARY_TYPES:
        return _BLOB_SQL_TYPE, None
    usual = _SQL_TYPES.get(column.data_type, _VARCHAR_SQL_TYPE)
    return usual, _LARGE_SQL_TYPES.get(column.data_type) if column.unsigned else None


def mysql_type(column: Column, full: bool) -> str:
    """The ``mysqlType`` text: without parameters unless ``full``."""
    if full:
        return column.column_type
    text = column.data_type
    if column.unsigned:
        text += " unsigned"
    if "zerofill" in column.column_type.lower():
        text += " zerofill"
    return text
