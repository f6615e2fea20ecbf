"""Tables that cannot be cut by a key: multisets of row hashes, in buckets of hashes.

Each side is read once for the digests, and once more for the hashes of buckets that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cdc.verify.differences import Found, by_rows, pair_up
from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns
from cdc.verify.pair import ServerPair
from cdc.verify.report import RowDifference, TableResult
from cdc.verify.side import Digest, Side

_ROWS_PER_BUCKET = 200
_MOST_BUCKETS = 4096
# Hashes that are listed at once; more buckets than that are not looked into.
_LISTED_ROWS = 500_000


class ByBucket:
    """The way of comparing a table by hashes of its rows; an identity is a hash."""

    def __init__(self, pair: ServerPair, layout: ComparedColumns) -> None:
        self._pair = pair
        self._layout = layout
        self._buckets = max(1, min(_MOST_BUCKETS, layout.rows // _ROWS_PER_BUCKET))

    def sweep(self, result: TableResult) -> list[tuple[int, ...]]:
        """Compare all buckets; those that differ, in one group or several."""
        self._pair.fresh()
        mine, theirs = self._pair.both(self._layout, lambda s: s.buckets(self._buckets))
        result.upstream_rows = result.done = sum(d.count for d in mine.values())
        result.target_rows = sum(d.count for d in theirs.values())
        result.rows = max(result.rows, result.done)
        groups: list[list[int]] = []
        rows = _LISTED_ROWS
        for bucket in sorted({**mine, **theirs}):
            ours, other = mine.get(bucket, Digest()), theirs.get(bucket, Digest())
            if ours == other:
                continue
            if rows >= _LISTED_ROWS:
                groups.append([])
                rows = 0
            groups[-1].append(bucket)
            rows += max(ours.count, other.count)
        return [tuple(g) for g in groups]

    def narrow(self, suspect: tuple[int, ...]) -> Iterator[Found]:
        """The hashes of buckets that differ now."""

        def ask(side: Side) -> dict[int, int]:
            return side.hashes_in(suspect, self._buckets)

        mine, theirs = self._pair.both(self._layout, ask)
        yield by_rows(_named(mine), _named(theirs))

    def look(self, wanted: Collection[Key]) -> Found:
        """How often each side has rows of these hashes."""
        hashes = {int(k[0]) for k in wanted}
        found = self._pair.both(self._layout, lambda s: s.counts_of(hashes))
        mine, theirs = _named(found[0]), _named(found[1])
        return {k: (mine.get(k), theirs.get(k)) for k in wanted}

    def describe(self, found: Found, limit: int) -> tuple[int, list[RowDifference]]:
        """How many rows these are, and at most ``limit`` of them with their values."""
        if self._layout.key:
            # A changed row is one hash on each side, and only its key says so.
            shown = self._described(found)
            return len(shown), shown[:limit]
        chosen = dict(sorted(found.items())[:limit])
        return self.count(found), self._described(chosen)

    def count(self, found: Found) -> int:
        """How many rows these are: a changed one is missing once and too many once."""
        pairs = [((ours or 0) - (other or 0)) for ours, other in found.values()]
        return max(sum(n for n in pairs if n > 0), -sum(n for n in pairs if n < 0))

    def repair(self, found: Found) -> None:
        """Nothing: rows are told apart by all of their values."""

    def _described(self, found: Found) -> list[RowDifference]:
        hashes = {int(k[0]) for k in found}
        mine, theirs = self._pair.both(self._layout, lambda s: s.details_where(hashes))
        return pair_up(self._layout, mine, theirs, found)


def _named(hashes: dict[int, int]) -> dict[Key, int]:
    return {(str(h),): n for h, n in hashes.items()}
