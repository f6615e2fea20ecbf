"""Type names of MySQL and MariaDB: synonyms and default sizes, as ``information_schema`` has them.

Source: MySQL 8.0 and 9 manual, "Data Types"; MariaDB knowledge base, "Data Types".
"""

from __future__ import annotations

from cdc.schema.charsets import encode, is_no_text
from cdc.schema.session import Session
from cdc.schema.table import Column

# Words that begin a type, and the type that the server stores for them. Longest first.
SYNONYMS: dict[tuple[str, ...], str] = {
    ("LONG", "VARCHAR"): "mediumtext",
    ("LONG", "VARBINARY"): "mediumblob",
    ("LONG", "CHAR", "VARYING"): "mediumtext",
    ("LONG", "CHARACTER", "VARYING"): "mediumtext",
    ("LONG",): "mediumtext",
    ("NATIONAL", "CHARACTER", "VARYING"): "varchar",
    ("NATIONAL", "CHAR", "VARYING"): "varchar",
    ("NATIONAL", "VARCHARACTER"): "varchar",
    ("NATIONAL", "VARCHAR"): "varchar",
    ("NATIONAL", "CHARACTER"): "char",
    ("NATIONAL", "CHAR"): "char",
    ("NCHAR", "VARYING"): "varchar",
    ("NCHAR", "VARCHAR"): "varchar",
    ("NVARCHAR",): "varchar",
    ("NCHAR",): "char",
    ("CHARACTER", "VARYING"): "varchar",
    ("CHAR", "VARYING"): "varchar",
    ("CHAR", "BYTE"): "binary",
    ("CHARACTER",): "char",
    ("VARCHARACTER",): "varchar",
    ("VARCHAR2",): "varchar",
    ("DOUBLE", "PRECISION"): "double",
    ("REAL",): "double",
    ("FLOAT4",): "float",
    ("FLOAT8",): "double",
    ("INTEGER",): "int",
    ("INT1",): "tinyint",
    ("INT2",): "smallint",
    ("INT3",): "mediumint",
    ("INT4",): "int",
    ("INT8",): "bigint",
    ("MIDDLEINT",): "mediumint",
    ("DEC",): "decimal",
    ("NUMERIC",): "decimal",
    ("NUMBER",): "decimal",
    ("FIXED",): "decimal",
    ("BOOL",): "tinyint",
    ("BOOLEAN",): "tinyint",
    ("SERIAL",): "bigint",
    ("RAW",): "varbinary",
    ("CLOB",): "longtext",
    ("GEOMCOLLECTION",): "geometrycollection",
}

PLAIN = frozenset(
    [
        "bit",
        "tinyint",
        "smallint",
        "mediumint",
        "int",
        "bigint",
        "decimal",
        "float",
        "double",
        "date",
        "time",
        "datetime",
        "timestamp",
        "year",
        "char",
        "varchar",
        "binary",
        "varbinary",
        "tinyblob",
        "blob",
        "mediumblob",
        "longblob",
        "tinytext",
        "text",
        "mediumtext",
        "longtext",
        "enum",
        "set",
        "json",
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "vector",
        "uuid",
        "inet4",
        "inet6",
        "xmltype",
    ]
)

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
NUMBERS = INTEGERS | {"decimal", "float", "double"}
CHARACTER = frozenset(
    {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
)
TEMPORAL = frozenset({"time", "datetime", "timestamp"})
GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)

DEFAULT_LENGTH = {"bit": 1, "char": 1, "binary": 1, "decimal": 10, "vector": 2048}

BLOBS = frozenset({"tinyblob", "blob", "mediumblob", "longblob"})
TEXTS = frozenset({"tinytext", "text", "mediumtext", "longtext"})

_SIZES = (("tiny", 1 << 8), ("", 1 << 16), ("medium", 1 << 24), ("long", 1 << 32))
_BLOB_BYTES = {f"{size}{kind}": n - 1 for size, n in _SIZES for kind in ("blob", "text")}


def blob_bytes(data_type: str) -> int | None:
    """The most bytes of a BLOB or TEXT type; None for other types."""
    return _BLOB_BYTES.get(data_type)


def sized_blob(kind: str, size: int) -> str:
    """The smallest ``blob`` or ``text`` type (``kind``) that holds ``size`` bytes."""
    for name, most in _SIZES:
        if size < most:
            return name + kind
    return "long" + kind


_WIDTH = {
    "tinyint": (4, 3),
    "smallint": (6, 5),
    "mediumint": (9, 8),
    "int": (11, 10),
    "bigint": (20, 20),
}


def column_type(column: Column, session: Session) -> str:
    """The full type as ``information_schema.columns.column_type`` of this server has it."""
    name, text = column.data_type, column.data_type
    if name in INTEGERS:
        text += _integer_width(column, session)
    elif name in ("decimal", "float", "double") and column.length is not None:
        text += f"({column.length}" + (f",{column.scale})" if column.scale is not None else ")")
    elif name in TEMPORAL:
        text += f"({column.scale})" if column.scale else ""
    elif name in ("char", "varchar", "binary", "varbinary", "bit", "vector"):
        text += f"({column.length})"
    elif name == "year":
        text += "" if _plain_widths(session) else f"({column.length or 4})"
    elif name in ("enum", "set"):
        text += "(" + ",".join(_member(m, column) for m in column.members) + ")"
    elif name == "geometrycollection" and not session.mariadb and session.version >= (8, 0):
        text = "geomcollection"
    if name in NUMBERS and column.unsigned:
        text += " unsigned"
    if name in NUMBERS and column.zerofill:
        text += " zerofill"
    if column.compressed:
        text += f" /*{'M' if session.version >= (10, 5) else ''}!100301 COMPRESSED*/"
    return text


def _plain_widths(session: Session) -> bool:
    # MySQL stopped to show display widths with 8.0.19.
    return not session.mariadb and session.version >= (8, 0, 19)


def _integer_width(column: Column, session: Session) -> str:
    signed, unsigned = _WIDTH[column.data_type]
    width = column.length
    if _plain_widths(session) and not column.zerofill:
        bool_like = column.data_type == "tinyint" and width == 1 and not column.unsigned
        return "(1)" if bool_like else ""
    if not width:
        width = unsigned if column.unsigned or column.zerofill else signed
    return f"({width})"


def _member(member: str, column: Column) -> str:
    if not is_no_text(member):
        return _quoted(member)
    return f"x'{encode(member, column.charset or 'binary').hex()}'"


_ESCAPED = {"\\": "\\\\", "\0": "\\0", "'": "''", "\n": "\\n", "\r": "\\r"}


def _quoted(member: str) -> str:
    return "'" + "".join(_ESCAPED.get(ch, ch) for ch in member) + "'"
