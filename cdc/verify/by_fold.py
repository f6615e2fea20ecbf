"""A table of the upstream against the fold of its messages.

A topic says nothing of rows that have not changed since its changefeed began. They are counted as
unseen, unless the topic is expected to hold the whole table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from cdc.verify import canal, keys
from cdc.verify.canal import Values
from cdc.verify.differences import Found
from cdc.verify.fold import FoldedTable
from cdc.verify.keys import Key, Range
from cdc.verify.layout import ComparedColumns
from cdc.verify.pair import Pair
from cdc.verify.report import (
    RowDifference,
    RowKind,
    TableResult,
    ValueDifference,
    short,
)
from cdc.verify.sessions import Sql

_AT_ONCE = 100
# What the upstream has of a key that several tables of a shard group have: no row of a topic.
_MET: Values = ()


class ByFold:
    """The way of comparing a table that has a key; an identity is the key's text.

    With ``widened`` the messages of a row have the columns that its table had then, of which others
    may have changed the topic's table since: a column that one of both lacks is not compared.
    """

    def __init__(
        self,
        pair: Pair,
        layout: ComparedColumns,
        folded: FoldedTable,
        chunk_rows: int,
        whole: bool,
        *,
        widened: bool = False,
    ) -> None:
        self._pair = pair
        self._layout = layout
        self._folded = folded
        self._chunk_rows = chunk_rows
        self._whole = whole
        self._widened = widened
        place = {c.name: i for i, c in enumerate(layout.columns)}
        self._key_at = [place[c.name] for c in layout.key]
        self._unsaid: set[Key] = set()

    def sweep(self, result: TableResult) -> list[Found]:
        """Compare every row; those that differ."""
        found: Found = {}
        there: set[Key] = set()
        for row in self._upstream(result):
            key = self._key(row)
            if key in there:
                row = _MET
            there.add(key)
            other = self._target(key, row)
            if other is None and not self._told(key):
                result.unseen += 1
            elif other != row:
                found[key] = (hash(row), hash(other) if other is not None else None)
        for key in self._folded.present():
            result.target_rows += 1
            if key not in there and not self._folded.may_be_gone(key):
                found[key] = (None, hash(self._target(key)))
        if self._unsaid:
            result.notes.append(
                f"{len(self._unsaid)} rows have values that a schema change made, in columns that "
                "it added or changed; these are not in the topic, and not compared"
            )
        return [found]

    def narrow(self, suspect: Found) -> Iterator[Found]:
        """It has been narrowed."""
        yield suspect

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

    def _upstream(self, result: TableResult) -> Iterator[Values]:
        """All rows of the upstream. The fold reads on whenever the cut is renewed."""
        for schema, name in self._layout.parts:
            session = self._pair.upstream.server(schema)
            yield from self._rows(session, self._layout.at((schema, name)), result)

    def _rows(self, session: Sql, layout: ComparedColumns, result: TableResult) -> Iterator[Values]:
        sql, after = canal.select(layout), None
        while True:
            self._pair.fresh()
            upto = None
            if layout.by_range:
                bound = session.rows(layout.bound(Range(after), self._chunk_rows))
                upto = tuple(str(c) for c in bound[0]) if bound else None
            upto = None if upto == after else upto
            where = keys.within(layout.key, Range(after, upto)) if layout.by_range else "1 = 1"
            for row in session.rows(f"{sql} WHERE {where}"):
                result.upstream_rows += 1
                yield canal.values(layout, row)
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
            part = canal.condition(self._layout, asked[at : at + _AT_ONCE])
            for table in self._layout.parts:
                layout = self._layout.at(table)
                sql = canal.select(layout)
                for row in self._pair.upstream.server(table[0]).rows(f"{sql} WHERE {part}"):
                    texts = canal.values(layout, row)
                    key = self._key(texts)
                    mine[key] = _MET if key in mine else texts
        return {k: (mine.get(k), self._target(k, mine.get(k))) for k in asked}

    def _key(self, row: Values) -> Key:
        return tuple(str(row[i]) for i in self._key_at)

    def _told(self, key: Key) -> bool:
        """Whether the topic must have the row, if the upstream has it."""
        return self._whole or self._folded.complete or self._folded.known(key)

    def _target(self, key: Key, mine: Values | None = None) -> Values | None:
        """The row of the topic; what it cannot have is taken from the upstream's, ``mine``."""
        row = self._folded.row(key)
        if row is None:
            return None
        other = canal.said(self._layout, row)
        unsaid = self._folded.unsaid(key)
        if not mine or other == mine or not (unsaid or self._widened):
            return other
        lent = tuple(
            a
            if column.name in unsaid or "*" in unsaid or (self._widened and canal.MISSING in (a, b))
            else b
            for column, a, b in zip(self._layout.columns, mine, other, strict=True)
        )
        if lent != other:
            self._unsaid.add(key)
        return lent

    def _difference(self, key: Key, mine: Values | None, other: Values | None) -> RowDifference:
        names = [c.name for c in self._layout.columns]
        own = {c.name for c in self._layout.key}
        shown: dict[str, str | None] = {
            c.name: short(k) for c, k in zip(self._layout.key, key, strict=True)
        }
        nothing: Values = (None,) * len(names)
        values = tuple(
            ValueDifference(name, short(a), short(b))
            for name, a, b in zip(names, mine or nothing, other or nothing, strict=True)
            if a != b and name not in own
        )
        if mine is None:
            return RowDifference(RowKind.EXTRA, shown, values, 0, 1)
        if other is None:
            return RowDifference(RowKind.MISSING, shown, values, 1, 0)
        return RowDifference(RowKind.CHANGED, shown, values)


