"""Messages folded into the tables that they describe.

Each partition is folded by itself, in its own order, schema changes included: every partition of a
topic shows them at the same place between rows, or they are told apart from rows and come where
their ts is. So partitions may be read in any order. The last state of every key is kept, also that
it was deleted: in a store, whose memory has a bound.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from cdc.base.errors import DefiniteError
from cdc.base.ts import Ts, compose
from cdc.schema.session import Session
from cdc.verify import fold_ddl
from cdc.verify.fold_store import Cell, FoldStore, Key, TextRow
from cdc.verify.folded_part import FoldedPart, Name
from cdc.verify.messages import ChangeTold, RowsTold, TopicForm


class MessageUnreadable(DefiniteError):
    """A message of the topic is none of the changefeed's protocol."""

    code = "TG:ErrVerifyMessageUnreadable"


class _Apart(NamedTuple):
    """A schema change that is told apart from rows: sorted by ts, ``number`` as it came."""

    ts: Ts
    number: int
    told: ChangeTold


class FoldedState(NamedTuple):
    """What the messages say of a key.

    ``row`` is None if it was deleted. ``unsaid``: columns whose values a schema change has made,
    and no message since. ``may_be_gone``: a schema change may have taken it, as with its partition.
    """

    row: TextRow | None
    unsaid: frozenset[str]
    may_be_gone: bool


def _newest(cells: Sequence[Cell], lost: int) -> FoldedState:
    """Behind a schema change a key may be in another partition: the last such state counts."""
    newest = max(cell.since for cell in cells)
    last = [cell for cell in cells if cell.since == newest]
    cell = next((cell for cell in last if cell.row is not None), last[0])
    return FoldedState(cell.row, cell.unsaid, cell.since < lost)


@dataclass
class FoldedTable:
    """A table as the messages so far leave it, under the name that it has in the end.

    ``key``: its columns, ``()`` for a table whose rows are counted as wholes. ``spread``: a key may
    move from one partition to another, so that each partition has a state of its own.
    """

    key: tuple[str, ...]
    spread: bool = False
    _name: Name = ("", "")
    _fold: Fold | None = None
    _found: list[FoldedPart] = field(default_factory=list)
    _found_at: int = -1

    def states(self, keys: Sequence[Key]) -> dict[Key, FoldedState]:
        """The states of those of some keys that a message was about."""
        parts = self._parts()
        cells: dict[Key, list[Cell]] = {}
        for part in parts:
            for key, cell in part.states(keys).items():
                cells.setdefault(key, []).append(cell)
        lost = max((part.lost for part in parts), default=0)
        return {key: _newest(found, lost) for key, found in cells.items()}

    def pages(self) -> Iterator[dict[Key, FoldedState]]:
        """All keys that a message was about with their states, many at a time, each once."""
        parts = self._parts()
        for at, part in enumerate(parts):
            for keys in part.pages():
                before = {k for earlier in parts[:at] for k in earlier.states(keys)}
                yield self.states([k for k in keys if k not in before])

    def counts(self) -> Iterator[tuple[TextRow, int]]:
        """Of a table without a key: rows, and how many of each there are more, part by part."""
        return (counted for part in self._parts() for counted in part.counts())

    @property
    def complete(self) -> bool:
        """Whether its messages began when it was empty."""
        parts = self._parts()
        return bool(parts) and all(part.complete for part in parts)

    @property
    def unsure(self) -> str:
        """Why its rows cannot be told from the messages; empty if they can."""
        return next((part.unsure for part in self._parts() if part.unsure), "")

    def _parts(self) -> list[FoldedPart]:
        fold = self._fold
        if fold is not None and self._found_at != fold.version:
            self._found_at = fold.version
            self._found = [t[self._name] for t in fold.places.values() if self._name in t]
            for part in self._found:
                part.keyed_by(self.key)
        return self._found


