"""Rows of a buffer as references: found, placed and grouped by kernels, errors raised."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
import numpy.typing as npt

from cdc.base.errors import DefiniteError, InternalError, TidegateError
from cdc.base.redaction import user_data
from cdc.kernels import dispatch, row_places
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels.rows import locate
from cdc.kernels.values.errors import MESSAGES as VALUE_MESSAGES
from cdc.rows.plan import Matrix, PlanSet
from cdc.rows.transactions import RunTransactions

Buffer = npt.NDArray[np.uint8]
Order = npt.NDArray[np.int64]

_FIRST_ROOM = 1 << 16


class EventMalformedInLog(DefiniteError):
    """A rows event of the log cannot be read."""

    code = "TG:ErrRowsMalformed"


class RowImageNotFull(DefiniteError):
    """A row image lacks columns that are needed."""

    code = "TG:ErrRowImageNotFull"


class ValueMalformed(DefiniteError):
    """A value of a row image is none that a server writes."""

    code = "TG:ErrValueMalformed"


class RowBatch:
    """The rows of runs in one buffer. It knows no message; nobody changes it from outside.

    ``refs`` int64[:, R_SIZE] are the references in delivery order; ``name`` names the buffer in
    errors (a segment's file name), ``transactions`` are those of the rows, where they are known.
    ``snapshot``: the rows were there before, and are inserts. ``where`` names a byte of a buffer
    that is no segment.
    """

    def __init__(
        self,
        buf: Buffer,
        runs: Matrix,
        rows: int,
        plans: PlanSet,
        name: str,
        transactions: RunTransactions | None = None,
        *,
        snapshot: bool = False,
        where: Callable[[int], str] | None = None,
    ) -> None:
        """Locate all rows of ``runs`` (``layout.RUN_*``), at most ``rows`` of them."""
        self.buf, self.plans, self.name = buf, plans, name
        self.runs, self.transactions = runs, transactions
        self._where = where
        self.snapshot = snapshot
        refs = np.empty((rows * (2 if plans.splits else 1), L.R_SIZE), np.int64)
        n, error, at = locate(buf, runs, plans.tables, plans.columns, plans.hops, refs)
        self.refs: Matrix = refs[:n]
        if error != L.OK:
            raise self._layout_error(error, at, runs)
        if plans.hashed:
            self._hash()

    def _hash(self) -> None:
        scratch = np.empty(_FIRST_ROOM, np.uint8)
        plans, i, n = self.plans, 0, len(self.refs)
        while i < n:
            i, error, at, room = dispatch.destinations(
                self.buf, self.refs, i, n, plans.tables, plans.columns,
                plans.zone_starts, plans.zone_offsets, plans.texts, scratch,
            )  # fmt: skip
            if error == L.ERR_ROOM:
                scratch = np.empty(room, np.uint8)
            elif error != L.OK:
                raise self.row_error(error, at, i)

    def by_destination(self, wanted: npt.NDArray[np.int64]) -> list[Order]:
        """For each destination of ``wanted``, the indices of its rows in delivery order."""
        highest = int(self.refs[:, L.R_DESTINATION].max(initial=0))
        slots = np.full(max(highest, int(wanted.max(initial=0))) + 1, -1, np.int64)
        slots[wanted] = np.arange(len(wanted))
        bounds = np.zeros(len(wanted) + 1, np.int64)
        order = np.empty(len(self.refs), np.int64)
        if dispatch.group(self.refs, len(self.refs), slots, bounds, order) < 0:
            raise InternalError("a row without a destination", object=self.name)
        return [order[bounds[g] : bounds[g + 1]] for g in range(len(wanted))]

    def only(self, kept: npt.NDArray[np.bool_]) -> RowBatch:
        """The rows where ``kept`` (one a row) is true; buffer and plans are shared."""
        chosen = copy(self)
        chosen.refs = self.refs.take(np.flatnonzero(kept), axis=0)
        return chosen

    def places(self, starts: npt.NDArray[np.int64]) -> Matrix:
        """Where each row stands upstream: int64[:, row_places.SIZE], with ``refs``.

        ``starts`` int64[:] are the offsets of the runs in the upstream's files.
        """
        places = np.empty((len(self.refs), row_places.SIZE), np.int64)
        plans = self.plans
        placed = row_places.place(
            self.buf, self.runs, starts, self.refs,
            plans.tables, plans.columns, plans.hops, places,
        )  # fmt: skip
        if placed < len(places):
            raise InternalError(
                "a row in no event of its runs",
                object=self.name,
                position=self.row_position(placed),
            )
        return places

    def key_text(self, row: int) -> str:
        """``id=42, part=7``: the handle-key columns of a row, for errors; marked as user data."""
        entry = self.plans.entries[int(self.refs[row, L.R_PLAN])]
        scratch = np.empty(_FIRST_ROOM, np.uint8)
        texts = []
        for i in entry.table.handle_key:
            n, error = dispatch.value_text(
                self.buf, self.refs, row, i, self.plans.tables, self.plans.columns,
                self.plans.zone_starts, self.plans.zone_offsets, self.plans.texts, scratch,
            )  # fmt: skip
            text = "NULL" if n < 0 else scratch[:n].tobytes().decode("utf-8", "replace")
            texts.append(f"{entry.columns[i].name}={text if error == L.OK else '?'}")
        return user_data(", ".join(texts)) if texts else "no key"

    def row_name(self, row: int) -> str:
        """``shop.t, row id=42``: table and key of ``refs[row]``, for errors and people."""
        table = self.plans.entries[int(self.refs[row, L.R_PLAN])].table
        return f"{table.full_name}, row {self.key_text(row)}"

    def row_position(self, row: int) -> str:
        """Where ``refs[row]`` ends, for errors."""
        return self.position(int(self.refs[row, L.R_END]))

    def position(self, at: int) -> str:
        """Where a byte of the buffer lies, for errors."""
        return f"{self.name}:{at}" if self._where is None else self._where(at)

    def _layout_error(self, error: int, at: int, runs: Matrix) -> TidegateError:
        inside = (runs[:, L.RUN_OFFSET] <= at) & (
            at < runs[:, L.RUN_OFFSET] + runs[:, L.RUN_LENGTH]
        )
        found = np.flatnonzero(inside)
        name = ""
        if len(found):
            plan = int(runs[found[0], L.RUN_PLAN])
            if 0 <= plan < len(self.plans.entries):
                name = self.plans.entries[plan].table.full_name
        if error == L.ERR_NOT_FULL:
            return RowImageNotFull(
                L.MESSAGES[error],
                object=name,
                position=self.position(at),
                hint="SET GLOBAL binlog_row_image = FULL on the upstream",
            )
        return EventMalformedInLog(L.MESSAGES[error], object=name, position=self.position(at))

    def row_error(self, error: int, at: int, row: int) -> TidegateError:
        """The error for a kernel's code about ``refs[row]``; ``at``: offset in the buffer."""
        if error in L.MESSAGES:
            table = self.plans.entries[int(self.refs[row, L.R_PLAN])].table
            return EventMalformedInLog(
                L.MESSAGES[error], object=table.full_name, position=self.position(at)
            )
        return ValueMalformed(
            VALUE_MESSAGES.get(error, f"error {error}"),
            object=self.row_name(row),
            position=self.position(at),
        )
