"""Cuts rows into SQL statements, the payloads of a target that takes no row images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cdc.base.errors import TidegateError
from cdc.base.ts import physical_ms
from cdc.kernels import layout as L  # noqa: N812
from cdc.kernels import sql_layout as S  # noqa: N812
from cdc.kernels.sql_json import STACK
from cdc.kernels.sql_statement import write
from cdc.kernels.values.errors import MESSAGES as VALUE_MESSAGES
from cdc.rows.batch import Buffer, EventMalformedInLog, Order, RowBatch, ValueMalformed
from cdc.rows.plan import Matrix
from sink.encoded import Encoded
from sink.mysql.cutter import Cutter
from sink.mysql.errors import TargetValueRejected
from sink.mysql.sql_plan import SqlPlan

_SPARE = 16 << 10
# No literal is longer than this many bytes for each stored one.
_WORST = 16


@dataclass(frozen=True, slots=True)
class SqlBatch(Encoded):
    """One statement. ``matched`` rows is what the server must report for it; -1: any number.

    The server counts rows that are found, not only changed ones (CLIENT_FOUND_ROWS). Fewer mean
    that the target lacks a row. A row that becomes two statements counts in both.
    """

    matched: int


class SqlCutter(Cutter):
    """Makes one statement after the other for rows in commit order.

    The session has ``sql_plan.SQL_MODE``, time zone +00:00 and connection charset utf8mb4.
    """

    sql = True
    _form = "a statement"

    def __init__(self, plan: SqlPlan) -> None:
        super().__init__()
        self.plan = plan
        columns = int(plan.plans.tables[:, L.T_COLUMNS].max(initial=0))
        self._spans = np.empty(4 * columns + STACK, np.int64)
        self._scratch = np.empty(_SPARE, np.uint8)

    def batches(
        self, located: RowBatch, runs: Matrix, order: Order, *, limit: int, max_message: int
    ) -> Iterator[SqlBatch]:
        """See ``Cutter``; also raises ``TargetValueRejected`` or ``ValueMalformed``."""
        flags = self._source_flags(located, runs)
        i, second = 0, False
        out = self._room(located, order, limit + _SPARE, 4)
        while i < len(order):
            after, half, size, rows, form, detail, error, at, item = self._write(
                located, order, i, second, flags, limit, max_message, out
            )
            if error == S.ERR_SCRATCH:
                self._scratch = np.empty(detail, np.uint8)
            elif error == L.ERR_ROOM and detail <= _WORST * max_message + 4 * _SPARE:
                out = self._array(max(detail, min(2 * out.size, limit + _SPARE)))
            elif error in (L.ERR_TOO_LARGE, L.ERR_ROOM):
                raise self._too_large(located, int(order[i]), detail, max_message)
            elif error != L.OK:
                raise self._row_error(located, int(order[i]), error, at, item)
            else:
                yield self._batch(located, order, out, size, i, after + half, rows, form)
                i, second = after, half != 0

    def _write(
        self,
        located: RowBatch,
        order: Order,
        i: int,
        second: bool,
        flags: Order,
        limit: int,
        most: int,
        out: Buffer,
    ) -> tuple[int, ...]:
        plan, plans = self.plan, located.plans
        found: tuple[int, ...] = write(
            located.buf, located.refs, order, i, len(order), second, flags, plans.tables,
            plans.columns, plan.forms, plan.items, plan.constants, plan.numbers,
            plans.zone_starts, plans.zone_offsets, plans.texts, min(limit, most), most,
            self._spans, self._scratch, out,
        )  # fmt: skip
        return found

    def _batch(
        self,
        located: RowBatch,
        order: Order,
        out: Buffer,
        size: int,
        first: int,
        last: int,
        rows: int,
        form: int,
    ) -> SqlBatch:
        matched = int(self.plan.forms[form, S.F_MATCHED])
        refs = located.refs
        return SqlBatch(
            memoryview(out.data)[:size],
            first,
            last,
            physical_ms(int(refs[order[first], L.R_TS])),
            physical_ms(int(refs[order[last - 1], L.R_TS])),
            matched * rows if matched >= 0 else -1,
        )

    def _row_error(
        self, located: RowBatch, row: int, error: int, at: int, item: int
    ) -> TidegateError:
        entry = located.plans.entries[int(located.refs[row, L.R_PLAN])]
        name, position = entry.table.full_name, located.position(at)
        if error in (S.ERR_OPAQUE, S.ERR_MEMBER):
            column = entry.columns[int(self.plan.items[item, S.I_ORDINAL])].name
            return TargetValueRejected(
                f"column {column}: {S.MESSAGES[error]}",
                object=located.row_name(row),
                position=position,
                hint="deliver the table as row images (apply=rows), or add the member at the target"
                if error == S.ERR_MEMBER
                else "deliver the table as row images (apply=rows)",
            )
        if error in S.MESSAGES:
            return EventMalformedInLog(S.MESSAGES[error], object=name, position=position)
        return ValueMalformed(
            VALUE_MESSAGES.get(error, f"error {error}"),
            object=located.row_name(row),
            position=position,
        )
