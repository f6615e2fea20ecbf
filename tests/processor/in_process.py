"""The processor's pipeline without Spark: real log, real delivery, real broker, one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cdc.base.clock import Clock, SystemClock
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import Assignment, FeedInfo, Report
from processor.delivery import FeedDelivery
from processor.feed import Feed
from processor.settings import ProcessorSettings
from processor.task_messages import Ack, Descriptor
from tests.e2e.capture_process import until


class WorkerDied(Exception):
    """What Spark says of a task whose worker is gone."""


class InProcessJobs:
    """Runs tasks one after the other; ``after(job, task)`` may raise as if a worker had died."""

    parallelism = 2

    def __init__(self, after: Callable[[int, int], None] = lambda job, task: None) -> None:
        self.jobs: list[Sequence[Descriptor]] = []
        self._after = after
        self._deliveries: dict[int, FeedDelivery] = {}

    def run(self, descriptors: Sequence[Descriptor], description: str) -> list[Ack]:
        """One job."""
        self.jobs.append(descriptors)
        acks = []
        for task, descriptor in enumerate(descriptors):
            acks.append(self._delivery(task, descriptor).deliver(descriptor))
            self._after(len(self.jobs) - 1, task)
        return acks

    def close(self) -> None:
        """End all producers."""
        for delivery in self._deliveries.values():
            delivery.discard()

    def _delivery(self, task: int, descriptor: Descriptor) -> FeedDelivery:
        known = self._deliveries.get(task)
        if known is None or known.plan != descriptor.plan:
            if known is not None:
                known.discard()
            known = self._deliveries[task] = FeedDelivery(descriptor.plan)
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
        **settings: Any,
    ) -> None:
        self.log = ChangeLog.open(folder)
        self.jobs = jobs
        self.reports: list[Report] = []
        self._ended = threading.Event()
        self.upto = self.log.state.resolved_ts
        info = FeedInfo(
            id=feed, upstream="u", sink_uri=sink_uri, config=config, start_ts=start_ts, epoch=epoch
        )
        assignment = Assignment(
            feed=feed,
            epoch=epoch,
            run=True,
            checkpoint_ts=start_ts if checkpoint_ts is None else checkpoint_ts,
            barrier_ts=self.upto if barrier_ts is None else barrier_ts,
            tables=starts or {},
            table_barriers=barriers or {},
        )
        self._assignment = assignment
        chosen = ProcessorSettings(single_task_bytes=0, retry_first_s=0.01, **settings)
        self.feed = Feed(
            info, assignment, self.log, folder, jobs, chosen, lambda feed, count: count,
            self.reports.append, clock or SystemClock(),
        )  # fmt: skip
        self.feed.start()

    def lift(self, *ties: tuple[str, str]) -> None:
        """The owner lets all tables go on; ``ties`` are those that foreign keys hold together."""
        change = {"table_barriers": {}, "ties": list(ties)}
        self.feed.update(self._assignment.model_copy(update=change))

    def hold(self, barriers: dict[str, int], barrier_ts: int) -> None:
        """The owner's new barriers."""
        update = {"table_barriers": barriers, "barrier_ts": barrier_ts}
        self.feed.update(self._assignment.model_copy(update=update))

    def through(self) -> Report:
        """Wait until all of the log is delivered, but for tables that have stopped."""

        def all_of_it() -> bool:
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
