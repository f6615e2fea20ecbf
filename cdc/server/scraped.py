"""What is computed when metrics are asked for, so that nothing stands still with who computed it.

An age goes on when its ts does not, and a series ends with what it is about.
"""

from __future__ import annotations

import heapq
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cdc.base.clock import Clock
from cdc.base.parts import Parts
from cdc.base.ts import MAX_TS, Ts, physical_ms
from cdc.changelog.settings import ChangelogSettings
from cdc.coord.messages import (
    DdlEntries,
    DdlState,
    FeedInfo,
    FeedState,
    FeedStatus,
    UpstreamStatus,
    seconds_left,
)
from owner.copies import Reads

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
UPSTREAM_STATES = (
    *("starting", "connecting", "running", "paused"),
    *("retrying", "failed", "stopped", "unknown"),
)
PENDING_STATES = (DdlState.WAITING, DdlState.HELD, DdlState.EXECUTING, DdlState.FAILED)
SLOWEST = 10
"""So many tables of a changefeed are shown by name."""

_UNIT = ", in milliseconds since the epoch"
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]{0,30}(?=://)")


@dataclass(frozen=True, slots=True)
class SeenFeed:
    """What the owner saw of a changefeed in its last tick."""

    info: FeedInfo
    status: FeedStatus
    ddls: DdlEntries
    reads: Reads


class _Families:
    """Families by name, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def gauge(self, name: str, text: str, labels: Mapping[str, str], value: float) -> None:
        """One sample of a gauge; the label values are those of this sample."""
        self._add(GaugeMetricFamily, name, text, labels, value)

    def counter(self, name: str, text: str, labels: Mapping[str, str], value: float) -> None:
        """One sample of a counter that is counted elsewhere."""
        self._add(CounterMetricFamily, name, text, labels, value)

    def _add(
        self,
        kind: type[GaugeMetricFamily] | type[CounterMetricFamily],
        name: str,
        text: str,
        labels: Mapping[str, str],
        value: float,
    ) -> None:
        family = self._made.get(name)
        if family is None:
            family = self._made[name] = kind(f"tidegate_{name}", text, labels=list(labels))
        family.add_metric(list(labels.values()), value)

    def all(self) -> Iterator[Metric]:
        """The families."""
        yield from self._made.values()


class FeedsScraped(Collector):
    """Changefeeds, as their owner knows them; on other captures there are none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, SeenFeed] = {}
        self._captures = 0

    def see(self, seen: SeenFeed) -> None:
        """The owner has ticked it."""
        self._seen[seen.info.id] = seen

    def keep(self, feeds: Collection[str], captures: int) -> None:
        """These are all changefeeds there are, and so many captures."""
        self._captures = captures
        self._seen = {name: seen for name, seen in self._seen.items() if name in feeds}

    def forget(self, name: str) -> None:
        """It was removed."""
        self._seen.pop(name, None)

    def collect(self) -> Iterator[Metric]:
        """All families; none before the owner has seen anything."""
        now, made = self._clock.now_ms(), _Families()
        if self._captures:
            text = "Captures that hold a lease, as the owner sees them"
            made.gauge("cluster_captures", text, {}, self._captures)
        for seen in list(self._seen.values()):
            _feed(made, seen, now)
            _ddls(made, seen, now)
            _reads(made, seen)
        return made.all()


def _reads(made: _Families, seen: SeenFeed) -> None:
    """Copies of rows that are under way; a series ends when all of them are read."""
    for name, now in seen.reads.items():
        of = {"changefeed": seen.info.id, "snapshot": name}
        for metric, what, value in (
            ("tables", "Tables whose rows are copied", now.tables),
            ("read_tables", "Tables of which all rows are read", now.tables_done),
            ("read_rows", "Rows that were read", now.rows),
            ("read_bytes", "Bytes of rows that were read", now.bytes),
            ("expected_rows", "The server's guess of all rows; 0 without one", now.rows_expected),
        ):
            made.gauge(f"changefeed_snapshot_{metric}", what, of, value)
        left = seconds_left(now.rows, now.rows_expected, now.rows_per_second)
        if left is not None:
            text = "How long reading takes yet, at the speed of the last half minute"
            made.gauge("changefeed_snapshot_left_seconds", text, of, left)


