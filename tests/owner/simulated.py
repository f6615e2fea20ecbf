"""A changefeed in one process without threads: owner, executor, processor and sink as values.

The owner's step and the processor's ``Standing`` are the product's own. The sink is a model that
checks what it is given: it knows the upstream's history, and which side of each schema change a
table stands on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from cdc.base.position import Position
from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig, FilterConfig
from cdc.coord.messages import (
    Assignment,
    DdlDecision,
    DdlEntries,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
)
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter, Decision
from owner.changes import ChangeOutcome, Order
from owner.ddl import EVERY, Ddl, FeedScope
from owner.tick import Effects, FeedInput, FeedTick, scan_from, step
from processor.standing import Standing
from sink.schema_change import Recorded, SchemaChange

TABLES = tuple(f"shop.t{i}" for i in range(6))
START = 100
_SESSION = Session(default_schema="shop")
_FILTER = DdlFilter(FeedConfig(filter=FilterConfig(rules=["shop.*"])))


class _Remembered(DdlFilter):
    """The product's filter; a statement is decided once, not in each of 10,000 schedules."""

    def __init__(self) -> None:
        self.rules, self.events, self.online = _FILTER.rules, _FILTER.events, _FILTER.online

    def decide(self, sql: str, session: Session, table: object = None, **of: object) -> Decision:
        """As the product decides."""
        return _decided(sql)


@cache
def _decided(sql: str) -> Decision:
    return _FILTER.decide(sql, _SESSION)


@cache
def _touched(sql: str) -> object:
    return read_ddl(sql, _SESSION)


SCOPE = FeedScope(_Remembered())

STATEMENTS = (
    "ALTER TABLE {0} ADD COLUMN c INT",
    "TRUNCATE TABLE {0}",
    "RENAME TABLE {0} TO shop.x, {1} TO {0}, shop.x TO {1}",
    "ALTER TABLE {0} EXCHANGE PARTITION p WITH TABLE {1}",
    "ALTER TABLE {0} ADD FOREIGN KEY (c) REFERENCES {1} (c)",
    "CREATE TABLE IF NOT EXISTS {0} LIKE {1}",
    "DROP TABLE {0}, {1}",
    "ALTER DATABASE shop CHARACTER SET utf8mb4",
    "ALTER TABLE other.z ADD COLUMN c INT",
)


def statement(ts: int, sql: str) -> Ddl:
    """A statement of the log; what catalogs hold does not matter here."""
    seen = _touched(sql)
    change = SchemaChange(
        ts, sql, seen.kind, seen.tables, seen.schemas, (), _SESSION, StatusVariables(), 0,  # type: ignore[attr-defined]
        Catalog(), Catalog(),
    )  # fmt: skip
    return Ddl(ts, sql, seen, None, change)  # type: ignore[arg-type]


def stopped_by(ddl: Ddl) -> frozenset[str]:
    """By our own reading of the statement, not the owner's: whom it must stop."""
    if "DATABASE" in ddl.sql:
        return frozenset({EVERY})
    words = ddl.sql.replace(",", " ").split()
    return frozenset(w for w in words if w.startswith("shop."))


@dataclass
class Sink:
    """What is delivered and executed, durably; it asserts that both are right."""

    world: World
    rows: list[tuple[int, str]] = field(default_factory=list)
    known: set[tuple[int, str]] = field(default_factory=set)
    executed: list[int] = field(default_factory=list)
    ledger: dict[int, Recorded] = field(default_factory=dict)

    def deliver(self, ts: int, table: str) -> None:
        """A row, exactly once: the ledger knows it."""
        if (ts, table) in self.known:
            return
        for ddl, tables in self.world.history:
            if table in tables or EVERY in tables:
                done = ddl.ts in self.executed
                assert done == (ddl.ts < ts), f"row {ts} of {table} crosses the change at {ddl.ts}"
        mine = [t for t, name in self.rows if name == table]
        assert not mine or mine[-1] < ts, f"{table} goes back from {mine[-1]} to {ts}"
        self.known.add((ts, table))
        self.rows.append((ts, table))

    def execute(self, ts: int) -> None:
        """The statement itself; a second time would be wrong for most of them."""
        assert ts not in self.executed, f"the change at {ts} runs twice"
        tables = next(tables for ddl, tables in self.world.history if ddl.ts == ts)
        for row, table in self.world.dml:
            if row < ts and (table in tables or EVERY in tables):
                assert (row, table) in self.known, f"the change at {ts} runs before row {row}"
        self.executed.append(ts)


