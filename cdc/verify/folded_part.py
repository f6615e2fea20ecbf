"""What one partition of a topic says of one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

TextRow = dict[str, str | None]
Name = tuple[str, str]
Key = tuple[str, ...]
Full = tuple[tuple[str, str | None], ...]

NOTHING: frozenset[str] = frozenset()
EVERYTHING: frozenset[str] = frozenset({"*"})


class Cell(NamedTuple):
    """The last state of a key: its row, or None once deleted.

    ``since``: the schema change of the table that was the last before the message. ``unsaid``: the
    columns that later changes gave values of their own (``EVERYTHING``: any).
    """

    since: int
    row: TextRow | None
    unsaid: frozenset[str] = NOTHING


@dataclass
class FoldedPart:
    """Rows by the columns ``key``; without a key they are counted as wholes.

    ``since`` is the last schema change. ``complete``: it began empty. ``lost``: rows of before that
    change may be gone. ``unsure`` says why nothing can be said of the rows.
    """

    key: tuple[str, ...] = ()
    since: int = 0
    complete: bool = False
    lost: int = 0
    unsure: str = ""
    rows: dict[Key, Cell] = field(default_factory=dict)
    counts: Counter[Full] = field(default_factory=Counter)

    def add(self, kind: str, row: TextRow, old: TextRow) -> None:
        """Take one change; ``old`` may have the changed columns only."""
        if not self.key:
            if kind != "INSERT":
                self.counts[full({**row, **old})] -= 1
            if kind != "DELETE":
                self.counts[full(row)] += 1
            return
        key = self._key(row)
        if kind == "UPDATE" and (was := self._key({**row, **old})) != key:
            self.rows[was] = Cell(self.since, None)
        self.rows[key] = Cell(self.since, row if kind != "DELETE" else None)

    def keyed_by(self, key: tuple[str, ...]) -> None:
        """Tell rows apart by other columns from now on."""
        if key == self.key:
            return
        cells = [cell for cell in self.rows.values() if cell.row is not None]
        cells += [Cell(0, dict(row)) for row, n in self.counts.items() if n == 1]
        if any(n not in (0, 1) for n in self.counts.values()):
            self.unsure = "it had equal rows before it had a key"
        self.key, self.rows, self.counts = key, {}, Counter()
        for cell in cells:
            row = cell.row
            assert row is not None
            if not key:
                self.counts[full(row)] += 1
            elif all(row.get(column) is not None for column in key):
                self.rows[self._key(row)] = cell
            else:
                self.unsure = "rows of before a schema change do not have its present key"

    def changed(
        self,
        since: int,
        dropped: frozenset[str],
        renamed: Mapping[str, str],
        unsaid: frozenset[str],
    ) -> None:
        """Columns are dropped and renamed (lower-case names); ``unsaid`` have new values."""

        def moved(row: TextRow) -> TextRow:
            return {
                renamed.get(k.lower(), k): v for k, v in row.items() if k.lower() not in dropped
            }

        if dropped or renamed:
            self.key = tuple(renamed.get(k.lower(), k) for k in self.key)
        if self.counts and unsaid:
            self.unsure = "it has no key, and a schema change gave its rows values"
        if dropped or renamed:
            counts, self.counts = self.counts, Counter()
            for row, n in counts.items():
                self.counts[full(moved(dict(row)))] += n
        for key, cell in self.rows.items():
            if cell.row is not None and (dropped or renamed or unsaid):
                names = frozenset(renamed.get(k.lower(), k) for k in cell.unsaid) - dropped
                self.rows[key] = Cell(cell.since, moved(cell.row), names | unsaid)
        self.since = since

    def emptied(self, since: int) -> FoldedPart:
        """The table behind a TRUNCATE."""
        return FoldedPart(self.key, since, complete=True)

    def _key(self, row: TextRow) -> Key:
        return tuple(str(row[name]) for name in self.key)


def full(row: TextRow) -> Full:
    """A row as a whole."""
    return tuple(sorted(row.items()))