def _feed(made: _Families, seen: SeenFeed, now_ms: int) -> None:
    info, status = seen.info, seen.status
    of = {"changefeed": info.id}
    scheme = _SCHEME.match(info.sink_uri.lower())
    about = of | {"upstream": info.upstream, "sink": scheme[0] if scheme else "unknown"}
    made.gauge("changefeed_info", "1; its upstream and the scheme of its sink", about, 1)
    made.gauge("changefeed_state", "State, in TiCDC's numbers", of, STATE_NUMBERS[info.state])
    for name, what, ts in (
        ("checkpoint", "checkpoint", status.checkpoint_ts),
        ("resolved", "resolved ts of its upstream's log", status.resolved_ts),
    ):
        if not ts:
            continue  # Not known yet: as a number it would be an age of decades.
        made.gauge(f"changefeed_{name}_ts", f"The {what}{_UNIT}", of, physical_ms(ts))
        lag = _age_s(ts, now_ms)
        made.gauge(f"changefeed_{name}_lag_seconds", f"Age of the {what}", of, lag)
    if 0 < status.barrier_ts < MAX_TS:
        text = f"Up to where it may go; no series where nothing stops it{_UNIT}"
        made.gauge("changefeed_barrier_ts", text, of, physical_ms(status.barrier_ts))
    if info.again is not None:
        text = "At most so many rows come twice, as those that it began with were lost"
        made.gauge("changefeed_snapshot_repeated_rows", text, of, info.again.rows)
    text = "Tables that have stopped until an operator acts"
    made.gauge("changefeed_stopped_tables", text, of, len(status.stopped_tables))
    text = "Tables that stand elsewhere than all others: they wait for a change, or have stopped"
    made.gauge("changefeed_waiting_tables", text, of, len(status.tables))
    slowest = heapq.nsmallest(SLOWEST, status.tables.items(), key=lambda one: one[1])
    for table, ts in slowest:
        text = f"Age of the checkpoints of the {SLOWEST} slowest of the tables that wait"
        made.gauge("changefeed_table_lag_seconds", text, of | {"table": table}, _age_s(ts, now_ms))


def _ddls(made: _Families, seen: SeenFeed, now_ms: int) -> None:
    of, ddls = {"changefeed": seen.info.id}, seen.ddls
    for state in PENDING_STATES:
        count = sum(entry.state is state for entry in ddls.pending)
        text = "Schema changes that have not ended, by where they stand"
        made.gauge("changefeed_pending_ddls", text, of | {"state": str(state)}, count)
    since = min((entry.since_ms for entry in ddls.pending if entry.since_ms), default=now_ms)
    text = "How long the oldest pending schema change has been known; 0: none is pending"
    made.gauge("changefeed_oldest_ddl_seconds", text, of, max(0.0, (now_ms - since) / 1000))
    came = {s.table: s.came for _, s in sorted(ddls.shard_stands.items(), reverse=True)}
    tables = {
        "came": sum(came.values()),
        "late": len(came) - sum(came.values()),
        "missing": sum(map(len, ddls.shard_missing.values())),
    }
    for stand, count in tables.items():
        text = "Tables of shard groups with a pending schema change, by where they stand at it"
        made.gauge("changefeed_shard_ddl_tables", text, of | {"stand": stand}, count)
    for result in ("executed", "skipped", "ignored"):
        text = "Schema changes that have ended, by how"
        count = getattr(ddls, result)
        made.counter("changefeed_ddls", text, of | {"result": result}, count)


