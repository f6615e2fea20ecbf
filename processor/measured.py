"""What is measured of one changefeed's delivery; nothing is decided by it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cdc.base import measures
from cdc.base.clock import Clock
from cdc.base.errors import TidegateError
from cdc.base.ts import Ts, physical_ms
from processor.task_messages import Ack
from processor.traced import WindowTrace


class Measured:
    """Rows and bytes of an epoch for reports; what ``/metrics`` and traces show of windows."""

    def __init__(self, feed: str, clock: Clock) -> None:
        self._feed = feed
        self._clock = clock
        self._trace = WindowTrace(feed)
        self._jobs = 0
        self.rows = self.bytes = 0

    @contextmanager
    def window(self) -> Iterator[None]:
        """Time a window; one that had nothing to deliver is none."""
        began, jobs = self._clock.monotonic(), self._jobs
        self._trace.begin()
        try:
            yield
        except TidegateError as e:
            self._trace.end(e.code)
            raise
        self._trace.end()
        if self._jobs > jobs:
            took = self._clock.monotonic() - began
            measures.WINDOW_SECONDS.labels(self._feed).observe(took)

    @contextmanager
    def job(self) -> Iterator[None]:
        """Time a job that comes back."""
        began, at = self._clock.monotonic(), time.time_ns()
        yield
        self._jobs += 1
        self._trace.job(at)
        measures.JOB_SECONDS.labels(self._feed).observe(self._clock.monotonic() - began)

    def delivered(self, acks: Sequence[Ack], upto: Ts) -> None:
        """Count what the tasks of a window have done, up to a ts."""
        self._trace.delivered(acks, upto)
        self.rows += (rows := sum(a.rows for a in acks))
        self.bytes += (size := sum(a.bytes for a in acks))
        measures.ROWS.labels(self._feed).inc(rows)
        measures.BYTES.labels(self._feed).inc(size)
        measures.SENT_BYTES.labels(self._feed).inc(sum(a.sent_bytes for a in acks))
        measures.REQUESTS.labels(self._feed).inc(sum(a.requests for a in acks))
        measures.FILTERED.labels(self._feed).inc(sum(a.filtered for a in acks))
        log_bytes = sum(a.log_bytes for a in acks)
        measures.LOG_BYTES.labels(self._feed).inc(log_bytes)
        measures.WINDOW_BYTES.labels(self._feed).observe(log_bytes)
        for ack in acks:
            measures.TASK_SECONDS.labels(self._feed).observe(ack.seconds)
        age_ms = self._clock.now_ms() - physical_ms(upto)
        measures.DELIVERY_LAG.labels(self._feed).observe(max(0.0, age_ms / 1000))

    def failed(self, error: TidegateError) -> None:
        """Count a window that failed, whether it is shown or only tried again."""
        measures.WINDOW_FAILURES.labels(self._feed, error.code).inc()
