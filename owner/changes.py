"""Schema changes of one changefeed from tick to tick: judged, held, executed, ended.

All of it is values: what executes them is behind ``owner.executor``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.base.errors import ErrorKind
from cdc.base.ts import Ts, physical_ms
from cdc.coord.feed_config import DdlPolicy
from cdc.coord.messages import (
    DdlAction,
    DdlDecision,
    DdlEntries,
    DdlEntry,
    DdlState,
    ErrorInfo,
    ShardStand,
)
from cdc.schema.catalog import Catalog
from cdc.schema.table_copy import Proof
from owner.barrier import Pending, Reached, ready, waits
from owner.ddl import (
    EVERY,
    Ddl,
    DDLAction,
    FeedScope,
    Judged,
    Stop,
    TableName,
    destructive,
    judge,
    meant,
    tied,
)
from owner.shard_ddl import (
    ACCEPTABLE,
    Groups,
    Rounds,
    leader_of,
    of_round,
    recorded_as,
    state_of,
    without_leader,
)
from owner.shard_group import ShardStep
from owner.shard_part import ShardRole, members
from owner.shard_rules import ShardGroups
from sink.schema_change import Recorded

_ENDED_KEPT = 50
# pt-online-schema-change makes its triggers within a second, unless a long transaction keeps it.
UNDECIDED_MS = 30_000
_UNDECIDED = "held until it shows whether it is the copy of an online schema change"
_NOTHING_NEEDED = "the target has what the shard group needs for it"
_RETRY_FIRST_MS = 500
_RETRY_MAX_MS = 30_000


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """How the execution of a change ended; ``error`` is None if it is done."""

    ts: Ts
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What the executor is to do with a change: execute it, or record that it is left out."""

    ddl: Ddl
    replicated: tuple[TableName, ...]
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """``passed`` are tables (EVERY: all) that a recorded change lets begin behind it.

    ``stops`` are tables that a change has stopped for good, ``stop`` the whole changefeed.
    ``shards`` are the groups, where changes of any are pending.
    """

    pending: tuple[Pending, ...] = ()
    passed: Mapping[str, Ts] = field(default_factory=dict)
    stops: Mapping[str, Stop] = field(default_factory=dict)
    stop: Stop | None = None
    ended: tuple[DdlEntry, ...] = ()
    executed: int = 0
    skipped: int = 0
    ignored: int = 0
    shards: ShardGroups = field(default_factory=ShardGroups)

    @property
    def rounds(self) -> Rounds:
        """Changes of shard groups that were begun."""
        return self.shards.rounds

    @classmethod
    def of(cls, shown: DdlEntries) -> Changes:
        """Nothing but what an owner before us has ended."""
        return cls(
            ended=tuple(shown.ended),
            executed=shown.executed,
            skipped=shown.skipped,
            ignored=shown.ignored,
            shards=ShardGroups(
                rounds={leader: tuple(ts) for leader, ts in shown.shard_rounds.items()},
                remnants={
                    group: {column: tuple(tables) for column, tables in columns.items()}
                    for group, columns in shown.shard_remnants.items()
                },
            ),
        )

    def kept(self) -> Changes:
        """What outlives an epoch: what has ended. All else is judged anew."""
        return Changes(
            ended=self.ended,
            executed=self.executed,
            skipped=self.skipped,
            ignored=self.ignored,
            shards=replace(self.shards, groups=Groups()),
        )

    @property
    def obstructed(self) -> dict[str, Stop]:
        """Tables that wait for their shard group in vain, as things are."""
        found: dict[str, Stop] = {}
        for p in self.pending:
            if p.obstacle is not None:
                for table in p.tables:
                    found.setdefault(table, Stop(p.ts, p.obstacle))
        return found

    def kept_by_ts(self, decided: Collection[Ts]) -> list[Ddl]:
        """Pending ones of which the store knows more: of begun rounds, and ``decided`` on."""
        of_rounds = {ts for all_of in self.rounds.values() for ts in all_of}
        return [p.ddl for p in self.pending if p.ts in of_rounds or p.ts in decided]

    def entries(self, reached: Reached, names: Mapping[Ts, list[Any]]) -> DdlEntries:
        """What people are shown, with the names of all that the sink's ledger may speak of."""
        late = self.shards.missing(self.pending)
        before = list(zip(self.pending, waits(self.pending, reached), strict=True))
        return DdlEntries(
            pending=[p.entry(waits_for + late.get(p.ts, [])) for p, waits_for in before],
            ended=list(self.ended),
            executed=self.executed,
            skipped=self.skipped,
            ignored=self.ignored,
            transactions=dict(names),
            shard_rounds={leader: list(ts) for leader, ts in self.rounds.items()},
            shard_stands={
                p.ts: ShardStand(group=".".join(part.group), table=part.table, came=not waits_for)
                for p, waits_for in before
                if (part := p.judged.shard) is not None
            },
            shard_missing=self.shards.without_change(self.pending),
            shard_remnants={
                group: {column: list(tables) for column, tables in columns.items()}
                for group, columns in self.shards.remnants.items()
            },
        )


