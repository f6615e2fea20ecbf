"""Checking a whole file: lengths, checksums, every field, and the order of events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from cdc.base.errors import TidegateError
from cdc.binlog.decode import Decoded, decode
from cdc.binlog.errors import TransactionStructureBad
from cdc.binlog.events import ROWS, EventType
from cdc.binlog.expand import expanded
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.query import Query
from cdc.binlog.reader import BinlogReader, Event, located
from cdc.binlog.rows_header import DUMMY_TABLE_ID, RowsHeader
from cdc.binlog.table_map import TableMap

_BEGIN = re.compile(r"\s*(?:BEGIN|XA\s+START\b.*|START\s+TRANSACTION\b.*)\s*;?\s*\Z", re.I | re.S)
_END = re.compile(
    r"\s*(?:COMMIT|ROLLBACK|XA\s+(?:COMMIT|ROLLBACK)\b.*)\s*(?:/\*.*\*/)?\s*;?\s*\Z", re.I | re.S
)
_COMMITS = frozenset({EventType.XID, EventType.XA_PREPARE})


class WalkPlace(Enum):
    """Where in a transaction the walk stands. A file of ours may begin inside of one."""

    UNKNOWN = "at the beginning of the file"
    OUTSIDE = "between transactions"
    BEGUN = "behind a GTID"
    INSIDE = "inside a transaction"


@dataclass(slots=True)
class FileReport:
    """What a file holds. ``inside`` counts events that came out of compressed ones."""

    file: str
    server_version: str
    checksums: bool
    events: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    bytes: int = 0
    open_at_end: bool = False


def verify(path: Path | str) -> FileReport:
    """Walk the file; raises the first error, which names file and offset."""
    with BinlogReader(path) as reader:
        report = FileReport(reader.name, reader.format.server_version, bool(reader.format.trailer))
        order = _Order()
        for event in expanded(_counted(reader, report), keep_containers=True):
            if event.inner >= 0:
                report.inside[event.kind.name] += 1
            decoded = decode(event)
            try:
                order.step(event, decoded)
            except TidegateError as error:
                raise located(error, event.where) from None
        report.transactions = order.transactions
        report.open_at_end = order.place in (WalkPlace.BEGUN, WalkPlace.INSIDE)
        return report


def _counted(events: BinlogReader, report: FileReport) -> Iterator[Event]:
    for event in events:
        report.events[event.kind.name] += 1
        report.bytes = event.offset + len(event.data)
        yield event


class _Order:
    def __init__(self) -> None:
        self.place = WalkPlace.UNKNOWN
        self.tables: dict[int, int] = {}
        self.transactions = 0

    def step(self, event: Event, decoded: Decoded) -> None:
        """Judge one event by what came before it."""
        kind = event.type
        if isinstance(decoded, Gtid | MariadbGtidEvent):
            self._begin(decoded)
        elif isinstance(decoded, Query):
            self._query(decoded.raw_sql[:1024].decode("utf-8", "replace"))
        elif kind in _COMMITS:
            self._need_open(event)
            self._end()
        elif isinstance(decoded, TableMap):
            self._need_open(event)
            self.tables[decoded.table_id] = decoded.columns
        elif isinstance(decoded, RowsHeader) and kind in ROWS:
            self._need_open(event)
            self._rows(event, decoded)

    def _begin(self, gtid: Gtid | MariadbGtidEvent) -> None:
        if self.place in (WalkPlace.BEGUN, WalkPlace.INSIDE):
            raise TransactionStructureBad("a transaction begins before the last one has ended")
        self.tables.clear()
        standalone = isinstance(gtid, Gtid) or gtid.standalone
        self.place = WalkPlace.BEGUN if standalone else WalkPlace.INSIDE

    def _query(self, sql: str) -> None:
        if _BEGIN.match(sql):
            self.place = WalkPlace.INSIDE
        elif _END.match(sql) or self.place is WalkPlace.BEGUN:
            self._end()

    def _end(self) -> None:
        self.place = WalkPlace.OUTSIDE
        self.tables.clear()
        self.transactions += 1

    def _need_open(self, event: Event) -> None:
        if self.place in (WalkPlace.OUTSIDE, WalkPlace.BEGUN):
            raise TransactionStructureBad(f"{event.kind.name} {self.place.value}")

    def _rows(self, event: Event, rows: RowsHeader) -> None:
        if rows.table_id == DUMMY_TABLE_ID and rows.table_id not in self.tables:
            return
        columns = self.tables.get(rows.table_id)
        if columns is None:
            raise TransactionStructureBad(
                f"{event.kind.name} of table id {rows.table_id} without its TABLE_MAP"
            )
        if columns != rows.columns:
            raise TransactionStructureBad(
                f"{event.kind.name} has {rows.columns} columns, its TABLE_MAP {columns}"
            )