class ByFoldedRows:
    """The way of comparing a table without a key; an identity is a row's texts as JSON."""

    def __init__(self, pair: Pair, layout: ComparedColumns, folded: FoldedTable) -> None:
        self._pair = pair
        self._layout = layout
        self._folded = folded
        self._by_name: dict[Key, Values] = {}

    def sweep(self, result: TableResult) -> list[Found]:
        """Compare how often each row is there."""
        mine, theirs = self._counts()
        result.upstream_rows = result.done = result.rows = mine.total()
        result.target_rows = theirs.total()
        found = {r: (mine[r], theirs[r]) for r in {*mine, *theirs} if mine[r] != theirs[r]}
        self._by_name = {(repr(row),): row for row in found}
        return [{k: found[row] for k, row in self._by_name.items()}]

    def narrow(self, suspect: Found) -> Iterator[Found]:
        """It has been narrowed."""
        yield suspect

    def look(self, wanted: Collection[Key]) -> Found:
        """How often each side has some rows."""
        mine, theirs = self._counts()
        rows = ((k, self._by_name[k]) for k in wanted)
        return {k: (mine[row], theirs[row]) for k, row in rows}

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them."""
        names = [c.name for c in self._layout.columns]
        shown = []
        for identity in sorted(found)[:limit]:
            mine, theirs = found[identity]
            texts = dict(zip(names, map(short, self._by_name[identity]), strict=True))
            shown.append(RowDifference(RowKind.COUNT, texts, (), mine or 0, theirs or 0))
        return self.count(found), shown

    def count(self, found: Found) -> int:
        """How many rows are missing or too many, whichever is more."""
        more = [(ours or 0) - (other or 0) for ours, other in found.values()]
        return max(sum(n for n in more if n > 0), -sum(n for n in more if n < 0))

    def _counts(self) -> tuple[Counter[Values], Counter[Values]]:
        self._pair.fresh()
        mine: Counter[Values] = Counter()
        for table in self._layout.parts:
            rows = self._pair.upstream.server(table[0]).rows(canal.select(self._layout.at(table)))
            mine.update(canal.values(self._layout, row) for row in rows)
        theirs: Counter[Values] = Counter()
        for texts, n in self._folded.counts.items():
            if n:
                theirs[canal.said(self._layout, dict(texts))] += n
        return mine, theirs
