"""One tick of the owner for one changefeed: ``step(tick, inputs, now) -> (tick, effects)``.

Pure: it sees the changefeed, its report and the DDLs of the log, and says what to write. What
it promises: the checkpoint never goes back, and no assignment lets a table pass its barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cdc.base.ts import MAX_TS, Ts
from cdc.coord.feed_config import DdlPolicy
from cdc.coord.messages import (
    Assignment,
    CopiedRows,
    CopyStatus,
    DdlDecision,
    DdlEntries,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    SnapshotProgress,
    TableStop,
)
from cdc.coord.snapshot_config import SnapshotMode
from cdc.schema.catalog import Catalog
from owner import config_change
from owner.barrier import Reached, global_barrier, table_barriers
from owner.changes import (
    ChangeOutcome,
    Changes,
    Order,
    begin,
    conclude,
    decide,
    joined,
    settle,
    take_in,
    tie,
    with_rounds,
    without_rounds_below,
)
from owner.copies import CopyTurn, Orders, advance, fails, past_target, rows_missing
from owner.ddl import EVERY, Ddl, FeedScope, Stop
from owner.retry import Retry, RetryPolicy
from owner.shard_ddl import ended_by
from owner.stands import Stands
from owner.state import ACTIVE, RUNNING, FeedEvent, allowed, event_of_error, transition
from owner.sync_points import SyncOutcome, SyncPoint, SyncTurn
from owner.sync_points import advance as advance_point
from sink.schema_change import Recorded


@dataclass(frozen=True, slots=True)
class FeedTick:
    """What the owner remembers of a changefeed between ticks; all of it can be found again.

    ``epoch``: the start of delivery that the rest belongs to. DDLs at or below ``scanned_ts``
    have been judged; ``ready`` once all that the sink's ledger knows of are among them.
    ``judged_ts``: ``scanned_ts`` when the last of them was judged, which is all that a processor
    must hear of it.
    ``table_stops``: tables that the processor had to stop, by lower-case name. ``names``: what the
    upstream calls the transactions of DDLs above the checkpoint that the ledger may speak of.
    ``delivers``: the sink was taken over, so positions lie in the log where their ts says.
    ``point``: the sync point that it comes to next, if one is due; ``pointed``: that was looked at.
    """

    epoch: int = 0
    scanned_ts: Ts = 0
    judged_ts: Ts = 0
    ready: bool = False
    delivers: bool = False
    changes: Changes = field(default_factory=Changes)
    table_stops: Mapping[str, Stop] = field(default_factory=dict)
    names: Mapping[Ts, list[Any]] = field(default_factory=dict)
    retry: Retry = field(default_factory=Retry)
    point: SyncPoint = field(default_factory=SyncPoint)
    pointed: bool = False

    @property
    def stops(self) -> dict[str, Stop]:
        """Tables that have stopped until the operator acts, each at its first reason."""
        found = dict(self.table_stops)
        held = [*self.changes.stops.items(), *self.changes.obstructed.items()]
        for table, stop in held:
            if table not in found or stop.ts < found[table].ts:
                found[table] = stop
        return found


@dataclass(frozen=True, slots=True)
class FeedInput:
    """What the owner sees of a changefeed now.

    ``ddls`` are those in ``(ddls_above, resolved_ts]``, in order; :func:`scan_from` says where to
    begin; ``schemas`` is the schema behind them. ``recorded`` is what the sink's ledger said when
    this epoch began, None while it is not known; ``outcomes`` are of this epoch; ``shown`` is what
    people see now. ``upstream_error`` is a definite error of the upstream: its log will not grow
    any more. ``log_error``: the log itself cannot serve this changefeed; ``changer_error``: the
    sink could not be taken over for changes. ``sync_interval_ms``: between sync points, 0 if there
    are none; ``synced``: how the writing of one has ended.
    """

    info: FeedInfo
    status: FeedStatus
    report: Report | None
    resolved_ts: Ts
    ddls_above: Ts
    ddls: tuple[Ddl, ...]
    scope: FeedScope
    schemas: Catalog | None = None
    recorded: Mapping[Ts, Recorded] | None = None
    outcomes: tuple[ChangeOutcome, ...] = ()
    decisions: Mapping[Ts, DdlDecision] = field(default_factory=dict)
    shown: DdlEntries = field(default_factory=DdlEntries)
    ddl_policy: DdlPolicy = DdlPolicy.AUTO
    upstream_error: ErrorInfo | None = None
    log_error: ErrorInfo | None = None
    changer_error: ErrorInfo | None = None
    orders: Orders = field(default_factory=Orders)
    sync_interval_ms: int = 0
    synced: SyncOutcome | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class Effects:
    """What to write: each field is the new value, or None where nothing changes.

    ``assignment`` is always the value that should stand, ``ddls`` too where it is not None; the
    runner writes differences only. ``orders`` are schema changes to execute, once. ``sync`` has the
    sync point that is to be written down, and one that is left out.
    """

    assignment: Assignment
    info: FeedInfo | None = None
    status: FeedStatus | None = None
    ddls: DdlEntries | None = None
    orders: tuple[Order, ...] = ()
    copies: Mapping[str, CopyStatus] = field(default_factory=dict)
    sync: SyncTurn | None = None
    copied_rows: CopiedRows | None = None


def next_epoch(epoch: int, now_ms: int) -> int:
    """Grows with every start of delivery, also over a store that was lost: it follows the clock."""
    return max(epoch + 1, now_ms)


def scan_from(tick: FeedTick, info: FeedInfo, status: FeedStatus) -> Ts:
    """Above which ts the DDLs must be read for the next tick."""
    return tick.scanned_ts if tick.epoch == info.epoch else status.checkpoint_ts


def step(tick: FeedTick, seen: FeedInput, now_ms: int) -> tuple[FeedTick, Effects]:
    """The owner's memory after this tick, and what it wants written."""
    info = seen.info
    if tick.epoch == 0 and info.state in ACTIVE:
        # A new owner starts delivery anew: whatever an earlier process still does is fenced.
        info = info.model_copy(update={"epoch": next_epoch(info.epoch, now_ms)})
    if info.epoch != tick.epoch:
        kept = tick.changes.kept() if tick.epoch else Changes.of(seen.shown)
        begun, names = seen.status.checkpoint_ts, seen.shown.transactions
        tick = FeedTick(info.epoch, begun, begun, changes=kept, names=names, retry=tick.retry)
    if seen.info.epoch == info.epoch:
        tick = _judge(tick, seen, now_ms)
    report = seen.report if seen.report and seen.report.epoch == info.epoch else None
    copied = report.snapshot if report and seen.info.copies else None
    if report and copied and copied.ts and info.state in RUNNING:
        return _begun_with_rows(tick, seen, report, copied, now_ms)
    if report:
        tick = replace(_hold_reported(tick, report), delivers=tick.delivers or report.running)
    reached = _reached(seen.status, report)
    changes = tie(conclude(tick.changes, seen.outcomes, now_ms), seen.scope.ties)
    orders: tuple[Order, ...] = ()
    runs = info.state in RUNNING and tick.ready and tick.delivers
    if runs:
        grouped = [p.ts for p in changes.pending if p.judged.shard is not None]
        info = config_change.aimed(info, report, seen.resolved_ts, grouped)
    # What comes behind another configuration is carried out by that.
    before = _below(reached, info.change.ts) if info.change and info.change.ts else reached
    if runs:
        changes = joined(changes, before, now_ms)
    changes = decide(changes, seen.decisions)
    if runs:
        changes, orders = begin(changes, before, now_ms)
    changes = without_rounds_below(changes, seen.status.checkpoint_ts)
    tick = replace(tick, changes=changes, names=_names(tick, seen, changes, orders))
    status = _progress(tick, seen, info, report)
    # A copy holds tables at places of their own: one that was ordered meanwhile begins behind it.
    awaits = info.change is not None and info.piece is None
    copies = advance(info, status, report, Orders() if awaits else seen.orders)
    info = _with_rows(info, status, copies, now_ms)
    if info.indexes_due and _has_indexes(info, seen):
        info = info.model_copy(update={"indexes_due": False})
    status = status.model_copy(update={"copied_above_ts": copies.low_ts})
    # Which tables are held for rows is the processor's word.
    busy = copies.order is not None or info.piece is not None
    at = Stands(status, report, tick.scanned_ts, changes.pending, busy)
    if runs and not busy and config_change.due(info, at):
        info = config_change.changed(info, next_epoch(info.epoch, now_ms))
    tick, info = _react(tick, seen, info, report, status, now_ms)
    main, tables = _starts(status, changes)
    # A new epoch is judged anew, by the next tick, before anything of it runs.
    same = info.epoch == tick.epoch
    held = _held(tick)
    sync: SyncTurn | None = None
    if info.state in RUNNING and same:
        sync = advance_point(tick.point, seen.sync_interval_ms, at, seen.synced, now_ms)
        tick = replace(tick, point=sync.point, pointed=True)
    assignment = Assignment(
        feed=info.id,
        epoch=info.epoch,
        # A copy goes before all else, and waits for no change of the schema.
        run=info.state in RUNNING and (tick.ready or info.copies) and same,
        checkpoint_ts=main,
        tables=tables,
        judged_ts=tick.judged_ts,
        barrier_ts=_barrier(tick, info),
        table_barriers=held,
        ties=_ties(seen.scope.ties, held.keys() | status.tables.keys(), every=busy),
        copy_order=copies.order,
        piece=info.piece,
        rows_delivered=info.rows_delivered,
        repeatable=info.lacks_rows,
        placed=info.placed,
    )
    return tick, Effects(
        assignment,
        info if info != seen.info else None,
        status if status != seen.status else None,
        changes.entries(reached, tick.names) if tick.ready else None,
        orders,
        copies.statuses,
        sync,
    )


