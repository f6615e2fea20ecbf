"""The simulated changefeed over a shard group: its tables come to the same changes at other times.

The sink's model knows how often the group's definition has changed there, and of each row by which
definition it was written.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache

from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedState
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter
from owner.ddl import Ddl, FeedScope
from sink.schema_change import SchemaChange
from tests.owner.simulated import START, Sink, World, disturb

SESSION = Session(default_schema="shop")
RULE = {"matcher": ["shop.o*"], "target_schema": "all", "target_table": "orders"}
PLAIN = "shop.p"
FIRST = tuple(f"shop.o{i}" for i in range(3))
CHANGES = (
    "ALTER TABLE {0} ADD COLUMN c{1} INT",
    "alter table {0} add `c{1}` int(11) null /* the same */",
    "ALTER TABLE shop.{2} ADD (c{1} INTEGER DEFAULT NULL)",
)
BESIDE = (f"ALTER TABLE {PLAIN} ADD COLUMN x INT", "ALTER DATABASE shop CHARACTER SET utf8mb4")


@cache
def _scope(left_out: frozenset[str]) -> FeedScope:
    """The changefeed without these tables."""
    config = {
        "shard_mode": "pessimistic",
        "filter": {"rules": ["shop.*", *(f"!{table}" for table in sorted(left_out))]},
        "sink": {"dispatchers": [RULE]},
    }
    return FeedScope(DdlFilter(FeedConfig.model_validate(config)))


def _columns(version: int) -> str:
    return ", ".join(["id INT PRIMARY KEY", *(f"c{i} INT" for i in range(1, version + 1))])


@dataclass
class ShardSink(Sink):
    """``version``: how many changes the target's table has had."""

    world: ShardWorld
    version: int = 0

    def deliver(self, ts: int, table: str) -> None:
        """A row, exactly once, of the definition that the target has."""
        if table in self.world.left_out:
            return
        if (ts, table) in self.known:
            return
        if table != PLAIN:
            wrote = self.world.wrote[ts]
            assert wrote == self.version, f"row {ts} of {table} is of {wrote}, not {self.version}"
        mine = [t for t, name in self.rows if name == table]
        assert not mine or mine[-1] < ts, f"{table} goes back from {mine[-1]} to {ts}"
        self.known.add((ts, table))
        self.rows.append((ts, table))

    def execute(self, ts: int) -> None:
        """The statement, once for all tables."""
        assert ts not in self.executed, f"the change at {ts} runs twice"
        self.executed.append(ts)
        to = self.world.leads_to.get(ts)
        if to is None:
            return
        assert to == self.version + 1, f"the change at {ts} leads to {to}, over {self.version}"
        for row, table in self.world.dml:
            of_group = table != PLAIN and table not in self.world.left_out
            if of_group and self.world.wrote[row] < to and row <= self.world.resolved:
                assert (row, table) in self.known, f"{ts} runs before row {row} of {table}"
        self.version = to


