"""Hashes by which rows of one key are found among others, in the log and in what was read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cdc.binlog.column_types import ColumnType
from cdc.binlog.table_map import TableMap
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.row_keys import hash_keys
from cdc.rows.batch import RowBatch, RowImageNotFull
from cdc.rows.storage import ColumnTypeNotSupported
from cdc.schema.table import Table

_OLD_FORMS = frozenset((ColumnType.TIMESTAMP, ColumnType.TIME, ColumnType.DATETIME))


class Image(IntEnum):
    """Which image of a row is looked at."""

    BEFORE = L.R_BEFORE
    AFTER = L.R_AFTER


def key_hashes(batch: RowBatch, columns: Sequence[int], which: Image) -> npt.NDArray[np.uint64]:
    """128-bit hashes uint64[rows, 2] of these columns (ordinals) of one image of each row.

    Equal bytes have equal hashes, wherever the rows come from; of n keys some two share one by
    chance with a probability of n**2 / 2**129 (of 10**9 keys: 10**-21). NULL is apart from every
    value. The order of ``columns`` does not matter. Rows without that image have (0, 0), which no
    key has. All rows are of tables that have these columns. Raises ``RowImageNotFull`` where a
    column is absent, and ``EventMalformedInLog``.
    """
    wanted = np.zeros(max(columns, default=-1) + 1, np.uint8)
    wanted[list(columns)] = 1
    hashes = np.empty((len(batch.refs), 2), np.uint64)
    row, error = hash_keys(
        batch.buf, batch.refs, int(which), wanted, batch.plans.tables, batch.plans.columns, hashes
    )
    if error == L.ERR_NOT_FULL:
        raise RowImageNotFull(
            "a row image lacks key columns",
            object=batch.row_name(row),
            position=batch.row_position(row),
            hint="SET GLOBAL binlog_row_image = FULL on the upstream",
        )
    if error != L.OK:
        raise batch.row_error(error, int(batch.refs[row, which]), row)
    return hashes


def check_key_form(table: Table, columns: Sequence[int], stored: TableMap) -> None:
    """See that these columns (ordinals) have the same bytes in the log as of a SELECT.

    Times of tables that were made before MySQL 5.6 or MariaDB 10.1 are logged in another form; a
    SELECT does not tell. Raises ``ColumnTypeNotSupported``.
    """
    for ordinal in columns:
        if stored.types[ordinal] in _OLD_FORMS:
            raise ColumnTypeNotSupported(
                "a key in the form of before MySQL 5.6 cannot be found among rows that were read",
                object=f"{table.full_name}.{table.columns[ordinal].name}",
                hint="ALTER TABLE ... FORCE on the upstream writes it in the form of today",
            )