def take_in(
    changes: Changes,
    ddls: Iterable[Ddl],
    scope: FeedScope,
    policy: DdlPolicy,
    recorded: Mapping[Ts, Recorded],
    now_ms: int,
) -> Changes:
    """Judge DDLs of the log, in their order."""
    before, schemas = changes, changes.shards.groups.schemas
    for ddl in ddls:
        if changes.stop is not None:
            break
        leader = leader_of(changes.rounds, ddl.ts)
        state = recorded.get(ddl.ts if leader is None else leader)
        changes = _take_in(changes, ddl, scope, policy, state, now_ms)
        if ddl.change is not None:
            # What it proves may be gone again behind the next.
            changes = settle(changes, ddl.change.after, policy, ddl.ts)
            schemas = ddl.change.after
    if changes.pending == before.pending and schemas is before.shards.groups.schemas:
        return changes
    return _regrouped(changes, scope, schemas)


def _regrouped(changes: Changes, scope: FeedScope, schemas: Catalog) -> Changes:
    """With the shard groups as they are now."""
    grouped = any(p.judged.shard is not None for p in changes.pending)
    found = members(scope.filter, schemas) if grouped else {}
    groups = Groups(found, schemas, optimistic=scope.optimistic)
    return replace(changes, shards=replace(changes.shards, groups=groups))


def _take_in(
    changes: Changes,
    ddl: Ddl,
    scope: FeedScope,
    policy: DdlPolicy,
    recorded: Recorded | None,
    now_ms: int,
) -> Changes:
    if ddl.statement is None:
        assert ddl.error is not None
        return replace(changes, stop=Stop(ddl.ts, ddl.error))
    ddl = meant(ddl, scope.filter.online)
    ended = recorded in (Recorded.DONE, Recorded.SKIPPED)
    # Keys of the target tie tables as they are now, not as they were when a change ran.
    judged = judge(ddl, replace(scope, ties=()) if ended else scope, now_ms)
    if recorded is Recorded.EXECUTING:
        left = without_leader(ddl, judged, changes.pending, changes.rounds)
        if left is not None:
            # The record is that of the others.
            changes, recorded = replace(changes, pending=left), None
    if judged is None:
        return changes
    if ended:
        # It ran after all that its tables had before it.
        passed = {**changes.passed, **dict.fromkeys(judged.tables, ddl.ts)}
        return replace(_found(changes, judged, ddl, recorded, now_ms), passed=passed)
    if judged.error is not None and recorded is None:
        return _stopped(changes, judged, ddl, judged.error, now_ms)
    state, why = DdlState.WAITING, judged.why
    if judged.action is DDLAction.EXECUTE and recorded is None and policy.holds(destructive(ddl)):
        state, why = DdlState.HELD, f"held by the policy {policy}"
    if judged.undecided is not None and recorded is None:
        state, why = DdlState.HELD, _UNDECIDED
    state = state_of(changes.rounds, ddl.ts, state)
    pending = Pending(ddl, judged, judged.action, state, now_ms, why=why)
    return replace(changes, pending=(*changes.pending, pending))


