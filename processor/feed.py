"""One changefeed on this capture: a thread that turns its log into windows, until it must stop.

Windows of a changefeed follow one another; nothing of a window counts as delivered before
all of its tasks have acknowledged. After any failure the order is: new epoch, fence, read the
ledger, plan (design, section 4.5).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import ErrorKind, FencedError, TidegateError, TransientError, text_of_foreign
from cdc.base.parts import Parts
from cdc.base.position import Position, Stand, TransactionName, stand
from cdc.base.ts import MAX_TS, Ts
from cdc.changelog.index import Runs
from cdc.changelog.origin import load
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import (
    Assignment,
    CopiedRows,
    CopyReport,
    ErrorInfo,
    FeedInfo,
    Names,
    Report,
    TableStop,
)
from cdc.schema.table import Table
from cdc.snapshot.log import SnapshotRows
from cdc.snapshot.servers import SourceServers
from filter.copied import CopiedTables
from processor.acknowledged import Acknowledged
from processor.catalog import (
    DeliveredTables,
    Replicated,
    Span,
    TableNotRouted,
    Unfit,
    delivered_tables,
)
from processor.ddl_horizon import DdlHorizon
from processor.failures import failure
from processor.feed_lines import FeedLines
from processor.feed_service import FeedService
from processor.jobs import JobRunner
from processor.log_news import Awaited
from processor.measured import Measured
from processor.phase import Phase, Phases
from processor.placed_tables import dealt, placed_destinations
from processor.reporter import Reporter
from processor.settings import ProcessorSettings
from processor.slot import remove_older
from processor.standing import Standing, passed, together
from processor.table_copying import TableCopying
from processor.takeover import Takeover
from processor.task_messages import Ack, Descriptor, FeedPlan
from processor.transaction_names import TransactionNames, strangers
from processor.window import Window, group, reach, take, weigh
from processor.window_pace import WindowPace
from processor.window_size import WindowSize, may_be_too_much
from sink.contract import RECOVERY_BITS, Destination, Recovered
from sink.errors import WindowTooLarge
from sink.open import sink_of

_log = logging.getLogger("processor")

# Failures that are mended here, without a word to the owner: a worker or a connection died.
_QUIET_ATTEMPTS = 4
# A sink that is away longer than this must be seen, however slowly its attempts fail.
_QUIET_S = 10.0
# So long a window that would end at a DDL waits for the owner to judge it: else many DDLs make many
# small windows, each with the price of a job.
_JUDGING_S = 0.2
# A window of so few bytes of the log is delivered at once: those of others may wait for it.
_SMALL = 64 << 10
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


class LogDisagrees(TransientError):
    """The log gives other ts than the one that a position of the ledger belongs to."""

    code = "TG:ErrLogDisagrees"


class EpochUsedUp(FencedError):
    """The sink was taken over so often in one epoch that only a new one has numbers left."""

    code = "TG:ErrEpochUsedUp"


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
        self.window_size = window_size or WindowSize(settings.window_bytes, settings.window_bytes)
        self._info = info
        self._acknowledged = acknowledged
        # What the owner said last, and what this turn goes by: nothing of it changes in a turn.
        self._newest = self._assignment = assignment
        self._log = log
        self._horizon = DdlHorizon(log)
        self._transactions = TransactionNames(log, known or {})
        self._log_disagrees = log_disagrees
        self._log_folder = log_folder
        self._rows_before = rows
        self._server = server
        self._copied_rows = copied_rows
        self._repeatable = assignment.repeatable
        self._copying: TableCopying | None = None
        self._jobs = jobs
        self._lines = lines or FeedLines.of(1)
        self._settings = settings
        self._register_slots = register_slots
        self._clock = clock
        self._phases = Phases(info.id)
        self._config = FeedConfig.model_validate(info.config)
        self._standing = Standing(
            Position(assignment.checkpoint_ts),
            {table: Position(ts) for table, ts in assignment.tables.items()},
        )
        self._told: tuple[Standing, Names] = self._standing, {}
        self._stops: dict[str, TableStop] = {}
        self._recoveries = 0
        self._told_copied: CopyReport | None = None
        # None: the sink must be taken over, for the first time or anew.
        self._taken: Takeover | None = None
        self._catalog: DeliveredTables | None = None
        self._backoff = Backoff(settings.retry_first_s, max_s=settings.retry_max_s)
        self._failing_since: float | None = None
        self._last_watermark = 0.0
        self._measured = Measured(info.id, clock)
        # Bytes of the turn's job, and when that began.
        self._tried: tuple[int, float] | None = None
        self._pace = WindowPace()
        self._awaited_ts: Ts = 0
        self._reach: Ts = 0
        self._awaited: Awaited | None = None
        self._service = FeedService()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._parts = parts or Parts()
        self._part = self._parts.make(
            f"changefeed {info.id}", self._go_on, self._stopping, changefeed=info.id
        )
        self._reporter = Reporter(publish, settings, clock, self._part, self._stopping)

    @property
    def epoch(self) -> int:
        """The epoch of its assignment."""
        return self._assignment.epoch

    @property
    def alive(self) -> bool:
        """Whether it still delivers."""
        return self._part.alive

    @property
    def pauses(self) -> bool:
        """Whether the copy that goes on beside it is paused."""
        return self._copying is not None and self._copying.paused

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
        if self._copying is not None:
            self._copying.stop(0)
        self._service.end()
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
        self._assignment, self._tried = self._newest, None
        self._reach = self._upper()
        self._leave_rows()
        self._follow_order()
        taken = self._taken
        # Where all stands at one position, a new layout can begin.
        if taken is None or (taken.kept and taken.at_one_position(self._standing)):
            taken = self._recover()
            # The owner may wait for it where nothing can be delivered: no change runs before.
            with self._lines.work.outside():
                self._report()
        if self._copying is not None:
            self._copying.answer(self._standing, taken.starts.values(), self._assignment.ties)
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
            if self._tried is not None and self._assignment.barrier_ts == MAX_TS:
                ended = self._clock.monotonic()
                rests.append(self._pace.rest_s(began, ended, self._tried[0]))
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

    def _follow_order(self) -> None:
        """Copy rows beside, if that is asked for; what was copied is then told."""
        order, copying = self._assignment.copy_order, self._copying
        if copying is not None and (order is None or order.id != copying.order.id):
            copying.stop(0)
            self._copying = copying = None
        if order is not None and copying is None and self._server is not None:
            self._copying = copying = TableCopying(
                order, self._info, self._log_folder, self._jobs, self._settings, self._server,
                self._clock, self._parts, self._wake.set, self._copied_rows,
            )  # fmt: skip
            copying.start()
        if copying is not None and order is not None:
            copying.pause(order.paused)
        if copying is not None and copying.copied is not self._told_copied:
            self._told_copied = copying.copied
            self._reporter.owed = True

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
            or self._copying is not None
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
        """Take the sink over, with destinations for the tables at ``at`` and those ``beside``.

        Tables that the log knows to come have them too, so that they need no recovery of their own.
        """
        self._phases.enter(Phase.TAKING_OVER)
        slots = self._register_slots(
            self._info.id, self._settings.slots_per_core * self._jobs.parallelism
        )
        if self._recoveries + 1 == 1 << RECOVERY_BITS:
            # One more would be the owner's next epoch: the owner begins that.
            raise EpochUsedUp("no recovery is left in it", object=f"epoch {self._assignment.epoch}")
        self._recoveries += 1
        epoch = (self._assignment.epoch << RECOVERY_BITS) + self._recoveries
        if self._catalog is None:
            lowest = self._standing.lowest().resolved()
            self._catalog = DeliveredTables(
                self._log, self._info.start_ts, self._config, known_above=lowest
            )
        catalog, main = self._catalog, self._standing.main
        newest = self._log.refresh().resolved_ts
        catalog.refresh(newest)
        sink = sink_of(self._info.sink_uri, self._config)
        rows, begin_ts = self._rows_before, self._begin_ts
        first_rows = rows is not None and not rows.between
        if first_rows or (self._repeatable and main <= Position(begin_ts)):
            copied = CopiedTables(self._config)
            # Between the two ts of the rows nothing changes what tables there are.
            there = delivered_tables(catalog.at(self._info.snapshot_ts), self._config)
            first = sink.first_rows(self._config.snapshot.on_existing)
            chosen = [t for t in there if (t.schema, t.name) in copied]
            with self._lines.taking_over():
                first.prepare(self._info.ledger_id, chosen)
        repeatable = self._repeatable or (rows is not None and rows.repeated)
        if repeatable:
            sink = sink.repeatable()
        driver = sink.driver()
        known: dict[str, Table] = {}
        last, asked = catalog.at(newest), catalog.at(main.ts if at is None else at)
        for schemas in [last] if last is asked else [last, asked]:
            known |= {t.full_name: t for t in delivered_tables(schemas, self._config)}
        known |= {t.full_name: t for t in beside}
        begun = main > Position(begin_ts)
        # Single tables may stand lower: a destination that is ahead with one of them is ahead.
        here, tables = self._standing.stand(), list(known.values())
        self._phases.enter(Phase.FENCING)
        with self._lines.taking_over():
            found = driver.recover(self._info.ledger_id, epoch, slots, tables, here, begun=begun)
        if found.recorded:
            self._acknowledged.check(found.positions)
        self._check_log(found)
        self._service.begin(sink)
        self._phases.enter(Phase.PLANNING)
        stands = {d: stand(p) for d, p in found.positions.items()}
        taken = self._taken = Takeover(
            plan=self._planned(epoch, slots, found, repeatable=repeatable),
            sink=sink,
            driver=driver,
            catalog=catalog,
            starts={d: p for d, p in stands.items() if not passed(p, self._standing)},
            kept=found.kept,
            parted=found.parted,
            recorded=found.recorded,
        )
        # All tables were placed by what the target is now, behind every change that has run.
        catalog.crossed(min(newest, self._upper()), self._caps(taken))
        catalog.use(sink.routes(found.layout))
        return taken

    @property
    def _begin_ts(self) -> Ts:
        """Above which something was delivered; rows that were lost may have been before that."""
        return self._info.snapshot_ts if self._info.again is not None else self._info.start_ts

    def _check_log(self, found: Recovered) -> None:
        """Raises LogDisagrees if a position does not lie where this log has its transaction."""
        self._transactions.take(found.positions.values())
        names = self._transactions.names(self._standing)
        here = Stand(*self._standing.main, self._standing.tables, names)
        strange = strangers([here, *found.positions.values()], self._log, load(self._log_folder))
        if not strange:
            return
        self._log_disagrees(self._info.upstream)
        ts, name = strange[0]
        raise LogDisagrees(
            f"the position at ts {ts} lies behind {name}, which the change log has elsewhere",
            object=f"changefeed {self._info.id}",
            position=f"{len(strange)} positions",
            hint="nothing to do: the log is pulled anew, with the ts that ledgers have",
        )

    def _planned(self, epoch: int, slots: int, found: Recovered, *, repeatable: bool) -> FeedPlan:
        run_folder = self._log_folder / "run" / self._info.id
        # What an older epoch left: recovery has fenced it, so its slots protect nothing any more.
        remove_older(run_folder, epoch)
        return FeedPlan(
            feed=self._info.ledger_id,
            epoch=epoch,
            log_folder=str(self._log_folder),
            start_ts=self._info.start_ts,
            sink_uri=self._info.sink_uri,
            config=self._info.config,
            slots=slots,
            run_folder=str(run_folder / str(epoch)),
            layout=found.layout,
            rows=self._rows_before,
            log=begun.log if (begun := load(self._log_folder)) is not None else "",
            repeatable=repeatable,
        )

    def _deliver(self, taken: Takeover, window: Window) -> None:
        taken.catalog.refresh(window.hi.ts)
        caps = self._caps(taken)
        late, caught = self._late(taken, caps)
        runs, hi = self._cut(taken, window)
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
            groups = self._groups(weights, tables.values())
            self._run_job(taken, window, hi, weights, groups, spans, after, watermark, runs)
        self._standing = after
        taken = self._taken = taken.after(after)
        taken.catalog.collect(after.lowest().resolved())
        self._reporter.owed = True

    def _late(self, taken: Takeover, caps: Mapping[str, Ts]) -> tuple[Runs, dict[str, Position]]:
        """Runs that tables catch up, and up to where they are complete, a share of a window each.

        Others wait for no more than a window's work.
        """
        whole = taken.sink.whole_transactions
        behind = self._standing.behind(caps)
        parts, caught = [], {}
        for table, span in behind.items():
            ids = taken.catalog.ids_of(table)
            size = max(1, self.window_size.now // len(behind))
            runs, caught[table] = take(self._log, span.lo, span.hi, ids, size, whole=whole)
            parts.append(runs)
        return Runs.concat(parts), together(caught, behind, self._assignment.ties)

    def _cut(self, taken: Takeover, window: Window) -> tuple[Runs, Position]:
        """The window's runs and its end."""
        if window.lo == window.hi:
            return Runs.empty(), window.hi
        size, whole = self.window_size.now, taken.sink.whole_transactions
        return take(self._log, window.lo, window.hi, taken.catalog.ids, size, whole=whole)

    def _caps(self, taken: Takeover) -> dict[str, Ts]:
        """Tables of which nothing above a ts is delivered: the owner's, our own stops, parted.

        Tables that stand lower catch up no further than any table may go: a log that was made anew
        is still on its way to where the others stand.
        """
        caps = dict.fromkeys(self._standing.tables, self._reach)
        for more in (
            self._assignment.table_barriers,
            {name: stop.ts - 1 for name, stop in self._stops.items()},
            self._copying.caps if self._copying else {},
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
                self._stop_table(one.name, ts, one.error)
            spans = self._standing.spans(hi, self._caps(taken), caught)

    def _stop_table(self, name: str, ts: Ts, error: TidegateError) -> None:
        known = self._stops.get(name.lower())
        if known is None or ts < known.ts:
            _log.warning("changefeed %s: stops at ts %d: %s", self._info.id, ts, error)
            said = ErrorInfo(**error.to_dict(), time_ms=self._clock.now_ms())
            self._stops[name.lower()] = TableStop(table=name, ts=ts, error=said)

    def _run_job(
        self,
        taken: Takeover,
        window: Window,
        hi: Position,
        weights: Mapping[Destination, int],
        groups: Sequence[tuple[str, list[Destination]]],
        spans: Mapping[str, Span],
        after: Standing,
        watermark: Ts | None,
        runs: Runs,
    ) -> None:
        size = sum(weights.values())
        names = self._transactions.names(after)
        at_once = self.window_size.at_once(len(groups))
        descriptors = [
            Descriptor(
                plan=taken.plan,
                lo=window.lo,
                hi=hi,
                destinations=tuple(sorted(g)),
                starts={d: taken.starts[d] for d in g if d in taken.starts},
                spans=spans,
                held=after.held(),
                watermark=watermark,
                acknowledged={d: at for d in g if (at := self._acknowledged.of(d)) is not None},
                at_once=at_once,
                transactions=names,
                log_bytes=sum(weights[d] for d in g),
                capture=capture,
            )
            for capture, g in groups
        ]
        places = ", ".join(sorted({topic for topic, _ in weights}))
        self._phases.enter(Phase.DELIVERING)
        self._tried = (size, self._clock.monotonic())
        what = f"{self._info.id}: {size >> 10} KiB to {len(weights)} destinations of {places}"
        timeout_s = self._settings.job_timeout_s * max(1.0, size / self._settings.window_bytes)
        if hi >= window.hi:
            # Behind this window it is idle, if nothing that concerns it comes meanwhile.
            self._awaited = self._awaits()
        with self._lines.work.outside(), self._measured.job():
            acks = self._jobs.run(descriptors, what[:200], timeout_s, self._shared(size))
        if taken.recorded:
            for ack in acks:
                self._acknowledged.add(ack.reached)
        self._check(taken, acks, runs)
        self.window_size = self.window_size.delivered(size)
        self._measured.delivered(acks, hi.ts)

    def _groups(
        self, weights: Mapping[Destination, int], tables: Collection[Replicated]
    ) -> list[tuple[str, list[Destination]]]:
        """The destinations of each task of a window, and whose workers are to deliver it."""
        size = sum(weights.values())
        tasks = 1 if size <= self._settings.single_task_bytes else self._jobs.parallelism
        if not self._assignment.placed:
            return [("", g) for g in group(weights, tasks)]
        destinations: dict[str, set[Destination]] = {}
        for one in tables:
            destinations.setdefault(one.name.lower(), set()).update(one.route.destinations())
        captures = self._jobs.captures
        placed = placed_destinations(self._assignment.placed, destinations, captures)
        return dealt(weights, placed, tasks, captures)

    def _shared(self, size: int) -> str:
        """Windows of which changefeeds may go in one job with this one: those of the same servers.

        What is large, or has just failed, goes by itself.
        """
        if size > _SMALL or self._failing_since is not None or self._backoff.attempt:
            return ""
        sink = urlsplit(self._info.sink_uri)
        return f"{sink.scheme}://{sink.netloc}"

    def _check(self, taken: Takeover, acks: Sequence[Ack], runs: Runs) -> None:
        """Raise what went wrong; a table whose rows cannot be delivered stops, and no other."""
        found = failure(acks, kept=taken.kept)
        if found is None:
            return
        error, table = found
        ours = np.isin(runs.table, taken.catalog.ids_of(table.lower())) if table else None
        if table is None or ours is None or not ours.any():
            raise error
        self._stop_table(table, int(runs.commit_ts[ours].min()), error)
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
        said = ErrorInfo(**error.to_dict(), time_ms=self._clock.now_ms()) if error else None
        standing, names = self._progress(error)
        report = Report(
            feed=self._info.id,
            epoch=self._assignment.epoch,
            checkpoint_ts=standing.main.resolved(),
            resolved_ts=self._log.state.resolved_ts,
            table_checkpoints=standing.checkpoints(),
            stopped_tables=list(self._stops.values()),
            error=said,
            rows=self._measured.rows,
            bytes=self._measured.bytes,
            running=self._taken is not None and error is None,
            transactions=names,
            copied=self._copying.copied if self._copying else None,
            barrier_ts=self._assignment.barrier_ts,
            furthest_ts=self._furthest_ts(),
        )
        self._reporter.tell(report)

    def _furthest_ts(self) -> Ts:
        """Above which no destination has a row; before the sink was taken over, nobody knows."""
        ahead: list[Position] = list(self._taken.starts.values()) if self._taken else []
        here: Ts = max(at.ts for at in (self._standing.main, *self._standing.tables.values()))
        return max([here, *(at.ts for at in ahead)])

    def _shrunk(self, error: TidegateError) -> bool:
        """Whether windows are smaller from here on, as the turn's may have been too much."""
        if self._tried is None or self._taken is None:
            return False
        (size, began), before = self._tried, self.window_size
        if may_be_too_much(error, self._clock.monotonic() - began, self._taken.sink.patience_s):
            self.window_size = before.failed(size)
        return self.window_size.now < before.now

    def _failed(self, error: TidegateError, began: float) -> bool:
        """Deal with a failed turn; False if the owner must decide how it goes on."""
        if self._stopping.is_set():
            return False
        _log.warning("changefeed %s: %s", self._info.id, error)
        self._measured.failed(error)
        shrunk = self._shrunk(error)
        self._taken = None
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
