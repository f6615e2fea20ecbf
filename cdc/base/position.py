"""Positions on the log line: where delivery of a destination stands."""

from __future__ import annotations

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


START = Position(0, ROW_END)
END = Position(MAX_TS, ROW_END)