def settle(changes: Changes, schemas: Catalog, policy: DdlPolicy, resolved_ts: Ts) -> Changes:
    """Decide about changes of what may be a copy, by the schema as it is at ``resolved_ts``.

    Asked behind each DDL, and as time goes by.
    """
    pending = tuple(
        _settle(p, schemas, policy, resolved_ts) if p.why == _UNDECIDED else p
        for p in changes.pending
    )
    return changes if pending == changes.pending else replace(changes, pending=pending)


def _settle(p: Pending, schemas: Catalog, policy: DdlPolicy, resolved_ts: Ts) -> Pending:
    assert p.judged.undecided is not None
    copy = schemas.copy_of(*p.judged.undecided)
    if copy is not None and copy.proof is not Proof.NONE:
        why = f"it is about a copy that an online schema change made ({copy.proof})"
        return replace(p, action=DDLAction.IGNORE, state=DdlState.WAITING, why=why)
    if copy is not None and physical_ms(resolved_ts) - physical_ms(p.ts) < UNDECIDED_MS:
        return p
    if policy.holds(destructive(p.ddl)):
        return replace(p, why=f"held by the policy {policy}")
    return replace(p, state=DdlState.WAITING, why=p.judged.why)


def undecided(changes: Changes) -> bool:
    """Whether a change waits for what comes next in the log."""
    return any(p.why == _UNDECIDED for p in changes.pending)


def _found(
    changes: Changes, judged: Judged, ddl: Ddl, recorded: Recorded | None, now_ms: int
) -> Changes:
    """List a change that ended under an owner that was lost before it could write so."""
    listed = [e.ts for e in changes.ended]
    if len(listed) == _ENDED_KEPT and ddl.ts < min(listed):
        return changes
    skipped = recorded is Recorded.SKIPPED
    action = DDLAction.SKIP if skipped else DDLAction.EXECUTE
    why = f"found {recorded} in the sink's ledger"
    found = Pending(ddl, judged, action, DdlState.EXECUTING, now_ms, begun_ms=now_ms, why=why)
    return _end(changes, found, now_ms)


def _stopped(changes: Changes, judged: Judged, ddl: Ddl, error: ErrorInfo, now_ms: int) -> Changes:
    """The change cannot be carried out: its tables stop below it, until the operator acts."""
    failed = Pending(
        ddl, judged, judged.action, DdlState.FAILED, now_ms, error=error, why="it needs attention"
    )
    return _hold(replace(changes, pending=(*changes.pending, failed)), failed, error)


def _hold(changes: Changes, pending: Pending, error: ErrorInfo) -> Changes:
    stop = Stop(pending.ts, error)
    if EVERY in pending.tables:
        return replace(changes, stop=stop)
    stops = dict(changes.stops)
    for table in pending.tables:
        stops.setdefault(table, stop)
    return replace(changes, stops=stops)


def decide(changes: Changes, decisions: Mapping[Ts, DdlDecision]) -> Changes:
    """Take the operator's words in: they count for what does not run yet."""
    pending = tuple(_decide(p, decisions.get(p.ts)) for p in changes.pending)
    pending = changes.shards.with_obstacles(pending)
    return changes if pending == changes.pending else replace(changes, pending=pending)


