"""Rows of one table as an Arrow record batch with typed columns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc.base.errors import DefiniteError, InternalError
from cdc.kernels import arrow
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.values.zones import UTC_ZONE
from sink.codec.rows import EventMalformedInLog, Located, Order

Values = npt.NDArray[np.int64]


class ValueNotInArrow(DefiniteError):
    """A date that no calendar has, such as 0000-00-00."""

    code = "TG:ErrValueNotInArrow"


_NUMBERS: Final[dict[int, Any]] = {
    L.OP_INT8: pa.int8(),
    L.OP_UINT8: pa.uint8(),
    L.OP_INT16: pa.int16(),
    L.OP_UINT16: pa.uint16(),
    L.OP_INT24: pa.int32(),
    L.OP_UINT24: pa.uint32(),
    L.OP_INT32: pa.int32(),
    L.OP_UINT32: pa.uint32(),
    L.OP_INT64: pa.int64(),
    L.OP_UINT64: pa.uint64(),
    L.OP_FLOAT: pa.float32(),
    L.OP_DOUBLE: pa.float64(),
    L.OP_YEAR: pa.int16(),
    L.OP_BIT: pa.uint64(),
    L.OP_ENUM: pa.uint16(),
    L.OP_SET: pa.uint64(),
}
_TIMES: Final[dict[int, Any]] = {
    L.OP_DATE: pa.date32(),
    L.OP_DATETIME2: pa.timestamp("us"),
    L.OP_OLD_DATETIME: pa.timestamp("us"),
    L.OP_TIMESTAMP2: pa.timestamp("us", tz="UTC"),
    L.OP_OLD_TIMESTAMP: pa.timestamp("us", tz="UTC"),
    L.OP_TIME2: pa.duration("us"),
    L.OP_OLD_TIME: pa.duration("us"),
}
_BYTES: Final = (L.OP_BINARY, L.OP_BINARY_PADDED)
_DAY_MICROS: Final = 86_400_000_000
_SCRATCH: Final = 1 << 16


def arrow_type(op: int) -> Any:
    """Arrow type of a column by its op: decimals, JSON, UUIDs, addresses and vectors are text."""
    found = _NUMBERS.get(op) or _TIMES.get(op)
    return found or (pa.large_binary() if op in _BYTES else pa.large_string())


def record_batch(
    located: Located,
    order: Order,
    plan: int = 0,
    *,
    image: int = arrow.AFTER,
    no_day_as_null: bool = False,
) -> Any:
    """The rows ``refs[order]``, all of table ``plan``, as a ``pyarrow.RecordBatch``.

    One column for each of the table, in its order; AFTER takes the new values (of a DELETE the
    old ones), BEFORE the old ones, which are NULL for an INSERT. TIME is a duration; TIMESTAMP is
    in UTC; ENUM and SET are numbers. A date that no calendar has raises ``ValueNotInArrow`` unless
    ``no_day_as_null``.
    """
    return _Builder(located, order, plan, image, no_day_as_null).build()


class _Builder:
    def __init__(
        self, located: Located, order: Order, plan: int, image: int, no_day_as_null: bool
    ) -> None:
        self._located = located
        self._plan = plan
        self._plans = located.plans
        self._null_days = no_day_as_null
        self._entry = located.plans.entries[plan]
        self._first = int(located.plans.tables[plan, L.T_COLUMN])
        shape = (len(self._entry.columns), len(order))
        self._starts = np.full(shape, -1, np.int64)
        self._lengths = np.zeros(shape, np.int64)
        self._scratch = np.empty(_SCRATCH, np.uint8)
        error, at = arrow.spans(
            located.buf, located.refs, order, plan, image, self._plans.tables,
            self._plans.columns, self._starts, self._lengths,
        )  # fmt: skip
        if error == L.ERR_RUN:
            raise InternalError("rows of another table", object=self._entry.table.full_name)
        if error != L.OK:
            raise EventMalformedInLog(
                L.MESSAGES[error],
                object=self._entry.table.full_name,
                position=f"{located.name}:{at}",
            )

    def build(self) -> Any:
        names = [column.name for column in self._entry.columns]
        arrays = [self._column(c) for c in range(len(names))]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _column(self, c: int) -> Any:
        op = int(self._plans.columns[self._first + c, L.C_OP])
        starts, lengths = self._starts[c], self._lengths[c]
        valid = starts >= 0
        kind = arrow_type(op)
        if op in _NUMBERS:
            out = np.empty(len(starts), np.int64)
            bad = arrow.integers(self._located.buf, starts, lengths, op, out)
            if bad >= 0:
                raise self._malformed(c, int(starts[bad]))
            return _fixed(kind, _narrow(out, kind), valid)
        if op in _TIMES:
            return self._times(c, kind, op)
        if op in _BYTES:
            width = int(self._plans.columns[self._first + c, L.C_A])
            sizes = np.where(valid, np.maximum(lengths, width if op != L.OP_BINARY else 0), 0)
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
            data = np.empty(int(offsets[-1]), np.uint8)
            if arrow.blobs(self._located.buf, starts, lengths, offsets, data) >= 0:
                raise InternalError("bytes that do not fit", object=self._entry.table.full_name)
            return _variable(kind, offsets, data, valid)
        offsets, data = self._text(c)
        return _variable(kind, offsets, data, valid)

    def _times(self, c: int, kind: Any, op: int) -> Any:
        offsets, text = self._text(c)
        out = np.empty(self._starts.shape[1], np.int64)
        states = np.empty(len(out), np.uint8)
        arrow.micros(offsets, text, op in (L.OP_TIME2, L.OP_OLD_TIME), out, states)
        no_day = np.flatnonzero(states == arrow.NO_DAY)
        if len(no_day) and not self._null_days:
            raise ValueNotInArrow(
                "a date that no calendar has",
                object=self._name(c),
                position=f"{self._located.name}:{self._starts[c, no_day[0]]}",
                hint="read such dates as NULL (no_day_as_null)",
            )
        valid = states == arrow.VALUE
        if kind == pa.date32():
            return _fixed(kind, (out // _DAY_MICROS).astype(np.int32), valid)
        return _fixed(kind, out, valid)

    def _text(self, c: int) -> tuple[Values, npt.NDArray[np.uint8]]:
        starts, lengths = self._starts[c], self._lengths[c]
        offsets = np.zeros(len(starts) + 1, np.int64)
        out = np.empty(int(lengths.sum()) + len(starts) + _SCRATCH, np.uint8)
        i = o = 0
        while i < len(starts):
            i, error, detail, o = arrow.texts(
                self._located.buf, starts, lengths, self._first + c, i, o, self._plans.columns,
                UTC_ZONE.starts, UTC_ZONE.offsets, self._plans.texts, self._scratch, offsets, out,
            )  # fmt: skip
            if error == L.ERR_ROOM:
                if detail > len(self._scratch):
                    self._scratch = np.empty(detail, np.uint8)
                if detail > len(out) - o:
                    out = np.concatenate([out[:o], np.empty(detail + len(out), np.uint8)])
            elif error != L.OK:
                raise self._malformed(c, detail)
        return offsets, out[:o]

    def _name(self, c: int) -> str:
        return f"{self._entry.table.full_name}.{self._entry.columns[c].name}"

    def _malformed(self, c: int, at: int) -> EventMalformedInLog:
        return EventMalformedInLog(
            "a value that no server writes",
            object=self._name(c),
            position=f"{self._located.name}:{at}",
        )


def _narrow(values: Values, kind: Any) -> npt.NDArray[Any]:
    if kind == pa.float64():
        return values.view(np.float64)
    if kind == pa.float32():
        return values.astype(np.uint32).view(np.float32)
    return values.astype(kind.to_pandas_dtype())


def _validity(valid: npt.NDArray[np.bool_]) -> Any:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _fixed(kind: Any, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> Any:
    return pa.Array.from_buffers(kind, len(values), [_validity(valid), pa.py_buffer(values)])


def _variable(
    kind: Any, offsets: Values, data: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_]
) -> Any:
    buffers = [_validity(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(valid), buffers)
