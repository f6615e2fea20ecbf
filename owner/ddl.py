"""What a schema change means for a changefeed: whom it waits for, and what is done with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from textwrap import shorten

from cdc.base.errors import DefiniteError
from cdc.base.position import TransactionName
from cdc.base.secrets import mask_sql
from cdc.base.ts import Ts
from cdc.coord.messages import ErrorInfo
from cdc.schema.cut_over import CutOver, alter_of
from cdc.schema.statement import DdlStatement
from cdc.schema.table import Table
from filter.decision import DdlFilter, Outcome
from filter.online import NOTHING, OnlineDdl, OnlineReading
from owner.shard_part import (
    ShardPart,
    inside_of,
    left_by,
    left_with_node,
    of_database,
    part_of,
)
from sink.schema_change import SchemaChange

TableName = tuple[str, str]

EVERY = "*"
"""In place of a table's name: all tables of the changefeed."""

_EXCERPT = 200


class DDLAction(StrEnum):
    """What is to be done with a schema change when its tables have come to it."""

    EXECUTE = "execute"
    IGNORE = "ignore"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Ddl:
    """A DDL of the change log, as it is judged.

    ``statement`` is None and ``error`` set if it is not understood at all; if it is known which
    tables it changes but not how, both are set. ``change`` is what the sink is given. ``name`` is
    what the upstream calls its transaction, None where the log does not have it any more.
    ``online`` is what it is in online schema changes, as one changefeed sees them; ``slipped`` are
    rows that gh-ost has lost at the upstream by this swap.
    """

    ts: Ts
    sql: str
    statement: DdlStatement | None
    error: ErrorInfo | None = None
    change: SchemaChange | None = None
    name: TransactionName | None = None
    online: OnlineReading = NOTHING
    slipped: int = 0

    @property
    def gtid(self) -> tuple[str, int]:
        """(source, number), as the log's dictionary writes sources, empty and -1 without one."""
        name = self.name
        return (name.source, name.sequence) if name is not None and name.source else ("", -1)


@dataclass(frozen=True, slots=True)
class Stop:
    """Nothing at or above ``ts`` may be delivered, for the reason of ``error``."""

    ts: Ts
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class FeedScope:
    """What a changefeed delivers: its filter, and tables that must not run apart from each other.

    ``whole``: no table may run apart from any other, as a transaction is delivered whole.
    ``ties``: pairs of ``schema.table`` that foreign keys hold together at the target. ``apart``:
    the sink keeps the tables of a shard group apart, so each has its schema changes for itself.
    ``optimistic``: the target of a group is the join of its tables.
    """

    filter: DdlFilter
    whole: bool = False
    ties: tuple[tuple[str, str], ...] = ()
    apart: bool = False
    optimistic: bool = False

    @property
    def grouping(self) -> bool:
        """Whether several tables are one at the target."""
        return self.filter.targets.merging and not self.apart


@dataclass(frozen=True, slots=True)
class Judged:
    """Whom a change waits for (lower-case ``schema.table``, or EVERY), and what happens then.

    ``replicated`` are the tables that are delivered, before or after it. ``error``: those tables
    stop at the change instead. ``undecided``: it waits until it shows whether this table is the
    copy of an online schema change. ``shard``: its part in a shard group. ``behind``: changes of
    these databases come first, as barriers know them.
    """

    tables: frozenset[str]
    replicated: tuple[TableName, ...]
    action: DDLAction
    why: str = ""
    error: ErrorInfo | None = None
    undecided: TableName | None = None
    shard: ShardPart | None = None
    behind: frozenset[str] = frozenset()


def meant(ddl: Ddl, online: OnlineDdl) -> Ddl:
    """The DDL as an online schema change meant it: at the cut-over, the ALTER of its table."""
    if ddl.statement is None or ddl.change is None or ddl.error is not None:
        return ddl
    change = ddl.change
    reading = online.read(ddl.statement, change.before, change.after)
    if reading.cut_over is None:
        return replace(ddl, online=reading)
    cut = reading.cut_over
    try:
        statement = alter_of(cut, change.before, change.session)
    except DefiniteError as e:
        return replace(ddl, online=replace(reading, cut_over=None, error=e))
    if statement is None:
        return replace(ddl, online=reading)
    told = replace(
        change,
        sql=statement.sql,
        kind=statement.kind,
        tables=statement.tables,
        replicated=statement.tables,
        session=statement.session,
        before=cut.catalog(change.before),
    )
    return replace(ddl, sql=statement.sql, statement=statement, change=told, online=reading)


