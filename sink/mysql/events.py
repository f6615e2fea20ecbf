"""Rows of the log as binlog events for the target: plans of tables, and statements' payloads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cdc.base.errors import InternalError
from cdc.base.ts import physical_ms
from cdc.binlog.events import EventType
from cdc.binlog.table_map import TableMap
from cdc.binlog.writer import build_event, format_description
from cdc.kernels import apply as kernels
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows import plan
from cdc.rows.batch import Order, RowBatch
from cdc.rows.matrix import NO_CONSTANTS, Bytes, Constants, Matrix, MatrixRows, no_rows
from cdc.rows.plan import PlanBuilder, PlanSet, planned
from cdc.rows.route import Route
from cdc.schema.table import Table
from sink.encoded import Encoded
from sink.mysql.connection import Target
from sink.mysql.cutter import Cutter
from sink.mysql.settings import Checks, MysqlSettings

# Large enough that its head does not matter, small enough for the target's own binlog.
_EVENT_BYTES = 256 << 10
_KEPT_MYSQL = kernels.FLAG_NO_FOREIGN_KEY_CHECKS | kernels.FLAG_NO_UNIQUE_CHECKS | 8
# MariaDB knows one more: no check of CHECK constraints.
_KEPT_MARIADB = _KEPT_MYSQL | 0x80
_TABLE_MAP_FLAGS = 1


@dataclass(frozen=True)
class ApplyPlan:
    """The tables of a job: ``plans`` to locate their rows, TABLE_MAP events to apply them.

    ``maps`` is int64[:, kernels.M_SIZE], ``constants`` uint8[:]. Picklable.
    """

    plans: PlanSet
    maps: Matrix
    constants: Bytes


NO_TABLES = ApplyPlan(plan.NO_TABLES, no_rows(kernels.M_SIZE), NO_CONSTANTS)


def format_event(target: Target) -> bytes:
    """A FORMAT_DESCRIPTION event of the target's own version, which its BINLOG wants first."""
    described = format_description(target.version)
    return build_event(EventType.FORMAT_DESCRIPTION, described.encode(), server_id=target.server_id)


def apply_plan(
    entries: Sequence[tuple[Table, TableMap, Route, tuple[str, str]]],
    server_id: int,
    before: ApplyPlan = NO_TABLES,
    keyless: Collection[tuple[str, str]] = (),
) -> ApplyPlan:
    """Plans of tables, behind those of ``before``; each with its ``(schema, name)`` at the target.

    ``keyless`` are those of that name that the target has without a key. MySQL finds the rows of
    such a table's event in any order (a hash of all its before images), so a row that is changed
    twice must not be twice in one event: it would look for the second image before it is there.

    A table's place in that order is the plan index of runs. Raises ``SchemaMismatch`` or
    ``ColumnTypeNotSupported``. Optional metadata of TABLE_MAP is left out: the families number
    and count it differently, and all that it says was compared before.
    """
    builder = PlanBuilder(before.plans)
    constants = Constants(before.constants)
    maps = MatrixRows(before.maps)
    for table, stored, route, (schema, name) in entries:
        number = len(maps) + 1
        builder.add(planned(table, stored, route))
        moved = replace(
            stored, table_id=number, flags=_TABLE_MAP_FLAGS, schema=schema, name=name, optional=b""
        )
        event = build_event(EventType.TABLE_MAP, moved.encode(), server_id=server_id)
        apart = not table.handle_key or (schema, name) in keyless
        maps.add([[constants.add(event), len(event), stored.columns, number, apart]])
    return ApplyPlan(
        plans=builder.build("UTC"),
        maps=maps.build(),
        constants=constants.build(),
    )


class EventCutter(Cutter):
    """Makes the events of one ``BINLOG`` statement after the other."""

    sql = False
    _form = "an event"

    def __init__(self, plan: ApplyPlan, settings: MysqlSettings, target: Target) -> None:
        super().__init__()
        self.plan = plan
        self._server_id = target.server_id
        self._kept = _KEPT_MARIADB if target.mariadb else _KEPT_MYSQL
        self._added = 0
        if settings.foreign_key_checks is Checks.OFF:
            self._added |= kernels.FLAG_NO_FOREIGN_KEY_CHECKS
        if settings.unique_checks is Checks.OFF:
            self._added |= kernels.FLAG_NO_UNIQUE_CHECKS
        self._seen = np.full(len(plan.maps), -1, np.int64)
        self._turn = 0

    def batches(
        self, located: RowBatch, runs: Matrix, order: Order, *, limit: int, max_message: int
    ) -> Iterator[Encoded]:
        """See ``Cutter``."""
        flags = self._source_flags(located, runs) & self._kept | self._added
        refs, plan, i, bound = located.refs, self.plan, 0, limit
        out = self._room(located, order, limit, 2)
        while i < len(order):
            self._turn += 2
            after, size, detail, error, at = kernels.cut(
                located.buf, refs, order, i, len(order), flags, plan.maps, plan.constants,
                self._seen, self._turn, self._server_id, _EVENT_BYTES, bound, out,
            )  # fmt: skip
            if error == L.ERR_ROOM:
                out = self._array(detail)
            elif error == L.ERR_TOO_LARGE and bound < max_message:
                bound = max_message if detail > max_message else detail
            elif error == L.ERR_TOO_LARGE:
                raise self._too_large(located, int(order[i]), detail, max_message)
            elif error != L.OK:
                raise InternalError(L.MESSAGES[error], object=located.position(at))
            else:
                base_ms = physical_ms(int(refs[order[i], L.R_TS]))
                max_ms = physical_ms(int(refs[order[after - 1], L.R_TS]))
                yield Encoded(memoryview(out.data)[:size], i, after, base_ms, max_ms)
                i, bound = after, limit
