"""TABLE_MAP: which table the rows events that follow belong to, and how its columns are stored."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.binlog.column_types import read_metadata, write_metadata
from cdc.binlog.cursor import Cursor, lenenc_int
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import Dialect
from cdc.binlog.table_metadata import TableMetadata

FLAG_GENERATED_INVISIBLE_KEY = 1 << 2


@dataclass(frozen=True, slots=True)
class TableMap:
    """``types`` has one code a column (:class:`cdc.binlog.column_types.ColumnType`).

    ``metadata`` is one int a column as that module says; ``nullable`` one bool a column;
    ``optional`` the raw bytes behind the null bits, parsed on demand by :meth:`details`.
    """

    table_id: int
    flags: int
    schema: str
    name: str
    types: bytes
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    optional: bytes = b""

    @classmethod
    def parse(cls, body: bytes, post_header_len: int = 8) -> TableMap:
        """``body``: everything behind the 19-byte header, without the checksum.

        ``post_header_len`` is 8, or 6 where table ids have four bytes (before MySQL 5.1.4).
        """
        cursor = Cursor(body, "TABLE_MAP")
        table_id = cursor.uint(4 if post_header_len == 6 else 6, "table id")
        flags = cursor.uint(2, "flags")
        schema = _name(cursor, "schema name")
        name = _name(cursor, "table name")
        count = cursor.lenenc("number of columns")
        types = cursor.take(count, "column types")
        metadata = read_metadata(types, cursor.lenenc_bytes("column metadata"))
        bits = cursor.take((count + 7) // 8, "null bits")
        nullable = tuple(bool(bits[i >> 3] >> (i & 7) & 1) for i in range(count))
        return cls(table_id, flags, schema, name, types, metadata, nullable, cursor.rest())

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.types)

    @property
    def full_name(self) -> str:
        """``schema.table``."""
        return f"{self.schema}.{self.name}"

    def details(self, dialect: Dialect | None = None) -> TableMetadata:
        """The optional metadata; all fields empty where the server logged none."""
        return TableMetadata.parse(self.optional, self.types, self.metadata, dialect)

    def encode(self) -> bytes:
        """The body, with table ids of six bytes."""
        bits = bytearray((len(self.types) + 7) // 8)
        for i, nullable in enumerate(self.nullable):
            bits[i >> 3] |= int(nullable) << (i & 7)
        schema, name = self.schema.encode(), self.name.encode()
        block = write_metadata(self.types, self.metadata)
        return b"".join(
            (
                self.table_id.to_bytes(6, "little"),
                self.flags.to_bytes(2, "little"),
                lenenc_int(len(schema)) + schema + b"\0",
                lenenc_int(len(name)) + name + b"\0",
                lenenc_int(len(self.types)) + self.types,
                lenenc_int(len(block)) + block,
                bytes(bits),
                self.optional,
            )
        )


def _name(cursor: Cursor, field: str) -> str:
    raw = cursor.lenenc_bytes(field)
    if cursor.uint(1, f"end of {field}") != 0:
        raise EventMalformed(f"TABLE_MAP: {field} does not end in a zero byte")
    try:
        # Servers keep identifiers in UTF-8, whatever the client's character set.
        return raw.decode()
    except UnicodeDecodeError:
        raise EventMalformed(f"TABLE_MAP: {field} is not UTF-8") from None
