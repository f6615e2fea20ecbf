"""The job of a window: who delivers which destinations, and how much the next window takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.position import Position
from cdc.base.ts import Ts
from cdc.changelog.index import Runs
from cdc.coord.messages import FeedInfo
from processor.acknowledged import Acknowledged
from processor.catalog import Replicated, Span
from processor.feed_lines import FeedLines
from processor.jobs import JobRunner
from processor.measured import Measured
from processor.placed_tables import dealt, placed_destinations
from processor.settings import ProcessorSettings
from processor.standing import Standing
from processor.takeover import Takeover
from processor.task_messages import Ack, Descriptor
from processor.transaction_names import TransactionNames
from processor.window import group
from processor.window_size import WindowSize, may_be_too_much
from sink.contract import Destination

# A window of so few bytes of the log is delivered at once: those of others may wait for it.
_SMALL = 64 << 10


@dataclass(frozen=True, slots=True)
class CutWindow:
    """``(lo, hi]`` as it is delivered: ``runs`` of the log, and where all stand ``after`` it.

    ``spans``: what is taken of each table that is not simply in ``(lo, hi]``; ``tables``: by id
    those of the runs; ``weights``: bytes of the log by destination.
    """

    lo: Position
    hi: Position
    runs: Runs
    spans: Mapping[str, Span]
    tables: Mapping[int, Replicated]
    weights: Mapping[Destination, int]
    watermark: Ts | None
    after: Standing

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return sum(self.weights.values())


@dataclass(frozen=True, slots=True)
class TriedJob:
    """A job of ``size`` bytes of the log that began at ``began_s``, seconds (monotonic)."""

    size: int
    began_s: float


class WindowJobs:
    """Runs the windows of one changefeed, one after the other.

    ``size`` is how much the next one takes; ``tried`` the last job, until it is forgotten.
    """

    def __init__(
        self,
        info: FeedInfo,
        jobs: JobRunner,
        settings: ProcessorSettings,
        size: WindowSize,
        acknowledged: Acknowledged,
        transactions: TransactionNames,
        measured: Measured,
        lines: FeedLines,
        clock: Clock,
    ) -> None:
        self._info = info
        self._jobs = jobs
        self._settings = settings
        self.size = size
        self._acknowledged = acknowledged
        self._transactions = transactions
        self._measured = measured
        self._lines = lines
        self._clock = clock
        self.tried: TriedJob | None = None

    def run(
        self, taken: Takeover, cut: CutWindow, placed: Mapping[str, str], *, alone: bool
    ) -> list[Ack]:
        """The acknowledgements of a window's tasks, which are remembered.

        ``placed``: tables that were moved, by name their capture. ``alone``: no other changefeed's
        window goes in the same job. Raises as a JobRunner does.
        """
        groups = self._groups(cut, placed)
        names = self._transactions.names(cut.after)
        at_once = self.size.at_once(len(groups))
        descriptors = [
            Descriptor(
                plan=taken.plan,
                lo=cut.lo,
                hi=cut.hi,
                destinations=tuple(sorted(g)),
                starts={d: taken.starts[d] for d in g if d in taken.starts},
                spans=cut.spans,
                held=cut.after.held(),
                watermark=cut.watermark,
                acknowledged={d: at for d in g if (at := self._acknowledged.of(d)) is not None},
                at_once=at_once,
                transactions=names,
                log_bytes=sum(cut.weights[d] for d in g),
                capture=capture,
            )
            for capture, g in groups
        ]
        size = cut.size
        places = ", ".join(sorted({topic for topic, _ in cut.weights}))
        self.tried = TriedJob(size, self._clock.monotonic())
        what = f"{self._info.id}: {size >> 10} KiB to {len(cut.weights)} destinations of {places}"
        timeout_s = self._settings.job_timeout_s * max(1.0, size / self._settings.window_bytes)
        shared = "" if alone else self._shared(size)
        with self._lines.work.outside(), self._measured.job():
            acks = self._jobs.run(descriptors, what[:200], timeout_s, shared)
        if taken.recorded:
            for ack in acks:
                self._acknowledged.add(ack.reached)
        return acks

    def delivered(self, cut: CutWindow, acks: Sequence[Ack]) -> None:
        """Count a window whose tasks have delivered all of it."""
        self.size = self.size.delivered(cut.size)
        self._measured.delivered(acks, cut.hi.ts)

    def shrunk(self, error: TidegateError, patience_s: float) -> bool:
        """Whether windows are smaller from here on, as the tried one may have been too much.

        ``patience_s``: how long its sink waits for servers that are away.
        """
        if self.tried is None:
            return False
        before = self.size
        if may_be_too_much(error, self._clock.monotonic() - self.tried.began_s, patience_s):
            self.size = before.failed(self.tried.size)
        return self.size.now < before.now

    def _groups(
        self, cut: CutWindow, placed: Mapping[str, str]
    ) -> list[tuple[str, list[Destination]]]:
        """The destinations of each task of a window, and whose workers are to deliver it."""
        tasks = 1 if cut.size <= self._settings.single_task_bytes else self._jobs.parallelism
        if not placed:
            return [("", g) for g in group(cut.weights, tasks)]
        destinations: dict[str, set[Destination]] = {}
        for table in cut.tables.values():
            destinations.setdefault(table.name.lower(), set()).update(table.route.destinations())
        captures = self._jobs.captures
        by_capture = placed_destinations(placed, destinations, captures)
        return dealt(cut.weights, by_capture, tasks, captures)

    def _shared(self, size: int) -> str:
        """Windows of which changefeeds may go in one job with this one: those of the same servers.

        What is large goes by itself.
        """
        if size > _SMALL:
            return ""
        sink = urlsplit(self._info.sink_uri)
        return f"{sink.scheme}://{sink.netloc}"