def judge(ddl: Ddl, scope: FeedScope, now_ms: int) -> Judged | None:
    """None for a change that touches nothing of the changefeed. ``ddl.statement`` must be known."""
    assert ddl.statement is not None
    statement, rules, online = ddl.statement, scope.filter.rules, ddl.online
    proven = [n for n in online.proven if rules.matches(*n)]
    if proven:
        # Its rows are delivered up to here, and not from here on.
        shown = "it shows that the table is a tool's copy"
        return Judged(_waiting(proven, scope), (), DDLAction.IGNORE, shown)
    matched = [
        n
        for n in statement.tables
        if n not in online.hidden and rules.matches(*n) and not _never_sent(ddl.change, n)
    ]
    if not matched and not any(map(rules.matches_schema, statement.schemas)):
        return None
    if ddl.change is not None and (node := left_by(statement, ddl.change)):
        kept = f"node {node} is no longer of the upstream; the target keeps its tables"
        part = left_with_node(statement, ddl.change, scope.filter) if scope.grouping else None
        return Judged(_of_database(ddl, scope), (), DDLAction.IGNORE, kept, shard=part)
    if online.cut_over is not None and statement.renames:
        same = f"{_took_place(online.cut_over)}, which was the same"
        return Judged(_waiting(matched, scope), (), DDLAction.IGNORE, same)
    read = [name for name in statement.referenced if rules.matches(*name)]
    tables = _of_database(ddl, scope) if statement.schemas else _waiting((*matched, *read), scope)
    if ddl.error is not None:
        return Judged(tables, tuple(matched), DDLAction.EXECUTE, error=ddl.error)
    if online.error is not None:
        error = _said(online.error, ddl, now_ms)
        return Judged(tables, tuple(matched), DDLAction.EXECUTE, error=error)
    assert ddl.change is not None
    before = ddl.change.before.table(*matched[0]) if matched else None
    try:
        decision = scope.filter.decide(
            ddl.sql,
            ddl.change.session,
            before,
            ts=ddl.ts,
            gtid=ddl.gtid,
            hidden=online.hidden,
        )
    except DefiniteError as e:
        return Judged(tables, tuple(matched), DDLAction.EXECUTE, error=_said(e, ddl, now_ms))
    if decision.error is not None:
        error = _said(decision.error, ddl, now_ms)
        return Judged(tables, tuple(matched), DDLAction.EXECUTE, error=error)
    if decision.outcome is Outcome.OUTSIDE:
        return None
    if decision.outcome is not Outcome.DELIVER:
        return Judged(tables, tuple(matched), DDLAction.IGNORE, decision.why)
    renamed = [name for step in decision.steps for name in step]
    named = (*(n for n in decision.delivered if n[1]), *renamed)
    delivered = dict.fromkeys(n for n in named if not _never_sent(ddl.change, n))
    made = [new for _, new in decision.steps]
    if statement.kind == "create table":
        made += delivered
    after = (ddl.change.after.table(*name) for name in delivered)
    wrong = scope.filter.conflict(ddl.change.after, made) or scope.filter.unfit(
        (table for table in after if table is not None), ddl.change.session
    )
    part, kept = None, ""
    if scope.grouping:
        try:
            if statement.schemas:
                kept, part = of_database(statement, ddl.change, scope.filter)
            else:
                part = part_of(statement, ddl.change, scope.filter, tuple(delivered))
        except DefiniteError as e:
            wrong = wrong or e
    if wrong is not None:
        error = _said(wrong, ddl, now_ms)
        return Judged(tables, tuple(delivered), DDLAction.EXECUTE, error=error)
    if kept or (part is not None and not part.executes):
        because = kept or (part.why if part is not None else "")
        return Judged(tables, tuple(delivered), DDLAction.IGNORE, because, shard=part)
    why = [f"rows of {'.'.join(new)} are no longer delivered" for _, new in decision.left]
    if online.cut_over is not None:
        why.append(_took_place(online.cut_over))
        if ddl.slipped:
            why.append(
                f"gh-ost lost {ddl.slipped} rows at the upstream that came between its lock and its"
                " swap: the target has them, the table has not"
            )
    return Judged(
        tables,
        tuple(delivered),
        DDLAction.EXECUTE,
        "; ".join(why),
        undecided=online.undecided if online.undecided in delivered else None,
        shard=part,
        behind=_databases(statement, scope),
    )


