"""What a comparison leaves for a repair: which rows of a table are to come again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cdc.verify.columns import ValueForm
from cdc.verify.keys import Key, one_of
from cdc.verify.layout import ComparedColumns

MOST_CHARS: Final = 400_000
"""Of the condition of rows to repair: it goes into a value of the store, and keys may be long."""

# Of these the cells of a key say what a server prints of it (``cdc.snapshot.target_only``).
_PRINTED: Final = frozenset(
    {ValueForm.NUMBER, ValueForm.YEAR, ValueForm.DECIMAL, ValueForm.TIME}
    | {ValueForm.TEXT, ValueForm.BYTES, ValueForm.MEMBERS, ValueForm.PLAIN}
)


@dataclass(frozen=True, slots=True)
class RowsToRepair:
    """Rows of a table that differ, by their keys, so that they can be brought again.

    ``schema`` and ``name`` are the upstream's. ``condition`` is SQL that is true for ``rows`` keys
    and perhaps for what a collation takes for equal. ``target_only``: those of which the upstream
    had no row, with a text for each column of ``key`` (``cdc.snapshot.target_only``).
    """

    schema: str
    name: str
    key: tuple[str, ...]
    condition: str
    rows: int
    target_only: tuple[tuple[str, ...], ...]

    def beside(self, before: RowsToRepair | None) -> RowsToRepair:
        """These rows and those of ``before``, which are of the same table, if there is room."""
        if before is None:
            return self
        if len(before.condition) + len(self.condition) > MOST_CHARS:
            return before
        return replace(
            self,
            condition=f"{before.condition} OR {self.condition}",
            rows=before.rows + self.rows,
            target_only=before.target_only + self.target_only,
        )


def rows_to_repair(
    layout: ComparedColumns,
    different: Mapping[Key, tuple[object | None, object | None]],
    cells: Callable[[Key], Key] = lambda key: key,
) -> RowsToRepair | None:
    """As many of the rows that are ``different`` as an order has room for, by their keys.

    ``cells`` makes those of a condition of a key. None where keys do not tell the rows: where those
    of the target are of several tables, or some of its own, or the type of a key is printed
    otherwise than it is read.
    """
    keyed = layout.key and all(c.form in _PRINTED for c in layout.key)
    if not keyed or len(layout.sources) != 1 or layout.condition or layout.given:
        return None
    chosen: list[Key] = []
    target_only: list[Key] = []
    conditions: list[str] = []
    room = MOST_CHARS
    for key in sorted(different):
        cell = cells(key)
        condition = one_of(layout.key, [cell])
        room -= len(condition)
        if room < 0:
            break
        chosen.append(key)
        conditions.append(condition)
        if different[key][0] is None:
            target_only.append(cell)
    return RowsToRepair(
        *layout.sources[0],
        key=tuple(c.name for c in layout.key),
        condition=" OR ".join(conditions),
        rows=len(chosen),
        target_only=tuple(target_only),
    )
