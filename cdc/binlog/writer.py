"""Writing binlog files that the servers' own tools read."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from cdc.binlog.control import Rotate
from cdc.binlog.events import Dialect, EventType
from cdc.binlog.format_description import ChecksumAlgorithm, FormatDescription
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.gtid_list import GtidList
from cdc.binlog.gtid_set import GtidSet
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, MAGIC, EventHeader, checksum
from cdc.binlog.query import Query
from cdc.binlog.rows_header import FLAG_STATEMENT_END, RowsHeader, full_bitmap
from cdc.binlog.table_map import TableMap
from cdc.binlog.xa import XaPrepare

_T = EventType
_FIXED: dict[int, int] = {
    _T.QUERY: 13,
    _T.ROTATE: 8,
    _T.EXEC_LOAD: 4,
    _T.APPEND_BLOCK: 4,
    _T.DELETE_FILE: 4,
    _T.BEGIN_LOAD_QUERY: 4,
    _T.EXECUTE_LOAD_QUERY: 26,
    _T.TABLE_MAP: 8,
    _T.WRITE_ROWS_V1: 8,
    _T.UPDATE_ROWS_V1: 8,
    _T.DELETE_ROWS_V1: 8,
    _T.INCIDENT: 2,
    _T.WRITE_ROWS: 10,
    _T.UPDATE_ROWS: 10,
    _T.DELETE_ROWS: 10,
}
_FIXED_MYSQL: dict[int, int] = {
    _T.GTID: 42,
    _T.ANONYMOUS_GTID: 42,
    _T.TRANSACTION_CONTEXT: 18,
    _T.VIEW_CHANGE: 52,
    _T.PARTIAL_UPDATE_ROWS: 10,
    _T.TRANSACTION_PAYLOAD: 40,
}
_FIXED_MARIADB: dict[int, int] = {
    _T.MARIADB_BINLOG_CHECKPOINT: 4,
    _T.MARIADB_GTID: 19,
    _T.MARIADB_GTID_LIST: 4,
    _T.MARIADB_QUERY_COMPRESSED: 13,
    _T.MARIADB_WRITE_ROWS_COMPRESSED_V1: 8,
    _T.MARIADB_UPDATE_ROWS_COMPRESSED_V1: 8,
    _T.MARIADB_DELETE_ROWS_COMPRESSED_V1: 8,
    _T.MARIADB_WRITE_ROWS_COMPRESSED: 10,
    _T.MARIADB_UPDATE_ROWS_COMPRESSED: 10,
    _T.MARIADB_DELETE_ROWS_COMPRESSED: 10,
}
_MYSQL_TYPES = 42
_MARIADB_TYPES = 171
_FDE_FIXED = 57


def format_description(
    server_version: str, *, crc32: bool = True, created: int = 0
) -> FormatDescription:
    """The description of a file as a server of this version and family would begin it."""
    mariadb = Dialect.of(server_version) is Dialect.MARIADB
    count = _MARIADB_TYPES if mariadb else _MYSQL_TYPES
    fixed = _FIXED | (_FIXED_MARIADB if mariadb else _FIXED_MYSQL)
    lengths = bytearray(fixed.get(code, 0) for code in range(1, count + 1))
    lengths[_T.FORMAT_DESCRIPTION - 1] = (_FDE_FIXED + count) & 0xFF
    algorithm = ChecksumAlgorithm.CRC32 if crc32 else ChecksumAlgorithm.NONE
    return FormatDescription(4, server_version, created, bytes(lengths), algorithm)


def build_event(
    code: int,
    body: bytes,
    *,
    timestamp: int = 0,
    server_id: int = 1,
    next_position: int = 0,
    flags: int = 0,
    crc32: bool = True,
    seal: Callable[[bytes], bytes] = checksum,
) -> bytes:
    """Header, body and, if ``crc32``, the checksum, which ``seal`` makes of what is before it."""
    length = HEADER_LENGTH + len(body) + (CHECKSUM_LENGTH if crc32 else 0)
    event = EventHeader(timestamp, code, server_id, length, next_position, flags).encode() + body
    return event + seal(event) if crc32 else event


class BinlogWriter:
    """Writes events behind each other into ``file``, which must be empty.

    ``position`` is where the next event begins; every method returns where its event began.
    ``timestamp`` (seconds) stamps each event until it is set anew. The file is not flushed.
    """

    def __init__(
        self,
        file: BinaryIO,
        server_version: str,
        *,
        server_id: int = 1,
        crc32: bool = True,
        timestamp: int = 0,
    ) -> None:
        self._file = file
        self._crc32 = crc32
        self.format = format_description(server_version, crc32=crc32)
        self.server_id = server_id
        self.timestamp = timestamp
        file.write(MAGIC)
        self.position = len(MAGIC)
        # A FORMAT_DESCRIPTION ends in a checksum even where no other event does.
        self._write(_T.FORMAT_DESCRIPTION, self.format.encode(), 0, crc32=True)

    def event(self, code: int, body: bytes, *, flags: int = 0) -> int:
        """Any event."""
        return self._write(code, body, flags, crc32=self._crc32)

    def _write(self, code: int, body: bytes, flags: int, *, crc32: bool) -> int:
        start = self.position
        length = HEADER_LENGTH + len(body) + (CHECKSUM_LENGTH if crc32 else 0)
        self.position += length
        self._file.write(
            build_event(
                code,
                body,
                timestamp=self.timestamp,
                server_id=self.server_id,
                next_position=self.position,
                flags=flags,
                crc32=crc32,
            )
        )
        return start

    def previous(self, gtids: GtidSet | GtidList) -> int:
        """PREVIOUS_GTIDS of a set, GTID_LIST of a list; belongs behind the first event."""
        code = _T.PREVIOUS_GTIDS if isinstance(gtids, GtidSet) else _T.MARIADB_GTID_LIST
        return self.event(code, gtids.encode())

    def gtid(self, gtid: Gtid | MariadbGtidEvent) -> int:
        """The event that begins a transaction. MariaDB's takes the writer's server id."""
        if isinstance(gtid, MariadbGtidEvent):
            return self.event(_T.MARIADB_GTID, gtid.encode())
        return self.event(_T.ANONYMOUS_GTID if gtid.anonymous else _T.GTID, gtid.encode())

    def query(self, sql: str, *, schema: str = "", thread_id: int = 0, status: bytes = b"") -> int:
        """A statement, ``BEGIN`` and ``COMMIT`` included."""
        body = Query(thread_id, 0, 0, schema, sql.encode(), status).encode()
        return self.event(_T.QUERY, body)

    def table_map(self, table: TableMap) -> int:
        """TABLE_MAP."""
        return self.event(_T.TABLE_MAP, table.encode())

    def rows(
        self,
        code: int,
        table_id: int,
        columns: int,
        images: bytes,
        *,
        statement_end: bool = True,
        extra: bytes = b"",
    ) -> int:
        """A rows event (v1 or v2 by its code) of full images that are encoded already."""
        full = full_bitmap(columns)
        after = full if code in (_T.UPDATE_ROWS, _T.UPDATE_ROWS_V1) else b""
        flags = FLAG_STATEMENT_END if statement_end else 0
        head = RowsHeader(table_id, flags, columns, full, after, extra, 0)
        return self.event(code, head.encode(code) + images)

    def xid(self, number: int) -> int:
        """XID: the commit of a transaction."""
        return self.event(_T.XID, number.to_bytes(8, "little"))

    def xa_prepare(self, prepare: XaPrepare) -> int:
        """XA_PREPARE."""
        return self.event(_T.XA_PREPARE, prepare.encode())

    def rotate(self, file: str, position: int = len(MAGIC)) -> int:
        """ROTATE: the file goes on in another."""
        return self.event(_T.ROTATE, Rotate(position, file).encode())

    def stop(self) -> int:
        """STOP: the server was shut down."""
        return self.event(_T.STOP, b"")