class Fold:
    """The tables of a changefeed by schema and name; the others are folded for what they become.

    ``session`` is how the upstream reads its statements, as far as messages do not say it; rows
    are kept in ``store``. ``version`` rises with all that may change a table.
    """

    def __init__(
        self,
        tables: Mapping[Name, FoldedTable],
        store: FoldStore,
        topic_form: TopicForm,
        session: Session | None = None,
    ) -> None:
        self.store = store
        self.tables = tables
        self.messages = self.version = 0
        self.earlier_names: set[Name] = set()
        self.topic_form = topic_form
        self._session = session or Session()
        self.places: dict[Hashable, dict[Name, FoldedPart]] = {}
        self._changes: Counter[Hashable] = Counter()
        # Schema changes that are told apart from rows, with their numbers, and by ts those that a
        # place has not behind it. Changes of tables that do not concern each other come in any
        # order.
        self._apart: list[_Apart] = []
        self._ahead: dict[Hashable, list[_Apart]] = {}
        for name, table in tables.items():
            table._name, table._fold, table._found_at = name, self, -1

    def add(self, place: Hashable, key: bytes | None, value: bytes, where: str) -> None:
        """Take the next message of a partition, ``place``. Raises MessageUnreadable."""
        with self._readable(where):
            told = self.topic_form.form.read(key, value, self._session)
            self.messages += 1
            self.version += 1
            tables = self._tables(place)
            if isinstance(told, RowsTold):
                if told.ts is not None:
                    self._pass(place, told.ts)
                self._rows(tables, told)
            elif told is not None and not self.topic_form.changes_apart:
                self._change(place, told)

    def add_change(self, key: bytes | None, value: bytes, where: str) -> None:
        """Take the next message of the place where schema changes are told, apart from rows."""
        with self._readable(where):
            told = self.topic_form.form.read(key, value, self._session)
            if isinstance(told, ChangeTold):
                change = _Apart(told.ts or 0, len(self._apart), told)
                self._apart.append(change)
                for ahead in self._ahead.values():
                    insort(ahead, change)

    @property
    def told_apart(self) -> int:
        """How many schema changes are known of those that are told apart from rows."""
        return len(self._apart)

    def settle(self, count: int, places: Collection[Hashable]) -> None:
        """The first ``count`` of these are behind all rows of some places so far."""
        for place in places:
            self._tables(place)
            self._carry_out(place, lambda change: change.number < count)
        self.version += 1

    def _tables(self, place: Hashable) -> dict[Name, FoldedPart]:
        known = self.places.get(place)
        if known is None:
            known = self.places[place] = {}
            self._ahead[place] = sorted(self._apart)
        return known

    @contextmanager
    def _readable(self, where: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MessageUnreadable(
                f"it is not {self.topic_form.name}: {type(error).__name__} {error}"[:200],
                object=where,
                hint="see what else writes into the topic",
            ) from None

    def _rows(self, tables: dict[Name, FoldedPart], told: RowsTold) -> None:
        part = tables.get(told.table)
        if part is None:
            part = tables[told.table] = FoldedPart(self.store)
        for row, old in zip(told.rows, told.old, strict=True):
            key = told.key
            if not key and told.table in self.tables:
                # A unique key does for a key, which messages do not name.
                wanted = self.tables[told.table].key
                key = wanted if all(column in row for column in wanted) else ()
            part.keyed_by(key)
            part.add(told.kind, row, old)

    def _pass(self, place: Hashable, ts: Ts) -> None:
        """Carry out the schema changes below a row of this ts."""
        ahead = self._ahead[place]
        if ahead and ahead[0].ts < ts:
            self._carry_out(place, lambda change: change.ts < ts)

    def _carry_out(self, place: Hashable, due: Callable[[_Apart], bool]) -> None:
        ahead = self._ahead[place]
        self._ahead[place] = [change for change in ahead if not due(change)]
        for change in filter(due, ahead):
            self._change(place, change.told)

    def _change(self, place: Hashable, change: ChangeTold) -> None:
        self._changes[place] += 1
        # Where only milliseconds are known the order, the same in every partition of a topic, does
        # the rest.
        since = change.ts or compose(change.ms) + self._changes[place]
        tables = self.places[place]
        self.earlier_names |= fold_ddl.apply(tables, change.sql, change.session, since, self.store)
