"""What remains to be done of a schema change, from what the target shows: pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cdc.schema.table import Table
from sink.mysql.ddl.facets import EXISTS, ORDER, Facts, Match, changed, compare, facts

Name = tuple[str, str]


class TablePlace(StrEnum):
    """Where a table of the target stands."""

    BEFORE = "before"
    AFTER = "after"
    SAME = "same"
    """Nothing that can be seen changes, or both look alike."""
    OTHER = "other"


class Do(StrEnum):
    """What to do."""

    RUN = "run"
    RECORD = "record"
    DIFFERS = "differs"
    ASK = "ask"
    """It cannot be seen."""


@dataclass(frozen=True, slots=True)
class SeenTable:
    """One table of a change: ``lines`` say what fits neither side.

    ``moved``: whether its text at the target is another than when the statement was recorded as
    executing; None if it was not.
    """

    place: TablePlace
    moved: bool | None = None
    lines: tuple[str, ...] = ()


def place(
    before: Table | None,
    after: Table | None,
    shown: Table | None,
    *,
    creating: bool = False,
    any_order: bool = False,
) -> tuple[TablePlace, tuple[str, ...]]:
    """Where a table stands.

    ``creating``: the statement makes it as a whole, so that what is there is compared as a whole,
    and nothing there is never too little (CREATE OR REPLACE drops first). ``any_order``: columns
    may stand elsewhere.
    """
    if creating and after is not None and shown is None:
        return TablePlace.BEFORE, ()
    old, new, there = facts(before), facts(after), facts(shown)
    keys = changed(old, new) - ({ORDER} if any_order else frozenset())
    if EXISTS in keys and (after is None or not creating):
        keys = frozenset((EXISTS,))
    if not keys:
        return TablePlace.SAME, ()
    behind, lines = compare(new, there, keys)
    if before is None and EXISTS in keys:
        # Not there is not begun, whatever else is missing with it.
        if shown is None:
            return TablePlace.BEFORE, ()
        return (
            (TablePlace.AFTER, ()) if behind is not Match.NO else (TablePlace.OTHER, tuple(lines))
        )
    ahead, older = compare(old, there, keys)
    if behind is ahead:
        if behind is Match.NO:
            return TablePlace.OTHER, (*older, *(f"behind it: {line}" for line in lines))
        return TablePlace.SAME, ()
    order = (Match.NO, Match.MAYBE, Match.YES)
    return (TablePlace.AFTER if order.index(behind) > order.index(ahead) else TablePlace.BEFORE), ()


def decide(seen: Sequence[SeenTable], *, recorded: bool, repeatable: bool) -> Do:
    """For a statement that changes all its tables at once.

    ``recorded``: it was recorded as executing before. ``repeatable``: run twice, it leaves the
    same, where nothing of it can be seen in definitions.
    """
    places = {one.place for one in seen}
    if TablePlace.OTHER in places:
        return Do.DIFFERS
    if TablePlace.AFTER in places and TablePlace.BEFORE in places:
        return Do.DIFFERS
    if TablePlace.AFTER in places:
        return Do.RECORD
    if TablePlace.BEFORE in places or not recorded:
        return Do.RUN
    if any(one.moved for one in seen):
        return Do.RECORD
    return Do.RUN if repeatable else Do.ASK


@dataclass(frozen=True, slots=True)
class Rest:
    """The steps from ``start`` on are to be run; ``start == len(steps)``: none.

    ``sure`` is False where the start could as well be the end: a swap of two tables that look
    alike. ``start`` is None if the target fits no point of the list.
    """

    start: int | None
    sure: bool = True


def rest_of_renames(
    pairs: Sequence[tuple[Name, Name]],
    before: Mapping[Name, Table | None],
    shown: Mapping[Name, Table | None],
) -> Rest:
    """How far a list of renames has come. ``before`` and ``shown`` have all names of the list."""
    states = [dict(before)]
    for old, new in pairs:
        state = dict(states[-1])
        state[new], state[old] = state.get(old), None
        states.append(state)
    fitting = [
        i
        for i, state in enumerate(states)
        if all((state.get(n) is None) == (shown.get(n) is None) for n in shown)
    ]
    if len(fitting) > 1:
        fitting = _by_definition(fitting, states, shown)
    if not fitting:
        return Rest(None)
    return Rest(fitting[0], sure=len(fitting) == 1)


def _by_definition(
    fitting: list[int],
    states: Sequence[Mapping[Name, Table | None]],
    shown: Mapping[Name, Table | None],
) -> list[int]:
    left = list(fitting)
    for name in shown:
        sides: list[Facts] = [facts(states[i].get(name)) for i in fitting]
        keys = frozenset().union(*(changed(sides[0], side) for side in sides[1:]))
        there = facts(shown[name])
        fits = {i: compare(side, there, keys)[0] for i, side in zip(fitting, sides, strict=True)}
        best = Match.YES if Match.YES in fits.values() else Match.MAYBE
        left = [i for i in left if fits[i] is best]
    return left
