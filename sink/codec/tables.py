"""The tables of a codec: what the target calls them, and which of their columns are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from cdc.rows.plan import Planned, PlanSet, planned
from sink.codec.contract import CodecEntry
from sink.dispatch.columns import ColumnSelectors
from sink.dispatch.settings import ColumnSelectorSettings, DispatcherSettings
from sink.dispatch.target import TargetRouter


class TableSettings(Protocol):
    """What the settings of every format have."""

    @property
    def dispatchers(self) -> tuple[DispatcherSettings, ...]:
        """Of these the names count that the target knows a table by."""

    @property
    def column_selectors(self) -> tuple[ColumnSelectorSettings, ...]:
        """Which columns are written."""

    @property
    def case_sensitive(self) -> bool:
        """Whether names of tables are."""

    @property
    def merging(self) -> bool:
        """Whether several tables may become one."""


class CodecTables:
    """``names`` and ``selectors`` of settings, and the tables that they fit."""

    def __init__(self, settings: TableSettings) -> None:
        sensitive = settings.case_sensitive
        self.names = TargetRouter.of(
            settings.dispatchers, case_sensitive=sensitive, merging=settings.merging
        )
        self.selectors = ColumnSelectors(settings.column_selectors, case_sensitive=sensitive)

    def planned(self, entries: Sequence[CodecEntry], before: PlanSet) -> Iterator[Planned]:
        """Further tables of a job, as plans of formats take them.

        Raises ``SchemaMismatch``, ``ColumnTypeNotSupported``, ``ColumnSelectorFailed``, or
        ``RouteConflict`` if two of them have one name at the target.
        """
        self.names.check(before.names | {(table.schema, table.name) for table, _, _ in entries})
        for table, _, _ in entries:
            self.selectors.check(table)
        return (planned(table, stored, route) for table, stored, route in entries)
