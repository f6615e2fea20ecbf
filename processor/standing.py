"""Where the tables of a changefeed stand, and what the next window takes of each.

Most tables stand at one position; some stand lower, held at a schema change or catching up behind
it, some higher, as a change that has run proves all before it delivered. All of this is a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cdc.base.position import Position, Stand
from cdc.base.ts import Ts
from processor.catalog import Span


@dataclass(frozen=True, slots=True)
class Standing:
    """``main`` is where all tables stand but ``tables``, by lower-case ``schema.table``."""

    main: Position
    tables: Mapping[str, Position] = field(default_factory=dict)

    def of(self, table: str) -> Position:
        """Where a table stands."""
        return self.tables.get(table, self.main)

    def lowest(self) -> Position:
        """Where the table stands that is furthest back."""
        return min([self.main, *self.tables.values()])

    def behind(self, caps: Mapping[str, Ts]) -> dict[str, Span]:
        """What tables that stand lower may still catch up of what the others have delivered."""
        found = {}
        for table, at in self.tables.items():
            hi = min(self.main, Position(caps[table])) if table in caps else self.main
            if at < hi:
                found[table] = Span(at, hi)
        return found

    def spans(
        self, hi: Position, caps: Mapping[str, Ts], caught: Mapping[str, Position]
    ) -> dict[str, Span]:
        """What a window up to ``hi`` takes of each table that is not simply in ``(main, hi]``.

        ``caught``: up to where tables that stand lower are taken of what lies below ``main``;
        one that does not reach ``main`` by it takes nothing above.
        """
        found = {}
        for table in self.tables.keys() | caps.keys():
            lo = self.of(table)
            most = min(hi, Position(caps[table])) if table in caps else hi
            if lo < self.main and (reached := caught.get(table, lo)) < self.main:
                most = min(most, reached)
            if lo != self.main or most != hi:
                found[table] = Span(lo, max(lo, most))
        return found

    def after(self, hi: Position, spans: Mapping[str, Span]) -> Standing:
        """Behind a window that was delivered."""
        return Standing(hi, {t: s.hi for t, s in spans.items() if s.hi != hi})

    def held(self) -> dict[str, Position]:
        """Tables that stand lower than the others."""
        return {t: at for t, at in self.tables.items() if at < self.main}

    def stand(self) -> Stand:
        """Where everything stands, as a destination's ledger would have it."""
        return Stand(self.main.ts, self.main.row, self.held())

    def checkpoints(self) -> dict[str, Ts]:
        """The checkpoint of each table that stands lower."""
        return {t: at.resolved() for t, at in self.held().items()}


def together(
    caught: Mapping[str, Position], behind: Mapping[str, Span], ties: Iterable[tuple[str, str]]
) -> dict[str, Position]:
    """``caught``, with tables that are tied at one place: a child must not overtake its parent.

    A table that comes to its end holds nobody back; tables that nothing ties go on by themselves.
    """
    found = dict(caught)
    pairs = [(a, b) for a, b in ties if a in found and b in found]
    moved = True
    while moved:
        moved = False
        for one, other in (*pairs, *((b, a) for a, b in pairs)):
            if found[one] < behind[one].hi and found[one] < found[other]:
                at = max(behind[other].lo, found[one])
                moved = moved or at < found[other]
                found[other] = at
    return found


def passed(stand: Stand, standing: Standing) -> bool:
    """Whether a destination's ledger says nothing that is not known without it."""
    return stand.within(standing.stand())
