"""The value expressions of a table: which of its rows a changefeed passes on.

Made once for a table (and again when a DDL changes it), used by workers on every chunk of located
rows. Evaluation is by column: the values that an expression needs are decoded into arrays, once for
a chunk, and each operator is one pass over arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cdc.base.errors import InternalError
from cdc.kernels import expr_cells
from cdc.kernels import layout as L  # noqa: N812
from cdc.rows.batch import RowBatch
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.expr.build import build_condition
from filter.expr.context import Context
from filter.expr.errors import ExpressionColumnNotFound, ExpressionFailed, ExpressionParseFailed
from filter.expr.parse import Modes, parse
from filter.expr.values import FAILED, VALUE, Frame, Value

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BEFORE, _AFTER = 0, 1


class Condition:
    """One compiled expression; true means that the row is skipped."""

    def __init__(self, text: str, table: Table, session: Session, modes: Modes | None) -> None:
        self.text, self.table = text, table
        try:
            self._value: Value = build_condition(
                parse(text, session, modes), Context(table, session)
            )
        except RecursionError:
            raise ExpressionParseFailed(
                "the expression is nested too deeply",
                object=table.full_name,
                hint="take parentheses away",
            ) from None
        self.columns = tuple(sorted(self._value.columns))

    def true(self, located: RowBatch, rows: Rows, image: int) -> Flags:
        """For each row of ``rows`` (indices into ``refs``, of this table) whether it is true.

        ``image`` is 0 for the values before, 1 for those after the change. NULL is not true.
        Raises ``ExpressionFailed`` where the server has no value either.
        """
        found = self._value.of(self._frame(located, rows, image))
        state = np.broadcast_to(found.state, len(rows))
        failed = np.flatnonzero(state == FAILED)
        if len(failed):
            row = int(rows[failed[0]])
            raise ExpressionFailed(
                f"a number is out of range, or text is no JSON, in: {self.text[:200]}",
                object=located.row_name(row),
                hint="write the expression so that no step leaves its range",
            )
        result: Flags = np.broadcast_to(found.data, len(rows)) & (state == VALUE)
        return result

    def states(self, located: RowBatch, rows: Rows, image: int) -> npt.NDArray[np.int8]:
        """1 true, 0 false, -1 NULL, 2 out of range, for each row: for tests and ``explain``."""
        found = self._value.of(self._frame(located, rows, image))
        data = np.broadcast_to(found.data, len(rows)).astype(np.int8)
        state = np.broadcast_to(found.state, len(rows))
        return np.where(state == VALUE, data, np.where(state == FAILED, 2, -1)).astype(np.int8)

    def _frame(self, located: RowBatch, rows: Rows, image: int) -> Frame | None:
        if not self.columns:
            return None
        plans = located.plans
        plan = int(located.refs[rows[0], L.R_PLAN])
        shape = (len(self.columns), len(rows))
        starts, lengths = np.empty(shape, np.int64), np.empty(shape, np.int64)
        wanted = np.array(self.columns, np.int64)
        first = int(plans.tables[plan, L.T_COLUMN])
        last = first + int(plans.tables[plan, L.T_COLUMNS])
        widths = np.ascontiguousarray(plans.columns[first:last, L.C_WIDTH])
        lost = expr_cells.cells(
            located.buf, located.refs, rows, image, wanted, _offsets(widths, wanted), widths,
            starts, lengths,
        )  # fmt: skip
        if lost >= 0:
            raise InternalError("a row without the image that was asked for", object=located.name)
        at = {ordinal: i for i, ordinal in enumerate(self.columns)}
        return Frame(located, rows, plan, at, starts, lengths)


def _offsets(widths: Rows, wanted: Rows) -> Rows:
    """Where each wanted column begins if no column is NULL; -1 behind one without fixed width."""
    before = np.cumsum(np.maximum(widths, 0)) - np.maximum(widths, 0)
    loose = np.flatnonzero(widths < 0)
    end = int(loose[0]) if len(loose) else len(widths)
    return np.where(wanted < end, before[wanted], -1)


@dataclass(frozen=True)
class RowFilter:
    """The value expressions of one table. Pickles as its texts and is compiled on first use."""

    table: Table
    session: Session
    insert: str | None = None
    update_old: str | None = None
    update_new: str | None = None
    delete: str | None = None
    update_only_columns: tuple[str, ...] = ()
    modes: Modes = field(default_factory=Modes)

    @cached_property
    def _conditions(self) -> dict[str, Condition]:
        texts = {
            "insert": self.insert,
            "update_old": self.update_old,
            "update_new": self.update_new,
            "delete": self.delete,
        }
        return {
            name: Condition(text, self.table, self.session, self.modes)
            for name, text in texts.items()
            if text
        }

    @cached_property
    def _allowed(self) -> npt.NDArray[np.int64]:
        found = np.zeros(len(self.table.columns), np.int64)
        for name in self.update_only_columns:
            ordinal = self.table.positions.get(name.lower())
            if ordinal is None:
                raise ExpressionColumnNotFound(
                    f"there is no column {name}",
                    object=self.table.full_name,
                    hint="name a column of every table that the rule matches",
                )
            found[ordinal] = 1
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def check(self) -> None:
        """Compile everything now; raises what is wrong with it."""
        _ = self._conditions, self._allowed

    def keep(self, located: RowBatch, rows: Rows, kinds: Rows | None = None) -> Flags:
        """Whether each row of ``rows`` passes.

        ``rows`` are indices into ``located.refs``, in order, all of this table; ``kinds`` their
        KIND_*, if known. The DELETE and the INSERT that one UPDATE of a key was split into are
        judged as that UPDATE.
        """
        keep = np.ones(len(rows), np.bool_)
        if not len(rows):
            return keep
        if kinds is None:
            kinds = located.refs[rows, L.R_KIND] & L.KIND_MASK
        split = _split_updates(located, rows, kinds)
        alone = np.ones(len(rows), np.bool_)
        alone[split], alone[split + 1] = False, False
        for name, kind, image in (
            ("insert", L.KIND_INSERT, _AFTER),
            ("delete", L.KIND_DELETE, _BEFORE),
            ("update_old", L.KIND_UPDATE, _BEFORE),
            ("update_new", L.KIND_UPDATE, _AFTER),
        ):
            condition = self._conditions.get(name)
            if condition is None:
                continue
            chosen = np.flatnonzero((kinds == kind) & alone)
            if len(chosen) == len(rows):
                keep &= ~condition.true(located, rows, image)
            elif len(chosen):
                keep[chosen] &= ~condition.true(located, rows[chosen], image)
            if kind == L.KIND_UPDATE and len(split):
                half = split if image == _BEFORE else split + 1
                keep[split] &= ~condition.true(located, rows[half], image)
        if self.update_only_columns:
            self._only_columns(located, rows, (kinds == L.KIND_UPDATE) & alone, keep)
            # Whoever changes a key changes what the row is: split updates are told by both halves.
            self._only_columns_split(located, rows, split, keep)
        keep[split + 1] = keep[split]
        return keep

    def _only_columns(self, located: RowBatch, rows: Rows, updates: Flags, keep: Flags) -> None:
        chosen = np.flatnonzero(updates)
        if len(chosen):
            keep[chosen] &= ~self._changes(located, located.refs, rows[chosen])

    def _only_columns_split(self, located: RowBatch, rows: Rows, split: Rows, keep: Flags) -> None:
        if not len(split):
            return
        joined = located.refs[rows[split]].copy()
        second = located.refs[rows[split + 1]]
        for column in (L.R_AFTER, L.R_END, L.R_BITMAP_AFTER):
            joined[:, column] = second[:, column]
        keep[split] &= ~self._changes(located, joined, np.arange(len(split), dtype=np.int64))

    def _changes(self, located: RowBatch, refs: npt.NDArray[np.int64], rows: Rows) -> Flags:
        out = np.empty(len(rows), np.bool_)
        plans = located.plans
        lost = expr_cells.only_changes(
            located.buf, refs, rows, self._allowed, plans.tables, plans.columns, out
        )
        if lost >= 0:
            raise InternalError("an UPDATE without both images", object=located.name)
        return out


def _split_updates(located: RowBatch, rows: Rows, kinds: npt.NDArray[np.int64]) -> Rows:
    """Where in ``rows`` the DELETE of a split UPDATE stands; its INSERT follows."""
    refs = located.refs
    if len(rows) < 2 or not located.plans.splits:
        return np.empty(0, np.int64)
    a, b = refs[rows[:-1]], refs[rows[1:]]
    return np.flatnonzero(
        (kinds[:-1] == L.KIND_DELETE)
        & (kinds[1:] == L.KIND_INSERT)
        & (a[:, L.R_END] == b[:, L.R_AFTER])
        & (a[:, L.R_ROW] == b[:, L.R_ROW])
        & (a[:, L.R_TS] == b[:, L.R_TS])
    )


def compile_filter(
    table: Table,
    session: Session,
    insert: str | None = None,
    update_old: str | None = None,
    update_new: str | None = None,
    delete: str | None = None,
    update_only_columns: Sequence[str] = (),
    modes: Modes | None = None,
) -> RowFilter:
    """The row filter of a table, checked.

    Raises ``ExpressionParseFailed``, ``ExpressionColumnNotFound`` and ``ExpressionNotSupported``.
    """
    found = RowFilter(
        table, session, insert, update_old, update_new, delete, tuple(update_only_columns),
        modes or Modes(),
    )  # fmt: skip
    found.check()
    return found


def keep_rows(located: RowBatch, filters: Mapping[int, RowFilter]) -> Flags:
    """Whether each row of ``located.refs`` passes; ``filters`` are by row of the plan set."""
    keep = np.ones(len(located.refs), np.bool_)
    if not filters:
        return keep
    size = len(located.refs)
    rows, kinds = np.empty(size, np.int64), np.empty(size, np.int64)
    for plan, one in filters.items():
        n = expr_cells.rows_of(located.refs, plan, rows, kinds)
        if n == size:
            return one.keep(located, rows, kinds)
        if n:
            keep[rows[:n]] = one.keep(located, rows[:n], kinds[:n])
    return keep
