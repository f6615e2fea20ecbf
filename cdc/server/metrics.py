"""Prometheus metrics of a capture."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from cdc.base.clock import Clock
from cdc.base.ts import physical_ms
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

    def __init__(self, clock: Clock) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        feed, upstream = ["changefeed"], ["upstream"]
        self._state = self._gauge("changefeed_state", "State number, as TiCDC's", feed)
        self._checkpoint = self._gauge("changefeed_checkpoint_ts", "Checkpoint ts", feed)
        self._lag = self._gauge(
            "changefeed_checkpoint_lag_seconds", "Age of the checkpoint at its last move", feed
        )
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
        self._log_lag = self._gauge("upstream_resolved_lag_seconds", "Age of that ts", upstream)
        self._log_bytes = self._gauge("upstream_log_bytes", "Bytes of the change log", upstream)
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
        self._lag.labels(name).set(self._age_s(status.checkpoint_ts))
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
            *(self._state, self._checkpoint, self._lag, self._resolved, self._barrier),
            *(self._stopped, self._rows, self._bytes),
        ):
            gauge.remove_by_labels({"changefeed": name})
        self._errors.remove_by_labels({"changefeed": name})
        self._seen_errors.pop(name, None)

    def observe_upstream(self, name: str, status: UpstreamStatus) -> None:
        """Called whenever a puller says something."""
        self._log_resolved.labels(name).set(status.resolved_ts)
        self._log_lag.labels(name).set(self._age_s(status.resolved_ts))
        self._log_bytes.labels(name).set(status.log_bytes)
        self._up.labels(name).set(0 if status.error else 1)
        if status.error is not None:
            seen = (status.error.code, status.error.time_ms)
            if self._seen_upstream_errors.get(name) != seen:
                self._seen_upstream_errors[name] = seen
                self._upstream_errors.labels(name, status.error.code).inc()

    def forget_upstream(self, name: str) -> None:
        """Drop the series of a removed upstream."""
        for gauge in (self._log_resolved, self._log_lag, self._log_bytes, self._up):
            gauge.remove_by_labels({"upstream": name})
        self._upstream_errors.remove_by_labels({"upstream": name})
        self._seen_upstream_errors.pop(name, None)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _age_s(self, ts: int) -> float:
        return max(0.0, (self._clock.now_ms() - physical_ms(ts)) / 1000) if ts else 0.0
