"""A table of the upstream against the fold of its messages.

A topic says nothing of rows that have not changed since its changefeed began. They are counted as
unseen, unless the topic is expected to hold the whole table.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice

from cdc.verify import keys
from cdc.verify.differences import Found
from cdc.verify.fold import FoldedState, FoldedTable
from cdc.verify.fold_store import FoldStore
from cdc.verify.keys import Key, Range
from cdc.verify.layout import ComparedColumns, Name
from cdc.verify.messages import MISSING, TopicForm, Values
from cdc.verify.pair import Pair
from cdc.verify.repair import RowsToRepair, rows_to_repair
from cdc.verify.report import (
    RowDifference,
    RowKind,
    TableResult,
    ValueDifference,
    short,
)
from cdc.verify.sessions import Streamed

_AT_ONCE = 100
# What the upstream has of a key that several tables of a shard group have: no row of a topic.
_MET: Values = ()


class ByFold:
    """The way of comparing a table that has a key; an identity is the key's text.

    Columns that rows have by their table's name are behind it (``ComparedColumns.identity``).
    With ``widened`` the messages of a row have the columns that its table had then, of which others
    may have changed the topic's table since: a column that one of both lacks is not compared. What
    was seen and found is kept in the fold's store, so a table of any size takes bounded memory.
    """

    def __init__(
        self,
        pair: Pair,
        layout: ComparedColumns,
        folded: FoldedTable,
        form: TopicForm,
        store: FoldStore,
        chunk_rows: int,
        whole: bool,
        *,
        widened: bool = False,
    ) -> None:
        self._pair = pair
        self._layout = layout
        self._folded = folded
        self._form = form
        self._store = store
        self._chunk_rows = chunk_rows
        self._whole = whole
        self._widened = widened
        place = {c.name: i for i, c in enumerate(layout.columns)}
        self._key_at = [place[c.name] for c in layout.key]

    def sweep(self, result: TableResult) -> list[Iterator[Found]]:
        """Compare every row; those that differ."""
        self._store.begin()
        unsaid = 0
        for given, rows in self._upstream(result):
            unsaid += self._compare(given, rows, result)
        for states in self._folded.pages():
            there = {key: state for key, state in states.items() if state.row is not None}
            result.target_rows += len(there)
            extra = there.keys() - self._store.seen(list(there))
            self._store.differ(
                (key, None, hash(self._target(there[key])[0]))
                for key in extra
                if not there[key].may_be_gone
            )
        if unsaid:
            result.notes.append(
                f"{unsaid} rows have values that a schema change made, in columns that "
                "it added or changed; these are not in the topic, and not compared"
            )
        return [self._store.different()]

    def _compare(self, given: Key, rows: Sequence[Values], result: TableResult) -> int:
        """Compare some rows of the upstream; of how many values were taken from there."""
        mine: dict[Key, Values] = {}
        for row in rows:
            key = self._key(row) + given
            mine[key] = _MET if key in mine else row
        for key in self._store.see(list(mine)):
            mine[key] = _MET
        states = self._folded.states(list(mine))
        told = self._whole or self._folded.complete
        found, unsaid = [], 0
        for key, row in mine.items():
            other, lent = self._target(states.get(key), row)
            unsaid += lent
            if other is None and not told and key not in states:
                result.unseen += 1
            elif other != row:
                found.append((key, hash(row), hash(other) if other is not None else None))
        self._store.differ(found)
        return unsaid

    def narrow(self, suspect: Iterator[Found]) -> Iterator[Found]:
        """It has been narrowed."""
        return suspect

    def look(self, wanted: Collection[Key]) -> Found:
        """Single rows on both sides, whether they differ or not."""
        return {
            key: tuple(None if row is None else hash(row) for row in both)  # type: ignore[misc]
            for key, both in self._look(wanted).items()
        }

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them with their values."""
        both = self._look(sorted(found)[:limit])
        shown = [self._difference(k, *rows) for k, rows in both.items() if rows[0] != rows[1]]
        return len(found), shown

    def count(self, found: Found) -> int:
        """How many rows these are."""
        return len(found)

    def repair(self, found: Found) -> RowsToRepair | None:
        """By their keys: messages that come behind those that are there."""
        return rows_to_repair(self._layout, found, partial(self._form.key_cells, self._layout.key))

    def _upstream(self, result: TableResult) -> Iterator[tuple[Key, list[Values]]]:
        """All rows of the upstream, some at a time, each portion of one cut; values by names first.

        The fold reads on whenever the cut is renewed.
        """
        for table in self._layout.parts:
            session, given = self._pair.upstream.server(table[0]), self._given(table)
            for rows in self._rows(session, self._layout.at(table), result):
                yield given, rows

    def _given(self, table: Name) -> Key:
        return tuple(value for _, value in self._layout.given.get(table, ()))

    def _rows(
        self, session: Streamed, layout: ComparedColumns, result: TableResult
    ) -> Iterator[list[Values]]:
        sql, after = self._form.select(layout), None
        while True:
            self._pair.fresh()
            upto = None
            if layout.by_range:
                bound = session.rows(layout.bound(Range(after), self._chunk_rows))
                upto = tuple(str(c) for c in bound[0]) if bound else None
            upto = None if upto == after else upto
            where = keys.within(layout.key, Range(after, upto)) if layout.by_range else "1 = 1"
            for rows in session.portions(f"{sql} WHERE {where}"):
                self._pair.check()
                result.upstream_rows += len(rows)
                yield [self._form.values(layout, row) for row in rows]
                result.done = result.upstream_rows
                result.rows = max(result.rows, result.done)
            if upto is None:
                return
            after = upto

    def _look(self, wanted: Collection[Key]) -> dict[Key, tuple[Values | None, Values | None]]:
        asked = list(wanted)
        mine: dict[Key, Values] = {}
        for at in range(0, len(asked), _AT_ONCE):
            self._pair.check()
            some, count = asked[at : at + _AT_ONCE], len(self._key_at)
            for table in self._layout.parts:
                layout, given = self._layout.at(table), self._given(table)
                own = [key[:count] for key in some if key[count:] == given]
                if not own:
                    continue
                cells = (self._form.key_cells(layout.key, key) for key in own)
                sql = f"{self._form.select(layout)} WHERE {keys.one_of(layout.key, cells)}"
                for row in self._pair.upstream.server(table[0]).rows(sql):
                    texts = self._form.values(layout, row)
                    key = self._key(texts) + given
                    mine[key] = _MET if key in mine else texts
        states = self._folded.states(asked)
        return {k: (mine.get(k), self._target(states.get(k), mine.get(k))[0]) for k in asked}

    def _key(self, row: Values) -> Key:
        return tuple(str(row[i]) for i in self._key_at)

    def _target(
        self, state: FoldedState | None, mine: Values | None = None
    ) -> tuple[Values | None, bool]:
        """The row of the topic; what it cannot have is taken from the upstream's, ``mine``.

        Second, whether that made a difference.
        """
        if state is None or state.row is None:
            return None, False
        other = self._form.told(self._layout, state.row)
        unsaid = state.unsaid
        if not mine or other == mine or not (unsaid or self._widened):
            return other, False
        lent = tuple(
            a
            if column.name in unsaid or "*" in unsaid or (self._widened and MISSING in (a, b))
            else b
            for column, a, b in zip(self._layout.columns, mine, other, strict=True)
        )
        return lent, lent != other

    def _difference(self, key: Key, mine: Values | None, other: Values | None) -> RowDifference:
        columns, count = self._layout.columns, len(self._layout.key)
        own = {c.name for c in self._layout.key}
        keyed = zip(self._layout.key, key[:count], strict=True)
        shown = {column.name: self._form.shown(column, text) for column, text in keyed}
        # What a row has by its table's name is as it is.
        given = map(short, key[count:])
        shown |= dict(zip(self._layout.identity[count:], given, strict=True))
        nothing: Values = (None,) * len(columns)
        values = tuple(
            ValueDifference(c.name, self._form.shown(c, a), self._form.shown(c, b))
            for c, a, b in zip(columns, mine or nothing, other or nothing, strict=True)
            if a != b and c.name not in own
        )
        if mine is None:
            return RowDifference(RowKind.EXTRA, shown, values, 0, 1)
        if other is None:
            return RowDifference(RowKind.MISSING, shown, values, 1, 0)
        return RowDifference(RowKind.CHANGED, shown, values)