@dataclass
class World:
    """Everything of one schedule, driven by one random source."""

    rng: random.Random
    info: FeedInfo = field(
        default_factory=lambda: FeedInfo(
            id="f", upstream="u", sink_uri="kafka://k/t", start_ts=START, epoch=1
        )
    )
    status: FeedStatus = field(default_factory=lambda: FeedStatus(checkpoint_ts=START))
    tick: FeedTick = field(default_factory=FeedTick)
    now: int = 1_000_000
    resolved: int = START
    last_ts: int = START
    dml: list[tuple[int, str]] = field(default_factory=list)
    history: list[tuple[Ddl, frozenset[str]]] = field(default_factory=list)
    assignment: Assignment | None = None
    report: Report | None = None
    standing: Standing = field(default_factory=lambda: Standing(Position(START)))
    epoch: int = 0
    running: dict[int, Order] = field(default_factory=dict)
    outcomes: list[ChangeOutcome] = field(default_factory=list)
    recorded: tuple[int, dict[int, Recorded]] | None = None
    scope: FeedScope = SCOPE
    shown: DdlEntries = field(default_factory=DdlEntries)
    decisions: dict[int, DdlDecision] = field(default_factory=dict)
    # So far apart are moments of the log.
    unit: int = 1

    def __post_init__(self) -> None:
        self.sink = Sink(self)

    def upstream(self) -> None:
        """A row or a statement, and perhaps the log resolves."""
        self.last_ts += self.unit * self.rng.randint(1, 3)
        if self.rng.random() < 0.2:
            sql = self.rng.choice(STATEMENTS).format(*self.rng.sample(TABLES, 2))
            ddl = statement(self.last_ts, sql)
            tables = stopped_by(ddl)
            if tables:
                self.history.append((ddl, tables))
        else:
            self.dml.append((self.last_ts, self.rng.choice(TABLES)))

    def owner(self) -> Effects:
        """One tick; what it writes may be lost with its memory, then it is written again."""
        if self.recorded is None or self.recorded[0] != self.info.epoch:
            # The sink is taken over: what ran for an older epoch has ended, or is lost.
            self._settle()
            self.recorded = (self.info.epoch, dict(self.sink.ledger))
        above = scan_from(self.tick, self.info, self.status)
        seen = FeedInput(
            info=self.info,
            status=self.status,
            report=self.report,
            resolved_ts=self.resolved,
            ddls_above=above,
            ddls=tuple(d for d, _ in self.history if above < d.ts <= self.resolved),
            scope=self.scope,
            shown=self.shown,
            recorded=self.recorded[1],
            outcomes=tuple(self.outcomes),
            decisions=self.decisions,
        )
        self.tick, effects = step(self.tick, self.seen(seen), self.now)
        self.outcomes = []
        self.info = effects.info or self.info
        self.status = effects.status or self.status
        self.shown = effects.ddls or self.shown
        self.assignment = effects.assignment
        for order in effects.orders:
            assert order.ddl.ts not in self.running
            self.running[order.ddl.ts] = order
        return effects

    def seen(self, seen: FeedInput) -> FeedInput:
        """What the owner sees, with what a kind of world has besides."""
        return seen

    def execute(self, upto: str = "told") -> None:
        """One running change goes on: recorded as executing, executed, recorded as done, told."""
        if not self.running:
            return
        ts = self.rng.choice(sorted(self.running))
        for stage in ("begun", "executed", "done", "told"):
            if stage == "begun":
                self.sink.ledger.setdefault(ts, Recorded.EXECUTING)
            elif stage == "executed" and ts not in self.sink.executed:
                # What the target shows decides whether anything remains to be done.
                self.sink.execute(ts)
            elif stage == "done":
                self.sink.ledger[ts] = Recorded.DONE
            elif stage == "told":
                del self.running[ts]
                self.outcomes.append(ChangeOutcome(ts))
            if stage == upto:
                return

    def _settle(self) -> None:
        """Of what runs when its owner is gone, some ends and some was never begun."""
        for ts in list(self.running):
            if self.rng.random() < 0.5 and ts not in self.sink.executed:
                self.sink.ledger.setdefault(ts, Recorded.EXECUTING)
                self.sink.execute(ts)
        self.running.clear()
        self.outcomes = []

    def crash(self) -> None:
        """The capture is killed at any place."""
        if self.rng.random() < 0.7:
            self.execute(self.rng.choice(("begun", "executed", "done")))
        self.tick = FeedTick()
        self.report = None

    def processor(self) -> None:
        """A window: some way up to the barriers, some of it perhaps without a word of it."""
        a = self.assignment
        if a is None or not a.run:
            return
        if a.epoch != self.epoch:
            self.epoch = a.epoch
            self.standing = Standing(
                Position(a.checkpoint_ts), {t: Position(ts) for t, ts in a.tables.items()}
            )
        main, caps = self.standing.main, dict(a.table_barriers)
        upper = min(self.unjudged(a.judged_ts), a.barrier_ts)
        hi = Position(max(main.ts, self.some_way(main.ts, max(main.ts, upper))))
        caught = {
            t: Position(self.some_way(s.lo.ts, s.hi.ts))
            for t, s in sorted(self.standing.behind(caps).items())
        }
        spans = self.standing.spans(hi, caps, caught)
        for ts, table in self.dml:
            span = spans.get(table)
            lo, end = (main, hi) if span is None else (span.lo, span.hi)
            if lo.ts < ts <= end.ts:
                self.sink.deliver(ts, table)
                if self.rng.random() < 0.01:
                    return  # A worker dies inside of the window: nothing is known of it.
        self.standing = self.standing.after(hi, spans)
        error = None
        if self.rng.random() < 0.02:
            error = ErrorInfo(code="TG:ErrX", kind="transient", message="x")
        self.report = Report(
            feed="f",
            epoch=self.epoch,
            checkpoint_ts=self.standing.main.resolved(),
            table_checkpoints=self.standing.checkpoints(),
            error=error,
            running=error is None,
            barrier_ts=a.barrier_ts,
            furthest_ts=max([self.standing.main.ts, *(ts for ts, _ in self.sink.known)]),
        )

    def some_way(self, low: int, high: int) -> int:
        """How far a window goes."""
        return self.rng.randint(low, high)

    def unjudged(self, judged_ts: int) -> int:
        """Below the first DDL of the log that the owner may not have seen, or its end."""
        later = (d.ts - 1 for d, _ in self.history if judged_ts < d.ts <= self.resolved)
        return min(later, default=self.resolved)

    def check(self) -> None:
        """What must hold after each tick."""
        a = self.assignment
        assert a is not None
        waiting = [
            (d.ts, t) for d, t in self.history if d.ts <= self.tick.scanned_ts
            and d.ts not in self.sink.executed
        ]  # fmt: skip
        concerned = {name for _, tables in waiting for name in tables}
        running = {name for o in self.running.values() for name in stopped_by(o.ddl)}
        told = {name for o in self.outcomes for name in self._tables(o.ts)}
        late = set().union(*(stopped_by(p.ddl) for p in self.tick.changes.pending))
        idle = concerned | running | told | late
        assert a.table_barriers.keys() <= idle, "an unrelated table waits"
        if EVERY not in idle and a.run:
            assert a.barrier_ts == self.tick.point.barrier, "all wait for nothing"
            last = max((d.ts for d, _ in self.history if d.ts <= self.resolved), default=0)
            assert a.judged_ts >= last, "all wait for a DDL that is judged"
        assert self.status.checkpoint_ts <= a.barrier_ts
        for ts, table in self.dml:
            if ts <= self.status.checkpoint_ts:
                assert (ts, table) in self.sink.known, f"the checkpoint passes row {ts}"

    def _tables(self, ts: int) -> frozenset[str]:
        return next(tables for d, tables in self.history if d.ts == ts)


