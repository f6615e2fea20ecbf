"""One tick of the owner for one changefeed: ``step(tick, inputs, now) -> (tick, effects)``.

Pure: it sees the changefeed, its report and the DDLs of the log, and says what to write. What
it promises: the checkpoint never goes back, and no assignment lets a table pass its barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc.base.ts import MAX_TS, Ts
from cdc.coord.messages import (
    Assignment,
    ErrorInfo,
    FeedInfo,
    FeedState,
    FeedStatus,
    Report,
    TableStop,
)
from owner.ddl import Ddl, Matches, Stop, TableName, stops
from owner.retry import Retry, RetryPolicy
from owner.state import ACTIVE, RUNNING, FeedEvent, allowed, event_of_error, transition


@dataclass(frozen=True, slots=True)
class FeedTick:
    """What the owner remembers of a changefeed between ticks; all of it can be found again.

    ``epoch``: the start of delivery that the rest belongs to. DDLs at or below ``scanned_ts``
    have been judged. ``table_stops``: tables held below a ts; ``stop``: the whole changefeed.
    """

    epoch: int = 0
    scanned_ts: Ts = 0
    table_stops: Mapping[str, Stop] = field(default_factory=dict)
    stop: Stop | None = None
    retry: Retry = field(default_factory=Retry)


@dataclass(frozen=True, slots=True)
class FeedInput:
    """What the owner sees of a changefeed now.

    ``ddls`` are those in ``(ddls_above, resolved_ts]``, in order; :func:`scan_from` says where to
    begin. ``upstream_error`` is a definite error of the upstream: its log will not grow any more.
    ``log_error``: the log itself cannot serve this changefeed.
    """

    info: FeedInfo
    status: FeedStatus
    report: Report | None
    resolved_ts: Ts
    ddls_above: Ts
    ddls: tuple[Ddl, ...]
    matches: Matches
    tables: tuple[TableName, ...] = ()
    upstream_error: ErrorInfo | None = None
    log_error: ErrorInfo | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class Effects:
    """What to write: each field is the new value, or None where nothing changes.

    ``assignment`` is always the value that should stand; the runner writes differences only.
    """

    assignment: Assignment
    info: FeedInfo | None = None
    status: FeedStatus | None = None


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
        tick = FeedTick(info.epoch, seen.status.checkpoint_ts, retry=tick.retry)
    tick = _judge(tick, seen, now_ms)
    report = seen.report if seen.report and seen.report.epoch == info.epoch else None
    if report:
        tick = _hold_reported(tick, report)
    status = _progress(tick, seen, info, report)
    tick, info = _react(tick, seen, info, report, status, now_ms)
    assignment = Assignment(
        feed=info.id,
        epoch=info.epoch,
        run=info.state in RUNNING,
        checkpoint_ts=status.checkpoint_ts,
        barrier_ts=status.barrier_ts,
        table_barriers={t: s.ts - 1 for t, s in tick.table_stops.items()},
    )
    return replace(tick, epoch=info.epoch), Effects(
        assignment,
        info if info != seen.info else None,
        status if status != seen.status else None,
    )


def _judge(tick: FeedTick, seen: FeedInput, now_ms: int) -> FeedTick:
    """Take in the DDLs that the log has resolved since the last tick."""
    if seen.ddls_above > tick.scanned_ts:
        # Not all of them were read: nothing beyond what has been judged may pass.
        return tick
    table_stops = dict(tick.table_stops)
    stop = tick.stop
    for ddl in seen.ddls:
        if ddl.ts <= tick.scanned_ts or ddl.ts > seen.resolved_ts or stop is not None:
            continue
        if ddl.touched is None:
            assert ddl.error is not None
            stop = Stop(ddl.ts, ddl.error)
            continue
        for table, at in stops(ddl, seen.matches, seen.tables, f"ts {ddl.ts}", now_ms).items():
            table_stops.setdefault(table, at)
    scanned = max(tick.scanned_ts, seen.resolved_ts)
    return replace(tick, scanned_ts=scanned, table_stops=table_stops, stop=stop)


def _hold_reported(tick: FeedTick, report: Report) -> FeedTick:
    """Tables that the processor itself had to stop are held where it stopped them."""
    table_stops = dict(tick.table_stops)
    for stopped in report.stopped_tables:
        known = table_stops.get(stopped.table)
        if known is None or stopped.ts < known.ts:
            table_stops[stopped.table] = Stop(stopped.ts, stopped.error)
    return replace(tick, table_stops=table_stops)


def _progress(tick: FeedTick, seen: FeedInput, info: FeedInfo, report: Report | None) -> FeedStatus:
    """Checkpoint = min over tables, barrier = how far anybody may go."""
    target = info.target_ts or MAX_TS
    held = tick.stop.ts - 1 if tick.stop else MAX_TS
    barrier = min(tick.scanned_ts, target, held)
    checkpoint = seen.status.checkpoint_ts
    stopped = {s.table: s for s in seen.status.stopped_tables if s.table in tick.table_stops}
    if report:
        least = min([report.checkpoint_ts, *report.table_checkpoints.values()])
        least = min([least, *(s.ts - 1 for s in tick.table_stops.values())])
        checkpoint = max(checkpoint, least)
        for table, stop in tick.table_stops.items():
            reached = min(
                report.table_checkpoints.get(table, report.checkpoint_ts), report.checkpoint_ts
            )
            if reached >= stop.ts - 1:
                stopped[table] = TableStop(table=table, ts=stop.ts, error=stop.error)
    return FeedStatus(
        checkpoint_ts=checkpoint,
        resolved_ts=max(seen.status.resolved_ts, seen.resolved_ts),
        barrier_ts=max(barrier, checkpoint),
        stopped_tables=sorted(stopped.values(), key=lambda s: (s.ts, s.table)),
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
    if report and report.error:
        return event_of_error(report.error.kind), report.error
    if tick.stop and drained and status.barrier_ts == tick.stop.ts - 1:
        return FeedEvent.FATAL_ERROR, tick.stop.error
    if info.target_ts and status.checkpoint_ts >= info.target_ts:
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
