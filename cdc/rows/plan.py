"""Plans of tables flattened into the arrays that the kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from zlib import crc32

import numpy as np
import numpy.typing as npt

from cdc.base.nodes import plain
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.charsets import tables as charset_tables
from cdc.kernels.values.zones import zone_table
from cdc.rows.agreement import check
from cdc.rows.matrix import Matrix as Matrix
from cdc.rows.matrix import MatrixRows, no_rows
from cdc.rows.route import Route, RouteMode
from cdc.rows.storage import ColumnTypeNotSupported, Storage, storage
from cdc.schema.table import Column, Generated, Table

_NO_TEXTS = np.empty(0, np.uint16)


@dataclass(frozen=True, slots=True)
class Planned:
    """One table of a plan set: what locating needs, before a format adds its constants."""

    table: Table
    columns: tuple[Column, ...]
    storages: tuple[Storage, ...]
    route: Route

    def flags(self, ordinal: int) -> int:
        """COLUMN_* of a column, beside those that a format sets."""
        column = self.columns[ordinal]
        flags = 0
        if column.generated is Generated.VIRTUAL:
            flags |= L.COLUMN_HIDDEN
        if ordinal in self.table.handle_key:
            flags |= L.COLUMN_HANDLE
        if ordinal in self.route.columns:
            flags |= L.COLUMN_DISPATCH
        if self.storages[ordinal].op not in (L.OP_UTF8, L.OP_BINARY):
            flags |= L.COLUMN_NUMBER_HASH
        return flags


def planned(table: Table, stored: TableMap, route: Route) -> Planned:
    """Check a table against its TABLE_MAP (errors of ``agreement.check``) and lay it out."""
    check(table, stored)
    try:
        storages = tuple(
            storage(column, code, meta)
            for column, code, meta in zip(table.columns, stored.types, stored.metadata, strict=True)
        )
    except ColumnTypeNotSupported as error:
        raise ColumnTypeNotSupported(
            error.message, object=f"{table.full_name}.{error.object}", hint=error.hint
        ) from None
    return Planned(table, table.columns, storages, route)


@dataclass(frozen=True)
class PlanSet:
    """All tables of a job, as the kernels take them (``cdc.kernels.layout``). Picklable."""

    tables: Matrix
    columns: Matrix
    hops: Matrix
    zone_starts: npt.NDArray[np.int64]
    zone_offsets: npt.NDArray[np.int64]
    entries: tuple[Planned, ...] = field(repr=False)

    @property
    def names(self) -> set[tuple[str, str]]:
        """``(schema, table)`` of every table."""
        return {(entry.table.schema, entry.table.name) for entry in self.entries}

    @cached_property
    def texts(self) -> npt.NDArray[np.uint16]:
        """Character set tables; empty where no column needs them."""
        if (self.columns[:, L.C_OP] == L.OP_TEXT).any():
            return charset_tables()
        return _NO_TEXTS

    @cached_property
    def splits(self) -> bool:
        """Whether an UPDATE may become a DELETE and an INSERT."""
        return bool((self.tables[:, L.T_OPTIONS] & L.OPTION_SPLIT).any())

    @cached_property
    def hashed(self) -> bool:
        """Whether a table's partitions depend on values, so that a second pass is needed."""
        return bool((self.tables[:, L.T_MODE] == L.MODE_COLUMNS).any())


NO_TABLES = PlanSet(
    no_rows(L.T_SIZE), no_rows(L.C_SIZE), no_rows(L.H_SIZE),
    np.empty(0, np.int64), np.empty(0, np.int64), (),
)  # fmt: skip
"""What a first plan goes on from."""


class PlanBuilder:
    """Collects rows of the plan matrices, behind those of another plan set."""

    def __init__(self, before: PlanSet = NO_TABLES) -> None:
        self._tables = MatrixRows(before.tables)
        self._columns = MatrixRows(before.columns)
        self._hops = MatrixRows(before.hops)
        self._before = before.entries
        self._entries: list[Planned] = []

    def add(self, entry: Planned) -> tuple[list[int], list[list[int]]]:
        """Add a table; its row and its columns' rows, for options and flags of a format."""
        row = [0] * L.T_SIZE
        route = entry.route
        row[L.T_COLUMN] = len(self._columns)
        row[L.T_COLUMNS] = len(entry.columns)
        row[L.T_HOP] = len(self._hops)
        self._hops.add(_hops(entry.storages))
        row[L.T_HOPS] = len(self._hops) - row[L.T_HOP]
        row[L.T_MODE] = int(route.mode)
        row[L.T_PARTITIONS] = route.partitions
        row[L.T_PARTITION] = route.partition
        row[L.T_BASE] = route.base
        row[L.T_BLOCK] = route.block
        if route.mode is RouteMode.COLUMNS:
            # Old and new key may lie in different partitions: each must see its own change.
            row[L.T_OPTIONS] |= L.OPTION_SPLIT
        schema, name = route.hashed or (plain(entry.table.schema), entry.table.name)
        row[L.T_HASH] = crc32(name.encode(), crc32(schema.encode()))
        rows = []
        for i, stored in enumerate(entry.storages):
            column = [0] * L.C_SIZE
            column[L.C_WIDTH] = stored.width
            column[L.C_OP] = stored.op
            column[L.C_A] = stored.a
            column[L.C_B] = stored.b
            column[L.C_ROOM] = stored.room
            column[L.C_FLAGS] = entry.flags(i)
            column[L.C_HASH] = crc32(entry.columns[i].name.encode())
            rows.append(column)
        self._tables.add([row])
        self._columns.add(rows)
        self._entries.append(entry)
        return row, rows

    def build(self, time_zone: str) -> PlanSet:
        """The finished plan set; ``time_zone`` is an IANA name."""
        zone = zone_table(time_zone)
        return PlanSet(
            tables=self._tables.build(),
            columns=self._columns.build(),
            hops=self._hops.build(),
            zone_starts=zone.starts,
            zone_offsets=zone.offsets,
            entries=(*self._before, *self._entries),
        )


def _hops(storages: Sequence[Storage]) -> list[list[int]]:
    hops = [[0, 0]]
    for stored in storages:
        if stored.width >= 0:
            hops[-1][L.H_FIXED] += stored.width
        else:
            hops[-1][L.H_PREFIX] = -stored.width
            hops.append([0, 0])
    if hops[-1] == [0, 0]:
        hops.pop()
    return hops
