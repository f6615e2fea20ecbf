"""Tables with a key that can be cut into ranges: chunks, then the rows of those that differ."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cdc.verify.differences import Found, SeenRow, by_rows
from cdc.verify.keys import Key, Range
from cdc.verify.layout import ComparedColumns
from cdc.verify.pair import ServerPair
from cdc.verify.repair import RowsToRepair, rows_to_repair
from cdc.verify.report import RowDifference, TableResult
from cdc.verify.side import Digest, Side

# A range with more rows than this is cut again before its rows are listed.
_LISTED_CHUNKS = 4
# Enough for any table; a range that does not get smaller is one that the sides sort differently.
_MOST_HALVED = 24


class ByKey:
    """The way of comparing a table by ranges of its key; an identity is a key."""

    def __init__(self, pair: ServerPair, layout: ComparedColumns, chunk_rows: int) -> None:
        self._pair = pair
        self._layout = layout
        self._chunk_rows = chunk_rows

    def sweep(self, result: TableResult) -> list[Range]:
        """Compare all chunks; those that differ. Counts rows in ``result``."""
        suspects = []
        for chunk in self._chunks():
            mine, theirs = self._digests(chunk)
            result.upstream_rows += mine.count
            result.target_rows += theirs.count
            result.done += mine.count
            result.rows = max(result.rows, result.done)
            if mine != theirs:
                suspects.append(chunk)
        return suspects

    def narrow(self, suspect: Range, halved: int = 0) -> Iterator[Found]:
        """The rows of a chunk that differ now, in parts.

        A row may come in two parts, where the sides do not sort alike.
        """
        mine, theirs = self._digests(suspect)
        if mine == theirs:
            return
        most = max(mine.count, theirs.count)
        middle = None
        if most > self._chunk_rows * _LISTED_CHUNKS and halved < _MOST_HALVED:
            ours, other = self._pair.sides(self._layout)
            side = ours if mine.count >= theirs.count else other
            middle = side.bound(suspect, most // 2)
        if middle is None or middle in (suspect.after, suspect.upto):
            yield by_rows(*self._pair.both(self._layout, lambda s: s.rows_in(suspect)))
            return
        yield from self.narrow(Range(suspect.after, middle), halved + 1)
        yield from self.narrow(Range(middle, suspect.upto), halved + 1)

    def look(self, wanted: Collection[Key]) -> Found:
        """Single rows on both sides, whether they differ or not."""
        mine, theirs = self._pair.both(self._layout, lambda s: s.rows_of(wanted))
        return {k: (mine.get(k), theirs.get(k)) for k in wanted}

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them with their values."""
        chosen = sorted(found)[:limit]
        mine, theirs = self._pair.both(self._layout, lambda s: s.details_of(chosen))
        shown = (SeenRow(mine.get(k), theirs.get(k)).difference(self._layout) for k in chosen)
        return len(found), [d for d in shown if d is not None]

    def count(self, found: Found) -> int:
        """How many rows these are."""
        return len(found)

    def repair(self, found: Found) -> RowsToRepair | None:
        """By their keys."""
        return rows_to_repair(self._layout, found)

    def _chunks(self) -> Iterator[Range]:
        after: Key | None = None
        while True:
            self._pair.fresh()
            ours, _ = self._pair.sides(self._layout)
            upto = ours.bound(Range(after), self._chunk_rows)
            if upto is None or upto == after:
                yield Range(after)
                return
            yield Range(after, upto)
            after = upto

    def _digests(self, range_: Range) -> tuple[Digest, Digest]:
        def ask(side: Side) -> Digest:
            return side.digest(range_)

        return self._pair.both(self._layout, ask)