def _of_database(ddl: Ddl, scope: FeedScope) -> frozenset[str]:
    """Whom a change of a database waits for: all, which a shard group that waits cannot bear."""
    if not scope.grouping or ddl.change is None or ddl.statement is None:
        return frozenset({EVERY})
    databases = ddl.statement.schemas
    inside = inside_of(ddl.change.before, databases) if ddl.statement.destroys_rows else []
    tables = (n for n in inside if scope.filter.rules.matches(*n))
    return _waiting((*tables, *((schema, EVERY) for schema in databases)), scope)


def _databases(statement: DdlStatement, scope: FeedScope) -> frozenset[str]:
    """What orders a CREATE TABLE behind a change of its database that does not stop all."""
    made = scope.grouping and statement.kind == "create table"
    return frozenset(full_name(schema, EVERY) for schema, _ in statement.tables if made)


def _waiting(names: Iterable[TableName], scope: FeedScope) -> frozenset[str]:
    """Whom a change of these tables waits for."""
    if scope.whole:
        return frozenset({EVERY})
    return frozenset(tied((full_name(*n) for n in names), scope.ties))


def _took_place(cut: CutOver) -> str:
    return f"online schema change: {'.'.join(cut.copy)} took the place of {'.'.join(cut.name)}"


def _never_sent(change: SchemaChange | None, name: TableName) -> bool:
    """Whether it is a view or a sequence, on both sides of a change, wherever it is anything."""
    if change is None:
        return False
    sides = (change.before, change.after)
    return any(side.has_other(*name) for side in sides) and all(
        side.table(*name) is None for side in sides
    )


def _said(error: DefiniteError, ddl: Ddl, now_ms: int) -> ErrorInfo:
    info = ErrorInfo.of(error, now_ms)
    return info.model_copy(
        update={
            "message": f"{info.message}; statement: {excerpt(ddl.sql)}",
            "position": error.position or f"ts {ddl.ts}",
        }
    )


def full_name(schema: str, table: str) -> str:
    """``schema.table`` as barriers know it: lower case, whatever the server distinguishes."""
    return f"{schema}.{table}".lower()


def tied(names: Iterable[str], ties: Iterable[tuple[str, str]]) -> set[str]:
    """``names`` and all that foreign keys hold together with them."""
    found = set(names)
    pairs = [(a.lower(), b.lower()) for a, b in ties]
    while True:
        more = {x for a, b in pairs if (a in found) != (b in found) for x in (a, b)}
        if not more:
            return found
        found |= more


def destructive(ddl: Ddl) -> bool:
    """Whether rows or columns are lost at the target that the upstream may still want back."""
    assert ddl.statement is not None
    assert ddl.change is not None
    statement, change = ddl.statement, ddl.change
    tables = [table for n in change.tables if (table := change.before.table(*n)) is not None]
    if statement.destroys_rows:
        # What CREATE OR REPLACE makes need not have been there.
        databases = (change.before.database(schema) for schema in change.schemas)
        return not statement.replacing or bool(tables) or any(databases)
    dropped, removing = statement.dropped_columns, statement.removes_partitions
    return any(
        (removing and _loses_partition(table, change))
        or any(c.name.lower() in dropped for c in table.columns)
        for table in tables
    )


def _loses_partition(table: Table, change: SchemaChange) -> bool:
    after = change.after.table(table.schema, table.name)
    return after is not None and not _partitions(table) <= _partitions(after)


def _partitions(table: Table) -> set[str]:
    return {p.name for p in table.partitioning.partitions} if table.partitioning else set()


# Asked for in every tick, for all that waits.
@lru_cache(maxsize=1024)
def excerpt(sql: str) -> str:
    """The statement in one line, without passwords, cut where it is long."""
    return shorten(mask_sql(sql), _EXCERPT, placeholder="…")
