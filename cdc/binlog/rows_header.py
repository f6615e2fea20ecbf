"""What precedes the row images of a rows event."""

from __future__ import annotations

from dataclasses import dataclass

from cdc.binlog.cursor import Cursor, lenenc_int
from cdc.binlog.errors import EventMalformed
from cdc.binlog.events import UPDATES, EventType

FLAG_STATEMENT_END = 0x0001
FLAG_NO_FOREIGN_KEY_CHECKS = 0x0002
FLAG_NO_UNIQUE_CHECKS = 0x0004
FLAG_COMPLETE_ROWS = 0x0008

DUMMY_TABLE_ID = 0xFFFFFF
"""An empty event with this id and STATEMENT_END ends a statement (MySQL 5.1)."""

_V2 = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
        EventType.MARIADB_WRITE_ROWS_COMPRESSED,
        EventType.MARIADB_UPDATE_ROWS_COMPRESSED,
        EventType.MARIADB_DELETE_ROWS_COMPRESSED,
    }
)
_UPDATES = UPDATES | {
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED,
}


@dataclass(frozen=True, slots=True)
class RowsHeader:
    """``present`` (and ``present_after`` of updates) are bitmaps of the columns in each image.

    ``rows_at`` is the offset of the first image in the body; in compressed events what stands
    there is compressed.
    """

    table_id: int
    flags: int
    columns: int
    present: bytes
    present_after: bytes
    extra: bytes
    rows_at: int

    @property
    def statement_end(self) -> bool:
        """Whether this is the last rows event of its statement."""
        return bool(self.flags & FLAG_STATEMENT_END)

    @property
    def full(self) -> bool:
        """Whether every image holds every column."""
        full = full_bitmap(self.columns)
        return self.present == full and (not self.present_after or self.present_after == full)

    @classmethod
    def parse(cls, code: int, body: bytes, post_header_len: int = 10) -> RowsHeader:
        """``code`` is the event's type, ``post_header_len`` 6 where table ids have four bytes."""
        cursor = Cursor(body, EventType(code).name)
        table_id = cursor.uint(4 if post_header_len == 6 else 6, "table id")
        flags = cursor.uint(2, "flags")
        extra = b""
        if code in _V2:
            length = cursor.uint(2, "length of extra data")
            if length < 2:
                raise EventMalformed(f"{cursor.what}: {length} bytes of extra data")
            extra = cursor.take(length - 2, "extra data")
        columns = cursor.lenenc("number of columns")
        present = _bitmap(cursor, columns)
        after = _bitmap(cursor, columns) if code in _UPDATES else b""
        return cls(table_id, flags, columns, present, after, extra, cursor.at)

    def encode(self, code: int) -> bytes:
        """The bytes before the first image."""
        out = self.table_id.to_bytes(6, "little") + self.flags.to_bytes(2, "little")
        if code in _V2:
            out += (len(self.extra) + 2).to_bytes(2, "little") + self.extra
        return out + lenenc_int(self.columns) + self.present + self.present_after


def full_bitmap(columns: int) -> bytes:
    """All columns present; bits behind the last column are zero."""
    return ((1 << columns) - 1).to_bytes((columns + 7) // 8, "little")


def _bitmap(cursor: Cursor, columns: int) -> bytes:
    raw = bytearray(cursor.take((columns + 7) // 8, "column bitmap"))
    if columns & 7:
        raw[-1] &= (1 << (columns & 7)) - 1
    return bytes(raw)
