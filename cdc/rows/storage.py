"""From a column and how the binlog stores it to the op that formats it.

Storage: types and metadata of TABLE_MAP,
https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Table__map__event.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cdc.base.errors import DefiniteError
from cdc.binlog.column_types import real_type, string_length
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.charsets import charset_code
from cdc.kernels.values.old_dates import DATETIME_BYTES, TIME_BYTES, TIMESTAMP_BYTES
from cdc.schema.table import Column


class ColumnTypeNotSupported(DefiniteError):
    """A column is stored in a way that we do not decode."""

    code = "TG:ErrColumnTypeNotSupported"


@dataclass(frozen=True, slots=True)
class Storage:
    """How a value is stored and formatted: ``width`` and ``op`` as in ``cdc.kernels.layout``.

    ``room`` is the most bytes that the text may take beside 12 for each stored byte.
    """

    width: int
    op: int
    a: int = 0
    b: int = 0
    room: int = 64


_INTEGERS: Final = {
    1: (1, L.OP_INT8, L.OP_UINT8),
    2: (2, L.OP_INT16, L.OP_UINT16),
    9: (3, L.OP_INT24, L.OP_UINT24),
    3: (4, L.OP_INT32, L.OP_UINT32),
    8: (8, L.OP_INT64, L.OP_UINT64),
}
_ADDRESSES: Final = {"uuid": L.OP_UUID, "inet4": L.OP_INET4, "inet6": L.OP_INET6}
_TYPE_CODES: Final[dict[str, frozenset[int]]] = {
    name: frozenset(codes)
    for names, codes in (
        ("tinyint bool boolean", (1,)),
        ("smallint", (2,)),
        ("mediumint", (9,)),
        ("int integer", (3,)),
        ("bigint", (8,)),
        ("float", (4,)),
        ("double real", (5,)),
        ("decimal numeric", (246,)),
        ("bit", (16,)),
        ("date", (10, 14)),
        ("time", (11, 19)),
        ("datetime", (12, 18)),
        ("timestamp", (7, 17)),
        ("year", (13,)),
        ("char binary", (254,)),
        ("varchar varbinary", (15, 253)),
        ("tinyblob tinytext blob text mediumblob mediumtext longblob longtext", (252,)),
        ("json", (245, 252)),
        ("enum", (247,)),
        ("set", (248,)),
        ("uuid inet4 inet6", (254,)),
        ("vector", (242, 15, 253)),
        ("geometry point linestring polygon multipoint multilinestring multipolygon", (255,)),
        ("geometrycollection geomcollection", (255,)),
    )
    for name in names.split()
}
_GEOMETRY: Final = frozenset(name for name, codes in _TYPE_CODES.items() if codes == {255})
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})

BINARY_TYPES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"} | _GEOMETRY
)


def type_matches(column: Column, code: int, meta: int) -> bool:
    """Whether a column of this declared type is stored under this type code."""
    codes = _TYPE_CODES.get(column.data_type)
    return codes is not None and real_type(code, meta) in codes


def _decimal_bytes(precision: int, scale: int) -> int:
    size = (0, 1, 1, 2, 2, 3, 3, 4, 4)
    whole = precision - scale
    return whole // 9 * 4 + size[whole % 9] + scale // 9 * 4 + size[scale % 9]


def _text(column: Column, width: int) -> Storage:
    if column.data_type in BINARY_TYPES or column.charset == "binary":
        return Storage(width, L.OP_BINARY)
    if column.charset is None or column.charset in _UTF8:
        return Storage(width, L.OP_UTF8)
    code = charset_code(column.charset)
    if code is None:
        raise ColumnTypeNotSupported(
            f"character set {column.charset} is not known", object=column.name
        )
    return Storage(width, L.OP_TEXT, code)


def _string(column: Column, length: int) -> Storage:
    width = -2 if length > 255 else -1
    if column.data_type == "binary" or (column.data_type == "char" and column.charset == "binary"):
        return Storage(width, L.OP_BINARY_PADDED, length, room=64 + 6 * length)
    return _text(column, width)


def _temporal(column: Column, code: int, meta: int) -> Storage | None:
    fsp = column.scale or 0
    if code in (10, 14):
        return Storage(3, L.OP_DATE)
    if code == 13:
        return Storage(1, L.OP_YEAR)
    if code == 11:
        return Storage(int(TIME_BYTES[fsp]), L.OP_OLD_TIME, fsp)
    if code == 12:
        return Storage(int(DATETIME_BYTES[fsp]), L.OP_OLD_DATETIME, fsp)
    if code == 7:
        return Storage(int(TIMESTAMP_BYTES[fsp]), L.OP_OLD_TIMESTAMP, fsp)
    if code in (17, 18, 19):
        base, op = {
            17: (4, L.OP_TIMESTAMP2),
            18: (5, L.OP_DATETIME2),
            19: (3, L.OP_TIME2),
        }[code]
        return Storage(base + (meta + 1) // 2, op, meta)
    return None


def storage(column: Column, code: int, meta: int) -> Storage:
    """How a column of TABLE_MAP type ``code`` with metadata ``meta`` is stored.

    Raises ``ColumnTypeNotSupported`` for types that are never decoded (MariaDB's COMPRESSED).
    """
    code = real_type(code, meta)
    if code in _INTEGERS:
        size, signed, unsigned = _INTEGERS[code]
        return Storage(size, unsigned if column.unsigned else signed)
    if code == 4:
        return Storage(4, L.OP_FLOAT, room=96)
    if code == 5:
        return Storage(8, L.OP_DOUBLE, room=384)
    if code == 246:
        precision, scale = meta >> 8, meta & 255
        return Storage(_decimal_bytes(precision, scale), L.OP_DECIMAL, precision, scale, room=96)
    if code == 16:
        bits = (meta >> 8) * 8 + (meta & 255)
        return Storage((bits + 7) // 8, L.OP_BIT)
    temporal = _temporal(column, code, meta)
    if temporal is not None:
        return temporal
    if code in (247, 248):
        return Storage(meta & 255, L.OP_ENUM if code == 247 else L.OP_SET)
    if column.data_type in _ADDRESSES:
        return Storage(-1, _ADDRESSES[column.data_type])
    if column.data_type == "vector":
        prefix = meta if code == 242 else 2 if meta > 255 else 1
        return Storage(-prefix, L.OP_VECTOR)
    if code == 245:
        return Storage(-meta, L.OP_JSON)
    if code == 254:
        return _string(column, string_length(meta))
    if code in (15, 253):
        return _text(column, -2 if meta > 255 else -1)
    if code == 252:
        return _text(column, -meta)
    if code == 255:
        return Storage(-meta, L.OP_BINARY)
    raise ColumnTypeNotSupported(
        f"values of type {column.column_type} (binlog type {code}) are not decoded",
        object=column.name,
        hint="exclude the table by filter.rules",
    )
