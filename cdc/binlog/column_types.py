"""Column type codes of TABLE_MAP, and the metadata that each type carries.

Metadata becomes one int a column, by the servers' own reading of the bytes:

================================ ===== ====================================================
types                            bytes int
================================ ===== ====================================================
FLOAT DOUBLE BLOB GEOMETRY JSON    1   bytes of the value (4, 8) or of its length prefix
VECTOR BLOB_COMPRESSED
TIMESTAMP2 DATETIME2 TIME2         1   number of fractional digits
VARCHAR VARCHAR_COMPRESSED         2   longest length in bytes (little endian)
BIT                                2   ``bits % 8 | (bits // 8) << 8``
NEWDECIMAL                         2   ``precision << 8 | scale``
STRING VAR_STRING ENUM SET         2   ``first byte << 8 | second byte``: see :func:`real_type`
TYPED_ARRAY                       1+   ``element type | element metadata << 8``
others                             0   0
================================ ===== ====================================================

Source: ``Table_map_event`` in
https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Table__map__event.html
"""

from __future__ import annotations

from enum import IntEnum

from cdc.binlog.cursor import Cursor
from cdc.binlog.errors import EventMalformed


class ColumnType(IntEnum):
    """Codes as they stand in TABLE_MAP."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


_T = ColumnType
_ONE_BYTE = frozenset(
    {
        _T.FLOAT,
        _T.DOUBLE,
        _T.TINY_BLOB,
        _T.MEDIUM_BLOB,
        _T.LONG_BLOB,
        _T.BLOB,
        _T.BLOB_COMPRESSED,
        _T.GEOMETRY,
        _T.JSON,
        _T.VECTOR,
        _T.TIMESTAMP2,
        _T.DATETIME2,
        _T.TIME2,
    }
)
_TWO_LITTLE = frozenset({_T.VARCHAR, _T.VARCHAR_COMPRESSED, _T.BIT})
_TWO_BIG = frozenset({_T.NEWDECIMAL, _T.STRING, _T.VAR_STRING, _T.ENUM, _T.SET})

_NUMERIC = frozenset(
    {
        _T.TINY,
        _T.SHORT,
        _T.INT24,
        _T.LONG,
        _T.LONGLONG,
        _T.NEWDECIMAL,
        _T.FLOAT,
        _T.DOUBLE,
        _T.YEAR,
    }
)
_CHARACTER = frozenset(
    {
        _T.STRING,
        _T.VAR_STRING,
        _T.VARCHAR,
        _T.BLOB,
        _T.TINY_BLOB,
        _T.MEDIUM_BLOB,
        _T.LONG_BLOB,
        _T.BLOB_COMPRESSED,
        _T.VARCHAR_COMPRESSED,
        _T.VECTOR,
    }
)


def read_metadata(types: bytes, block: bytes) -> tuple[int, ...]:
    """One int a column out of the metadata block, which must be used up exactly."""
    cursor = Cursor(block, "TABLE_MAP metadata")
    values = tuple(_one(code, cursor) for code in types)
    if cursor.left():
        raise EventMalformed(f"TABLE_MAP: {cursor.left()} bytes of column metadata are left over")
    return values


def write_metadata(types: bytes, values: tuple[int, ...]) -> bytes:
    """The metadata block; inverse of :func:`read_metadata`."""
    return b"".join(_encode_one(code, value) for code, value in zip(types, values, strict=True))


def _one(code: int, cursor: Cursor) -> int:
    if code in _ONE_BYTE:
        return cursor.uint(1, "metadata")
    if code in _TWO_LITTLE:
        return cursor.uint(2, "metadata")
    if code in _TWO_BIG:
        return int.from_bytes(cursor.take(2, "metadata"), "big")
    if code == _T.TYPED_ARRAY:
        element = cursor.uint(1, "element type")
        if element == _T.TYPED_ARRAY:
            raise EventMalformed("TABLE_MAP: an array of arrays")
        return element | _one(element, cursor) << 8
    if code not in _KNOWN:
        raise EventMalformed(f"TABLE_MAP: column type {code} is not known")
    return 0


def _encode_one(code: int, value: int) -> bytes:
    if code in _ONE_BYTE:
        return value.to_bytes(1, "little")
    if code in _TWO_LITTLE:
        return value.to_bytes(2, "little")
    if code in _TWO_BIG:
        return value.to_bytes(2, "big")
    if code == _T.TYPED_ARRAY:
        return bytes([value & 0xFF]) + _encode_one(value & 0xFF, value >> 8)
    return b""


_KNOWN = frozenset(int(t) for t in ColumnType)


def real_type(code: int, metadata: int) -> int:
    """The declared type: STRING stands for ENUM and SET too, and says so in its metadata."""
    if code == _T.STRING and (metadata >> 8) in (_T.ENUM, _T.SET):
        return metadata >> 8
    return code


def string_length(metadata: int) -> int:
    """Longest length in bytes of a STRING: bits 8 and 9 of it hide, inverted, in the type byte."""
    first, second = metadata >> 8, metadata & 0xFF
    if first & 0x30 != 0x30:
        return second | ((first & 0x30) ^ 0x30) << 4
    return second


def is_numeric(code: int) -> bool:
    """Whether the column has a bit in the SIGNEDNESS field of optional metadata."""
    return code in _NUMERIC


def is_character(code: int, metadata: int) -> bool:
    """Whether the column has an entry in the charset fields of MySQL's optional metadata."""
    return real_type(code, metadata) in _CHARACTER


def is_character_or_geometry(code: int, metadata: int) -> bool:
    """The same for MariaDB, which counts GEOMETRY too."""
    return code == _T.GEOMETRY or is_character(code, metadata)


def is_enum_or_set(code: int, metadata: int) -> bool:
    """Whether the column has an entry in the enum-and-set charset fields."""
    return real_type(code, metadata) in (_T.ENUM, _T.SET)
