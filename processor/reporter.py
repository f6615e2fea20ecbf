"""Telling the owner how far a changefeed is: at once where somebody waits for it, else by time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cdc.base.backoff import Backoff
from cdc.base.clock import Clock
from cdc.base.errors import TransientError
from cdc.base.parts import Part
from cdc.coord.messages import Report
from processor.settings import ProcessorSettings


class Reporter:
    """Publishes the reports of one changefeed. ``rest_s`` is asked by its thread only."""

    def __init__(
        self,
        publish: Callable[[Report], None],
        settings: ProcessorSettings,
        clock: Clock,
        part: Part,
        stopping: threading.Event,
    ) -> None:
        self._publish = publish
        self._settings = settings
        self._clock = clock
        self._part = part
        self._stopping = stopping
        self._told_s: float | None = None
        self.owed = False

    @property
    def begun(self) -> bool:
        """Whether there was a report."""
        return self._told_s is not None

    @property
    def rest_s(self) -> float:
        """Seconds until progress that nobody waits for is told."""
        if self._told_s is None:
            return 0.0
        return self._told_s + self._settings.report_interval_s - self._clock.monotonic()

    def tell(self, report: Report) -> None:
        """Publish it, however long that takes, unless the changefeed is stopped meanwhile."""
        backoff = Backoff(self._settings.retry_first_s, max_s=self._settings.retry_max_s)
        while True:
            try:
                self._publish(report)
            except TransientError as e:
                # Nothing is wrong with what was delivered: it only cannot be said yet.
                self._part.failed(e)
                backoff = backoff.failed()
                if self._stopping.wait(backoff.delay_s()):
                    return
            else:
                self._part.well()
                self._told_s, self.owed = self._clock.monotonic(), False
                return