@dataclass
class ShardWorld(World):
    """``versions`` are of the group's tables that there are, ``wrote`` those of rows.

    ``left_out`` are tables that the changefeed no longer delivers; ``needed`` ones must not be.
    """

    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIRST, 0))
    wrote: dict[int, int] = field(default_factory=dict)
    leads_to: dict[int, int] = field(default_factory=dict)
    executed_once: set[int] = field(default_factory=set)
    left_out: frozenset[str] = frozenset()
    needed: set[str] = field(default_factory=set)
    newest: int = 0

    def __post_init__(self) -> None:
        self.sink: ShardSink = ShardSink(self)
        self.scope = _scope(self.left_out)
        self.catalog = Catalog()
        for sql in (
            "CREATE DATABASE shop",
            *(f"CREATE TABLE {t} ({_columns(0)})" for t in (*FIRST, PLAIN)),
        ):
            self.catalog = apply(self.catalog, read_ddl(sql, SESSION))

    def upstream(self) -> None:
        """A row, or a statement."""
        self.last_ts += self.rng.randint(1, 3)
        what = self.rng.random()
        if what < 0.25:
            self._change(self.rng.choice(sorted(self.versions)))
        elif what < 0.29:
            self._execute(self.rng.choice(BESIDE))
            self.executed_once.add(self.last_ts)
        elif what < 0.33 and self.newest < 7:
            self.newest += 1
            name = f"shop.o{len(FIRST) + self.newest}"
            lowest, highest = min(self.versions.values()), max(self.versions.values())
            version = self.rng.randint(lowest, highest)
            # Without the one table that it is like, it would come to a group that is past it, and
            # without the one that leads there to a group that need not come to it.
            behind = {t for t, v in self.versions.items() if v <= version}
            ahead = {t for t, v in self.versions.items() if v >= version}
            self.needed |= set().union(*(tables for tables in (behind, ahead) if len(tables) == 1))
            self.versions[name] = version
            self._execute(f"CREATE TABLE {name} ({_columns(self.versions[name])})")
        elif what < 0.36 and len(self.versions) > 2:
            name = self.rng.choice(sorted(self.versions))
            del self.versions[name]
            self._execute(f"DROP TABLE {name}")
        elif what < 0.38 and self.newest < 7:
            self.newest += 1
            old, new = self.rng.choice(sorted(self.versions)), f"shop.o{len(FIRST) + self.newest}"
            self.versions[new] = self.versions.pop(old)
            self.needed |= {old, new}
            self._execute(f"RENAME TABLE {old} TO {new}")
        elif what < 0.42 and len(self.versions) > 2 and not self.left_out:
            # Whose new name is delivered and whose old one is not is refused.
            if of_one_name := sorted(self.versions.keys() - self.needed):
                self._leave_out(self.rng.choice(of_one_name))
        else:
            table = self.rng.choice([*sorted(self.versions), PLAIN])
            self.dml.append((self.last_ts, table))
            self.wrote[self.last_ts] = self.versions.get(table, 0)

    def catch_up(self) -> None:
        """All tables come to the newest definition that any of them has ever had."""
        for table in sorted(self.versions):
            while self.versions[table] < max(self.leads_to.values(), default=0):
                self.last_ts += 1
                self._change(table)
            self.last_ts += 1
            self.dml.append((self.last_ts, table))
            self.wrote[self.last_ts] = self.versions[table]

    def _leave_out(self, table: str) -> None:
        """Another filter: delivery begins anew, without a table that may lead a round."""
        self.crash()
        del self.versions[table]
        self.left_out |= {table}
        self.scope = _scope(self.left_out)

    def _change(self, table: str) -> None:
        self.versions[table] += 1
        to = self.versions[table]
        self.leads_to[self.last_ts] = to
        sql = self.rng.choice(CHANGES).format(table, to, table.partition(".")[2])
        self._execute(sql)

    def _execute(self, sql: str) -> None:
        seen = read_ddl(sql, SESSION)
        before, self.catalog = self.catalog, apply(self.catalog, seen)
        change = SchemaChange(
            self.last_ts, sql, seen.kind, seen.tables, seen.schemas, (), SESSION,
            StatusVariables(), 0, before, self.catalog,
        )  # fmt: skip
        self.history.append((Ddl(self.last_ts, sql, seen, None, change), frozenset()))

    def check(self) -> None:
        """Only the group waits, and the checkpoint passes no row."""
        a = self.assignment
        assert a is not None
        if not any(PLAIN in p.tables for p in self.tick.changes.pending):
            assert PLAIN not in a.table_barriers, "a table of no group waits"
        for ts, table in self.dml:
            if ts <= self.status.checkpoint_ts and table not in self.left_out:
                assert (ts, table) in self.sink.known, f"the checkpoint passes row {ts}"


def run(seed: int, steps: int) -> ShardWorld:
    """One schedule, then left alone until all is done; asserts all along."""
    rng = random.Random(seed)
    world = ShardWorld(rng)
    disturb(world, rng, steps)
    world.catch_up()
    world.resolved = world.last_ts
    rng.random = lambda: 1.0  # type: ignore[method-assign]
    for _ in range(30 + 3 * len(world.history)):
        world.now += 700_000
        world.owner()
        world.check()
        rng.randint = lambda a, b: b  # type: ignore[method-assign]
        world.processor()
        while world.running:
            world.execute()
        if world.status.checkpoint_ts == world.last_ts:
            break
    world.owner()
    finish(world)
    return world


def finish(world: ShardWorld) -> None:
    """Nothing is lost, nothing stands still, each change of the group ran once."""
    newest = max(world.leads_to.values(), default=0)
    assert not world.tick.changes.pending, [p.entry() for p in world.tick.changes.pending]
    assert world.sink.version == newest, "a change is lost"
    assert len(world.sink.executed) == newest + len(world.executed_once), "a change ran twice"
    delivered = {row for row in world.sink.rows if row[1] not in world.left_out}
    wanted = {row for row in world.dml if row[1] not in world.left_out}
    assert delivered == wanted, f"rows are lost: {sorted(wanted - delivered)}"
    assert world.status.checkpoint_ts == world.last_ts, "it does not come to the end"
    assert world.status.checkpoint_ts > START or not world.dml
    assert world.info.state is FeedState.NORMAL, world.info.error
    assert not world.tick.changes.rounds, "a round is never forgotten"
