"""The tables of a shard group as the one table that they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from cdc.verify.keys import Key, Range
from cdc.verify.side import Detail, Digest, Side


class GroupSide:
    """The union of some tables, each on its own server.

    A key that several of them have is a row of its own kind: its hash is made of all their hashes,
    so that it never equals the row that the target has of it.
    """

    def __init__(self, parts: Sequence[Side]) -> None:
        self._parts = parts

    def bound(self, range_: Range, rows: int) -> Key | None:
        """A key with a share of ``rows`` of the range before it, of a table that has so many.

        Tables cannot be merged by key here, as only a server sorts by its collations.
        """
        share = max(1, rows // len(self._parts))
        return next((k for p in self._parts if (k := p.bound(range_, share)) is not None), None)

    def digest(self, range_: Range) -> Digest:
        """Count and sum of a range."""
        return _sum(p.digest(range_) for p in self._parts)

    def rows_in(self, range_: Range) -> dict[Key, int]:
        """Hashes of a range by key."""
        return self._by_key(lambda p: p.rows_in(range_))

    def rows_of(self, wanted: Iterable[Key]) -> dict[Key, int]:
        """Hashes of single keys, those that are there."""
        asked = list(wanted)
        return self._by_key(lambda p: p.rows_of(asked))

    def buckets(self, count: int) -> dict[int, Digest]:
        """Count and sum of each bucket that has rows: of the rows whose hash is it modulo."""
        found = [p.buckets(count) for p in self._parts]
        numbers = {n for each in found for n in each}
        return {n: _sum(each.get(n, Digest()) for each in found) for n in numbers}

    def hashes_in(self, buckets: Collection[int], count: int) -> dict[int, int]:
        """How many rows have each hash, in some of ``count`` buckets."""
        return self._counted(lambda p: p.hashes_in(buckets, count))

    def counts_of(self, hashes: Collection[int]) -> dict[int, int]:
        """How many rows have each of some hashes, of those that are there."""
        return self._counted(lambda p: p.counts_of(hashes))

    def details_of(self, wanted: Sequence[Key]) -> dict[Key, Detail]:
        """Rows of single keys; of a key that several tables have, the last one's values."""
        found: dict[Key, Detail] = {}
        for part in self._parts:
            for key, row in part.details_of(wanted).items():
                other = found.get(key)
                found[key] = row if other is None else replace(row, hash=_met(other.hash, row.hash))
        return found

    def details_where(self, hashes: Collection[int]) -> list[Detail]:
        """Rows of some hashes, each as often as it is there."""
        return [row for part in self._parts for row in part.details_where(hashes)]

    def _by_key(self, ask: Callable[[Side], dict[Key, int]]) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for part in self._parts:
            for key, value in ask(part).items():
                found[key] = _met(found[key], value) if key in found else value
        return found

    def _counted(self, ask: Callable[[Side], dict[int, int]]) -> dict[int, int]:
        return dict(sum((Counter(ask(p)) for p in self._parts), Counter[int]()))


def _met(one: int, other: int) -> int:
    """What stands for two rows of one key: below zero, where no row's hash is."""
    return -1 - abs(one) - abs(other)


def _sum(digests: Iterable[Digest]) -> Digest:
    return reduce(lambda a, b: Digest(a.count + b.count, a.sum + b.sum), digests, Digest())
