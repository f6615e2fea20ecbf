"""Sync points: now and then all tables of a changefeed stand at one ts, and the target notes it.

Pure steps. A point is a barrier of the whole changefeed at a multiple of the interval, above all
that any destination has, which the processor says: where a ledger is further than the checkpoint,
that point has been passed, and the next one is taken. When all stands at it, the sink writes it
down under the epoch's fence, and the barrier moves on.

A table that waits for an operator, or for longer than others should wait for it, has no place in a
point: then it is left out, and so are the next ones, until all tables come to one by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdc.base.ids import FeedId
from cdc.base.ts import MAX_TS, Ts, compose, physical_ms
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import DdlState, ErrorInfo
from owner.stands import Stands
from sink.contract import Sink

PATIENCE_MS = 30_000
_RETRY_FIRST_MS = 500
_RETRY_MAX_MS = 30_000
_NEEDS_OPERATOR = frozenset({DdlState.HELD, DdlState.FAILED})


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """How the writing of a point ended; ``error`` is None if it is written."""

    ts: Ts
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """The point that a changefeed comes to next, ``ts`` 0 if none; ``above``: the one before.

    ``since_ms``: since when tables stand at it and wait; ``ordered``: it is being written;
    ``retry_ms``: when it is tried again; ``hurried``: the one before was left out, so nobody waits
    at this one.
    """

    ts: Ts = 0
    above: Ts = 0
    since_ms: int = 0
    ordered: bool = False
    attempts: int = 0
    retry_ms: int = 0
    hurried: bool = False

    @property
    def barrier(self) -> Ts:
        """How far any table may go."""
        return self.ts or MAX_TS

    def due_ms(self, now_ms: int) -> int | None:
        """When it must be looked at though nothing happens; None: not by itself."""
        if self.ordered or not self.since_ms:
            return None
        return self.retry_ms if self.retry_ms > now_ms else self.since_ms + PATIENCE_MS


@dataclass(frozen=True, slots=True)
class SyncTurn:
    """A point after a turn; ``order``: it is to be written now; ``left_out``: one that will not be,
    and ``why``.
    """

    point: SyncPoint
    order: bool = False
    left_out: Ts = 0
    why: str = ""


def check_sync_points(config: FeedConfig, sink: Sink, feed: FeedId) -> None:
    """Raises SinkOptionNotSupported if points are asked of a sink that has none."""
    if config.enable_sync_point:
        sink.sync_points(feed, 0, config.sync_point_retention)


def advance(
    point: SyncPoint,
    interval_ms: int,
    at: Stands,
    outcome: SyncOutcome | None,
    now_ms: int,
) -> SyncTurn:
    """The point after a turn; ``interval_ms`` 0: none are asked for."""
    if point.ordered:
        if outcome is None or outcome.ts != point.ts:
            # Whoever writes it must have all stand there until it has ended.
            return SyncTurn(point)
        point = _concluded(point, outcome, now_ms)
    if not interval_ms or at.busy:
        # What is copied holds tables at places of their own.
        return SyncTurn(SyncPoint(above=point.above, hurried=point.hurried))
    furthest = _furthest(at)
    if not point.ts or furthest > point.ts:
        point = _next(point, max(furthest, point.above + 1 if point.above else 0), interval_ms)
    if not _come(point.ts, at):
        return SyncTurn(replace(point, since_ms=0))
    point = replace(point, since_ms=point.since_ms or now_ms)
    late = now_ms - point.since_ms >= PATIENCE_MS
    if at.all_at(point.ts):
        if point.attempts and late:
            return _left_out(point, interval_ms, "it cannot be written down")
        if point.retry_ms > now_ms:
            return SyncTurn(point)
        return SyncTurn(replace(point, ordered=True), order=True)
    apart = _apart(point.ts, at)
    if why := _waits_for_operator(point.ts, at):
        return _left_out(point, interval_ms, why, hurried=True)
    if late or (apart and point.hurried):
        why = f"{apart or 'its delivery'} has not come to it"
        return _left_out(point, interval_ms, why, hurried=bool(apart))
    return SyncTurn(point)


def _concluded(point: SyncPoint, outcome: SyncOutcome, now_ms: int) -> SyncPoint:
    if outcome.error is None:
        return SyncPoint(above=point.ts)
    delay = min(_RETRY_MAX_MS, _RETRY_FIRST_MS << min(point.attempts, 10))
    return replace(point, ordered=False, attempts=point.attempts + 1, retry_ms=now_ms + delay)


def _furthest(at: Stands) -> Ts:
    """What any table has at least been delivered to, as far as it is known."""
    found = [at.status.checkpoint_ts, at.status.main_ts, *at.status.tables.values()]
    if at.report is not None:
        found += [at.report.checkpoint_ts, at.report.furthest_ts]
    return max(found)


def _next(point: SyncPoint, lowest: Ts, interval_ms: int) -> SyncPoint:
    """The first multiple of the interval at or above ``lowest``."""
    ms = -(-physical_ms(lowest) // interval_ms) * interval_ms
    ts = compose(ms)
    if ts < lowest:
        ts = compose(ms + interval_ms)
    return SyncPoint(ts, point.above, hurried=point.hurried)


def _come(ts: Ts, at: Stands) -> bool:
    """Whether tables wait at a point: all but those that are apart."""
    return at.report is not None and at.report.running and at.report.checkpoint_ts >= ts


def _left_out(point: SyncPoint, interval_ms: int, why: str, *, hurried: bool = False) -> SyncTurn:
    after = _next(SyncPoint(above=point.ts, hurried=hurried), point.ts + 1, interval_ms)
    return SyncTurn(after, left_out=point.ts, why=why)


def _waits_for_operator(ts: Ts, at: Stands) -> str:
    """What has no place in a point until an operator acts; "" if there is nothing."""
    if at.status.stopped_tables:
        return f"{at.status.stopped_tables[0].table} has stopped"
    for p in at.pending:
        if p.ts <= ts and (p.obstacle is not None or p.state in _NEEDS_OPERATOR):
            return f"the schema change at ts {p.ts} waits for an operator"
    return ""


def _apart(ts: Ts, at: Stands) -> str:
    """A table that has not come to a point, or a change that lies before it; "" if none."""
    changes = (f"the schema change at ts {p.ts}" for p in at.pending if p.ts <= ts)
    return next(iter([*sorted(at.status.tables), *changes]), "")
