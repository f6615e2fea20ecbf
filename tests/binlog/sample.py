"""A small file of both families, written by our own writer."""

from __future__ import annotations

import io

from cdc.binlog.column_types import ColumnType
from cdc.binlog.events import Dialect, EventType
from cdc.binlog.gtid import Gtid, MariadbGtidEvent, MariadbGtidFlags
from cdc.binlog.gtid_list import GtidList
from cdc.binlog.gtid_set import GtidSet, GtidSource, MariadbGtid
from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import BinlogWriter
from cdc.binlog.xa import XaPrepare, Xid

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TABLE = TableMap(18, 1, "w", "t", bytes([ColumnType.LONG]), (0,), (False,))
MYSQL, MARIADB = "8.0.33", "10.11.5-MariaDB-log"


def small(version: str, *, crc32: bool = True) -> bytes:
    """A DDL, a transaction with every kind of rows event, an XA transaction and a stop."""
    file = io.BytesIO()
    out = BinlogWriter(file, version, crc32=crc32, timestamp=1_700_000_000)
    mariadb = out.format.dialect is Dialect.MARIADB

    def gtid(number: int, standalone: bool = False) -> None:
        if mariadb:
            flags = MariadbGtidFlags.STANDALONE if standalone else MariadbGtidFlags.TRANSACTIONAL
            out.gtid(MariadbGtidEvent(MariadbGtid(0, 1, number), flags))
        else:
            times = (1_700_000_000_000_000 + number,) * 2
            out.gtid(Gtid(GtidSource(UUID), number, 0, number - 1, number, *times, 300, 80033))
            if not standalone:
                out.query("BEGIN")

    out.previous(GtidList(()) if mariadb else GtidSet.parse(f"{UUID}:1-4"))
    gtid(5, standalone=True)
    out.query("CREATE TABLE t (a INT NOT NULL)", schema="w")
    gtid(6)
    one, two = b"\x00" + (7).to_bytes(4, "little"), b"\x00" + (8).to_bytes(4, "little")
    for insert, update, delete in (
        (EventType.WRITE_ROWS_V1, EventType.UPDATE_ROWS_V1, EventType.DELETE_ROWS_V1),
        (EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS),
    ):
        for code, images in ((insert, one), (update, one + two), (delete, two)):
            out.table_map(TABLE)
            out.rows(code, TABLE.table_id, 1, images)
    out.xid(9)
    if not mariadb:
        gtid(7, standalone=True)
        xid = Xid(1, b"g", b"")
        out.query(f"XA START {xid}")
        out.query(f"XA END {xid}")
        out.xa_prepare(XaPrepare(False, xid))
    out.stop()
    return file.getvalue()
