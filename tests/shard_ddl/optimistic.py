"""The simulated changefeed over an optimistic shard group: tables change as each of them likes.

The sink's model is a table with rows. It executes what it is told, fills what a row does not name,
and takes no row that its definition could not hold. In the end it must have what the tables have.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.base.ts import MAX_TS
from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import DdlAction, DdlDecision, DdlEntries, DdlState, FeedState
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from cdc.schema.table import Column, Table
from filter.decision import DdlFilter
from owner.changes import ChangeOutcome, Order
from owner.ddl import Ddl, FeedScope
from owner.shard_ddl import ShardDdlConflict
from sink.schema_change import Recorded, SchemaChange
from tests.owner.simulated import Sink, World, disturb

SESSION = Session(default_schema="shop")
RULE = {"matcher": ["shop.o*"], "target_schema": "all", "target_table": "orders"}
CONFIG = {
    "shard_mode": "optimistic",
    "filter": {"rules": ["shop.*"]},
    "sink": {"dispatchers": [RULE]},
}
SCOPE = FeedScope(DdlFilter(FeedConfig.model_validate(CONFIG)), optimistic=True)
PLAIN = "shop.p"
FIRST = tuple(f"shop.o{i}" for i in range(3))
BASE = "id INT PRIMARY KEY, a SMALLINT, b INT NOT NULL"
# One definition of a name: two are a conflict, which somebody must decide.
COLUMNS = {
    "c": "INT",
    "d": "INT NOT NULL DEFAULT 7",
    "e": "INT NOT NULL",
}
_SIZES = ("smallint", "int", "bigint")
Row = dict[str, Any]


def filled(column: Column) -> Any:
    """What ADD COLUMN, or an INSERT that does not name it, puts there."""
    if column.default is not None:
        return int(column.default) if column.data_type in _SIZES else column.default
    return None if column.nullable else 0


@dataclass
class OptimisticSink(Sink):
    """``definition`` and ``table`` are the target's table; ``texts`` is what it executed, by ts."""

    world: OptimisticWorld
    definition: Table = field(init=False)
    table: dict[int, Row] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)

    def deliver(self, ts: int, table: str) -> None:
        """A row, exactly once, which names the columns that its table had then."""
        if (ts, table) in self.known:
            return
        mine = [t for t, name in self.rows if name == table]
        assert not mine or mine[-1] < ts, f"{table} goes back from {mine[-1]} to {ts}"
        self.known.add((ts, table))
        self.rows.append((ts, table))
        if table == PLAIN or self.world.decisions:
            # What somebody has decided about rows is theirs.
            return
        self._has_changed(table, mine[-1] if mine else 0, ts)
        key, values, wrote = self.world.written[ts]
        self._takes(wrote, f"row {ts} of {table}")
        row = self.table.get(key)
        if row is None:
            row = {c.name: filled(c) for c in self.definition.columns}
        self.table[key] = row | values

    def _has_changed(self, table: str, above: int, ts: int) -> None:
        """Behind a table's change its rows are at the target what the change has made of them."""
        between = [at for at, name in self.world.states if name == table and above < at < ts]
        rows = self.world.states[max(between), table] if between else {}
        for key, row in rows.items():
            there = {name: self.table[key].get(name, "gone") for name in row}
            assert there == row, f"{table} {key} behind {max(between)}: {there}, not {row}"

    def _takes(self, wrote: Table, what: str) -> None:
        there = self.definition.positions
        for column in wrote.columns:
            assert column.name in there, f"{what} has {column.name}, which the target has not"
            target = self.definition.columns[there[column.name]]
            assert target.nullable or not column.nullable, f"{what}: {column.name} may be NULL"
            if column.data_type in _SIZES:
                sizes = _SIZES.index(column.data_type), _SIZES.index(target.data_type)
                assert sizes[0] <= sizes[1], f"{what}: {column.name} is {column.data_type}"
        for column in self.definition.columns:
            if column.name not in wrote.positions:
                given = column.nullable or column.default is not None
                assert given, f"{what} has no {column.name}, which must have a value"
        unique = {i.name for i in self.definition.indexes if i.unique}
        assert unique <= {i.name for i in wrote.indexes}, (
            f"{what} need not be unique as it is there"
        )

    def carry_out(self, order: Order) -> None:
        """The statement, on the table as it is; a second time nothing, and it must be the same."""
        change = order.ddl.change
        assert change is not None
        text, ts = change.sql, order.ddl.ts
        assert self.texts.setdefault(ts, text) == text, f"{ts} was {self.texts[ts]}, now {text}"
        if ts in self.executed:
            return
        self.executed.append(ts)
        if self.world.decisions:
            return
        if all(not name.startswith("o") for _, name in change.tables):
            return
        (name,) = change.tables
        old = replace(self.definition, schema=name[0], name=name[1])
        after = change.after.table(*name)
        assert after is not None
        catalog = change.before.with_table(old)
        before = change.before.table(*name)
        assert before is not None
        new = apply(catalog, read_ddl(text, change.session)).table(*name)
        assert new is not None
        renames = {
            c.name: new.columns[i].name
            for i, c in enumerate(old.columns)
            if "RENAME COLUMN" in text and c.name not in new.positions
        }
        for row in self.table.values():
            for was, then in renames.items():
                row[then] = row.pop(was)
            for gone in [n for n in row if n not in new.positions]:
                del row[gone]
            for column in new.columns:
                row.setdefault(column.name, filled(column))
        self.definition = new