def _with_rows(info: FeedInfo, status: FeedStatus, copies: CopyTurn, now_ms: int) -> FeedInfo:
    """With the rows that have a place in its log from now on; one that begins has a new epoch.

    What is written of it is durable, and so is ``status`` beside it.
    """
    lowest = min([status.checkpoint_ts, _main(status), *status.tables.values()])
    if info.snapshot_ts and not info.rows_delivered and lowest >= info.snapshot_ts:
        info = info.model_copy(update={"rows_delivered": True})
        if info.indexes_due:
            return info.model_copy(update={"epoch": next_epoch(info.epoch, now_ms)})
    if copies.begins:
        begun: dict[str, Any] = {"piece": copies.piece, "epoch": next_epoch(info.epoch, now_ms)}
        if copies.piece is not None and _is_again(info, copies.piece.id) and _only_rows(info):
            begun["target_ts"] = copies.piece.ts
        return info.model_copy(update=begun)
    if not copies.ends:
        return info
    ended: dict[str, Any] = {"piece": None}
    if info.again is not None and info.piece is not None and _is_again(info, info.piece.id):
        ended["again"] = info.again.model_copy(update={"delivered": True})
    return info.model_copy(update=ended)


def _has_indexes(info: FeedInfo, seen: FeedInput) -> bool:
    """Whether the sink was taken over behind all rows, which adds them before all else."""
    taken_over = info.epoch == seen.info.epoch and seen.recorded is not None
    return taken_over and seen.info.rows_delivered


