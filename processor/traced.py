"""A window as a trace of OpenTelemetry: which of its parts ran when.

Workers export nothing: a task's answer says when it began and how long its parts took. So a trace
is made when its window has ended, of what was noted meanwhile.

https://opentelemetry.io/docs/specs/otel/trace/api/
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.trace import Span, StatusCode, Tracer

from cdc.base.ts import Ts, physical_ms
from processor.task_messages import Ack

_MS = 1_000_000


class WindowTrace:
    """One window after the other of a changefeed; moments are nanoseconds of the Unix epoch."""

    def __init__(self, feed: str, tracer: Tracer | None = None) -> None:
        self._feed = feed
        self._tracer = tracer or trace.get_tracer("tidegate")
        self.begin()

    def begin(self) -> None:
        """A window begins."""
        self._began = time.time_ns()
        self._jobs: list[tuple[int, int]] = []
        self._acks: tuple[Ack, ...] = ()
        self._upto: Ts = 0

    def job(self, began: int) -> None:
        """A job that began then has come back."""
        self._jobs.append((began, time.time_ns()))

    def delivered(self, acks: Sequence[Ack], upto: Ts) -> None:
        """What the tasks of the last job have done, up to a ts."""
        self._acks, self._upto = tuple(acks), upto

    def end(self, error: str = "") -> None:
        """The window has ended; one that had nothing to deliver is none.

        ``pull`` is from the upstream's own time of the last transaction until the window began: it
        was pulled, and waited for the window before. ``report`` is what was to be done behind the
        job: positions are kept, and told to the owner.
        """
        ended = time.time_ns()
        if not self._jobs:
            return
        window = self._span("window", None, self._began)
        window.set_attribute("tidegate.changefeed", self._feed)
        if self._upto:
            window.set_attribute("tidegate.ts", str(self._upto))
            window.set_attribute("tidegate.rows", sum(a.rows for a in self._acks))
            window.set_attribute("tidegate.log_bytes", sum(a.log_bytes for a in self._acks))
            committed = physical_ms(self._upto) * _MS
            if committed < self._began:
                self._span("pull", window, committed).end(self._began)
        since = self._began
        for began, back in self._jobs:
            self._span("plan", window, since).end(began)
            job, since = self._span("job", window, began), back
            if (began, back) == self._jobs[-1]:
                for ack in self._acks:
                    self._task(job, ack)
            job.end(back)
        if error:
            window.set_status(StatusCode.ERROR, error)
        else:
            self._span("report", window, since).end(ended)
        window.end(ended)

    def _task(self, job: Span, ack: Ack) -> None:
        task = self._span("task", job, ack.began_ns)
        task.set_attribute("tidegate.destinations", len(ack.destinations))
        task.set_attribute("tidegate.rows", ack.rows)
        at = ack.began_ns
        for part, seconds in ack.parts.items():
            span, at = self._span(part, task, at), at + int(seconds * 1e9)
            span.end(at)
        if ack.error is not None:
            task.set_status(StatusCode.ERROR, ack.error.get("code", ""))
        task.end(ack.began_ns + int(ack.seconds * 1e9))

    def _span(self, name: str, parent: Span | None, began: int) -> Span:
        context = trace.set_span_in_context(parent) if parent is not None else None
        return self._tracer.start_span(name, context, start_time=began)