@dataclass
class OptimisticWorld(World):
    """``tables`` are rows of the group's tables by key, ``written`` rows of the log by ts.

    ``states`` are those of a table behind a change. ``narrow``: one column comes and goes.
    ``again`` is the one column that a table may add again: who adds one again waits until the
    others have dropped it, and with two of them two tables could wait for each other.
    ``any_way``: tables may come to what others cannot, and somebody decides about it.
    """

    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {t: {} for t in FIRST})
    written: dict[int, tuple[int, Row, Table]] = field(default_factory=dict)
    newest: int = 0
    keys: int = 0
    states: dict[tuple[int, str], dict[int, Row]] = field(default_factory=dict)
    dropped: set[tuple[str, str]] = field(default_factory=set)
    renames: bool = False
    narrow: bool = False
    again: str = ""
    any_way: bool = False

    def __post_init__(self) -> None:
        self.sink: OptimisticSink = OptimisticSink(self)
        self.scope = SCOPE
        self.catalog = Catalog()
        for sql in (
            "CREATE DATABASE shop",
            *(f"CREATE TABLE {t} ({BASE})" for t in (*FIRST, PLAIN)),
        ):
            self.catalog = apply(self.catalog, read_ddl(sql, SESSION))
        self.sink.definition = self.definition(FIRST[0])
        # A rename waits for all tables, so with renames none may wait to add a column again.
        self.renames = self.rng.random() < 0.2
        self.narrow = not self.renames and self.rng.random() < 0.5
        self.again = "" if self.renames else "d" if self.narrow else self.rng.choice([*COLUMNS])

    def definition(self, table: str) -> Table:
        """The table at the end of the log."""
        schema, _, name = table.partition(".")
        found = self.catalog.table(schema, name)
        assert found is not None
        return found

    def upstream(self) -> None:
        """A row, or a statement."""
        self.last_ts += self.rng.randint(1, 3)
        table = self.rng.choice(sorted(self.tables))
        what = self.rng.random()
        if what < 0.45:
            self._alter(table, self.rng.choice(self._choices(table)))
        elif what < 0.48 and self.newest < 2:
            self.newest += 1
            name = f"shop.o{len(FIRST) + self.newest}"
            self.execute_sql(f"CREATE TABLE {name} LIKE {table}")
            self.tables[name] = {}
        elif what < 0.5 and len(self.tables) > 2:
            self._leave(table)
        elif what < 0.53:
            self.dml.append((self.last_ts, PLAIN))
        else:
            self._write(table)

    def _choices(self, table: str) -> list[str]:
        if self.any_way:
            return self._any_choices(table)
        there = self.definition(table)
        keys = {i.name for i in there.indexes}
        size = _SIZES.index(there.columns[there.positions["a"]].data_type)
        found = [
            f"DROP COLUMN {name}" if name in there.positions else f"ADD COLUMN {name} {text}"
            for name, text in COLUMNS.items()
            if (name == self.again or (table, name) not in self.dropped)
            and (name == "d" or not self.narrow)
        ]
        if self.narrow:
            return found
        found += [f"MODIFY a {_SIZES[size + 1]}"] if size < 2 else []
        found += [
            f"DROP KEY {name}" if name in keys else f"ADD UNIQUE {name} (a, id)" for name in "uw"
        ]
        if self.renames and "b" in there.positions:
            found.append("RENAME COLUMN b TO b2")
        return found

    def _any_choices(self, table: str) -> list[str]:
        there = self.definition(table).positions
        found = [
            f"DROP COLUMN {name}" if name in there else f"ADD COLUMN {name} {text}"
            for name, text in {"b": "INT NOT NULL", "d": COLUMNS["d"]}.items()
        ]
        found += [f"ALTER COLUMN a SET DEFAULT {n}" for n in (0, 1)]
        found += ["ALTER COLUMN d SET DEFAULT 9"] if "d" in there else []
        return found + ["RENAME COLUMN b TO b2"] * (2 if "b" in there and "b2" not in there else 0)

    def unblock(self) -> None:
        """What stands still is shown as held, and somebody decides; or tables can still follow."""
        entries = self.tick.changes.entries(lambda _: MAX_TS, {})
        held = [e for e in entries.pending if e.state is DdlState.HELD]
        stuck = {table for e in held for table in e.tables}
        by_table = {table: e for e in reversed(entries.pending) for table in e.tables}
        assert entries.pending, "it stands still, and nothing is pending"
        for entry in entries.pending:
            if len(entry.tables) > 1 or entry in held or not entry.sql.startswith("ALTER"):
                continue
            (table,) = entry.tables
            if entry is not by_table[table]:
                continue
            late = [name for name in entry.waits_for if name not in stuck]
            for name in (n for n in late if n not in by_table):
                action = entry.sql.partition(f"{table} ")[2]
                assert self._can_follow(name, table, entry.ts, action), f"{entry} waits in vain"
                if "COLUMN d" in action and "d" not in self.definition(name).positions:
                    self.last_ts += 1
                    self._alter(name, f"ADD COLUMN d {COLUMNS['d']}")
                self.last_ts += 1
                self._alter(name, action)
            if late:
                return
        assert held, f"it stands still unseen: {entries.pending}"
        entry = self.rng.choice(held)
        assert entry.error is not None
        known = entry.error.code == ShardDdlConflict.code
        action = self.rng.choice([DdlAction.SKIP, *([DdlAction.APPROVE] if known else [])])
        if entry.ts in self.decisions:
            action = DdlAction.SKIP
        self.decisions[entry.ts] = DdlDecision(ts=entry.ts, action=action)

    def _can_follow(self, table: str, other: str, ts: int, action: str) -> bool:
        there = self.definition(table)
        if action.startswith("RENAME"):
            return "b" in there.positions and "b2" not in there.positions
        (before,) = (d.change.before for d, _ in self.history if d.ts == ts and d.change)
        old = before.table(*other.split("."))
        assert old is not None
        name = action.split()[2]
        if not action.startswith("ALTER COLUMN"):
            return False
        if name not in there.positions:
            return old.columns[old.positions[name]].default == "7"
        columns = (t.columns[t.positions[name]] for t in (there, old))
        return len({c.default for c in columns}) == 1

    def _leave(self, table: str) -> None:
        # What it alone had would stay at the target, for somebody to decide about.
        for name in [n for n in COLUMNS if n in self.definition(table).positions]:
            self._alter(table, f"DROP COLUMN {name}")
            self.last_ts += 1
        del self.tables[table]
        self.execute_sql(f"DROP TABLE {table}")

    def _alter(self, table: str, action: str) -> None:
        old = self.definition(table)
        self.execute_sql(f"ALTER TABLE {table} {action}")
        new = self.definition(table)
        self.dropped |= {(table, name) for name in old.positions.keys() - new.positions.keys()}
        for row in self.tables[table].values():
            if action.startswith("RENAME"):
                row["b2"] = row.pop("b")
            for column in old.columns:
                if column.name not in new.positions and column.name in row:
                    del row[column.name]
            for column in new.columns:
                row.setdefault(column.name, filled(column))
        rows = self.tables[table]
        self.states[self.last_ts, table] = {key: dict(row) for key, row in rows.items()}

    def _write(self, table: str) -> None:
        there, rows = self.definition(table), self.tables[table]
        key = self.rng.choice(sorted(rows)) if rows and self.rng.random() < 0.4 else 0
        if not key:
            self.keys += 1
            key = self.keys
        values: Row = {}
        for column in there.columns:
            value = self.rng.randrange(100)
            values[column.name] = None if column.nullable and value < 20 else value
        values["id"] = key
        rows[key] = dict(values)
        self.dml.append((self.last_ts, table))
        self.written[self.last_ts] = key, values, there

    def execute_sql(self, sql: str) -> None:
        """A statement of the log."""
        seen = read_ddl(sql, SESSION)
        before, self.catalog = self.catalog, apply(self.catalog, seen)
        change = SchemaChange(
            self.last_ts, sql, seen.kind, seen.tables, seen.schemas, (), SESSION,
            StatusVariables(), 0, before, self.catalog,
        )  # fmt: skip
        self.history.append((Ddl(self.last_ts, sql, seen, None, change), frozenset()))

    def execute(self, upto: str = "told") -> None:
        """One running change goes on, to some stage of it."""
        if not self.running:
            return
        ts = self.rng.choice(sorted(self.running))
        order = self.running[ts]
        if upto == "begun":
            if not order.skip:
                self.sink.ledger.setdefault(ts, Recorded.EXECUTING)
            return
        self._carry_out(ts, order, done=upto != "executed")
        if upto == "told":
            del self.running[ts]
            self.outcomes.append(ChangeOutcome(ts))

    def _carry_out(self, ts: int, order: Order, *, done: bool) -> None:
        if self.sink.ledger.get(ts) in (Recorded.DONE, Recorded.SKIPPED):
            return
        if order.skip:
            self.sink.ledger[ts] = Recorded.SKIPPED
            return
        self.sink.ledger[ts] = Recorded.EXECUTING
        self.sink.carry_out(order)
        if done:
            self.sink.ledger[ts] = Recorded.DONE

    def _settle(self) -> None:
        for ts, order in list(self.running.items()):
            if self.rng.random() < 0.5:
                self._carry_out(ts, order, done=self.rng.random() < 0.5)
        self.running.clear()
        self.outcomes = []

    def crash(self) -> None:
        """The capture is killed at any place; what is stored is read as JSON."""
        super().crash()
        self.shown = DdlEntries.model_validate_json(self.shown.model_dump_json())

    def check(self) -> None:
        """Only the group waits, and the checkpoint passes no row."""
        a = self.assignment
        assert a is not None
        assert PLAIN not in a.table_barriers, "a table of no group waits"
        for ts, table in self.dml:
            if ts <= self.status.checkpoint_ts:
                assert (ts, table) in self.sink.known, f"the checkpoint passes row {ts}"

    def catch_up(self) -> None:
        """All tables come to one definition."""
        renamed = any(d.sql.endswith("b TO b2") for d, _ in self.history)
        for table in sorted(self.tables):
            for action in self._choices(table):
                drops = action.startswith("DROP")
                if drops or (renamed and action.startswith("RENAME")):
                    self.last_ts += 1
                    self._alter(table, action)
            while wider := [c for c in self._choices(table) if c.startswith("MODIFY")]:
                self.last_ts += 1
                self._alter(table, wider[0])
            self.last_ts += 1
            self._write(table)