def _is_again(info: FeedInfo, order: str) -> bool:
    return info.again is not None and info.again.order == order


def _only_rows(info: FeedInfo) -> bool:
    return bool(info.config["snapshot"]["mode"] == SnapshotMode.ONLY)


def _begun_with_rows(
    tick: FeedTick, seen: FeedInput, report: Report, copied: SnapshotProgress, now_ms: int
) -> tuple[FeedTick, Effects]:
    """All rows are copied: delivery begins at them, as if the changefeed were made there."""
    if error := past_target(seen.info, copied, now_ms):
        state = transition(seen.info.state, FeedEvent.FATAL_ERROR, seen.info.id)
        failed = seen.info.model_copy(update={"state": state, "error": error})
        return tick, Effects(_stopped(tick, failed, seen.status.checkpoint_ts), failed)
    epoch = next_epoch(seen.info.epoch, now_ms)
    begun: dict[str, Any] = {
        "start_ts": copied.base_ts,
        "snapshot_ts": copied.ts,
        "epoch": epoch,
        "indexes_due": bool(seen.info.config["snapshot"].get("create_tables")),
    }
    if _only_rows(seen.info):
        begun["target_ts"] = copied.ts
    status = FeedStatus(
        checkpoint_ts=copied.base_ts,
        resolved_ts=seen.status.resolved_ts,
        main_ts=copied.base_ts,
        transactions=report.transactions,
        snapshot=copied,
    )
    after = seen.info.model_copy(update=begun)
    stopped = _stopped(tick, seen.info, copied.base_ts)
    return tick, Effects(stopped, after, status, copied_rows=report.copied_rows)


def _stopped(tick: FeedTick, info: FeedInfo, ts: Ts) -> Assignment:
    return Assignment(
        feed=info.id,
        epoch=info.epoch,
        run=False,
        checkpoint_ts=ts,
        judged_ts=tick.judged_ts,
        barrier_ts=ts,
    )


