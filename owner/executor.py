"""Executes schema changes beside the owner's ticks: a long one blocks neither ticks nor others.

What it holds of a changefeed belongs to one epoch; the truth is in the sink's ledger.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from cdc.base import measures
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError
from cdc.base.ts import Ts
from cdc.base.turn_line import TurnLine
from cdc.coord.messages import ErrorInfo, FeedInfo
from owner.changes import ChangeOutcome, Order
from owner.sync_points import SyncOutcome
from sink.schema_change import Recorded, SchemaChanger
from sink.sync_points import SyncPoints, none_kept

_log = logging.getLogger("owner.ddl")

# Changes of different tables may run side by side; more would only load the target.
_AT_ONCE = 4
# Sinks that are taken over at a time: each is asked much, and few clients of them are needed.
_TAKEN_OVER_AT_ONCE = 8

OpenChanger = Callable[[FeedInfo], SchemaChanger]
"""The changer of a changefeed in its epoch; raises invalid errors of its sink's configuration."""

OpenSyncPoints = Callable[[FeedInfo], SyncPoints]
"""Who writes sync points of a changefeed in its epoch; raises as ``OpenChanger``."""

MakeTables = Callable[[FeedInfo], None]
"""Makes tables that the target of a changefeed does not have, if its rows are to come into such."""


def no_tables(info: FeedInfo) -> None:
    """Makes none."""


def no_points(info: FeedInfo) -> SyncPoints:
    """Of changefeeds that have none."""
    return none_kept()


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """What is known of a changefeed's epoch: the ledger as it was found, and what has ended."""

    recorded: Mapping[Ts, Recorded] | None = None
    ties: tuple[tuple[str, str], ...] = ()
    error: ErrorInfo | None = None
    outcomes: tuple[ChangeOutcome, ...] = ()
    synced: SyncOutcome | None = None


@dataclass
class _Epoch:
    epoch: int
    pool: ThreadPoolExecutor
    changer: SchemaChanger | None = None
    recorded: Mapping[Ts, Recorded] | None = None
    ties: tuple[tuple[str, str], ...] = ()
    error: ErrorInfo | None = None
    outcomes: dict[Ts, ChangeOutcome] = field(default_factory=dict)
    synced: SyncOutcome | None = None