def run(seed: int, steps: int) -> OptimisticWorld:
    """One schedule, then left alone until all is done; asserts all along."""
    rng = random.Random(seed)
    world = OptimisticWorld(rng)
    disturb(world, rng, steps)
    world.catch_up()
    world.resolved = world.last_ts
    rng.random = lambda: 1.0  # type: ignore[method-assign]
    _settle(world, 60 + 6 * len(world.history))
    finish(world)
    return world


def run_any_way(seed: int, steps: int) -> OptimisticWorld:
    """One schedule of tables that go ways in which others cannot follow; all of it comes to an end,
    by itself or as somebody decides about what is shown.
    """
    rng = random.Random(seed)
    world = OptimisticWorld(rng)
    world.any_way, world.narrow, world.renames = True, False, False
    disturb(world, rng, steps)
    chance = rng.random
    for _ in range(4 * len(world.history) + 4):
        world.resolved = world.last_ts
        rng.random = lambda: 1.0  # type: ignore[method-assign]
        _settle(world, 30)
        if world.status.checkpoint_ts == world.last_ts:
            break
        rng.random = chance  # type: ignore[method-assign]
        world.unblock()
    assert sorted(world.sink.rows) == sorted(world.dml), "a row is lost"
    assert world.status.checkpoint_ts == world.last_ts, "it does not come to the end"
    for table, rows in world.tables.items() if not world.decisions else ():
        for key, row in rows.items():
            there = {name: world.sink.table[key].get(name, "gone") for name in row}
            assert there == row, f"{table} {key}: {there}, not {row}"
    return world


