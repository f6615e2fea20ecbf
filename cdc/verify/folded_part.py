"""What one partition of a topic says of one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cdc.verify.fold_store import NOTHING, Cell, FoldStore, Key, TextRow

Name = tuple[str, str]

EVERYTHING: frozenset[str] = frozenset({"*"})


class _Change(NamedTuple):
    """What a schema change does to each row; names of columns that go are in lower case."""

    dropped: frozenset[str]
    renamed: Mapping[str, str]
    unsaid: frozenset[str]

    def names(self, names: frozenset[str]) -> frozenset[str]:
        return frozenset(self.renamed.get(n.lower(), n) for n in names) - self.dropped

    def row(self, row: TextRow) -> TextRow:
        if not (self.dropped or self.renamed):
            return row
        names = self.renamed
        return {names.get(k.lower(), k): v for k, v in row.items() if k.lower() not in self.dropped}


@dataclass
class FoldedPart:
    """Rows by the columns ``key``; without a key they are counted as wholes.

    ``since`` is the last schema change. ``complete``: it began empty. ``lost``: rows of before that
    change may be gone. ``unsure`` says why nothing can be said of the rows. Rows take part in a
    change of columns when they are next read, so that it costs nothing at its place in the topic.
    """

    store: FoldStore
    key: tuple[str, ...] = ()
    since: int = 0
    complete: bool = False
    lost: int = 0
    unsure: str = ""
    _changes: list[_Change] = field(default_factory=list)
    _number: int = 0

    def __post_init__(self) -> None:
        self._number = self.store.number()

    def add(self, kind: str, row: TextRow, old: TextRow) -> None:
        """Take one change; ``old`` may have the changed columns only."""
        if not self.key:
            if kind != "INSERT":
                self.store.count(self._number, {**row, **old}, -1)
            if kind != "DELETE":
                self.store.count(self._number, row, 1)
            return
        key = self._key(row)
        if kind == "UPDATE" and (was := self._key({**row, **old})) != key:
            self._put(was, None)
        self._put(key, row if kind != "DELETE" else None)

    def states(self, keys: Sequence[Key]) -> dict[Key, Cell]:
        """The last states of those of some keys that a message was about."""
        return {k: self._now(c) for k, c in self.store.cells(self._number, keys).items()}

    def pages(self) -> Iterator[list[Key]]:
        """All keys that a message was about, many at a time."""
        return self.store.keys(self._number)

    def counts(self) -> Iterator[tuple[TextRow, int]]:
        """Without a key: rows, and how many of each came and did not go, here."""
        return self.store.counts(self._number)

    def keyed_by(self, key: tuple[str, ...]) -> None:
        """Tell rows apart by other columns from now on."""
        if key == self.key:
            return
        was, self._number = self._number, self.store.number()
        self.key = key
        for page in self.store.pages(was):
            for cell in (self._now(cell) for _, cell in page):
                self._placed(cell)
        for row, n in self.store.counts(was):
            if n == 1:
                self._placed(Cell(0, row, NOTHING, len(self._changes)))
            else:
                self.unsure = "it had equal rows before it had a key"
        self.store.forget(was)

    def changed(
        self,
        since: int,
        dropped: frozenset[str],
        renamed: Mapping[str, str],
        unsaid: frozenset[str],
    ) -> None:
        """Columns are dropped and renamed (lower-case names); ``unsaid`` have new values."""
        self.since = since
        if not (dropped or renamed or unsaid):
            return
        change = _Change(dropped, renamed, unsaid)
        self._changes.append(change)
        if self.key:
            self.key = tuple(renamed.get(k.lower(), k) for k in self.key)
            return
        if unsaid and any(True for _ in self.counts()):
            self.unsure = "it has no key, and a schema change gave its rows values"
        if dropped or renamed:
            was, self._number = self._number, self.store.number()
            for row, n in self.store.counts(was):
                self.store.count(self._number, change.row(row), n)
            self.store.forget(was)

    def emptied(self, since: int) -> FoldedPart:
        """The table behind a TRUNCATE."""
        self.forget()
        return FoldedPart(self.store, self.key, since, complete=True)

    def forget(self) -> None:
        """The table is gone, and its rows with it."""
        self.store.forget(self._number)

    def _put(self, key: Key, row: TextRow | None) -> None:
        self.store.put(self._number, key, Cell(self.since, row, NOTHING, len(self._changes)))

    def _placed(self, cell: Cell) -> None:
        """Take a row of before the table had its present key."""
        if cell.row is None:
            return
        if not self.key:
            self.store.count(self._number, cell.row, 1)
        elif all(cell.row.get(column) is not None for column in self.key):
            self.store.put(self._number, self._key(cell.row), cell)
        else:
            self.unsure = "rows of before a schema change do not have its present key"

    def _now(self, cell: Cell) -> Cell:
        """A state with the changes of columns that came behind it."""
        since, row, unsaid, changes = cell
        if row is None or changes == len(self._changes):
            return cell
        for change in self._changes[changes:]:
            row, unsaid = change.row(row), change.names(unsaid) | change.unsaid
        return Cell(since, row, unsaid, len(self._changes))

    def _key(self, row: TextRow) -> Key:
        return tuple(str(row[name]) for name in self.key)