def disturb(world: World, rng: random.Random, steps: int) -> None:
    """Let anything happen, so many times; asserts all along."""
    for _ in range(steps):
        what = rng.random()
        if what < 0.35:
            world.upstream()
        elif what < 0.45:
            world.resolved = rng.randint(world.resolved, world.last_ts)
        elif what < 0.65:
            world.processor()
        elif what < 0.8:
            world.execute()
        elif what < 0.84:
            world.crash()
        world.now += rng.randint(0, 2000)
        # The processor does not wait for an owner that has not looked yet.
        if rng.random() < 0.7:
            world.owner()
            world.check()


def run(seed: int, steps: int = 120, made: Callable[[random.Random], World] = World) -> World:
    """One schedule, then left alone until all is done; asserts all along."""
    rng = random.Random(seed)
    world = made(rng)
    disturb(world, rng, steps)
    world.resolved = world.last_ts
    rng.random = lambda: 1.0  # type: ignore[method-assign]
    for _ in range(60 + 6 * len(world.history)):
        world.now += 700_000
        world.owner()
        world.check()
        rng.randint = lambda a, b: b  # type: ignore[method-assign]
        world.processor()
        while world.running:
            world.execute()
    world.owner()
    finish(world)
    return world


def finish(world: World) -> None:
    """Nothing is lost, nothing stands still."""
    assert sorted(world.sink.executed) == [d.ts for d, _ in world.history], "a change is lost"
    assert sorted(world.sink.rows) == sorted(world.dml), "a row is lost"
    assert world.status.checkpoint_ts == world.last_ts, "it does not come to the end"
    assert world.info.state is FeedState.NORMAL
    assert not world.tick.changes.pending
