"""Runs: the rows of the index, as one numpy array per column.

A run is a contiguous byte range of one segment with the rows events of one table of one
transaction; DDL, marks and the steps of XA transactions are rows of the same index.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cdc.base.position import Position

LAST_OF_TRANSACTION = 1
# Of a COMMIT: it was prepared before the log begins, so its rows are not there.
PREPARED_BEFORE = 2


class RunKind(IntEnum):
    """What a row of the index stands for."""

    DML = 1
    DDL = 2
    MARK = 3
    HEARTBEAT = 4
    PREPARE = 5
    COMMIT = 6
    ROLLBACK = 7


# name, dtype, value where a builder is not given one
COLUMNS: tuple[tuple[str, type[np.signedinteger[Any]], int], ...] = (
    ("commit_ts", np.int64, 0),
    ("kind", np.int8, int(RunKind.DML)),
    ("flags", np.int16, 0),
    ("table", np.int32, -1),
    ("segment", np.int32, -1),
    ("offset", np.int64, 0),
    ("length", np.int64, 0),
    ("first_row", np.int64, 0),
    ("rows", np.int32, 0),
    ("gtid_source", np.int32, -1),
    ("gtid_seq", np.int64, -1),
    ("upstream_file", np.int32, -1),
    ("upstream_pos", np.int64, -1),
    ("xid", np.int32, -1),
)

RUN_SCHEMA = pa.schema(
    [pa.field(name, pa.from_numpy_dtype(np.dtype(dtype)), False) for name, dtype, _ in COLUMNS]
)


@dataclass(eq=False)
class Runs:
    """Equally long arrays, one per index column; docs/formats/index.md has the meaning of each.

    ``complete_to`` is set on results of ``ChangeLog.runs``: the position up to which the asked
    for tables are complete. Selections of a result keep it.
    """

    commit_ts: NDArray[np.int64]
    kind: NDArray[np.int8]
    flags: NDArray[np.int16]
    table: NDArray[np.int32]
    segment: NDArray[np.int32]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    first_row: NDArray[np.int64]
    rows: NDArray[np.int32]
    gtid_source: NDArray[np.int32]
    gtid_seq: NDArray[np.int64]
    upstream_file: NDArray[np.int32]
    upstream_pos: NDArray[np.int64]
    xid: NDArray[np.int32]
    complete_to: Position | None = None

    def __len__(self) -> int:
        return len(self.commit_ts)

    @classmethod
    def of(cls, arrays: Iterable[NDArray[Any]], complete_to: Position | None = None) -> Runs:
        """Runs over these arrays, in the order of ``COLUMNS``."""
        named: dict[str, Any] = dict(zip((c[0] for c in COLUMNS), arrays, strict=True))
        return cls(**named, complete_to=complete_to)

    def columns(self) -> tuple[NDArray[Any], ...]:
        """The arrays in the order of ``COLUMNS``."""
        return tuple(getattr(self, name) for name, _, _ in COLUMNS)

    @classmethod
    def build(cls, count: int, **columns: Any) -> Runs:
        """``count`` runs; a column is an array or one value for all, else its default."""
        unknown = columns.keys() - {name for name, _, _ in COLUMNS}
        if unknown:
            raise TypeError(f"unknown index columns: {sorted(unknown)}")
        arrays = []
        for name, dtype, default in COLUMNS:
            value = np.asarray(columns.get(name, default), dtype)
            arrays.append(np.full(count, value, dtype) if value.ndim == 0 else value)
            if len(arrays[-1]) != count:
                raise ValueError(f"column {name} has {len(arrays[-1])} values for {count} runs")
        return cls.of(arrays)

    @classmethod
    def empty(cls) -> Runs:
        """No runs."""
        return cls.build(0)

    @classmethod
    def concat(cls, parts: Iterable[Runs]) -> Runs:
        """All parts after each other; one part is returned as it is, without a copy."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        columns = zip(*map(cls.columns, parts), strict=True)
        return cls.of((np.concatenate(arrays) for arrays in columns), parts[-1].complete_to)

    def slice(self, lo: int, hi: int) -> Runs:
        """Runs ``lo`` to ``hi``, as views."""
        return Runs.of((a[lo:hi] for a in self.columns()), self.complete_to)

    def take(self, which: NDArray[np.bool_] | NDArray[np.signedinteger[Any]]) -> Runs:
        """The runs of a mask or of indices, as copies."""
        return Runs.of((a[which] for a in self.columns()), self.complete_to)

    def to_arrow(self) -> pa.RecordBatch:
        """A record batch of ``RUN_SCHEMA`` over the same memory where arrays are contiguous."""
        columns = [_to_arrow(a) for a in self.columns()]
        return pa.RecordBatch.from_arrays(columns, schema=RUN_SCHEMA)

    @classmethod
    def from_arrow(cls, data: pa.RecordBatch | pa.Table) -> Runs:
        """Inverse of ``to_arrow``: views of a batch, or of a table that has a single chunk."""
        if data.schema.remove_metadata() != RUN_SCHEMA:
            raise ValueError("schema of the index is not RUN_SCHEMA")
        if isinstance(data, pa.Table):
            data = data.combine_chunks()
            if data.num_rows == 0:
                return cls.empty()
            return cls.of(_from_arrow(c.chunk(0)) for c in data.columns)
        return cls.of(_from_arrow(c) for c in data.columns)

    def position_at(self, i: int) -> Position:
        """Position behind run ``i``: a whole one if the run is the last of its transaction."""
        ts = int(self.commit_ts[i])
        if self.flags[i] & LAST_OF_TRANSACTION:
            return Position(ts)
        return Position(ts, int(self.first_row[i]) + int(self.rows[i]))

    def equals(self, other: Runs) -> bool:
        """Whether all columns hold the same values."""
        return len(self) == len(other) and all(
            np.array_equal(a, b) for a, b in zip(self.columns(), other.columns(), strict=True)
        )


# Arrow's own conversions import pandas, which held up the first commit of a process by 0.3 s.


def _to_arrow(column: NDArray[Any]) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), len(column), [None, data])


def _from_arrow(column: pa.Array) -> NDArray[Any]:
    if column.null_count:
        raise ValueError("a column of the index has nulls")
    dtype = np.dtype(column.type.to_pandas_dtype())
    whole = np.frombuffer(column.buffers()[1] or b"", dtype)
    return whole[column.offset : column.offset + len(column)]


if tuple(f.name for f in fields(Runs))[:-1] != tuple(name for name, _, _ in COLUMNS):
    raise TypeError("fields of Runs and COLUMNS must agree")


class RunBuffer:
    """Runs that grow at their end, in arrays of doubling capacity."""

    def __init__(self) -> None:
        self._arrays = [np.empty(1024, dtype) for _, dtype, _ in COLUMNS]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(a.nbytes for a in self._arrays)

    def extend(self, runs: Runs) -> None:
        """Append; views handed out before stay valid."""
        count = self._count + len(runs)
        if count > len(self._arrays[0]):
            capacity = max(count, 2 * len(self._arrays[0]))
            grown = [np.empty(capacity, a.dtype) for a in self._arrays]
            for old, new in zip(self._arrays, grown, strict=True):
                new[: self._count] = old[: self._count]
            self._arrays = grown
        for array, column in zip(self._arrays, runs.columns(), strict=True):
            array[self._count : count] = column
        self._count = count

    def view(self) -> Runs:
        """All runs so far, without a copy."""
        return Runs.of(a[: self._count] for a in self._arrays)
