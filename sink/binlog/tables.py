"""Tables as the files have them: plans to locate their rows, and their TABLE_MAP events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cdc.binlog.events import EventType
from cdc.binlog.writer import build_event
from cdc.kernels import apply as kernels
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows import plan
from cdc.rows.batch import Buffer, Order, RowBatch
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, PlanSet, planned
from sink.binlog.errors import BinlogInternal
from sink.contract import Entry
from sink.dispatch.target import TargetRouter

# A statement is what a client must be able to send as text: mysqlbinlog makes one BINLOG of it.
_STATEMENT_BYTES = 1 << 20
_EVENT_BYTES = 64 << 10
_FIRST_ROOM = 64 << 10


@dataclass(frozen=True)
class StreamPlan:
    """``plans`` to locate rows, TABLE_MAPs to write them: ``maps`` int64[:, kernels.M_SIZE]."""

    plans: PlanSet
    maps: Matrix
    constants: Bytes


NO_TABLES = StreamPlan(plan.NO_TABLES, no_rows(kernels.M_SIZE), NO_CONSTANTS)


def stream_plan(entries: Sequence[Entry], names: TargetRouter, before: StreamPlan) -> StreamPlan:
    """Plans of tables behind those of ``before``.

    TABLE_MAPs are the upstream's, with the names and numbers that tables have here. Raises
    ``SchemaMismatch``, ``ColumnTypeNotSupported`` or ``RoutingFailed``.
    """
    builder = PlanBuilder(before.plans)
    constants = Constants(before.constants)
    maps = MatrixRows(before.maps)
    for table, stored, route in entries:
        number = len(maps) + 1
        builder.add(planned(table, stored, route))
        schema, name = names.target(table.schema, table.name)
        moved = replace(stored, table_id=number, schema=schema, name=name)
        event = build_event(EventType.TABLE_MAP, moved.encode())
        # MySQL finds rows without a key in any order: one that is changed twice must not be twice
        # in one event.
        apart = not table.handle_key
        maps.add([[constants.add(event), len(event), stored.columns, number, apart]])
    return StreamPlan(builder.build("UTC"), maps.build(), constants.build())


class StatementCutter:
    """Cuts rows of one transaction into statements: TABLE_MAPs, and rows events behind them."""

    def __init__(self, plan: StreamPlan) -> None:
        self._plan = plan
        self._seen = np.full(len(plan.maps), -1, np.int64)
        self._turn = 0
        self._out: Buffer = np.empty(_FIRST_ROOM, np.uint8)

    def flags(self, located: RowBatch, runs: Matrix) -> Order:
        """Flags of each reference's source event."""
        flags = np.empty(len(located.refs), np.int64)
        error, at = kernels.row_flags(located.buf, runs, located.refs, flags)
        if error != L.OK:
            raise BinlogInternal(L.MESSAGES[error], object=located.position(at))
        return flags

    def statements(
        self, located: RowBatch, flags: Order, order: Order, lo: int, hi: int
    ) -> Iterator[tuple[Buffer, int]]:
        """The events of ``located.refs[order[lo:hi]]``; an array and how much of it is used."""
        plan, limit = self._plan, _STATEMENT_BYTES
        while lo < hi:
            self._turn += 2
            after, size, detail, error, at = kernels.cut(
                located.buf, located.refs, order, lo, hi, flags, plan.maps, plan.constants,
                self._seen, self._turn, 0, _EVENT_BYTES, limit, self._out,
            )  # fmt: skip
            if error == L.ERR_ROOM:
                self._out = np.empty(2 * detail, np.uint8)
            elif error == L.ERR_TOO_LARGE:
                limit = detail
            elif error != L.OK:
                raise BinlogInternal(L.MESSAGES[error], object=located.position(at))
            else:
                yield self._out, size
                lo, limit = after, _STATEMENT_BYTES
