"""Rows of rows events as canal-json, by the product's own codec and kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cdc.base.errors import InternalError, InvalidError, TidegateError
from cdc.base.ts import Ts, physical_ms
from cdc.binlog.events import Dialect
from cdc.binlog.header import CHECKSUM_LENGTH
from cdc.binlog.reader import Event, located
from cdc.binlog.table_map import TableMap
from cdc.cli.log_metadata import KnownTable, Unknown, table_of_metadata, table_of_schema
from cdc.cli.log_schema import Tables, find_table
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.agreement import SystemVersionedTable
from cdc.rows.batch import RowBatch
from cdc.rows.plan import PlanSet
from cdc.rows.route import Route
from cdc.rows.storage import ColumnTypeNotSupported
from sink.codec.canal.codec import CanalCodec
from sink.codec.canal.plan import CanalPlan
from sink.codec.canal.settings import CanalSettings
from sink.codec.contract import EncodeLimits, Framing


class RowsNeedSchema(InvalidError):
    """Rows of which neither ``--schema`` nor the binlog's own metadata says enough."""

    code = "TG:ErrRowsNeedSchema"


_LIMITS = EncodeLimits(message=1 << 30)
_ROWS_AT_ONCE = 1 << 16
_HINT = "give --schema FILE.sql with its CREATE TABLE"


@dataclass(frozen=True, slots=True)
class PrintPlan:
    """How rows under one TABLE_MAP are decoded; without ``plans``, ``refused`` says why not.

    ``absent`` are the columns' rows of the plan with every column hidden, so that an image that
    is not full passes the walk.
    """

    known: KnownTable
    plans: CanalPlan | None
    absent: PlanSet | None
    refused: TidegateError | None


class RowPrinter:
    """Keeps the plan of each TABLE_MAP that it has seen."""

    def __init__(self, tables: Tables, dialect: Dialect) -> None:
        self._tables = tables
        self._dialect = dialect
        self._codec = CanalCodec(CanalSettings())
        self._plans: dict[bytes, PrintPlan] = {}

    def plan(self, stored: TableMap, where: str) -> PrintPlan:
        """The plan of a TABLE_MAP, made at its first use; errors name ``where``."""
        key = stored.encode()
        plan = self._plans.get(key)
        if plan is None:
            try:
                plan = self._plans[key] = self._new_plan(stored)
            except TidegateError as error:
                raise located(error, where) from None
        return plan

    def messages(self, event: Event, stored: TableMap, ts: Ts, *, partial: bool) -> Iterator[bytes]:
        """One canal-json message a row, without line ends.

        ``partial`` takes images that lack columns. Columns of unknown character set come as
        bytes, those of unknown sign as signed numbers: the caller asks ``plan`` first.
        """
        plan = self.plan(stored, event.where)
        try:
            if plan.plans is None or plan.absent is None:
                raise plan.refused or InternalError("a plan without a reason", object=stored.name)
            data = np.frombuffer(_with_checksum(event), np.uint8)
            done = 0
            while True:
                walked = plan.absent if partial else plan.plans.plans
                found = RowBatch(data, _run(len(data), ts, done), _ROWS_AT_ONCE, walked, "byte")
                order = np.arange(len(found.refs), dtype=np.int64)
                for batch in self._codec.encode(
                    found, plan.plans, order, physical_ms(ts), limits=_LIMITS, framing=Framing.LINES
                ):
                    yield from bytes(batch.data).splitlines()
                done += len(order)
                if len(order) < _ROWS_AT_ONCE:
                    return
        except TidegateError as error:
            raise located(error, event.where) from None

    def complete(self, stored: TableMap, where: str) -> None:
        """Raise ``RowsNeedSchema`` unless canal-json can be written without a guess."""
        missing = self.plan(stored, where).known.first_unknown()
        if missing is not None:
            name, unknown = missing
            raise RowsNeedSchema(
                f"of column {name} the binlog does not tell {unknown}",
                object=stored.full_name,
                position=where,
                hint=_HINT,
            )

    def _new_plan(self, stored: TableMap) -> PrintPlan:
        given = find_table(self._tables, stored)
        if given is None:
            known = table_of_metadata(stored, self._dialect)
        else:
            known = table_of_schema(given, stored, self._dialect)
        if Unknown.FRACTION in known.unknown:
            column = known.table.columns[known.unknown.index(Unknown.FRACTION)]
            refused = RowsNeedSchema(
                f"of column {column.name} the binlog does not tell {Unknown.FRACTION}",
                object=stored.full_name,
                hint=_HINT,
            )
            return PrintPlan(known, None, None, refused)
        try:
            plan = self._codec.plan([(known.table, stored, Route())])
        except (ColumnTypeNotSupported, SystemVersionedTable) as error:
            return PrintPlan(known, None, None, error)
        columns = plan.plans.columns.copy()
        columns[[u is Unknown.CHARSET for u in known.unknown], L.C_OP] = L.OP_BINARY
        hidden = columns.copy()
        hidden[:, L.C_FLAGS] |= L.COLUMN_HIDDEN
        shown = replace(plan, plans=replace(plan.plans, columns=columns))
        return PrintPlan(known, shown, replace(plan.plans, columns=hidden), None)


def _run(length: int, ts: Ts, skip: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    run = np.zeros((1, L.RUN_SIZE), np.int64)
    run[0, L.RUN_LENGTH] = length
    run[0, L.RUN_TS] = ts
    run[0, L.RUN_SKIP] = skip
    run[0, L.RUN_TAKE] = _ROWS_AT_ONCE
    return run


def _with_checksum(event: Event) -> bytes:
    # The kernels know only events that end in a checksum, as all of the change log do.
    if event.trailer == CHECKSUM_LENGTH:
        return event.data
    header = replace(event.header, length=len(event.data) + CHECKSUM_LENGTH)
    return header.encode() + event.data[19:] + bytes(CHECKSUM_LENGTH)