def _settle(world: OptimisticWorld, rounds: int) -> None:
    for _ in range(rounds):
        world.now += 700_000
        world.owner()
        world.check()
        world.rng.randint = lambda a, b: b  # type: ignore[method-assign]
        world.processor()
        while world.running:
            world.execute()
        if world.status.checkpoint_ts == world.last_ts:
            break
    world.owner()


def finish(world: OptimisticWorld) -> None:
    """Nothing is lost, nothing stands still, and the target has what the tables have."""
    entries = world.tick.changes.entries(lambda _: 0, {}).pending
    waiting = [
        (e.ts, e.sql, str(e.state), e.waits_for, e.error and e.error.message) for e in entries
    ]
    assert not waiting, waiting
    assert sorted(world.sink.rows) == sorted(world.dml), "a row is lost"
    assert world.status.checkpoint_ts == world.last_ts, "it does not come to the end"
    assert world.info.state is FeedState.NORMAL, world.info.error
    made = world.sink.definition
    for table, rows in world.tables.items():
        own = world.definition(table)
        assert own.positions.keys() == made.positions.keys(), f"{table}: other columns are there"
        for key, row in rows.items():
            assert world.sink.table[key] == row, (
                f"{table} {key}: {world.sink.table[key]}, not {row}"
            )
