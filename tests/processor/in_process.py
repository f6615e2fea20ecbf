"""The processor's pipeline without Spark: real log, real delivery, real broker, one process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from cdc.base.clock import Clock, SystemClock
from cdc.base.ts import MAX_TS
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, FeedInfo, Report
from cdc.snapshot.log import SnapshotRows, open_log
from cdc.snapshot.servers import SourceServers
from processor.acknowledged import Acknowledged
from processor.chunk_reading import ChunkRead, ChunkTask, read_chunk
from processor.delivery import FeedDelivery
from processor.feed import Feed
from processor.settings import ProcessorSettings
from processor.task_messages import Ack, Descriptor
from processor.window_size import WindowSize
from tests.waiting import until


class WorkerDied(Exception):
    """What Spark says of a task whose worker is gone."""


class InProcessJobs:
    """Runs tasks one after the other; ``after(job, task)`` may raise as if a worker had died."""

    parallelism = 2

    def __init__(self, after: Callable[[int, int], None] = lambda job, task: None) -> None:
        self.jobs: list[Sequence[Descriptor]] = []
        self.tended: list[frozenset[str]] = []
        self._after = after
        self._deliveries: dict[tuple[str, int], FeedDelivery] = {}

    def run(
        self, descriptors: Sequence[Descriptor], description: str, timeout_s: float, shared: str
    ) -> list[Ack]:
        """One job."""
        self.jobs.append(descriptors)
        acks = []
        for task, descriptor in enumerate(descriptors):
            acks.append(self._delivery(task, descriptor).deliver(descriptor))
            self._after(len(self.jobs) - 1, task)
        return acks

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        """Read chunks, one after the other."""
        return [read_chunk(task) for task in tasks]

    def tend(self, feeds: Collection[str]) -> None:
        """Note for which changefeeds workers are kept."""
        self.tended.append(frozenset(feeds))

    def close(self) -> None:
        """End all producers."""
        for delivery in self._deliveries.values():
            delivery.discard()

    def _delivery(self, task: int, descriptor: Descriptor) -> FeedDelivery:
        plan = descriptor.plan
        at = (plan.feed.name, task)
        known = self._deliveries.get(at)
        if known is None or (known.plan != plan and not known.follow(plan)):
            if known is not None:
                known.discard()
            known = self._deliveries[at] = FeedDelivery(plan)
        return known


class Running:
    """A feed over a log, with the owner's part played by the test."""

    def __init__(
        self,
        folder: Path,
        sink_uri: str,
        config: dict[str, Any],
        jobs: InProcessJobs,
        *,
        start_ts: int,
        checkpoint_ts: int | None = None,
        epoch: int = 1,
        barriers: dict[str, int] | None = None,
        barrier_ts: int | None = None,
        starts: dict[str, int] | None = None,
        feed: str = "feed",
        clock: Clock | None = None,
        store: EmbeddedStore | None = None,
        window_size: WindowSize | None = None,
        incarnation: int = 0,
        rows: SnapshotRows | None = None,
        server: Callable[[threading.Event], SourceServers] | None = None,
        assigned: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.log = open_log(folder, rows)
        self.jobs = jobs
        self.store = store
        self._own_store: EmbeddedStore | None = None
        self.reports: list[Report] = []
        self._ended = threading.Event()
        self.upto = self.log.state.resolved_ts
        info = FeedInfo(
            id=feed, upstream="u", sink_uri=sink_uri, config=config, start_ts=start_ts,
            epoch=epoch, incarnation=incarnation,
        )  # fmt: skip
        assignment = Assignment(
            feed=feed,
            epoch=epoch,
            run=True,
            checkpoint_ts=start_ts if checkpoint_ts is None else checkpoint_ts,
            barrier_ts=self.upto if barrier_ts is None else barrier_ts,
            tables=starts or {},
            table_barriers=barriers or {},
            **{"judged_ts": MAX_TS, **(assigned or {})},
        )
        self._assignment = assignment
        settings = {
            "single_task_bytes": 0,
            "retry_first_s": 0.01,
            "report_interval_s": 0.0,
        } | settings
        chosen = ProcessorSettings(**settings)
        self.feed = Feed(
            info, assignment, self.log, folder, jobs, chosen, lambda feed, count: count,
            self.reports.append, clock or SystemClock(), self.acknowledged(info, folder),
            window_size, rows=rows, server=server,
        )  # fmt: skip
        self.feed.start()

    def acknowledged(self, info: FeedInfo, folder: Path) -> Acknowledged:
        """A store of its own, unless the test has one that outlives the feed."""
        if self.store is None:
            path = folder.parent / f"acknowledged-{uuid.uuid4()}.db"
            self.store = self._own_store = EmbeddedStore(path, SystemClock())
        return Acknowledged(self.store, Keys(), info.ledger_id, SystemClock())

    def lift(self, *ties: tuple[str, str]) -> None:
        """The owner lets all tables go on; ``ties`` are those that foreign keys hold together."""
        change = {"table_barriers": {}, "ties": list(ties)}
        self.feed.update(self._assignment.model_copy(update=change))

    def hold(self, barriers: dict[str, int], barrier_ts: int) -> None:
        """The owner's new barriers."""
        update = {"table_barriers": barriers, "barrier_ts": barrier_ts}
        self._assignment = self._assignment.model_copy(update=update)
        self.feed.update(self._assignment)

    def judge(self, ts: int) -> None:
        """The owner has judged all schema changes up to ``ts``, and holds none."""
        self._assignment = self._assignment.model_copy(update={"judged_ts": ts})
        self.feed.update(self._assignment)

    def pause(self, paused: bool) -> None:
        """The operator pauses the copy of rows, or resumes it; returns when that is so."""
        order = self._assignment.copy_order
        assert order is not None
        change = {"copy_order": order.model_copy(update={"paused": paused})}
        self._assignment = self._assignment.model_copy(update=change)
        self.feed.update(self._assignment)
        until(lambda: self.feed.pauses is paused, "it is paused or goes on")

    def rows_delivered(self) -> None:
        """The owner has stored that all rows are delivered that were there before."""
        self.feed.update(self._assignment.model_copy(update={"rows_delivered": True}))

    def through(self) -> Report:
        """Wait until all of the log is delivered, but for tables that have stopped."""

        def all_of_it() -> bool:
            if not self.reports:
                # Its thread has not come to say anything yet.
                return False
            report = self.reports[-1]
            assert self.feed.alive, report.error
            stopped = {stop.table.lower() for stop in report.stopped_tables}
            done = report.checkpoint_ts >= self.upto
            return done and report.table_checkpoints.keys() <= stopped

        until(all_of_it, "all of every table", 60)
        return self.reports[-1]

    def done(self) -> Report:
        """Wait until all of the log is delivered."""
        until(lambda: self.reports and self.reports[-1].checkpoint_ts >= self.upto, "all", 60)
        return self.reports[-1]

    def ended(self) -> Report:
        """Wait until it has given up; what it said last."""
        until(lambda: not self.feed.alive, "the feed ends", 60)
        return self.reports[-1]

    def stop(self) -> None:
        """End it."""
        self.feed.stop(10)
        self.jobs.close()
        self.log.close()
        if self._own_store is not None:
            self._own_store.close()