class ByFoldedRows:
    """The way of comparing a table without a key; an identity is a row's texts as JSON."""

    def __init__(
        self,
        pair: Pair,
        layout: ComparedColumns,
        folded: FoldedTable,
        form: TopicForm,
        store: FoldStore,
    ) -> None:
        self._pair = pair
        self._layout = layout
        self._folded = folded
        self._form = form
        self._store = store

    def sweep(self, result: TableResult) -> list[Iterator[Found]]:
        """Compare how often each row is there."""
        self._store.begin()
        self._count()
        result.upstream_rows, result.target_rows = self._store.totals()
        result.done = result.rows = result.upstream_rows
        return [self._store.different()]

    def narrow(self, suspect: Iterator[Found]) -> Iterator[Found]:
        """It has been narrowed."""
        return suspect

    def look(self, wanted: Collection[Key]) -> Found:
        """How often each side has some rows."""
        self._count()
        there = self._store.totals_of(list(wanted))
        return {k: there.get(k, (0, 0)) for k in wanted}

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them."""
        shown = []
        for identity in sorted(found)[:limit]:
            mine, theirs = found[identity]
            values = zip(self._layout.columns, json.loads(identity[0]), strict=True)
            texts = {c.name: self._form.shown(c, text) for c, text in values}
            shown.append(RowDifference(RowKind.COUNT, texts, (), mine or 0, theirs or 0))
        return self.count(found), shown

    def count(self, found: Found) -> int:
        """How many rows are missing or too many, whichever is more."""
        more = [(ours or 0) - (other or 0) for ours, other in found.values()]
        return max(sum(n for n in more if n > 0), -sum(n for n in more if n < 0))

    def repair(self, found: Found) -> None:
        """Nothing: rows are told apart by all of their values."""

    def _count(self) -> None:
        self._pair.fresh()
        self._store.count_anew()
        for table in self._layout.parts:
            layout = self._layout.at(table)
            for rows in self._pair.upstream.server(table[0]).portions(self._form.select(layout)):
                self._pair.check()
                self._store.total((self._form.values(self._layout, row), 1, 0) for row in rows)
        counts = self._folded.counts()
        while portion := list(islice(counts, _AT_ONCE)):
            self._store.total((self._form.told(self._layout, row), 0, n) for row, n in portion)