def _judge(tick: FeedTick, seen: FeedInput, now_ms: int) -> FeedTick:
    """Take in the DDLs that the log has resolved since the last tick."""
    if seen.recorded is None or not seen.resolved_ts or seen.ddls_above > tick.scanned_ts:
        # Not all of them were read: nothing beyond what has been judged may pass.
        return tick
    new = [d for d in seen.ddls if tick.scanned_ts < d.ts <= seen.resolved_ts]
    changes = tick.changes
    if not tick.ready:
        # What was written down and is not in the ledger was never begun at the target.
        changes = with_rounds(changes, ended_by(changes.rounds, seen.recorded))
    changes = take_in(changes, new, seen.scope, seen.ddl_policy, seen.recorded, now_ms)
    if seen.schemas is not None:
        changes = settle(changes, seen.schemas, seen.ddl_policy, seen.resolved_ts)
    scanned = max(tick.scanned_ts, seen.resolved_ts)
    ready = tick.ready or seen.resolved_ts >= max(seen.recorded, default=0)
    return replace(
        tick,
        scanned_ts=scanned,
        judged_ts=scanned if new or ready is not tick.ready else tick.judged_ts,
        changes=changes,
        ready=ready,
    )


def _names(
    tick: FeedTick, seen: FeedInput, changes: Changes, orders: Iterable[Order]
) -> dict[Ts, list[Any]]:
    """With those of changes that the sink's ledger is about to know, before it does.

    And of those that we have kept something of by their ts: another log has them there too.
    """
    ddls = [*(o.ddl for o in orders), *changes.kept_by_ts(seen.decisions)]
    names = dict(tick.names) | {d.ts: d.name.to_list() for d in ddls if d.name is not None}
    return {ts: name for ts, name in names.items() if ts > seen.status.checkpoint_ts}


def _hold_reported(tick: FeedTick, report: Report) -> FeedTick:
    """Tables that the processor itself had to stop are held where it stopped them."""
    table_stops = dict(tick.table_stops)
    for stopped in report.stopped_tables:
        table = stopped.table.lower()
        known = table_stops.get(table)
        if known is None or stopped.ts < known.ts:
            table_stops[table] = Stop(stopped.ts, stopped.error)
    return replace(tick, table_stops=table_stops)


def _reached(status: FeedStatus, report: Report | None) -> Reached:
    """Up to where tables are delivered."""
    if report is None:
        main, tables = _main(status), dict(status.tables)
    else:
        main = report.checkpoint_ts
        tables = {t.lower(): ts for t, ts in report.table_checkpoints.items()}
    least = min([main, *tables.values()])
    return lambda table: least if table == EVERY else tables.get(table, main)


def _below(reached: Reached, ts: Ts) -> Reached:
    """As if nothing had come to ``ts``: what may run then lies at or below it."""
    return lambda table: min(reached(table), ts - 1)


def _main(status: FeedStatus) -> Ts:
    # A status of an older version does not have it.
    return status.main_ts or status.checkpoint_ts


def _starts(status: FeedStatus, changes: Changes) -> tuple[Ts, dict[str, Ts]]:
    """Where delivery starts: all tables but some, and those. What ran is behind them."""
    behind = changes.passed.get(EVERY, 0)
    main = max(_main(status), behind)
    tables = {t: max(ts, behind) for t, ts in status.tables.items()}
    for table, ts in changes.passed.items():
        if table != EVERY and ts > tables.get(table, main):
            tables[table] = ts
    return main, {t: ts for t, ts in tables.items() if ts != main}


def _held(tick: FeedTick) -> dict[str, Ts]:
    """Barriers of single tables: their next schema change, and where they have stopped."""
    found = table_barriers(tick.changes.pending)
    for table, stop in tick.stops.items():
        found[table] = min(stop.ts - 1, found.get(table, MAX_TS))
    return found


def _ties(
    ties: Iterable[tuple[str, str]], names: Collection[str], *, every: bool
) -> list[tuple[str, str]]:
    """Those between tables that do not simply stand with the others, or ``every`` one."""
    lowered = {(a.lower(), b.lower()) for a, b in ties}
    return sorted((a, b) for a, b in lowered if every or (a in names and b in names))


def _barrier(tick: FeedTick, info: FeedInfo) -> Ts:
    """How far any table may go, by all that has been judged."""
    stop = tick.changes.stop
    held = stop.ts - 1 if stop else MAX_TS
    change = info.change.ts if info.change is not None and info.change.ts else MAX_TS
    point = tick.point.barrier
    rows = info.snapshot_ts if info.indexes_due else MAX_TS
    pending = global_barrier(tick.changes.pending)
    return min(info.target_ts or MAX_TS, held, change, point, rows, pending)


