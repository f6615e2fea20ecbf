"""Dashboards of what is delivered: changefeeds, schema changes, sinks."""

from __future__ import annotations

from configs.grafana.panels import Dashboard, graph
from configs.grafana.shared import (
    FEED,
    INSTANCE,
    between,
    by_sink,
    checkpoint_lag,
    feed_states,
    increase,
    mean,
    of,
    quantiles,
    rate,
    ratio,
    rows,
    waiting_tables,
)

CHANGEFEED = Dashboard(
    "changefeed",
    "changefeeds",
    "How a changefeed delivers, and where its time goes",
    (INSTANCE, FEED),
    (
        (
            "How far",
            (
                checkpoint_lag(),
                graph(
                    "Resolved lag",
                    "Age of what its upstream's log holds whole",
                    "s",
                    (
                        f"max by (changefeed) ({of('changefeed_resolved_lag_seconds')})",
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "End to end",
                    "Age of a window's last transaction when the window was delivered",
                    "s",
                    *quantiles("changefeed_delivery_lag_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Speed of the checkpoint",
                    "1: it keeps up with time. More: it catches up",
                    "none",
                    (
                        "max by (changefeed) (deriv("
                        f"{of('changefeed_checkpoint_ts')}[$__rate_interval])) / 1000",
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Behind the log",
                    "How much of its upstream's log a changefeed has before it, as time",
                    "s",
                    (
                        between("resolved", "checkpoint"),
                        "{{changefeed}}",
                    ),
                ),
                feed_states(),
            ),
        ),
        (
            "How much",
            (
                rows(),
                graph(
                    "Bytes",
                    "Bytes delivered, before compression",
                    "Bps",
                    (rate("changefeed_bytes_total", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Log read",
                    "Bytes of the change log read for delivery",
                    "Bps",
                    (rate("changefeed_log_bytes_total", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Left out",
                    "Rows that event types or value expressions leave out",
                    "rowsps",
                    (rate("changefeed_filtered_rows_total", "changefeed"), "{{changefeed}}"),
                ),
                *waiting_tables(),
            ),
        ),
        (
            "Rows that were there before",
            (
                graph(
                    "Rows read",
                    "Of a snapshot, while rows are read, and the server's guess of all",
                    "short",
                    *(
                        (
                            f"max by (changefeed, snapshot) ({of(f'changefeed_snapshot_{name}')})",
                            "{{changefeed}} {{snapshot}} " + what,
                        )
                        for name, what in (("read_rows", "read"), ("expected_rows", "of about"))
                    ),
                ),
                graph(
                    "Time left",
                    "How long reading takes yet, at the speed of the last half minute",
                    "s",
                    (
                        f"max by (changefeed, snapshot) ({of('changefeed_snapshot_left_seconds')})",
                        "{{changefeed}} {{snapshot}}",
                    ),
                ),
                graph(
                    "Tables",
                    "Tables of which all rows are read, and all of them",
                    "short",
                    *(
                        (
                            f"max by (changefeed, snapshot) ({of(f'changefeed_snapshot_{name}')})",
                            "{{changefeed}} {{snapshot}} " + what,
                        )
                        for name, what in (("read_tables", "read"), ("tables", "of"))
                    ),
                ),
                graph(
                    "Bytes read",
                    "Bytes of rows that were read",
                    "bytes",
                    (
                        f"max by (changefeed, snapshot) ({of('changefeed_snapshot_read_bytes')})",
                        "{{changefeed}} {{snapshot}}",
                    ),
                ),
                graph(
                    "Rows that come twice",
                    "At most so many, where rows were lost and are copied again",
                    "short",
                    (
                        f"max by (changefeed) ({of('changefeed_snapshot_repeated_rows')})",
                        "{{changefeed}}",
                    ),
                ),
            ),
        ),
        (
            "Windows",
            (
                graph(
                    "Time by phase",
                    "Seconds a second of the changefeed's thread; idle: all is delivered",
                    "none",
                    (rate("changefeed_phase_seconds_total", "phase"), "{{phase}}"),
                    stacked=True,
                ),
                graph(
                    "Window",
                    "From cutting a window to its acknowledgement",
                    "s",
                    *quantiles("changefeed_window_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Job",
                    "Spark's part of it",
                    "s",
                    *quantiles("changefeed_job_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Windows",
                    "Windows delivered",
                    "ops",
                    (rate("changefeed_window_seconds_count", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Size",
                    "Mean bytes of the log in a window",
                    "bytes",
                    (mean("changefeed_window_bytes", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Failures",
                    "Windows that failed, by code; each is followed by a recovery",
                    "none",
                    (
                        increase("changefeed_window_failures_total", "changefeed, code"),
                        "{{changefeed}} {{code}}",
                    ),
                ),
                graph(
                    "Errors shown",
                    "Errors that the state of a changefeed has shown, by code",
                    "none",
                    (
                        increase("changefeed_errors_total", "changefeed, code"),
                        "{{changefeed}} {{code}}",
                    ),
                ),
            ),
        ),
    ),
)


DDL = Dashboard(
    "ddl",
    "schema changes and barriers",
    "What waits for which schema change, and how long they take",
    (INSTANCE, FEED),
    (
        (
            "Pending",
            (
                graph(
                    "Pending",
                    "Schema changes that have not ended, by where they stand",
                    "none",
                    (f"sum by (state) ({of('changefeed_pending_ddls')})", "{{state}}"),
                    stacked=True,
                ),
                graph(
                    "Oldest",
                    "How long the oldest pending one has been known",
                    "s",
                    (
                        f"max by (changefeed) ({of('changefeed_oldest_ddl_seconds')})",
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Room below the barrier",
                    "How far the checkpoint may go, as time; no series: as far as it likes",
                    "s",
                    (
                        between("barrier", "checkpoint"),
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Shard groups",
                    "Tables of shard groups whose schema changes, by where they stand at it",
                    "none",
                    (f"sum by (stand) ({of('changefeed_shard_ddl_tables')})", "{{stand}}"),
                    stacked=True,
                ),
                *waiting_tables(),
                checkpoint_lag(),
            ),
        ),
        (
            "Ended",
            (
                graph(
                    "Ended",
                    "Schema changes that have ended, by how",
                    "none",
                    (f"sum by (result) ({of('changefeed_ddls_total')})", "{{result}}"),
                ),
                graph(
                    "Time at the target",
                    "What schema changes take there, failed ones included",
                    "s",
                    *quantiles("changefeed_ddl_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Attempts",
                    "Schema changes that were tried",
                    "ops",
                    (rate("changefeed_ddl_seconds_count", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Sync points",
                    "Written down at the target, left out, or failed and tried again",
                    "none",
                    (
                        f"sum by (outcome) ({of('changefeed_sync_points_total')})",
                        "{{outcome}}",
                    ),
                ),
            ),
        ),
    ),
)


SINKS = Dashboard(
    "sinks",
    "sinks",
    "What goes to targets, and how they take it",
    (INSTANCE, FEED),
    (
        (
            "By kind",
            (
                graph(
                    "Rows",
                    "Rows by kind of sink",
                    "rowsps",
                    (by_sink("changefeed_rows_total"), "{{sink}}"),
                    stacked=True,
                ),
                graph(
                    "Bytes sent",
                    "As they are sent: compressed, where a sink compresses",
                    "Bps",
                    (by_sink("changefeed_sent_bytes_total"), "{{sink}}"),
                    stacked=True,
                ),
                graph(
                    "Requests",
                    "Batches to Kafka, statements to databases, files",
                    "reqps",
                    (by_sink("changefeed_sink_requests_total"), "{{sink}}"),
                    stacked=True,
                ),
            ),
        ),
        (
            "By changefeed",
            (
                graph(
                    "Requests",
                    "Batches, statements or files",
                    "reqps",
                    (rate("changefeed_sink_requests_total", "changefeed"), "{{changefeed}}"),
                ),
                graph(
                    "Rows of a request",
                    "More is cheaper",
                    "none",
                    (
                        ratio("changefeed_rows_total", "changefeed_sink_requests_total"),
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Bytes of a request",
                    "As they are sent",
                    "bytes",
                    (
                        ratio("changefeed_sent_bytes_total", "changefeed_sink_requests_total"),
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Compression",
                    "Bytes before it by bytes behind it; 1: none",
                    "none",
                    (
                        ratio("changefeed_bytes_total", "changefeed_sent_bytes_total"),
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Tasks",
                    "Tasks of windows: encode, send, commit",
                    "s",
                    *quantiles("changefeed_task_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Recoveries",
                    "Share of time in which a sink is taken over or waited for",
                    "percentunit",
                    (
                        rate(
                            "changefeed_phase_seconds_total",
                            "changefeed, phase",
                            'phase!~"idle|delivering"',
                        ),
                        "{{changefeed}} {{phase}}",
                    ),
                ),
                graph(
                    "Failures",
                    "Windows that failed, by code",
                    "none",
                    (
                        increase("changefeed_window_failures_total", "changefeed, code"),
                        "{{changefeed}} {{code}}",
                    ),
                ),
            ),
        ),
    ),
)