class Executor:
    """Changers of an owner's changefeeds; ``wake`` gets the name of one with something new."""

    def __init__(
        self,
        open_changer: OpenChanger,
        clock: Clock,
        wake: Callable[[str], None],
        make_tables: MakeTables = no_tables,
        open_points: OpenSyncPoints = no_points,
        line: TurnLine | None = None,
    ) -> None:
        self._line = line or TurnLine(_TAKEN_OVER_AT_ONCE)
        self._open_changer = open_changer
        self._open_points = open_points
        self._make_tables = make_tables
        self._clock = clock
        self._wake = wake
        self._guard = threading.Lock()
        self._epochs: dict[str, _Epoch] = {}

    def progress(self, info: FeedInfo) -> EpochProgress:
        """What is known of the changefeed's epoch; the first call of an epoch takes the sink over.

        Nothing of an older epoch is waited for: the sink fences it.
        """
        with self._guard:
            known = self._epochs.get(info.id)
            if known is None or known.epoch != info.epoch:
                if known is not None:
                    self._end(known)
                pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"ddl-{info.id}")
                known = self._epochs[info.id] = _Epoch(info.epoch, pool)
                pool.submit(self._take_over, known, info)
            return EpochProgress(
                known.recorded,
                known.ties,
                known.error,
                tuple(known.outcomes.values()),
                known.synced,
            )

    def knows(self, info: FeedInfo) -> bool:
        """Whether the sink was taken over in this epoch."""
        with self._guard:
            known = self._epochs.get(info.id)
            return known is not None and known.epoch == info.epoch

    def submit(self, feed: str, epoch: int, order: Order) -> None:
        """Execute an order; its outcome shows in ``progress`` until ``taken``."""
        with self._guard:
            known = self._epochs.get(feed)
            if known is not None and known.epoch == epoch:
                known.pool.submit(self._execute, known, feed, order)

    def submit_point(self, info: FeedInfo, ts: Ts) -> None:
        """Have a sync point written; its outcome shows in ``progress`` until the next one is."""
        with self._guard:
            known = self._epochs.get(info.id)
            if known is not None and known.epoch == info.epoch:
                # What an attempt before it came to is no word about this one.
                known.synced = None
                known.pool.submit(self._write_point, known, info, ts)

    def taken(self, feed: str, outcomes: tuple[ChangeOutcome, ...]) -> None:
        """The owner has written what these mean."""
        with self._guard:
            known = self._epochs.get(feed)
            if known is not None:
                for outcome in outcomes:
                    if known.outcomes.get(outcome.ts) is outcome:
                        del known.outcomes[outcome.ts]

    def forget_below(self, feed: str, ts: Ts) -> None:
        """Recorded changes at or below ``ts`` will not be asked for any more."""
        with self._guard:
            known = self._epochs.get(feed)
            if known is None or known.changer is None:
                return
            known.pool.submit(self._forget, known, feed, ts)

    def keep(self, feeds: set[str]) -> None:
        """End what belongs to other changefeeds than these."""
        with self._guard:
            for feed in self._epochs.keys() - feeds:
                self._end(self._epochs.pop(feed))

    def stop(self) -> None:
        """End everything; a statement that runs is left to its server."""
        self.keep(set())

    def _end(self, epoch: _Epoch) -> None:
        epoch.pool.shutdown(wait=False, cancel_futures=True)
        if epoch.changer is not None:
            threading.Thread(target=epoch.changer.close, daemon=True).start()

    def _take_over(self, epoch: _Epoch, info: FeedInfo) -> None:
        try:
            with self._line.inside():
                changer = self._open_changer(info)
                recorded = changer.take_over()
                # Before any row comes, and before it is asked what foreign keys tie together.
                self._make_tables(info)
                ties = tuple(changer.ties())
        except Exception as e:
            error = self._error(e, f"changefeed {info.id}")
            _log.warning("changefeed %s: schema changes cannot be taken over: %s", info.id, e)
            with self._guard:
                epoch.error = error
        else:
            with self._guard:
                epoch.changer, epoch.recorded, epoch.ties = changer, dict(recorded), ties
        self._wake(info.id)

    def _execute(self, epoch: _Epoch, feed: str, order: Order) -> None:
        ddl, changer = order.ddl, epoch.changer
        assert changer is not None
        assert ddl.change is not None
        change = replace(ddl.change, replicated=order.replicated)
        error: ErrorInfo | None = None
        ties = epoch.ties
        began = self._clock.monotonic()
        try:
            if order.skip:
                changer.skip(change)
            else:
                changer.execute(change)
                ties = tuple(changer.ties())
        except Exception as e:
            error = self._error(e, f"ts {ddl.ts}")
            took = self._clock.monotonic() - began
            _log.warning("changefeed %s: schema change at ts %d: %s", feed, ddl.ts, e)
        else:
            word = "left out" if order.skip else "executed"
            took = self._clock.monotonic() - began
            _log.info("changefeed %s: schema change at ts %d %s, %.3f s", feed, ddl.ts, word, took)
        if not order.skip:
            measures.DDL_SECONDS.labels(feed).observe(took)
        with self._guard:
            epoch.ties = ties
            epoch.outcomes[ddl.ts] = ChangeOutcome(ddl.ts, error)
        self._wake(feed)

    def _write_point(self, epoch: _Epoch, info: FeedInfo, ts: Ts) -> None:
        error: ErrorInfo | None = None
        try:
            self._open_points(info).write(ts)
        except Exception as e:
            error = self._error(e, f"ts {ts}")
            _log.warning("changefeed %s: sync point at ts %d: %s", info.id, ts, e)
        else:
            _log.debug("changefeed %s: sync point at ts %d written", info.id, ts)
        measures.SYNC_POINTS.labels(info.id, "failed" if error else "written").inc()
        with self._guard:
            epoch.synced = SyncOutcome(ts, error)
        self._wake(info.id)

    def _forget(self, epoch: _Epoch, feed: str, ts: Ts) -> None:
        assert epoch.changer is not None
        try:
            epoch.changer.forget_below(ts)
        except Exception as e:
            # What stays is forgotten with the next one.
            _log.info("changefeed %s: %s", feed, e)

    def _error(self, error: Exception, position: str) -> ErrorInfo:
        now = self._clock.now_ms()
        if isinstance(error, TidegateError):
            said = ErrorInfo.of(error, now)
            return said if said.position else said.model_copy(update={"position": position})
        _log.exception("a schema change failed", exc_info=error)
        return ErrorInfo(
            code=TidegateError.code,
            kind=str(ErrorKind.INTERNAL),
            message=f"{type(error).__name__}: {error}"[:300],
            position=position,
            hint="see the capture's log",
            time_ms=now,
        )