class UpstreamsScraped(Collector):
    """Upstreams, as their pullers said last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, UpstreamStatus] = {}

    def see(self, name: str, status: UpstreamStatus) -> None:
        """Its puller has said something."""
        self._seen[name] = status

    def forget(self, name: str) -> None:
        """It was removed."""
        self._seen.pop(name, None)

    def collect(self) -> Iterator[Metric]:
        """All families."""
        now, made = self._clock.now_ms(), _Families()
        for name, status in list(self._seen.items()):
            _upstream(made, {"upstream": name}, status, now)
        return made.all()


def _upstream(made: _Families, of: Mapping[str, str], s: UpstreamStatus, now_ms: int) -> None:
    made.gauge("upstream_up", "1 while its puller has no error", of, 0 if s.error else 1)
    for state in UPSTREAM_STATES:
        text = "1 for the state that its puller is in"
        made.gauge("upstream_state", text, {**of, "state": state}, s.state == state)
    if s.resolved_ts:
        text = f"Resolved ts of the log{_UNIT}"
        made.gauge("upstream_resolved_ts", text, of, physical_ms(s.resolved_ts))
        lag = _age_s(s.resolved_ts, now_ms)
        made.gauge("upstream_resolved_lag_seconds", "Age of the log's resolved ts", of, lag)
    text = f"The log holds every transaction above it{_UNIT}"
    made.gauge("upstream_log_first_ts", text, of, physical_ms(s.first_ts))
    made.gauge("upstream_log_bytes", "Bytes of the change log", of, s.log_bytes)
    skew = s.clock_skew_ms / 1000
    made.gauge("upstream_clock_skew_seconds", "The server's clock minus ours", of, skew)
    text = "How far an event's time is in the future"
    made.gauge("upstream_time_ahead_seconds", text, of, s.ahead_ms / 1000)
    if s.anchored_ts:
        text = "The newest place where another log could begin: binlogs must reach back to it"
        made.gauge("upstream_anchored_ts", f"{text}{_UNIT}", of, physical_ms(s.anchored_ts))
    text = "XA transactions that are prepared for long"
    made.gauge("upstream_prepared_xa", text, of, len(s.prepared))
    pinned = max((p.log_bytes for p in s.prepared), default=0)
    text = "Bytes of the change log that stay for their sake"
    made.gauge("upstream_pinned_bytes", text, of, pinned)
    text = "How far the node that all others wait for is behind them"
    made.gauge("upstream_held_seconds", text, of, s.held_ms / 1000)


def _age_s(ts: Ts, now_ms: int) -> float:
    return max(0.0, (now_ms - physical_ms(ts)) / 1000) if ts else 0.0


class CaptureScraped(Collector):
    """The capture itself: its parts, what it is, and the disk of its logs."""

    def __init__(
        self, parts: Parts, version: str, logs: Path | None, settings: ChangelogSettings
    ) -> None:
        self._parts = parts
        self._version = version
        self._logs = logs
        self._settings = settings
        self.is_owner = False
        self.spark_up: Callable[[], bool] = lambda: False
        self.upstreams: Callable[[], Mapping[str, int]] = dict

    def collect(self) -> Iterator[Metric]:
        """All families."""
        made = _Families()
        made.gauge("build_info", "1; the version that runs", {"version": self._version}, 1)
        made.gauge("capture_is_owner", "1 on the owner", {}, self.is_owner)
        made.gauge("spark_up", "0 where Spark's JVM should run and does not", {}, self.spark_up())
        for state, count in self.upstreams().items():
            text = "Upstreams of this capture: held, coming to it or leaving it"
            made.gauge("capture_upstreams", text, {"state": state}, count)
        for name, trouble in self._parts.states().items():
            text = "0 while a part of the capture fails, or after it has ended"
            made.gauge("part_up", text, {"part": name}, 0 if trouble else 1)
        budget, reserve = self._settings.disk_budget_bytes, self._settings.free_space_reserve_bytes
        text = "changelog.disk-budget-bytes: what each log may have; 0: as much as there is"
        made.gauge("log_budget_bytes", text, {}, budget)
        text = "changelog.free-space-reserve-bytes: what logs leave free"
        made.gauge("log_reserve_bytes", text, {}, reserve)
        if self._logs is not None:
            free = shutil.disk_usage(self._logs).free
            made.gauge("log_free_bytes", "What the disk of the logs has free", {}, free)
        return made.all()