def _decide(p: Pending, said: DdlDecision | None) -> Pending:
    if said is None or p.state is DdlState.EXECUTING or p.action is DDLAction.SKIP:
        return p
    why = f"{said.action} by an operator" + (f": {said.reason}" if said.reason else "")
    accepted = said.action is DdlAction.APPROVE and said.about in ACCEPTABLE
    if accepted is not p.accepted:
        p = replace(p, accepted=accepted, why=why)
    if said.action is DdlAction.SKIP:
        return replace(p, action=DDLAction.SKIP, state=DdlState.WAITING, why=why, error=None)
    if p.state is DdlState.FAILED:
        return p
    if said.action is DdlAction.HOLD and p.state is DdlState.WAITING:
        return replace(p, state=DdlState.HELD, why=why)
    if said.action is DdlAction.APPROVE and p.state is DdlState.HELD:
        return replace(p, state=DdlState.WAITING, why=why)
    return p


def tie(changes: Changes, ties: Iterable[tuple[str, str]]) -> Changes:
    """Hold what foreign keys tie to a change's tables, also those made since it was judged."""
    pending = tuple(_tie(p, ties) for p in changes.pending)
    return changes if pending == changes.pending else replace(changes, pending=pending)


def _tie(p: Pending, ties: Iterable[tuple[str, str]]) -> Pending:
    tables = frozenset(tied(p.tables, ties))
    return p if tables == p.tables else replace(p, judged=replace(p.judged, tables=tables))


def joined(changes: Changes, reached: Reached, now_ms: int) -> Changes:
    """End what a table did to join its shard group, where rows behind it are delivered.

    That is not recorded: whoever owns the changefeed anew finds it again.
    """
    for p in changes.pending:
        part = p.judged.shard
        if part is not None and part.role is ShardRole.JOIN and reached(part.table) >= p.ts:
            changes = _end(changes, p, now_ms)
    return changes


def conclude(changes: Changes, outcomes: Iterable[ChangeOutcome], now_ms: int) -> Changes:
    """Take in what the executor has ended."""
    for outcome in outcomes:
        for p in changes.pending:
            if p.record == outcome.ts and p.state is DdlState.EXECUTING:
                changes = _conclude(changes, p, outcome, now_ms)
                break
    return changes


def _conclude(changes: Changes, p: Pending, outcome: ChangeOutcome, now_ms: int) -> Changes:
    error = outcome.error
    if error is None:
        return _end_round(changes, p, now_ms)
    if error.kind in (ErrorKind.TRANSIENT, ErrorKind.FENCED):
        delay = min(_RETRY_MAX_MS, _RETRY_FIRST_MS << min(p.attempts, 10))
        again = replace(
            p,
            state=DdlState.WAITING,
            attempts=p.attempts + 1,
            retry_ms=now_ms + delay,
            error=error,
        )
        return replace(changes, pending=_with(changes.pending, again))
    failed = replace(p, state=DdlState.FAILED, error=error)
    return _hold(replace(changes, pending=_with(changes.pending, failed)), failed, error)


def _end_round(changes: Changes, leader: Pending, now_ms: int) -> Changes:
    """End a change, and with it those of its shard group for which it was carried out too."""
    for p in of_round(leader, changes.pending, changes.rounds):
        if p.ts != leader.ts:
            why = f"carried out once for its shard group, as ts {leader.record}"
            ended = replace(p, action=leader.action, why=why)
            changes = _end(changes, ended, now_ms, counted=False)
    return _end(changes, leader, now_ms)


def _with(pending: Sequence[Pending], changed: Pending) -> tuple[Pending, ...]:
    return tuple(changed if p.ts == changed.ts else p for p in pending)


