"""The variable-length numbers and messages of MySQL 8.3+ (``mysql::serialization``).

A number's first byte ends in as many one bits as bytes follow it; the value is what remains of
the little-endian word. Signed numbers carry the sign in the lowest bit. A message is: format
version, its size, the id of the last field that must be understood, then (field id, value)...
https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html
"""

from __future__ import annotations

from cdc.binlog.cursor import Cursor


def unsigned(cursor: Cursor, field: str) -> int:
    """One unsigned number."""
    first = cursor.uint(1, field)
    extra = 0
    while extra < 8 and first >> extra & 1:
        extra += 1
    if extra == 8:
        return cursor.uint(8, field)
    return (first | cursor.uint(extra, field) << 8) >> (extra + 1)


def signed(cursor: Cursor, field: str) -> int:
    """One signed number."""
    value = unsigned(cursor, field)
    return ~(value >> 1) if value & 1 else value >> 1


def encode_unsigned(value: int) -> bytes:
    """The shortest form of ``value``, 1 to 9 bytes."""
    for extra in range(8):
        if value < 1 << (7 * (extra + 1)):
            return (value << (extra + 1) | ((1 << extra) - 1)).to_bytes(extra + 1, "little")
    return b"\xff" + value.to_bytes(8, "little")


def encode_signed(value: int) -> bytes:
    """The shortest form of a signed ``value``."""
    return encode_unsigned(~value << 1 | 1 if value < 0 else value << 1)
