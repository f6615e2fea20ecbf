"""The dictionary of tables as the arrays that ``cdc.kernels.index.walk`` looks into."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cdc.binlog.column_types import ColumnType, real_type, string_length
from cdc.binlog.errors import EventMalformed
from cdc.binlog.table_map import TableMap
from cdc.kernels.index import T_BODY, T_BODY_LENGTH, T_HASH, T_SIZE, hash_bytes

_Number = TypeVar("_Number", np.int64, np.uint8)
_T = ColumnType
_FIXED = {
    _T.TINY: 1,
    _T.SHORT: 2,
    _T.LONG: 4,
    _T.NULL: 0,
    _T.TIMESTAMP: 4,
    _T.LONGLONG: 8,
    _T.INT24: 3,
    _T.DATE: 3,
    _T.TIME: 3,
    _T.DATETIME: 8,
    _T.YEAR: 1,
    _T.NEWDATE: 3,
    _T.FLOAT: 4,
    _T.DOUBLE: 8,
}
_FRACTION_AFTER = {_T.TIMESTAMP2: 4, _T.DATETIME2: 5, _T.TIME2: 3}
_PREFIXED = frozenset(
    {
        _T.BLOB,
        _T.TINY_BLOB,
        _T.MEDIUM_BLOB,
        _T.LONG_BLOB,
        _T.GEOMETRY,
        _T.JSON,
        _T.VECTOR,
        _T.BLOB_COMPRESSED,
    }
)
_DECIMAL_REST = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def width(code: int, metadata: int) -> int:
    """Bytes of a value in a row image, or minus the bytes of its length prefix."""
    real = real_type(code, metadata)
    if real in (_T.ENUM, _T.SET):
        return metadata & 0xFF
    if code in _FIXED:
        return _FIXED[ColumnType(code)]
    if code in _FRACTION_AFTER:
        return _FRACTION_AFTER[ColumnType(code)] + (metadata + 1) // 2
    if code in _PREFIXED and 1 <= metadata <= 4:
        return -metadata
    if code in (_T.VARCHAR, _T.VAR_STRING, _T.VARCHAR_COMPRESSED):
        return -1 if metadata < 256 else -2
    if code == _T.STRING:
        return -1 if string_length(metadata) < 256 else -2
    if code == _T.BIT:
        return (metadata >> 8) + (1 if metadata & 0xFF else 0)
    if code == _T.NEWDECIMAL:
        precision, scale = metadata >> 8, metadata & 0xFF
        whole = precision - scale
        return whole // 9 * 4 + _DECIMAL_REST[whole % 9] + scale // 9 * 4 + _DECIMAL_REST[scale % 9]
    raise EventMalformed(f"TABLE_MAP: a column of type {code} ({metadata}) has no stored form")


class TableIndex:
    """Arrays grow by doubling; ids are those of the log's dictionary and need not be dense."""

    def __init__(self) -> None:
        self.slots: NDArray[np.int64] = np.zeros(64, np.int64)
        self.tables: NDArray[np.int64] = np.zeros((16, T_SIZE), np.int64)
        self.tables[:, T_BODY_LENGTH] = -1
        self.bodies: NDArray[np.uint8] = np.zeros(1 << 12, np.uint8)
        self.columns: NDArray[np.int64] = np.zeros((64, 1), np.int64)
        self.hops: NDArray[np.int64] = np.zeros((64, 2), np.int64)
        self._bytes = self._columns = self._hops = 0
        self._count = 0

    def add(self, number: int, table_map: TableMap, body: bytes) -> None:
        """``body``: the TABLE_MAP's body behind its table id, by which it is found again."""
        widths = [width(c, m) for c, m in zip(table_map.types, table_map.metadata, strict=True)]
        hops = _hops(widths)
        self._reserve(number, len(body), len(widths), len(hops))
        raw = np.frombuffer(body, np.uint8)
        row = self.tables[number]
        row[:4] = (self._columns, len(widths), self._hops, len(hops))
        row[T_HASH] = hash_bytes(raw, 0, raw.size)
        row[T_BODY], row[T_BODY_LENGTH] = self._bytes, raw.size
        self.bodies[self._bytes : self._bytes + raw.size] = raw
        self.columns[self._columns : self._columns + len(widths), 0] = widths
        self.hops[self._hops : self._hops + len(hops)] = hops
        self._bytes += raw.size
        self._columns += len(widths)
        self._hops += len(hops)
        self._count += 1
        if 2 * self._count > self.slots.size:
            self.slots = np.zeros(2 * self.slots.size, np.int64)
            for known in np.flatnonzero(self.tables[:, T_BODY_LENGTH] >= 0):
                self._place(int(known))
        else:
            self._place(number)

    def _place(self, number: int) -> None:
        mask = self.slots.size - 1
        i = int(self.tables[number, T_HASH]) & mask
        while self.slots[i]:
            i = (i + 1) & mask
        self.slots[i] = number + 1

    def _reserve(self, number: int, body: int, columns: int, hops: int) -> None:
        if number >= len(self.tables):
            tables = np.zeros((max(number + 1, 2 * len(self.tables)), T_SIZE), np.int64)
            tables[:, T_BODY_LENGTH] = -1
            tables[: len(self.tables)] = self.tables
            self.tables = tables
        self.bodies = _grown(self.bodies, self._bytes + body)
        self.columns = _grown(self.columns, self._columns + columns)
        self.hops = _grown(self.hops, self._hops + hops)


def _grown(array: NDArray[_Number], size: int) -> NDArray[_Number]:
    if size <= len(array):
        return array
    larger = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _hops(widths: list[int]) -> list[tuple[int, int]]:
    """(bytes of fixed columns, bytes of the prefix that follows or 0) until the end of an image."""
    hops: list[tuple[int, int]] = []
    fixed = 0
    for w in widths:
        if w >= 0:
            fixed += w
        else:
            hops.append((fixed, -w))
            fixed = 0
    if fixed or not hops:
        hops.append((fixed, 0))
    return hops
