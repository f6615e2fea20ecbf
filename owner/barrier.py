"""Barriers and the order of schema changes, as a pure decision.

A change stops only the tables that it waits for. It may run when each of them has delivered all
before it and no earlier change of any of them is still to be done; its tables go on when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cdc.base.ts import MAX_TS, Ts
from cdc.coord.messages import DdlEntry, DdlState, ErrorInfo
from owner.ddl import EVERY, Ddl, DDLAction, Judged, excerpt

Reached = Callable[[str], Ts]
"""By lower-case ``schema.table`` (EVERY: the least of all), up to where it is delivered."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A change that is not done. ``state`` is WAITING, HELD, EXECUTING or FAILED.

    ``retry_ms``: after a transient failure, when it is tried again. ``obstacle``: why it cannot be
    carried out with the others of its shard group as things are; ``accepted``: an operator says
    that it does not matter that it differs from theirs. ``instead``: the leader of its shard
    round that is not delivered any more, under whose ts it is recorded.
    """

    ddl: Ddl
    judged: Judged
    action: DDLAction
    state: DdlState
    since_ms: int
    begun_ms: int = 0
    retry_ms: int = 0
    attempts: int = 0
    why: str = ""
    error: ErrorInfo | None = field(default=None)
    obstacle: ErrorInfo | None = None
    accepted: bool = False
    instead: Ddl | None = None

    @property
    def ts(self) -> Ts:
        """Its place in the order."""
        return self.ddl.ts

    @property
    def record(self) -> Ts:
        """The ts under which the sink's ledger has it."""
        return self.ddl.ts if self.instead is None else self.instead.ts

    @property
    def tables(self) -> frozenset[str]:
        """Whom it stops."""
        return self.judged.tables

    def entry(self, waits_for: Sequence[str] = ()) -> DdlEntry:
        """As shown to people."""
        # Built anew in every tick for all that wait; nothing in it needs to be checked.
        return DdlEntry.model_construct(
            ts=self.ts,
            sql=excerpt(self.ddl.sql),
            kind=self.ddl.statement.kind if self.ddl.statement else "",
            tables=sorted(self.tables),
            state=DdlState.HELD if self.obstacle is not None else self.state,
            waits_for=list(waits_for),
            since_ms=self.since_ms,
            begun_ms=self.begun_ms,
            why=self.why,
            error=self.obstacle or self.error,
        )


def global_barrier(pending: Iterable[Pending]) -> Ts:
    """No table may pass it."""
    return min((p.ts - 1 for p in pending if EVERY in p.tables), default=MAX_TS)


def table_barriers(pending: Iterable[Pending]) -> dict[str, Ts]:
    """Single tables that may not pass a ts, below the global barrier."""
    found: dict[str, Ts] = {}
    for p in pending:
        for table in p.tables:
            if table != EVERY:
                found[table] = min(p.ts - 1, found.get(table, MAX_TS))
    return found


def waits(pending: Sequence[Pending], reached: Reached) -> list[list[str]]:
    """For each change, in order of ts, what it waits for; nothing: it may run.

    Tables that have not come to it, and (``ts N``) the last change before it of each of its tables.
    """
    found = []
    last: dict[str, Ts] = {}
    newest = 0
    for p in pending:
        tables = sorted(t for t in p.tables if reached(t) < p.ts - 1)
        every = newest if EVERY in p.tables else last.get(EVERY, 0)
        before = {max(last.get(t, 0), every) for t in p.tables | p.judged.behind}
        found.append(tables + [f"ts {ts}" for ts in sorted(before) if ts])
        last.update(dict.fromkeys(p.tables, p.ts))
        newest = p.ts
    return found


def ready(pending: Sequence[Pending], reached: Reached) -> list[Pending]:
    """Changes that may run now, in their order; none of them waits for another of them."""
    found = zip(pending, waits(pending, reached), strict=True)
    return [p for p, before in found if p.state is DdlState.WAITING and not before]
