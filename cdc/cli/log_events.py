"""A binlog file as lines: every event as text, or its rows as canal-json."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cdc.base.ts import Ts, from_micros
from cdc.binlog.decode import Decoded, decode
from cdc.binlog.errors import TransactionStructureBad
from cdc.binlog.events import ROWS
from cdc.binlog.expand import expanded
from cdc.binlog.gtid import Gtid, MariadbGtidEvent
from cdc.binlog.header import EventHeader
from cdc.binlog.query import Query
from cdc.binlog.reader import BinlogReader, Event
from cdc.binlog.rows_header import DUMMY_TABLE_ID, RowsHeader
from cdc.binlog.statement import is_statement_dml, statement_format
from cdc.binlog.table_map import TableMap
from cdc.cli.log_text import NOTE, event_line, row_lines

if TYPE_CHECKING:
    from cdc.cli.log_rows import RowPrinter


class FilePrinter:
    """Walks one file; the kernels are loaded at its first row."""

    def __init__(self, reader: BinlogReader, schema: Path | None, *, text: bool) -> None:
        self._reader = reader
        self._text = text
        self._tables: dict[int, TableMap] = {}
        self._gtid: Gtid | None = None
        self._rows: RowPrinter | None = None
        self._schema = schema
        if schema is not None:
            self._printer()

    def lines(self) -> Iterator[str]:
        """Raises the first error of the file, after the lines before it."""
        for event in expanded(self._reader, keep_containers=self._text):
            decoded = decode(event)
            if self._text:
                yield event_line(event, decoded)
            if isinstance(decoded, Gtid | MariadbGtidEvent):
                self._tables.clear()
                self._gtid = decoded if isinstance(decoded, Gtid) else None
            elif isinstance(decoded, TableMap):
                self._tables[decoded.table_id] = decoded
            elif isinstance(decoded, RowsHeader) and event.type in ROWS:
                yield from self._row_lines(event, decoded)
            elif not self._text:
                _refuse_statement(event, decoded)

    def _printer(self) -> RowPrinter:
        if self._rows is None:
            from cdc.cli.log_rows import RowPrinter
            from cdc.cli.log_schema import read_schema

            format = self._reader.format
            tables = read_schema(self._schema, format) if self._schema else {}
            self._rows = RowPrinter(tables, format.dialect)
        return self._rows

    def _row_lines(self, event: Event, head: RowsHeader) -> Iterator[str]:
        stored = self._tables.get(head.table_id)
        if stored is None:
            if head.table_id == DUMMY_TABLE_ID:
                return
            raise TransactionStructureBad(
                f"{event.kind.name} of table id {head.table_id} without its TABLE_MAP",
                position=event.where,
            )
        rows, ts = self._printer(), commit_ts(event.header, self._gtid)
        if not self._text:
            rows.complete(stored, event.where)
            for message in rows.messages(event, stored, ts, partial=False):
                yield message.decode("utf-8", "replace")
            return
        plan = rows.plan(stored, event.where)
        if plan.refused is not None:
            yield f"{NOTE}(rows not decoded: {plan.refused})"
            return
        for message in rows.messages(event, stored, ts, partial=not head.full):
            yield from row_lines(message, plan.known)


def _refuse_statement(event: Event, decoded: Decoded) -> None:
    if isinstance(decoded, Query) and is_statement_dml(decoded.sql):
        raise statement_format(decoded.sql, object=decoded.schema, position=event.where)


def commit_ts(header: EventHeader, gtid: Gtid | None) -> Ts:
    """Ts of a transaction: microseconds of its GTID event, else seconds of a header."""
    if gtid is not None and gtid.immediate_commit_timestamp is not None:
        return from_micros(gtid.immediate_commit_timestamp)
    return from_micros(header.timestamp * 1_000_000)
