"""Rows that a SELECT gave as events of a binlog, as the server would have logged an INSERT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from cdc.binlog.column_types import ColumnType
from cdc.binlog.events import EventType
from cdc.binlog.header import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader
from cdc.binlog.rows_header import (
    FLAG_NO_FOREIGN_KEY_CHECKS,
    FLAG_STATEMENT_END,
    RowsHeader,
    full_bitmap,
)
from cdc.binlog.writer import build_event
from cdc.kernels import binary_rows, text_rows
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.json_binary import NODE_SIZE
from cdc.rows.agreement import check
from cdc.rows.matrix import Matrix
from cdc.rows.storage import Storage, storage
from cdc.schema.table import Table
from cdc.snapshot.checksums import checksum
from cdc.snapshot.errors import SnapshotRowUnreadable
from cdc.snapshot.rows_reader import RowBlock
from cdc.snapshot.table_map import table_map

EVENT_BYTES: Final = 1 << 18
# Each event is a statement. Tables come one after the other, so a child may come before its parent.
COPIED_FLAGS: Final = FLAG_STATEMENT_END | FLAG_NO_FOREIGN_KEY_CHECKS

# Values that the binary protocol sends without their length.
_BYTES_OF: Final[dict[int, int]] = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.YEAR: 2,
    ColumnType.INT24: 4,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
    ColumnType.FLOAT: 4,
    ColumnType.DOUBLE: 8,
}
# Kernels may write a word past a value.
_SLACK: Final = 64
# Bytes of binary JSON for each byte of its text, at most: "[], " in a large array takes 13.
_JSON_SPREAD: Final = 4
_FIRST_NODES: Final = 1 << 12


class RowImages:
    """Makes events of the rows of one table, selected by ``select_list`` under ``SESSION``.

    Whole v4 events with header and CRC-32, whose next position is 0: WRITE_ROWS (v1 of MariaDB, v2
    of MySQL) of about ``event_bytes`` or one larger row, each behind a TABLE_MAP of its own. Images
    are those that the server would have logged, byte for byte, but for what MySQL's JSON text does
    not tell (``cdc.kernels.json_binary``): its text is the same again.
    Raises ``ColumnTypeNotSupported`` at once for a table with a type that is not read.
    """

    def __init__(
        self,
        table: Table,
        server_kind: str,
        *,
        table_number: int = 1,
        server_id: int = 1,
        timestamp: int = 0,
        event_bytes: int = EVENT_BYTES,
    ) -> None:
        self.table = table
        self.table_map = table_map(table, table_number, server_kind)
        check(table, self.table_map)
        self._columns, self._fixed = _plan(table, self.table_map.types, self.table_map.metadata)
        json = bool((self._columns[:, L.C_OP] == L.OP_JSON).any())
        self._spread = _JSON_SPREAD if json else 1
        self._nodes = np.empty((_FIRST_NODES if json else 0, NODE_SIZE), np.int64)
        mariadb = server_kind == "mariadb"
        self._code = EventType.WRITE_ROWS_V1 if mariadb else EventType.WRITE_ROWS
        self._unused = 255 if mariadb else 0
        self._server_id, self._timestamp = server_id, timestamp
        stored = self.table_map
        full = full_bitmap(stored.columns)
        rows = RowsHeader(stored.table_id, COPIED_FLAGS, stored.columns, full, b"", b"", 0)
        self._rows_head = rows.encode(self._code)
        self._map_event = build_event(
            EventType.TABLE_MAP,
            stored.encode(),
            timestamp=timestamp,
            server_id=server_id,
            seal=checksum,
        )
        self._make_room(event_bytes)

    def events(self, block: RowBlock) -> Iterator[bytes]:
        """TABLE_MAP and WRITE_ROWS, in turn, of a block's rows. Raises SnapshotRowUnreadable."""
        wire = None if block.types is None else self._wire(block.types)
        at = 0
        while at < len(block.data):
            if wire is None:
                at, size, _, code, what = text_rows.write_images(
                    block.data, at, self._columns, self._unused, self._fixed, self._spread,
                    self._nodes, self._out,
                )  # fmt: skip
            else:
                at, size, _, code, what = binary_rows.write_images(
                    block.data, at, wire, self._columns, self._unused, self._fixed, self._spread,
                    self._nodes, self._out,
                )  # fmt: skip
            if code in (text_rows.BAD_ROW, text_rows.BAD_VALUE):
                raise self._error(code, what)
            if size:
                yield self._map_event
                yield self._rows_event(size)
            if code == text_rows.ROOM_OF_NODES:
                self._nodes = np.empty((2 * len(self._nodes), NODE_SIZE), np.int64)
            elif code == text_rows.ROOM and not size:
                self._make_room(what)

    def write(self, block: RowBlock, file: IO[bytes]) -> int:
        """Write the events of a block's rows into ``file``; how many of them have rows."""
        with_rows = 0
        for event in self.events(block):
            with_rows += event is not self._map_event
            file.write(event)
        return with_rows

    def _wire(self, types: bytes) -> npt.NDArray[np.int64]:
        if len(types) != len(self._columns):
            raise self._error(text_rows.BAD_ROW, 0)
        return np.array([_BYTES_OF.get(code, 0) for code in types], np.int64)

    def _make_room(self, images: int) -> None:
        """Images are written where they are to stand in their event: they are many bytes."""
        self._at = HEADER_LENGTH + len(self._rows_head)
        self._event = np.empty(self._at + images + CHECKSUM_LENGTH, np.uint8)
        self._out = self._event[self._at : -CHECKSUM_LENGTH]

    def _rows_event(self, size: int) -> bytes:
        """The event of the first ``size`` bytes of images."""
        event, end = self._event, self._at + size
        length = end + CHECKSUM_LENGTH
        header = EventHeader(self._timestamp, self._code, self._server_id, length, 0, 0)
        event[: self._at] = np.frombuffer(header.encode() + self._rows_head, np.uint8)
        event[end:length] = np.frombuffer(checksum(event[:end]), np.uint8)
        return event[:length].tobytes()

    def _error(self, code: int, column: int) -> SnapshotRowUnreadable:
        name = self.table.full_name
        hint = "see whether the table was changed while it was read; then read it anew"
        if code == text_rows.BAD_ROW:
            return SnapshotRowUnreadable("a row has other fields", object=name, hint=hint)
        found = self.table.columns[column]
        return SnapshotRowUnreadable(
            f"a value is none of type {found.column_type}", object=f"{name}.{found.name}", hint=hint
        )


def _plan(table: Table, types: bytes, metadata: tuple[int, ...]) -> tuple[Matrix, int]:
    """Columns as the kernel takes them, and the most bytes of an image beside its row's."""
    plan = np.zeros((len(table.columns), L.C_SIZE), np.int64)
    fixed = _SLACK
    for i, (column, code, meta) in enumerate(zip(table.columns, types, metadata, strict=True)):
        stored: Storage = storage(column, code, meta)
        plan[i, [L.C_WIDTH, L.C_OP, L.C_A, L.C_B]] = stored.width, stored.op, stored.a, stored.b
        fixed += abs(stored.width)
    return plan, fixed
