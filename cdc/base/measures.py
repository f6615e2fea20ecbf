"""What the parts of a process count and time where it happens, in one registry for the process.

Each metric is made here, so that one place says what there is; docs/metrics.md is its table. What
can be computed when it is asked for is not here, but in ``cdc.server.scraped``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY: Final = CollectorRegistry()

# From a commit on a fast disk, over a window's job, to a schema change that copies a table.
_SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_WORK_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_LONG_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
_BYTES = tuple(4.0**n * 1024 for n in range(10))

_made: list[Counter | Histogram] = []


def _counter(name: str, text: str, *labels: str) -> Counter:
    made = Counter(f"tidegate_{name}", text, labels, registry=REGISTRY)
    _made.append(made)
    return made


def _histogram(name: str, text: str, buckets: Collection[float], *labels: str) -> Histogram:
    made = Histogram(f"tidegate_{name}", text, labels, buckets=tuple(buckets), registry=REGISTRY)
    _made.append(made)
    return made


FEED = "changefeed"
UPSTREAM = "upstream"

ROWS = _counter("changefeed_rows", "Rows delivered", FEED)
BYTES = _counter("changefeed_bytes", "Bytes delivered, before any compression", FEED)
SENT_BYTES = _counter(
    "changefeed_sent_bytes", "Bytes that went to the sink, compressed where it compresses", FEED
)
REQUESTS = _counter(
    "changefeed_sink_requests", "Batches of records, statements or files that rows went in", FEED
)
LOG_BYTES = _counter("changefeed_log_bytes", "Bytes of the change log read for delivery", FEED)
FILTERED = _counter(
    "changefeed_filtered_rows", "Rows left out by event types or value expressions", FEED
)
FEED_ERRORS = _counter("changefeed_errors", "Errors that a changefeed has shown", FEED, "code")
WINDOW_FAILURES = _counter(
    "changefeed_window_failures",
    "Windows that failed, those included that were mended without a word",
    *(FEED, "code"),
)
PHASE_SECONDS = _counter(
    "changefeed_phase_seconds", "Time of a changefeed's thread by what it did", FEED, "phase"
)
WINDOW_SECONDS = _histogram(
    "changefeed_window_seconds", "From cutting a window to its acknowledgement", _WORK_S, FEED
)
WINDOW_BYTES = _histogram("changefeed_window_bytes", "Bytes of the log in a window", _BYTES, FEED)
JOB_SECONDS = _histogram(
    "changefeed_job_seconds", "Jobs of windows, of Spark or of a resident worker", _WORK_S, FEED
)
TASK_SECONDS = _histogram("changefeed_task_seconds", "Tasks of windows", _WORK_S, FEED)
BORROWED_TASKS = _counter(
    "changefeed_borrowed_tasks", "Tasks of windows that other captures have run", FEED
)
LENT_TASKS = _counter("lent_tasks", "Tasks that were run for other captures")
DELIVERY_LAG = _histogram(
    "changefeed_delivery_lag_seconds",
    "Age of a window's last transaction when the window was delivered",
    *(_LONG_S, FEED),
)
DDL_SECONDS = _histogram(
    "changefeed_ddl_seconds", "Schema changes at the target, failed ones included", _LONG_S, FEED
)
SYNC_POINTS = _counter(
    "changefeed_sync_points",
    "Sync points by what became of them; one that failed is tried again",
    *(FEED, "outcome"),
)
UPSTREAM_ERRORS = _counter("upstream_errors", "Errors of pullers", UPSTREAM, "code")
PULLED_BYTES = _counter("upstream_pulled_bytes", "Bytes taken from the server", UPSTREAM)
SERVED_BYTES = _counter(
    "upstream_served_bytes",
    "Bytes of the change log that workers on other hosts have read",
    UPSTREAM,
)
REFUSED_READS = _counter(
    "log_server_refused", "Requests for a change log that the token shown does not open"
)
CONNECTIONS = _counter("upstream_connections", "Binlog streams that were opened", UPSTREAM)
COMMIT_SECONDS = _histogram(
    "upstream_commit_seconds", "Group commits of the log, with their fsync", _SHORT_S, UPSTREAM
)
STORE_SECONDS = _histogram(
    "store_operation_seconds", "Calls of the coordination store", _SHORT_S, "operation"
)
STORE_FAILURES = _counter(
    "store_failures", "Calls of the coordination store that failed", "operation"
)


def made() -> tuple[Counter | Histogram, ...]:
    """All of them."""
    return tuple(_made)


def keep(label: str, names: Collection[str]) -> None:
    """End the series whose ``label`` has a value that is not among ``names``."""
    for metric in _made:
        if label in metric._labelnames:
            for value in _values(metric, label) - set(names):
                metric.remove_by_labels({label: value})


def forget(label: str, name: str) -> None:
    """End the series of one value of a label."""
    for metric in _made:
        if label in metric._labelnames:
            metric.remove_by_labels({label: name})


def _values(metric: Counter | Histogram, label: str) -> set[str]:
    # Collecting all samples of a thousand changefeeds takes a tenth of a second.
    at = metric._labelnames.index(label)
    return {labels[at] for labels in list(metric._metrics)}
