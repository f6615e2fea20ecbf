"""One changefeed on this capture: a thread that turns its log into windows, until it must stop.

Windows of a changefeed follow one another; nothing of a window counts as delivered before
all of its tasks have acknowledged. After any failure the order is: new epoch, fence, read the
ledger, plan (design, section 4.5).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, TidegateError, TransientError, text_of_foreign
from cdc.base.parts import Parts
from cdc.base.position import Position, TransactionName
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import (
    Assignment,
    CopiedRows,
    ErrorInfo,
    FeedInfo,
    Names,
    Report,
)
from cdc.schema.table import Table
from cdc.snapshot.log import SnapshotRows
from cdc.snapshot.servers import SourceServers
from processor.acknowledged import Acknowledged
from processor.catalog import Replicated, Span, TableNotRouted, Unfit
from processor.ddl_horizon import DdlHorizon
from processor.failures import failure
from processor.feed_lines import FeedLines
from processor.jobs import JobRunner
from processor.log_news import Awaited
from processor.measured import Measured
from processor.ordered_copy import OrderedCopy
from processor.phase import Phase, Phases
from processor.recovery import Recovery
from processor.reporter import Reporter
from processor.settings import ProcessorSettings
from processor.standing import Standing
from processor.table_copying import TableCopying
from processor.table_stops import TableStops
from processor.takeover import Takeover
from processor.task_messages import Ack
from processor.transaction_names import TransactionNames
from processor.window import Window, reach, weigh
from processor.window_cutting import late_runs, main_runs
from processor.window_jobs import CutWindow, WindowJobs
from processor.window_pace import WindowPace
from processor.window_size import WindowSize
from sink.errors import WindowTooLarge

_log = logging.getLogger("processor")

# Failures that are mended here, without a word to the owner: a worker or a connection died.
_QUIET_ATTEMPTS = 4
# A sink that is away longer than this must be seen, however slowly its attempts fail.
_QUIET_S = 10.0
# So long a window that would end at a DDL waits for the owner to judge it: else many DDLs make many
# small windows, each with the price of a job.
_JUDGING_S = 0.2
# What was acknowledged last is written down even if nothing follows.
_SAVE_S = 1.0
# An idle upstream resolves at its heartbeats, a second apart: one that comes a little early counts,
# or every other one would be left out.
_WATERMARK_EARLY = 0.8


class WindowFailed(TransientError):
    """Spark could not run a window's job: a worker died, or an executor was lost."""

    code = "TG:ErrWindowFailed"


class TableHasStopped(TransientError):
    """A window failed for one table's rows: the others are delivered without it."""

    code = "TG:ErrTableHasStopped"