def _progress(tick: FeedTick, seen: FeedInput, info: FeedInfo, report: Report | None) -> FeedStatus:
    """Checkpoint = min over tables, barrier = how far anybody may go."""
    barrier = min(tick.scanned_ts, _barrier(tick, info))
    status, stops, synced = seen.status, tick.stops, seen.synced
    checkpoint, main, tables = status.checkpoint_ts, _main(status), dict(status.tables)
    named = {s.table: s for s in status.stopped_tables if s.table in stops}
    names = status.transactions | (report.transactions if report else {})
    if report:
        main = max(main, report.checkpoint_ts)
        tables = {t.lower(): ts for t, ts in report.table_checkpoints.items() if ts < main}
        least = min([report.checkpoint_ts, *tables.values(), *_held(tick).values()])
        checkpoint = max(checkpoint, least)
        for table, at in stops.items():
            reached = min(tables.get(table, report.checkpoint_ts), report.checkpoint_ts)
            if reached >= at.ts - 1:
                named[table] = TableStop(table=table, ts=at.ts, error=at.error)
    return FeedStatus(
        checkpoint_ts=checkpoint,
        resolved_ts=max(status.resolved_ts, seen.resolved_ts),
        main_ts=main,
        tables=tables,
        barrier_ts=max(barrier, checkpoint),
        stopped_tables=sorted(named.values(), key=lambda s: (s.ts, s.table)),
        transactions={ts: names[ts] for ts in sorted({main, *tables.values()}) if ts in names},
        snapshot=(report.snapshot if report else None) or status.snapshot,
        sync_point_ts=synced.ts if synced and not synced.error else status.sync_point_ts,
    )


def _react(
    tick: FeedTick,
    seen: FeedInput,
    info: FeedInfo,
    report: Report | None,
    status: FeedStatus,
    now_ms: int,
) -> tuple[FeedTick, FeedInfo]:
    """Fire at most one event of the state machine."""
    event, error = _event(tick, seen, info, report, status, now_ms)
    if event is None or not allowed(info.state, event):
        return tick, info
    state = transition(info.state, event, info.id)
    changes: dict[str, object] = {"state": state, "error": error}
    retry = tick.retry
    if event is FeedEvent.TRANSIENT_ERROR:
        retry = retry.failed(now_ms, seen.policy)
    elif event is FeedEvent.RETRY:
        changes["epoch"] = next_epoch(info.epoch, now_ms)
        retry = retry.retried(status.checkpoint_ts)
    elif event is FeedEvent.ADVANCED:
        retry = retry.succeeded()
    return replace(tick, retry=retry), info.model_copy(update=changes)


def _event(
    tick: FeedTick,
    seen: FeedInput,
    info: FeedInfo,
    report: Report | None,
    status: FeedStatus,
    now_ms: int,
) -> tuple[FeedEvent | None, ErrorInfo | None]:
    drained = report is not None and report.checkpoint_ts >= status.barrier_ts
    if info.state is FeedState.PENDING:
        if tick.retry.exhausted(now_ms, seen.policy):
            return FeedEvent.STUCK, info.error
        if now_ms >= tick.retry.next_ms:
            return FeedEvent.RETRY, info.error
        return None, None
    if info.state not in RUNNING:
        return None, None
    if seen.log_error:
        return FeedEvent.FATAL_ERROR, seen.log_error
    if seen.changer_error:
        return event_of_error(seen.changer_error.kind), seen.changer_error
    if report and report.error:
        return event_of_error(report.error.kind), report.error
    if report and info.lacks_rows and (error := fails(info, report)):
        return FeedEvent.FATAL_ERROR, error
    stop = tick.changes.stop
    if stop and drained and status.barrier_ts == stop.ts - 1:
        return FeedEvent.FATAL_ERROR, stop.error
    # A sync point at its end is written before it has ended; a new owner must look for it first.
    unknown = seen.sync_interval_ms > 0 and not tick.pointed
    at_point = unknown or 0 < tick.point.ts <= info.target_ts
    at_end = info.target_ts and status.checkpoint_ts >= info.target_ts
    if at_end and not at_point and not info.indexes_due:
        if info.lacks_rows:
            return FeedEvent.FATAL_ERROR, rows_missing(info, now_ms)
        return FeedEvent.TARGET_REACHED, None
    if seen.upstream_error and drained:
        return FeedEvent.FATAL_ERROR, seen.upstream_error
    if status.stopped_tables:
        first = status.stopped_tables[0].error
        if info.state is FeedState.NORMAL or info.error != first:
            return FeedEvent.TABLE_STOPPED, first
        return None, None
    if (
        info.state is FeedState.WARNING
        and report
        and report.running
        and _moved(tick, status, drained)
    ):
        return FeedEvent.ADVANCED, None
    return None, None


def _moved(tick: FeedTick, status: FeedStatus, drained: bool) -> bool:
    return drained or status.checkpoint_ts > tick.retry.checkpoint_ts