def _end(changes: Changes, p: Pending, now_ms: int, *, counted: bool = True) -> Changes:
    state = {
        DDLAction.EXECUTE: DdlState.DONE,
        DDLAction.IGNORE: DdlState.IGNORED,
        DDLAction.SKIP: DdlState.SKIPPED,
    }[p.action]
    entry = p.entry().model_copy(update={"state": state, "ended_ms": now_ms, "error": None})
    changes = replace(
        changes,
        pending=tuple(q for q in changes.pending if q.ts != p.ts),
        stops={t: s for t, s in changes.stops.items() if s.ts != p.ts},
        stop=None if changes.stop is not None and changes.stop.ts == p.ts else changes.stop,
    )
    if any(e.ts == p.ts for e in changes.ended):
        # An owner before us has written it, and its tables had not come past it.
        return changes
    return replace(
        changes,
        ended=(*changes.ended, entry)[-_ENDED_KEPT:],
        executed=changes.executed + (counted and state is DdlState.DONE),
        skipped=changes.skipped + (counted and state is DdlState.SKIPPED),
        ignored=changes.ignored + (counted and state is DdlState.IGNORED),
    )


def begin(changes: Changes, reached: Reached, now_ms: int) -> tuple[Changes, tuple[Order, ...]]:
    """Begin what may run now; what is ignored is over as soon as its tables have come to it."""
    orders: list[Order] = []
    while True:
        due = [p for p in ready(changes.pending, reached) if p.retry_ms <= now_ms]
        alone = [p for p in due if changes.shards.may_run(p, changes.pending)]
        if not alone:
            changes, more = _begin_rounds(changes, due, now_ms)
            return changes, (*orders, *more)
        for p in alone:
            begun = changes.shards.is_begun(p)
            if p.action is DDLAction.IGNORE and not begun:
                changes = _end_round(changes, p, now_ms)
                continue
            order = Order(
                recorded_as(p.ddl, p.instead or p.ddl),
                p.judged.replicated,
                skip=p.action is DDLAction.SKIP,
            )
            if begun and not order.skip:
                order = _order(changes.shards.again(p, changes.pending))
            running = _running(p, order, now_ms)
            changes = replace(changes, pending=_with(changes.pending, running))
            orders.append(order)


def _begin_rounds(
    changes: Changes, due: Sequence[Pending], now_ms: int
) -> tuple[Changes, list[Order]]:
    """Begin what all tables of a shard group have come to."""
    # What has ended just now may have kept apart what differs.
    pending = changes.shards.with_obstacles(changes.pending)
    steps = list(changes.shards.next_steps(due, pending))
    orders = [_order(step) for step in steps]
    for step, order in zip(steps, orders, strict=True):
        for p in step.round_:
            pending = _with(pending, _running(p, order, now_ms))
    return replace(changes, pending=pending, shards=changes.shards.begun(steps)), orders


def _order(step: ShardStep) -> Order:
    """What is executed for a shard group: at least that there is nothing is recorded."""
    if step.ddl is None:
        leader = step.round_[-1]
        return Order(
            recorded_as(leader.ddl, leader.instead or leader.ddl), step.replicated, skip=True
        )
    return Order(step.ddl, step.replicated)


def _running(p: Pending, order: Order, now_ms: int) -> Pending:
    p = replace(p, state=DdlState.EXECUTING, begun_ms=now_ms)
    if order.skip and p.action is DDLAction.EXECUTE:
        return replace(p, action=DDLAction.IGNORE, why=_NOTHING_NEEDED)
    if not order.skip and p.action is DDLAction.IGNORE:
        return replace(p, action=DDLAction.EXECUTE)
    return p


def without_rounds_below(changes: Changes, checkpoint_ts: Ts) -> Changes:
    """Without rounds that lie below the checkpoint: they are not judged again."""
    kept = {leader: ts for leader, ts in changes.rounds.items() if leader > checkpoint_ts}
    return changes if len(kept) == len(changes.rounds) else with_rounds(changes, kept)


def with_rounds(changes: Changes, rounds: Rounds) -> Changes:
    """With these rounds in place of those that are known."""
    return replace(changes, shards=replace(changes.shards, rounds=rounds))


def next_retry_ms(changes: Changes) -> int | None:
    """When a change that failed for the world's reasons is tried again."""
    waiting = [p.retry_ms for p in changes.pending if p.retry_ms and p.state is DdlState.WAITING]
    return min(waiting, default=None)
