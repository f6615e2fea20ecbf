"""A shard group without servers: the owner's own steps over its schema changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cdc.base.position import TransactionName
from cdc.binlog.query import StatusVariables
from cdc.coord.feed_config import DdlPolicy, FeedConfig
from cdc.coord.messages import DdlAction, DdlDecision, DdlEntries, ErrorInfo
from cdc.schema.apply import apply
from cdc.schema.catalog import Catalog
from cdc.schema.ddl import read_ddl
from cdc.schema.session import Session
from filter.decision import DdlFilter
from owner.barrier import table_barriers
from owner.changes import (
    ChangeOutcome,
    Changes,
    Order,
    begin,
    conclude,
    decide,
    joined,
    take_in,
    tie,
    with_rounds,
)
from owner.ddl import Ddl, FeedScope
from owner.shard_ddl import ended_by
from sink.schema_change import Recorded, SchemaChange

SESSION = Session(default_schema="shop")
CONFIG: dict[str, Any] = {
    "shard_mode": "pessimistic",
    "filter": {"rules": ["shop.*", "far.*", "own.*"]},
    "sink": {
        "dispatchers": [
            {"matcher": ["shop.*", "far.*"], "target_schema": "all", "target_table": "orders"}
        ]
    },
}
OPTIMISTIC: dict[str, Any] = CONFIG | {"shard_mode": "optimistic"}
COLUMNS = "id INT PRIMARY KEY, a INT, KEY k (a)"


@dataclass
class Group:
    """The owner's changes of tables that are one, and what the log goes on with."""

    tables: tuple[str, ...] = ("shop.o1", "shop.o2", "far.o3")
    databases: tuple[str, ...] = ("shop", "far", "own")
    columns: str = COLUMNS
    scope: FeedScope = field(
        default_factory=lambda: FeedScope(DdlFilter(FeedConfig.model_validate(CONFIG)))
    )
    changes: Changes = field(default_factory=Changes)
    log: list[Ddl] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    said: dict[int, DdlDecision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.catalog = Catalog()
        for sql in (
            *(f"CREATE DATABASE `{name}`" for name in self.databases),
            *(f"CREATE TABLE `{d}`.{t} ({self.columns})" for d, t in self._named()),
        ):
            self.catalog = apply(self.catalog, read_ddl(sql, SESSION))

    def _named(self) -> Iterator[tuple[str, str]]:
        for name in (*self.tables, *(["own.p"] if "own" in self.databases else [])):
            database, _, table = name.rpartition(".")
            yield database, table

    def ddl(self, ts: int, sql: str, session: Session = SESSION) -> None:
        """A statement of the log, which the owner takes in."""
        seen = read_ddl(sql, session)
        before, self.catalog = self.catalog, apply(self.catalog, seen)
        change = SchemaChange(
            ts, sql, seen.kind, seen.tables, seen.schemas, (), session, StatusVariables(), 0,
            before, self.catalog,
        )  # fmt: skip
        name = TransactionName(ts, "n1:0-1", ts, 1)
        self.log.append(Ddl(ts, sql, seen, None, change, name))
        self._take_in(self.log[-1:], {})

    def _take_in(self, ddls: list[Ddl], recorded: dict[int, Recorded]) -> None:
        self.changes = take_in(self.changes, ddls, self.scope, DdlPolicy.AUTO, recorded, 1)

    def say(self, ts: int, action: DdlAction, about: str = "") -> None:
        """An operator's word."""
        self.said[ts] = DdlDecision(ts=ts, action=action, about=about)

    def tick(self) -> list[Order]:
        """All tables have come as far as they may; what is to be carried out."""

        held = table_barriers(self.changes.pending)

        def reached(table: str) -> int:
            return min(self.reached.get(table, 1 << 40), held.get(table, 1 << 40))

        changes = tie(self.changes, self.scope.ties)
        changes = decide(joined(changes, reached, 1), self.said)
        self.changes, orders = begin(changes, reached, 1)
        return list(orders)

    def done(self, ts: int, error: ErrorInfo | None = None) -> None:
        """The executor has ended it."""
        self.changes = conclude(self.changes, [ChangeOutcome(ts, error)], 1)

    def restart(self, recorded: dict[int, Recorded], above: int = 0) -> None:
        """Another owner, which has what is stored, and reads the log above the checkpoint."""
        shown = self.changes.entries(lambda _: 1 << 40, {})
        kept = DdlEntries.model_validate_json(shown.model_dump_json())
        changes = Changes.of(kept)
        self.changes = with_rounds(changes, ended_by(changes.rounds, recorded))
        self._take_in([d for d in self.log if d.ts > above], recorded)

    def states(self) -> dict[int, str]:
        """By ts how each change stands, ended or not."""
        entries = self.changes.entries(lambda _: 1 << 40, {})
        return {e.ts: str(e.state) for e in (*entries.ended, *entries.pending)}

    def waits(self, ts: int) -> list[str]:
        """For whom a change waits."""
        entries = self.changes.entries(lambda _: 1 << 40, {})
        return next(e.waits_for for e in entries.pending if e.ts == ts)
