"""Pure: which rows differ, and how."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc.verify.keys import Key
from cdc.verify.layout import ComparedColumns
from cdc.verify.report import RowDifference, RowKind, ValueDifference
from cdc.verify.side import Detail

# What both sides have of each identity: a hash or a number of rows, None without a row.
Found = dict[Key, tuple[int | None, int | None]]


def by_rows(mine: Mapping[Key, int], theirs: Mapping[Key, int]) -> Found:
    """What differs between two sides."""
    return {
        key: (mine.get(key), theirs.get(key))
        for key in {**mine, **theirs}
        if mine.get(key) != theirs.get(key)
    }


@dataclass
class Settled:
    """Rows that differed, told apart by looking at them once more.

    ``real``: both sides are as they were and differ. ``open``: a side has changed, and they still
    differ. The others are equal now.
    """

    real: Found
    open: Found


def settle(before: Found, now: Found) -> Settled:
    """What a second look at a later cut says of rows that differed."""
    different = {k: v for k, v in now.items() if v[0] != v[1]}
    real = {k: v for k, v in different.items() if before[k] == v}
    return Settled(real, {k: v for k, v in different.items() if k not in real})


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row as each side has it, with how often."""

    mine: Detail | None
    theirs: Detail | None
    upstream: int = 1
    target: int = 1

    def difference(self, layout: ComparedColumns) -> RowDifference | None:
        """The row's difference; None if both sides are equal by now."""
        mine, theirs = self.mine, self.theirs
        one = mine or theirs
        if one is None:
            return None
        key = _key(layout, one)
        if mine is None:
            return RowDifference(RowKind.EXTRA, key, _all(layout, one, False), 0, self.target)
        if theirs is None:
            return RowDifference(RowKind.MISSING, key, _all(layout, one, True), self.upstream, 0)
        if mine.hash == theirs.hash:
            if self.upstream == self.target:
                return None
            return RowDifference(RowKind.COUNT, key, (), self.upstream, self.target)
        values = tuple(
            ValueDifference(c.name, mine.shown[i], theirs.shown[i])
            for i, c in enumerate(layout.columns)
            if mine.texts[i] != theirs.texts[i]
        )
        return RowDifference(RowKind.CHANGED, key, values)


def pair_up(
    layout: ComparedColumns, mine: Iterable[Detail], theirs: Iterable[Detail], found: Found
) -> list[RowDifference]:
    """Differences of rows that were found by their hashes.

    With a key, a row on each side that has the same one is one that changed.
    """
    one_of: dict[int, Detail] = {d.hash: d for d in (*mine, *theirs)}
    pairs: dict[Key, list[SeenRow]] = defaultdict(list)
    for (text,), (ours, others) in found.items():
        detail = one_of.get(int(text))
        if detail is None:
            continue
        ours, others = ours or 0, others or 0
        seen = SeenRow(detail if ours else None, detail if others else None, ours, others)
        pairs[detail.key if layout.key else (text,)].append(seen)
    shown = []
    for group in pairs.values():
        sides = [s for s in group if s.theirs is None], [s for s in group if s.mine is None]
        if layout.key and len(sides[0]) == len(sides[1]) == 1:
            group = [SeenRow(sides[0][0].mine, sides[1][0].theirs)]
        shown += [s.difference(layout) for s in group]
    return [d for d in shown if d is not None]


def _key(layout: ComparedColumns, row: Detail) -> dict[str, str | None]:
    columns = layout.key or layout.columns
    place = {c.name: i for i, c in enumerate(layout.columns)}
    return {c.name: row.shown[place[c.name]] for c in columns}


def _all(layout: ComparedColumns, row: Detail, upstream: bool) -> tuple[ValueDifference, ...]:
    if not layout.key:
        return ()
    own = {c.name for c in layout.key}
    return tuple(
        ValueDifference(c.name, v if upstream else None, None if upstream else v)
        for c, v in zip(layout.columns, row.shown, strict=True)
        if c.name not in own
    )