class Feed:
    """Delivers one changefeed in one epoch. ``update`` and ``stop`` come from other threads."""

    def __init__(
        self,
        info: FeedInfo,
        assignment: Assignment,
        log: ChangeLog,
        log_folder: Path,
        jobs: JobRunner,
        settings: ProcessorSettings,
        register_slots: Callable[[str, int], int],
        publish: Callable[[Report], None],
        clock: Clock,
        acknowledged: Acknowledged,
        window_size: WindowSize | None = None,
        parts: Parts | None = None,
        known: Mapping[Ts, TransactionName] | None = None,
        log_disagrees: Callable[[str], None] = lambda _: None,
        rows: SnapshotRows | None = None,
        server: Callable[[threading.Event], SourceServers] | None = None,
        copied_rows: Callable[[], CopiedRows | None] = lambda: None,
        lines: FeedLines | None = None,
    ) -> None:
        self._info = info
        self._acknowledged = acknowledged
        # What the owner said last, and what this turn goes by: nothing of it changes in a turn.
        self._newest = self._assignment = assignment
        self._log = log
        self._horizon = DdlHorizon(log)
        self._transactions = TransactionNames(log, known or {})
        self._rows_before = rows
        self._repeatable = assignment.repeatable
        self._lines = lines or FeedLines.of(1)
        self._settings = settings
        self._clock = clock
        self._phases = Phases(info.id)
        self._standing = Standing(
            Position(assignment.checkpoint_ts),
            {table: Position(ts) for table, ts in assignment.tables.items()},
        )
        self._told: tuple[Standing, Names] = self._standing, {}
        self._stops = TableStops(info.id, clock)
        # None: the sink must be taken over, for the first time or anew.
        self._taken: Takeover | None = None
        self._backoff = Backoff(settings.retry_first_s, max_s=settings.retry_max_s)
        self._failing_since: float | None = None
        self._last_watermark = 0.0
        self._measured = Measured(info.id, clock)
        self._jobs = WindowJobs(
            info, jobs, settings,
            window_size or WindowSize(settings.window_bytes, settings.window_bytes),
            acknowledged, self._transactions, self._measured, self._lines, clock,
        )  # fmt: skip
        self._recovery = Recovery(
            info, log, log_folder, jobs, settings, register_slots, acknowledged,
            self._transactions, log_disagrees, self._lines, self._phases, clock,
        )  # fmt: skip
        self._pace = WindowPace()
        self._awaited_ts: Ts = 0
        self._reach: Ts = 0
        self._awaited: Awaited | None = None
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._parts = parts or Parts()
        self._part = self._parts.make(
            f"changefeed {info.id}", self._go_on, self._stopping, changefeed=info.id
        )
        self._reporter = Reporter(publish, settings, clock, self._part, self._stopping)
        begin_copy = None
        if server is not None:
            begin_copy = partial(
                TableCopying, info=info, log_folder=log_folder, jobs=jobs, settings=settings,
                server=server, clock=clock, parts=self._parts, poke=self._wake.set,
                copied=copied_rows,
            )  # fmt: skip
        self._copies = OrderedCopy(begin_copy)

    @property
    def epoch(self) -> int:
        """The epoch of its assignment."""
        return self._assignment.epoch

    @property
    def alive(self) -> bool:
        """Whether it still delivers."""
        return self._part.alive

    @property
    def window_size(self) -> WindowSize:
        """How much the next window takes."""
        return self._jobs.size

    @property
    def pauses(self) -> bool:
        """Whether the copy that goes on beside it is paused."""
        return self._copies.paused

    @property
    def awaited(self) -> Awaited | None:
        """What it waits for, idle or with all else on its way; None if any news may be for it."""
        return self._awaited

    def start(self) -> None:
        """Begin to deliver."""
        self._part.start()

    def update(self, assignment: Assignment) -> None:
        """Take new barriers in; the same assignment again is no news."""
        if assignment is self._newest:
            return
        self._newest = assignment
        self._wake.set()

    def wake(self) -> None:
        """Look at the log again: it has resolved more."""
        self._wake.set()

    def stop(self, timeout_s: float) -> None:
        """End after the window that is being delivered, or leave it to recovery after a while."""
        self._stopping.set()
        self._wake.set()
        self._copies.stop()
        self._recovery.end()
        self._part.join(timeout_s)
        self._parts.forget(self._part)
        if self._part.alive:
            return
        try:
            if self._reporter.owed:
                self._report()
            if self._acknowledged.dirty:
                self._acknowledged.save()
        except TidegateError as e:
            # The sink's ledger says it to whoever comes next, who must not wait for this one.
            _log.warning("changefeed %s: its last progress is not told: %s", self._info.id, e)

    def _go_on(self) -> bool:
        """One window, or the error that it ended with; False if the owner must decide."""
        if not self._reporter.begun:
            self._report()
        began = self._clock.monotonic()
        try:
            self._turn()
            self._failing_since = None
        except TidegateError as e:
            return self._failed(e, began)
        except Exception as e:
            _log.exception("changefeed %s: window failed", self._info.id)
            unknown = WindowFailed(
                text_of_foreign(e),
                object=f"changefeed {self._info.id}",
                hint="see the capture's log",
            )
            return self._failed(unknown, began)
        return True

    def _turn(self) -> None:
        self._await_judgement()
        with self._lines.work.inside():
            rest_s = self._next()
        if self._reporter.owed and self._tells_now():
            self._report()
        if rest_s is None:
            self._idle()
        elif rest_s:
            self._stopping.wait(rest_s)

    def _next(self) -> float | None:
        """Deliver the next window; how long to rest behind it, or None if all is delivered."""
        # Before the log is looked at again: what comes from here on wakes it.
        self._awaited = None
        self._wake.clear()
        if self._newest.barrier_ts != self._assignment.barrier_ts:
            # The owner may wait to hear that it counts, though nothing moves.
            self._reporter.owed = True
        self._assignment, self._jobs.tried = self._newest, None
        self._reach = self._upper()
        self._leave_rows()
        if self._copies.follow(self._assignment.copy_order):
            self._reporter.owed = True
        taken = self._taken
        # Where all stands at one position, a new layout can begin.
        if taken is None or (taken.kept and taken.at_one_position(self._standing)):
            taken = self._recover()
            # The owner may wait for it where nothing can be delivered: no change runs before.
            with self._lines.work.outside():
                self._report()
        self._copies.answer(self._standing, taken.starts.values(), self._assignment.ties)
        window = self._next_window(taken)
        if window is None:
            return None
        if self._outgrown(taken, window):
            self._taken = None
            return 0.0
        began = self._clock.monotonic()
        with self._measured.window():
            self._deliver(taken, window)
        self._backoff = self._backoff.succeeded()
        rests = [self._settings.min_interval_s]
        all_now = self._standing.main >= window.hi
        # All up to now is delivered: rows gather, also for sinks to which each window costs files.
        if all_now:
            rests.append(taken.sink.interval_s)
            tried = self._jobs.tried
            if tried is not None and self._assignment.barrier_ts == MAX_TS:
                ended = self._clock.monotonic()
                rests.append(self._pace.rest_s(began, ended, tried.size))
        rest_s = max(rests)
        return None if all_now and not rest_s and self._nothing_else() else rest_s

    def _nothing_else(self) -> bool:
        """Whether only what wakes it brings work, now that all up to now is delivered."""
        taken = self._taken
        return taken is not None and not taken.kept and self._awaits() is not None

    def _leave_rows(self) -> None:
        """Give back the room of rows that were there before, once all of them are delivered.

        The owner says so, when its store knows: whoever goes on from there needs none of them.
        """
        rows, told = self._rows_before, self._assignment
        if told.repeatable is not self._repeatable:
            self._repeatable, self._taken = told.repeatable, None
        if rows is None:
            return
        if told.piece is None if rows.between else told.rows_delivered:
            # Workers have them open: the next recovery tells them of a log without.
            self._rows_before = self._taken = None
            rows.remove()

    def _outgrown(self, taken: Takeover, window: Window) -> bool:
        """Whether tables that pass a schema change in the window belong elsewhere behind it.

        The change has run, or its barrier would end the window below it.
        """
        upto = window.hi.ts
        taken.catalog.refresh(upto)
        caps = self._caps(taken)
        changed = taken.catalog.crossed(upto, caps)
        found = (taken.catalog.named(name, caps.get(name, upto)) for name in sorted(changed))
        return taken.driver.outgrown(taken.plan.layout, chain.from_iterable(found))

    def _idle(self) -> None:
        """Wait until it is woken; what is due meanwhile is told and written down."""
        self._phases.enter(Phase.IDLE)
        self._awaited = self._awaits()
        woken = False
        while not woken:
            self._acknowledged.save_in_time()
            if self._reporter.owed and self._reporter.rest_s <= 0:
                self._report()
            rests = [_SAVE_S] if self._acknowledged.dirty else []
            if self._reporter.owed:
                rests.append(self._reporter.rest_s)
            woken = self._wake.wait(min(rests, default=None))

    def _awaits(self) -> Awaited | None:
        """What may bring work, or None where progress itself is waited for: each step tells it."""
        taken = self._taken
        if taken is None:
            return None
        progress = (
            taken.driver.wants_watermarks
            or self._assignment.barrier_ts < MAX_TS
            or self._newest is not self._assignment
            or self._standing.tables
            or self._stops
            or self._caps(taken)
            or self._rows_before is not None
            or self._copies.under_way
        )
        return None if progress else taken.catalog.awaited

    def _await_judgement(self) -> None:
        """Give the owner time to judge the next DDL, once for each."""
        self._log.refresh()
        ddl_ts = self._horizon.first_unjudged(self._newest.judged_ts)
        if ddl_ts is None or ddl_ts <= self._awaited_ts:
            return
        self._awaited_ts = ddl_ts
        end = self._clock.monotonic() + _JUDGING_S
        while self._newest.judged_ts < ddl_ts and not self._stopping.is_set():
            if not self._wake.wait(max(0.0, end - self._clock.monotonic())):
                return
            self._wake.clear()

    def _upper(self) -> Ts:
        """How far any table may go by what the log has resolved and the owner has judged."""
        self._log.refresh()
        told = self._assignment
        return min(self._horizon.upto(told.judged_ts), told.barrier_ts)

    def _next_window(self, taken: Takeover) -> Window | None:
        main = self._standing.main
        window = reach(main, self._reach)
        furthest = max(taken.starts.values(), default=main)
        if window is not None and taken.parted and main < furthest < window.hi:
            # The layout that holds is right for what destinations have of it, and for no more.
            window = Window(main, Position(furthest.ts, furthest.row))
        if window is None and self._standing.behind(self._caps(taken)):
            return Window(main, main)
        return window

    def _recover(self, at: Ts | None = None, beside: Iterable[Table] = ()) -> Takeover:
        """Take the sink over, with destinations for the tables at ``at`` and those ``beside``."""
        taken = self._taken = self._recovery.take_over(
            self._assignment.epoch, self._standing, self._rows_before, at, beside,
            repeatable=self._repeatable,
        )  # fmt: skip
        # All tables were placed by what the target is now, behind every change that has run.
        taken.catalog.crossed(min(taken.newest_ts, self._upper()), self._caps(taken))
        taken.catalog.use(taken.sink.routes(taken.plan.layout))
        return taken

    def _deliver(self, taken: Takeover, window: Window) -> None:
        taken.catalog.refresh(window.hi.ts)
        caps = self._caps(taken)
        size, ties = self._jobs.size.now, self._assignment.ties
        late, caught = late_runs(self._log, taken, self._standing, caps, size, ties)
        runs, hi = main_runs(self._log, taken, window, size)
        runs = Runs.concat([late, runs]) if len(late) else runs
        spans = self._standing.spans(hi, caps, caught)
        passing = self._passing(taken, runs, hi, spans, caught)
        if passing is None:
            return
        taken, runs, spans, tables = passing
        weights = weigh(runs, {i: t.route for i, t in tables.items()})
        watermark = self._watermark(taken, hi, spans)
        if watermark is not None:
            weights = {d: weights.get(d, 0) for d in taken.plan.layout.destinations()}
        after = self._standing.after(hi, spans)
        if weights:
            cut = CutWindow(window.lo, hi, runs, spans, tables, weights, watermark, after)
            self._run_job(taken, cut, last=hi >= window.hi)
        self._standing = after
        taken = self._taken = taken.after(after)
        taken.catalog.collect(after.lowest().resolved())
        self._reporter.owed = True

    def _caps(self, taken: Takeover) -> dict[str, Ts]:
        """Tables of which nothing above a ts is delivered: the owner's, our own stops, parted.

        Tables that stand lower catch up no further than any table may go: a log that was made anew
        is still on its way to where the others stand.
        """
        caps = dict.fromkeys(self._standing.tables, self._reach)
        for more in (
            self._assignment.table_barriers,
            self._stops.caps(),
            self._copies.caps,
            taken.caps(self._standing),
        ):
            for name, ts in more.items():
                caps[name] = min(ts, caps.get(name, ts))
        return caps

    def _passing(
        self,
        taken: Takeover,
        runs: Runs,
        hi: Position,
        spans: dict[str, Span],
        caught: Mapping[str, Position],
    ) -> tuple[Takeover, Runs, dict[str, Span], dict[int, Replicated]] | None:
        """The runs that may be delivered, and their tables; one that cannot be stops at its first.

        Tables that no recovery has seen make the layout anew; None if another window must be cut
        for it.
        """
        catalog = taken.catalog
        new: dict[str, Table] = {}
        while True:
            runs = catalog.inside(runs, spans)
            try:
                tables = catalog.in_force(runs)
            except TableNotRouted as e:
                if e.table.full_name in new:
                    raise
                new[e.table.full_name] = e.table
                taken = self._recover(hi.ts, new.values())
                if taken.parted:
                    return None
                continue
            unfit = {i: t for i, t in tables.items() if isinstance(t, Unfit)}
            if not unfit:
                fit = {i: t for i, t in tables.items() if isinstance(t, Replicated)}
                keep = np.isin(runs.table, list(fit))
                return taken, (runs if keep.all() else runs.take(keep)), spans, fit
            for table_id, one in unfit.items():
                ts = int(runs.commit_ts[runs.table == table_id].min())
                self._stops.add(one.name, ts, one.error)
            spans = self._standing.spans(hi, self._caps(taken), caught)

    def _run_job(self, taken: Takeover, cut: CutWindow, *, last: bool) -> None:
        self._phases.enter(Phase.DELIVERING)
        if last:
            # Behind this window it is idle, if nothing that concerns it comes meanwhile.
            self._awaited = self._awaits()
        failing = self._failing_since is not None or self._backoff.attempt > 0
        acks = self._jobs.run(taken, cut, self._assignment.placed, alone=failing)
        self._check(taken, acks, cut.runs)
        self._jobs.delivered(cut, acks)

    def _check(self, taken: Takeover, acks: Sequence[Ack], runs: Runs) -> None:
        """Raise what went wrong; a table whose rows cannot be delivered stops, and no other."""
        found = failure(acks, kept=taken.kept)
        if found is None:
            return
        error, table = found
        ours = np.isin(runs.table, taken.catalog.ids_of(table.lower())) if table else None
        if table is None or ours is None or not ours.any():
            raise error
        self._stops.add(table, int(runs.commit_ts[ours].min()), error)
        raise TableHasStopped(error.message, object=table, hint="the other tables go on")

    def _watermark(self, taken: Takeover, hi: Position, spans: Mapping[str, Span]) -> Ts | None:
        now = time.monotonic()
        if not taken.driver.wants_watermarks:
            return None
        if now - self._last_watermark < _WATERMARK_EARLY * self._settings.watermark_interval_s:
            return None
        self._last_watermark = now
        # Rows of a table that waits are missing above its barrier.
        return min([hi.resolved(), *(span.hi.resolved() for span in spans.values())])

    def _tells_now(self) -> bool:
        """Whether to say at once how far it is: where a DDL or an operator may wait for it."""
        if self._taken is None:
            return False
        if self._reporter.rest_s <= 0:
            return True
        held = self._standing.main.resolved() >= self._reach < self._log.state.resolved_ts
        return held or bool(self._caps(self._taken))

    def _progress(self, error: TidegateError | None) -> tuple[Standing, Names]:
        """Where it stands, and what the upstream calls the transactions there.

        A log that cannot be read must not keep the ``error`` that says so from being told: then it
        is what was told last.
        """
        try:
            found = self._transactions.names(self._standing)
        except TidegateError:
            if error is None:
                raise
            return self._told
        self._told = self._standing, {t: n.to_list() for t, n in found.items()}
        return self._told

    def _report(self, error: TidegateError | None = None) -> None:
        shown = ErrorInfo.of(error, self._clock.now_ms()) if error else None
        standing, names = self._progress(error)
        report = Report(
            feed=self._info.id,
            epoch=self._assignment.epoch,
            checkpoint_ts=standing.main.resolved(),
            resolved_ts=self._log.state.resolved_ts,
            table_checkpoints=standing.checkpoints(),
            stopped_tables=self._stops.told(),
            error=shown,
            rows=self._measured.rows,
            bytes=self._measured.bytes,
            running=self._taken is not None and error is None,
            transactions=names,
            copied=self._copies.copied,
            barrier_ts=self._assignment.barrier_ts,
            furthest_ts=self._furthest_ts(),
        )
        self._reporter.tell(report)

    def _furthest_ts(self) -> Ts:
        """Above which no destination has a row; before the sink was taken over, nobody knows."""
        ahead: list[Position] = list(self._taken.starts.values()) if self._taken else []
        here: Ts = max(at.ts for at in (self._standing.main, *self._standing.tables.values()))
        return max([here, *(at.ts for at in ahead)])

    def _failed(self, error: TidegateError, began: float) -> bool:
        """Deal with a failed turn; False if the owner must decide how it goes on."""
        if self._stopping.is_set():
            return False
        _log.warning("changefeed %s: %s", self._info.id, error)
        self._measured.failed(error)
        taken, self._taken = self._taken, None
        shrunk = taken is not None and self._jobs.shrunk(error, taken.sink.patience_s)
        if shrunk and isinstance(error, WindowTooLarge):
            # There is something to try that has not been tried.
            return True
        self._backoff = self._backoff.failed()
        self._failing_since = began if self._failing_since is None else self._failing_since
        long = self._clock.monotonic() - self._failing_since > _QUIET_S
        few = self._backoff.attempt <= _QUIET_ATTEMPTS
        if error.kind is ErrorKind.TRANSIENT and few and not long:
            self._phases.enter(Phase.WAITING)
            self._stopping.wait(self._backoff.delay_s())
            return True
        if self._acknowledged.dirty:
            self._acknowledged.save()
        self._report(error)
        return False
