"""Positions on the log line: where delivery of a destination stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cdc.base.ts import MAX_TS, Ts

ROW_END = (1 << 62) - 1


class Position(NamedTuple):
    """``(ts, row)``: everything before it, and ``row`` rows of the transaction at ``ts``, are done.

    ``row`` counts all rows of the upstream transaction (over all its tables, before any
    filter), so the number does not change with a changefeed's configuration. ``ROW_END`` means
    that the transaction at ``ts`` is done completely. Tuples compare in delivery order.
    """

    ts: Ts
    row: int = ROW_END

    def whole(self) -> bool:
        """Whether it lies on a transaction boundary."""
        return self.row == ROW_END

    def resolved(self) -> Ts:
        """The largest ts of which everything at or below is done."""
        return self.ts if self.whole() else self.ts - 1


class Stand(Position):
    """Where a destination stands, as a position, and which tables stand below that.

    ``held``: by lower-case ``schema.table``, tables that wait for a schema change, or have stopped,
    or catch up. It compares as the position alone.
    """

    held: Mapping[str, Position]

    def __new__(
        cls, ts: Ts, row: int = ROW_END, held: Mapping[str, Position] | None = None
    ) -> Stand:
        """``held`` is empty unless it is given."""
        self = super().__new__(cls, ts, row)
        self.held = held or {}
        return self

    def __getnewargs__(self) -> tuple[object, ...]:
        return (self.ts, self.row, dict(self.held))

    def of(self, table: str) -> Position:
        """Where a table stands."""
        return self.held.get(table, self)

    def within(self, other: Stand) -> bool:
        """Whether nothing stands higher here than there; ``other`` names all that wait."""
        return self <= other and all(at >= self.of(table) for table, at in other.held.items())

    def to_json(self) -> dict[str, list[int]]:
        """``held`` as JSON takes it."""
        return {table: [at.ts, at.row] for table, at in sorted(self.held.items())}

    @classmethod
    def from_json(cls, ts: Ts, row: int, held: Mapping[str, Sequence[int]] | None) -> Stand:
        """Reads it back."""
        return cls(ts, row, {t: Position(int(a), int(b)) for t, (a, b) in (held or {}).items()})


def stand(position: Position) -> Stand:
    """The position as a stand that holds no table."""
    return position if isinstance(position, Stand) else Stand(position.ts, position.row)


START = Position(0, ROW_END)
END = Position(MAX_TS, ROW_END)
