"""Which columns of a table are written: ``sink.column-selectors``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from cdc.base.errors import DefiniteError
from cdc.base.matcher import (
    FilterRuleInvalid,
    NameMatcher,
    TableMatcher,
    parse_matcher,
    parse_names,
)
from cdc.schema.table import Table
from sink.dispatch.settings import ColumnSelectorSettings


class ColumnSelectorFailed(DefiniteError):
    """A column selector that leaves a table without its key, or without what it is spread by."""

    code = "TG:ErrColumnSelectorFailed"


@dataclass(frozen=True, slots=True)
class _Selector:
    matcher: TableMatcher
    columns: NameMatcher


class ColumnSelectors:
    """Compiled ``sink.column-selectors``: the first rule that matches a table wins.

    Raises ``TG:ErrFilterRuleInvalid`` for a pattern that cannot be read, with its place.
    """

    def __init__(
        self, selectors: Iterable[ColumnSelectorSettings], *, case_sensitive: bool = False
    ) -> None:
        self._selectors = tuple(_compile(i, s, case_sensitive) for i, s in enumerate(selectors))

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._selectors)

    def rule(self, schema: str, table: str) -> int:
        """The index of the rule that decides about a table, or -1."""
        found = (i for i, s in enumerate(self._selectors) if s.matcher.matches(schema, table))
        return next(found, -1)

    def selected(self, table: Table) -> tuple[int, ...]:
        """Ordinals of the columns to write, in table order."""
        names = set(self.names(table.schema, table.name, [c.name for c in table.columns]))
        return tuple(i for i, c in enumerate(table.columns) if c.name in names)

    def names(self, schema: str, table: str, columns: Iterable[str]) -> Iterator[str]:
        """Those of a table's columns that are written."""
        rule = self.rule(schema, table)
        return (c for c in columns if rule < 0 or self._selectors[rule].columns.matches(c))

    def check(self, table: Table, spread_by: Collection[str] = ()) -> None:
        """Raise :class:`ColumnSelectorFailed` if what is left does not identify a row.

        The primary key must stay whole, or else one unique key; and so must ``spread_by``, the
        columns that a dispatcher names. A table that has no key needs none.
        """
        rule = self.rule(table.schema, table.name)
        if rule < 0:
            return
        left = {table.columns[i].name.lower() for i in self.selected(table)}
        keys = [i for i in table.indexes if (i.primary or i.unique) and "" not in i.columns]
        if keys and not any({n.lower() for n in key.columns} <= left for key in keys):
            raise ColumnSelectorFailed(
                "no primary or unique key is left whole",
                object=table.full_name,
                hint=f"let sink.column-selectors[{rule}] keep {_names(keys[0].columns)}",
            )
        missing = [name for name in spread_by if name.lower() not in left]
        if missing:
            raise ColumnSelectorFailed(
                f"its rows are spread by {missing[0]}, which is left out",
                object=table.full_name,
                hint=f"let sink.column-selectors[{rule}] keep {_names(missing)}",
            )
        if not left:
            raise ColumnSelectorFailed(
                "no column is left",
                object=table.full_name,
                hint=f"correct sink.column-selectors[{rule}]",
            )


def _compile(index: int, settings: ColumnSelectorSettings, case_sensitive: bool) -> _Selector:
    place = f"sink.column-selectors[{index}]"
    part = "matcher"
    try:
        matcher = parse_matcher(settings.matcher, case_sensitive=case_sensitive)
        part = "columns"
        return _Selector(matcher, parse_names(settings.columns))
    except FilterRuleInvalid as e:
        hint = e.hint if part == "matcher" else "write column patterns, such as 'a*' or '!secret'"
        raise FilterRuleInvalid(
            e.message, object=f"{place}.{part}", position=e.position, hint=hint
        ) from None


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)
