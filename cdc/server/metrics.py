"""Prometheus metrics of a capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.base.ts import Ts, physical_ms
from cdc.coord.messages import FeedInfo, FeedState, FeedStatus, Report, UpstreamStatus

# TiCDC's numbers (ticdc_owner_status), so that dashboards and alerts read the same.
STATE_NUMBERS = {
    FeedState.NORMAL: 0,
    FeedState.PENDING: 1,
    FeedState.FAILED: 2,
    FeedState.STOPPED: 3,
    FeedState.FINISHED: 4,
    FeedState.REMOVED: 5,
    FeedState.WARNING: 6,
}


class Metrics:
    """All gauges and counters; ``observe_*`` take what the owner and the pullers see."""

    def __init__(self, clock: Clock, parts: Parts | None = None) -> None:
        self.registry = CollectorRegistry()
        self._ages = _Ages(clock)
        self.registry.register(self._ages)
        self.registry.register(_PartsUp(parts or Parts()))
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        feed, upstream = ["changefeed"], ["upstream"]
        self._state = self._gauge("changefeed_state", "State number, as TiCDC's", feed)
        self._checkpoint = self._gauge("changefeed_checkpoint_ts", "Checkpoint ts", feed)
        self._resolved = self._gauge("changefeed_resolved_ts", "Resolved ts of its log", feed)
        self._barrier = self._gauge("changefeed_barrier_ts", "Barrier ts", feed)
        self._stopped = self._gauge("changefeed_stopped_tables", "Tables that have stopped", feed)
        self._rows = self._gauge("changefeed_rows", "Rows delivered in this epoch", feed)
        self._bytes = self._gauge("changefeed_bytes", "Bytes delivered in this epoch", feed)
        self._errors = Counter(
            "tidegate_changefeed_errors",
            "Errors by code",
            [*feed, "code"],
            registry=self.registry,
        )
        self._log_resolved = self._gauge("upstream_resolved_ts", "Resolved ts of the log", upstream)
        self._log_bytes = self._gauge("upstream_log_bytes", "Bytes of the change log", upstream)
        self._skew = self._gauge(
            "upstream_clock_skew_seconds", "The server's clock minus ours", upstream
        )
        self._ahead = self._gauge(
            "upstream_time_ahead_seconds", "How far an event's time is in the future", upstream
        )
        self._prepared = self._gauge(
            "upstream_prepared_xa", "XA transactions that are prepared for long", upstream
        )
        self._pinned = self._gauge(
            "upstream_pinned_bytes", "Bytes of the change log that stay for their sake", upstream
        )
        self._up = self._gauge("upstream_up", "1 while the puller has no error", upstream)
        self._upstream_errors = Counter(
            "tidegate_upstream_errors",
            "Errors of pullers by code",
            [*upstream, "code"],
            registry=self.registry,
        )
        self.is_owner = self._gauge("capture_is_owner", "1 on the owner", [])
        self._seen_errors: dict[str, tuple[str, int]] = {}
        self._seen_upstream_errors: dict[str, tuple[str, int]] = {}

    def _gauge(self, name: str, text: str, labels: list[str]) -> Gauge:
        return Gauge(f"tidegate_{name}", text, labels, registry=self.registry)

    def observe_feed(self, info: FeedInfo, status: FeedStatus, report: Report | None) -> None:
        """Called by the owner after each tick of a changefeed."""
        name = info.id
        self._state.labels(name).set(STATE_NUMBERS[info.state])
        self._checkpoint.labels(name).set(status.checkpoint_ts)
        self._ages.feeds[name] = status.checkpoint_ts
        self._resolved.labels(name).set(status.resolved_ts)
        self._barrier.labels(name).set(status.barrier_ts)
        self._stopped.labels(name).set(len(status.stopped_tables))
        if report is not None:
            self._rows.labels(name).set(report.rows)
            self._bytes.labels(name).set(report.bytes)
        if info.error is not None:
            seen = (info.error.code, info.error.time_ms)
            if self._seen_errors.get(name) != seen:
                self._seen_errors[name] = seen
                self._errors.labels(name, info.error.code).inc()

    def forget_feed(self, name: str) -> None:
        """Drop the series of a removed changefeed."""
        for gauge in (
            *(self._state, self._checkpoint, self._resolved, self._barrier),
            *(self._stopped, self._rows, self._bytes),
        ):
            gauge.remove_by_labels({"changefeed": name})
        self._ages.feeds.pop(name, None)
        self._errors.remove_by_labels({"changefeed": name})
        self._seen_errors.pop(name, None)

    def observe_upstream(self, name: str, status: UpstreamStatus) -> None:
        """Called whenever a puller says something."""
        self._log_resolved.labels(name).set(status.resolved_ts)
        self._ages.upstreams[name] = status.resolved_ts
        self._log_bytes.labels(name).set(status.log_bytes)
        self._skew.labels(name).set(status.clock_skew_ms / 1000)
        self._ahead.labels(name).set(status.ahead_ms / 1000)
        self._prepared.labels(name).set(len(status.prepared))
        self._pinned.labels(name).set(max((p.log_bytes for p in status.prepared), default=0))
        self._up.labels(name).set(0 if status.error else 1)
        if status.error is not None:
            seen = (status.error.code, status.error.time_ms)
            if self._seen_upstream_errors.get(name) != seen:
                self._seen_upstream_errors[name] = seen
                self._upstream_errors.labels(name, status.error.code).inc()

    def forget_upstream(self, name: str) -> None:
        """Drop the series of a removed upstream."""
        for gauge in (
            *(self._log_resolved, self._log_bytes, self._up),
            *(self._skew, self._ahead),
            *(self._prepared, self._pinned),
        ):
            gauge.remove_by_labels({"upstream": name})
        self._ages.upstreams.pop(name, None)
        self._upstream_errors.remove_by_labels({"upstream": name})
        self._seen_upstream_errors.pop(name, None)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)


class _Ages(Collector):
    """How old ts are when they are asked for: who no longer moves one must not stop its age too."""

    def __init__(self, clock: Clock) -> None:
        self.feeds: dict[str, Ts] = {}
        self.upstreams: dict[str, Ts] = {}
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """One family for each kind."""
        for kind, name, text, known in (
            ("changefeed", "checkpoint_lag", "Age of the checkpoint", self.feeds),
            ("upstream", "resolved_lag", "Age of the resolved ts of the log", self.upstreams),
        ):
            family = GaugeMetricFamily(f"tidegate_{kind}_{name}_seconds", text, labels=[kind])
            for label, ts in list(known.items()):
                family.add_metric([label], self._age_s(ts))
            yield family

    def _age_s(self, ts: Ts) -> float:
        return max(0.0, (self._clock.now_ms() - physical_ms(ts)) / 1000) if ts else 0.0


class _PartsUp(Collector):
    """The parts of the capture that do their work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterable[Metric]:
        """1 for a part that does its work, 0 for one that fails or has ended."""
        text = "0 while a part of the capture fails, or after it has ended"
        family = GaugeMetricFamily("tidegate_part_up", text, labels=["part"])
        for name, trouble in self._parts.states().items():
            family.add_metric([name], 0.0 if trouble else 1.0)
        return [family]
