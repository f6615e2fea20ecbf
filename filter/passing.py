"""All of the filter about rows: kinds of events and value expressions, table by table."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cdc.base.errors import TidegateError
from cdc.coord.feed_config import EventFilterConfig, FeedConfig
from cdc.rows.batch import RowBatch
from cdc.rows.plan import PlanSet
from cdc.schema.session import Session
from cdc.schema.table import Table
from filter.events import EventFilter
from filter.expr import RowFilter, compile_filter, keep_rows
from filter.expr.errors import ExpressionColumnNotFound
from filter.rows import EventRows
from filter.rules import TableRules
from filter.settings import EXPRESSIONS, has_expressions

_SHOWN = 20


class Passing:
    """Which rows of a changefeed go to its sink.

    ``session`` is the upstream's server, whose meaning expressions have. Expressions are compiled
    anew for each new version of a table. Raises the ``invalid`` errors of event filters. Not
    thread-safe.
    """

    def __init__(self, config: FeedConfig, session: Session) -> None:
        sensitive = config.case_sensitive
        self._events = EventFilter(config.filter.event_filters, case_sensitive=sensitive)
        self._rules = TableRules(config.filter.rules, case_sensitive=sensitive)
        self._session = session
        self._plans: PlanSet | None = None
        self._by_kind: EventRows | None = None
        self._by_value: list[dict[int, RowFilter]] = []

    def filters(self, table: Table) -> list[tuple[int, RowFilter]]:
        """The value expressions of a table, each with the index of its rule.

        Raises ``TG:ErrExpressionColumnNotFound``, ``TG:ErrExpressionParseFailed`` or
        ``TG:ErrExpressionNotSupported`` with the table and the expression's place.
        """
        found = []
        for i, rule in enumerate(self._events.rules):
            if not has_expressions(rule.settings) or not rule.applies(table.schema, table.name):
                continue
            for key in EXPRESSIONS:
                try:
                    _compiled(rule.settings, (key,), table, self._session)
                except TidegateError as e:
                    place = f"{rule.place}.{key.replace('_', '-')}"
                    raise type(e)(
                        e.message, object=table.full_name, position=place, hint=e.hint
                    ) from None
            found.append((i, _compiled(rule.settings, EXPRESSIONS, table, self._session)))
        return found

    def check(self, tables: Iterable[Table]) -> None:
        """Raise what is wrong with the expressions of these tables; of a column all that lack it.

        Tables that ``filter.rules`` do not match are passed over.
        """
        missing: dict[tuple[str, str], list[ExpressionColumnNotFound]] = {}
        for table in tables:
            if not self._rules.matches(table.schema, table.name):
                continue
            try:
                self.filters(table)
            except ExpressionColumnNotFound as e:
                missing.setdefault((e.position, e.message), []).append(e)
        for (place, message), errors in missing.items():
            names = [e.object for e in errors]
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ExpressionColumnNotFound(
                message,
                object=", ".join(names[:_SHOWN]) + more,
                position=place,
                hint="correct it, or exclude tables that lack the column from the rule's matcher",
            )

    def keep(self, located: RowBatch) -> NDArray[np.bool_] | None:
        """bool[len(located.refs)]: the rows that pass; None if nothing could be ignored.

        Raises what ``filters`` and ``RowFilter.keep`` raise.
        """
        if located.plans is not self._plans:
            self._plan(located.plans)
        keep = None if self._by_kind is None else self._by_kind.keep(located.refs)
        for filters in self._by_value:
            found = keep_rows(located, filters)
            keep = found if keep is None else keep & found
        return keep

    def _plan(self, plans: PlanSet) -> None:
        tables = [entry.table for entry in plans.entries]
        by_kind = EventRows(self._events, [(t.schema, t.name) for t in tables])
        by_rule: dict[int, dict[int, RowFilter]] = {}
        for plan, table in enumerate(tables):
            for rule, one in self.filters(table):
                by_rule.setdefault(rule, {})[plan] = one
        self._by_kind = by_kind if by_kind else None
        self._by_value = [by_rule[rule] for rule in sorted(by_rule)]
        self._plans = plans


def _compiled(
    settings: EventFilterConfig, keys: tuple[str, ...], table: Table, session: Session
) -> RowFilter:
    """The row filter that these keys of a rule make."""
    texts = {key: getattr(settings, key) or None for key in keys}
    return compile_filter(
        table,
        session,
        insert=texts.get("ignore_insert_value_expr"),
        update_old=texts.get("ignore_update_old_value_expr"),
        update_new=texts.get("ignore_update_new_value_expr"),
        delete=texts.get("ignore_delete_value_expr"),
        update_only_columns=texts.get("ignore_update_only_columns") or (),
    )
