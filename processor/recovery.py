"""Taking a changefeed's sink over, at its begin and after any failure: fence, read, plan.

A new epoch of the sink fences whoever was there before, its ledger says what was delivered, and a
plan for workers is made of both (design, section 4.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cdc.base.clock import Clock
from cdc.base.errors import FencedError
from cdc.base.position import Position, Stand, stand
from cdc.base.ts import Ts
from cdc.changelog.origin import load
from cdc.changelog.reader import ChangeLog
from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import FeedInfo
from cdc.schema.table import Table
from cdc.snapshot.log import SnapshotRows
from filter.copied import CopiedTables
from processor.acknowledged import Acknowledged
from processor.catalog import DeliveredTables, delivered_tables
from processor.feed_lines import FeedLines
from processor.feed_service import FeedService
from processor.jobs import JobRunner
from processor.log_agreement import LogAgreement
from processor.phase import Phase, Phases
from processor.settings import ProcessorSettings
from processor.slot import remove_older
from processor.standing import Standing, passed
from processor.takeover import Takeover
from processor.task_messages import FeedPlan
from processor.transaction_names import TransactionNames
from sink.contract import RECOVERY_BITS, Recovered, Sink
from sink.open import sink_of


class EpochUsedUp(FencedError):
    """The sink was taken over so often in one epoch that only a new one has numbers left."""

    code = "TG:ErrEpochUsedUp"


class Recovery:
    """Of one changefeed in one epoch; used by its thread, but for ``end``.

    ``register_slots``: told a changefeed and how many slots it would have, says how many it has.
    ``log_disagrees`` is told the upstream whose log has positions elsewhere than a ledger.
    """

    def __init__(
        self,
        info: FeedInfo,
        log: ChangeLog,
        log_folder: Path,
        jobs: JobRunner,
        settings: ProcessorSettings,
        register_slots: Callable[[str, int], int],
        acknowledged: Acknowledged,
        transactions: TransactionNames,
        log_disagrees: Callable[[str], None],
        lines: FeedLines,
        phases: Phases,
        clock: Clock,
    ) -> None:
        self._info = info
        self._config = FeedConfig.model_validate(info.config)
        self._log = log
        self._log_folder = log_folder
        self._jobs = jobs
        self._settings = settings
        self._register_slots = register_slots
        self._acknowledged = acknowledged
        self._transactions = transactions
        self._agreement = LogAgreement(info, log, log_folder, log_disagrees, clock)
        self._lines = lines
        self._phases = phases
        self._service = FeedService()
        self._catalog: DeliveredTables | None = None
        self._count = 0

    def end(self) -> None:
        """End what the sink offers beside delivery, for good."""
        self._service.end()

    def take_over(
        self,
        epoch: int,
        standing: Standing,
        rows: SnapshotRows | None,
        at: Ts | None,
        beside: Iterable[Table],
        *,
        repeatable: bool,
    ) -> Takeover:
        """Take the sink over, with destinations for the tables at ``at`` and those ``beside``.

        Tables that the log knows to come have them too, so that they need no recovery of their own.
        ``epoch`` is the owner's, ``rows`` those that were there before, if some are left. Raises
        LogDisagrees, PositionAhead, EpochUsedUp, LedgerWentBack, LogBehindLedger, and what the
        sink raises.
        """
        self._phases.enter(Phase.TAKING_OVER)
        slots = self._register_slots(
            self._info.id, self._settings.slots_per_core * self._jobs.parallelism
        )
        sink_epoch = self._next_epoch(epoch)
        if self._catalog is None:
            lowest = standing.lowest().resolved()
            self._catalog = DeliveredTables(
                self._log, self._info.start_ts, self._config, known_above=lowest
            )
        catalog, main = self._catalog, standing.main
        newest_ts = self._log.refresh().resolved_ts
        catalog.refresh(newest_ts)
        sink = sink_of(self._info.sink_uri, self._config)
        if self._begins_with(rows, main, repeatable=repeatable):
            self._prepare_first_rows(sink, catalog)
        repeats = repeatable or (rows is not None and rows.repeated)
        if repeats:
            sink = sink.repeatable()
        driver = sink.driver()
        known: dict[str, Table] = {}
        last, asked = catalog.at(newest_ts), catalog.at(main.ts if at is None else at)
        for schemas in [last] if last is asked else [last, asked]:
            known |= {t.full_name: t for t in delivered_tables(schemas, self._config)}
        known |= {t.full_name: t for t in beside}
        begun = main > Position(self._begin_ts)
        # Single tables may stand lower: a destination that is ahead with one of them is ahead.
        here, tables = standing.stand(), list(known.values())
        self._phases.enter(Phase.FENCING)
        with self._lines.taking_over():
            found = driver.recover(
                self._info.ledger_id, sink_epoch, slots, tables, here, begun=begun
            )
        if found.recorded:
            self._acknowledged.check(found.positions)
        self._check_log(found, standing)
        self._service.begin(sink)
        self._phases.enter(Phase.PLANNING)
        stands = {d: stand(p) for d, p in found.positions.items()}
        return Takeover(
            plan=self._planned(sink_epoch, slots, found, rows, repeatable=repeats),
            sink=sink,
            driver=driver,
            catalog=catalog,
            starts={d: p for d, p in stands.items() if not passed(p, standing)},
            kept=found.kept,
            parted=found.parted,
            recorded=found.recorded,
            newest_ts=newest_ts,
        )

    def _next_epoch(self, epoch: int) -> int:
        """The sink's next epoch in the owner's."""
        if self._count + 1 == 1 << RECOVERY_BITS:
            # One more would be the owner's next epoch: the owner begins that.
            raise EpochUsedUp("no recovery is left in it", object=f"epoch {epoch}")
        self._count += 1
        return (epoch << RECOVERY_BITS) + self._count

    def _begins_with(self, rows: SnapshotRows | None, main: Position, *, repeatable: bool) -> bool:
        """Whether rows that were there before come next: the sink may have to make room for them.

        They may have been lost, and be repeated, with nothing delivered behind them.
        """
        first_rows = rows is not None and not rows.between
        return first_rows or (repeatable and main <= Position(self._begin_ts))

    def _prepare_first_rows(self, sink: Sink, catalog: DeliveredTables) -> None:
        copied = CopiedTables(self._config)
        # Between the two ts of the rows nothing changes what tables there are.
        there = delivered_tables(catalog.at(self._info.snapshot_ts), self._config)
        first = sink.first_rows(self._config.snapshot.on_existing)
        chosen = [t for t in there if (t.schema, t.name) in copied]
        with self._lines.taking_over():
            first.prepare(self._info.ledger_id, chosen)

    @property
    def _begin_ts(self) -> Ts:
        """Above which something was delivered; rows that were lost may have been before that."""
        return self._info.snapshot_ts if self._info.again is not None else self._info.start_ts

    def _check_log(self, found: Recovered, standing: Standing) -> None:
        """Raises LogDisagrees, PositionAhead."""
        self._transactions.take(found.positions.values())
        names = self._transactions.names(standing)
        here = Stand(*standing.main, standing.tables, names)
        self._agreement.check([here, *found.positions.values()])

    def _planned(
        self,
        epoch: int,
        slots: int,
        found: Recovered,
        rows: SnapshotRows | None,
        *,
        repeatable: bool,
    ) -> FeedPlan:
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
            rows=rows,
            log=begun.log if (begun := load(self._log_folder)) is not None else "",
            repeatable=repeatable,
        )
