"""Dashboards of what runs: the overview, logs and upstreams, Spark, captures."""

from __future__ import annotations

from configs.grafana.panels import Dashboard, graph, stat, states
from configs.grafana.shared import (
    FEED,
    INSTANCE,
    LAG,
    OWNS,
    UP,
    UPSTREAM,
    checkpoint_lag,
    feed_states,
    increase,
    mean,
    of,
    quantiles,
    rate,
    ratio,
    resolved_lag,
    rows,
)

OVERVIEW = Dashboard(
    "overview",
    "overview",
    "Is all well, and if not, where to look",
    (INSTANCE, FEED, UPSTREAM),
    (
        (
            "Now",
            (
                stat(
                    "Captures",
                    "Captures that hold a lease",
                    "none",
                    f"max({of('cluster_captures')})",
                ),
                stat(
                    "Changefeeds", "All that there are", "none", f"count({of('changefeed_state')})"
                ),
                stat(
                    "Failed",
                    "Changefeeds that wait for an operator",
                    "none",
                    f"count({of('changefeed_state')} == 2) or vector(0)",
                    thresholds=((None, "green"), (1, "red")),
                ),
                stat(
                    "Worst checkpoint lag",
                    "Of all changefeeds that run",
                    "s",
                    f"max({of('changefeed_checkpoint_lag_seconds')}"
                    f" unless {of('changefeed_state')} == 3)",
                    thresholds=LAG,
                ),
                stat(
                    "Worst resolved lag",
                    "Of all upstreams",
                    "s",
                    f"max({of('upstream_resolved_lag_seconds')})",
                    thresholds=LAG,
                ),
                stat(
                    "Rows",
                    "Rows delivered",
                    "rowsps",
                    f"sum(rate({of('changefeed_rows_total')}[$__rate_interval]))",
                ),
            ),
        ),
        ("Changefeeds", (checkpoint_lag(), rows(), feed_states())),
        (
            "Upstreams",
            (
                resolved_lag(),
                graph(
                    "Pulled",
                    "Bytes taken from servers",
                    "Bps",
                    (rate("upstream_pulled_bytes_total", "upstream"), "{{upstream}}"),
                ),
                states(
                    "Reached",
                    "Whether pullers have no error",
                    (f"min by (upstream) ({of('upstream_up')})", "{{upstream}}"),
                    mappings=UP,
                ),
            ),
        ),
        (
            "Errors and resources",
            (
                graph(
                    "Errors",
                    "Windows that failed, and errors of pullers, by code",
                    "none",
                    (
                        increase("changefeed_window_failures_total", "code"),
                        "{{code}}",
                    ),
                    (
                        increase("upstream_errors_total", "code"),
                        "{{code}}",
                    ),
                ),
                graph(
                    "Logs",
                    "Bytes of change logs",
                    "bytes",
                    (f"sum by (upstream) ({of('upstream_log_bytes')})", "{{upstream}}"),
                    stacked=True,
                ),
                graph(
                    "Memory",
                    "Memory of captures",
                    "bytes",
                    (f"sum by (instance) ({of('process_memory_bytes')})", "{{instance}}"),
                    stacked=True,
                ),
            ),
        ),
    ),
)


LOG = Dashboard(
    "log",
    "change logs and upstreams",
    "How upstreams are pulled, and what the disk has room for",
    (INSTANCE, UPSTREAM),
    (
        (
            "Pulling",
            (
                resolved_lag(),
                graph(
                    "Pulled",
                    "Bytes taken from servers",
                    "Bps",
                    (rate("upstream_pulled_bytes_total", "upstream"), "{{upstream}}"),
                ),
                graph(
                    "Served",
                    "Bytes of change logs that workers on other hosts read",
                    "Bps",
                    (rate("upstream_served_bytes_total", "upstream"), "{{upstream}}"),
                ),
                states(
                    "Up",
                    "Whether pullers have no error",
                    (f"min by (upstream) ({of('upstream_up')})", "{{upstream}}"),
                    mappings=UP,
                ),
                graph(
                    "States",
                    "Pullers by state",
                    "none",
                    (f"sum by (state) ({of('upstream_state')})", "{{state}}"),
                    stacked=True,
                ),
                graph(
                    "Speed of the log",
                    "1: its resolved ts keeps up with time. More: it catches up",
                    "none",
                    (
                        "max by (upstream) (deriv("
                        f"{of('upstream_resolved_ts')}[$__rate_interval])) / 1000",
                        "{{upstream}}",
                    ),
                ),
                graph(
                    "Streams opened",
                    "Each beyond the first is a connection that was lost",
                    "none",
                    (
                        increase("upstream_connections_total", "upstream"),
                        "{{upstream}}",
                    ),
                ),
                graph(
                    "Errors",
                    "Errors of pullers, by code",
                    "none",
                    (
                        increase("upstream_errors_total", "upstream, code"),
                        "{{upstream}} {{code}}",
                    ),
                ),
            ),
        ),
        (
            "Log",
            (
                graph(
                    "Size",
                    "Bytes of change logs",
                    "bytes",
                    (f"sum by (upstream) ({of('upstream_log_bytes')})", "{{upstream}}"),
                    stacked=True,
                ),
                graph(
                    "Disk",
                    "What is free, what must stay free, and what a log may have (0: no limit)",
                    "bytes",
                    (f"min by (instance) ({of('log_free_bytes')})", "{{instance}} free"),
                    (f"max by (instance) ({of('log_reserve_bytes')})", "{{instance}} reserve"),
                    (
                        f"max by (instance) ({of('log_budget_bytes')})",
                        "{{instance}} budget of a log",
                    ),
                ),
                graph(
                    "Goes back",
                    "How old the oldest transaction of a log may be",
                    "s",
                    (
                        f"time() - max by (upstream) ({of('upstream_log_first_ts')}) / 1000",
                        "{{upstream}}",
                    ),
                ),
                graph(
                    "Commit",
                    "Group commits of the log, with their fsync",
                    "s",
                    *quantiles("upstream_commit_seconds", "upstream", "{{upstream}}"),
                ),
                graph(
                    "Commits",
                    "Group commits",
                    "ops",
                    (rate("upstream_commit_seconds_count", "upstream"), "{{upstream}}"),
                ),
                graph(
                    "Prepared XA",
                    "XA transactions that are prepared for long",
                    "none",
                    (f"max by (upstream) ({of('upstream_prepared_xa')})", "{{upstream}}"),
                ),
                graph(
                    "Held",
                    "How far the node that all others wait for is behind them",
                    "s",
                    (f"max by (upstream) ({of('upstream_held_seconds')})", "{{upstream}}"),
                ),
                graph(
                    "Kept for them",
                    "Bytes of logs that stay for their sake",
                    "bytes",
                    (f"max by (upstream) ({of('upstream_pinned_bytes')})", "{{upstream}}"),
                ),
            ),
        ),
        (
            "Clocks",
            (
                graph(
                    "Skew",
                    "The server's clock against ours, whichever is ahead",
                    "s",
                    (
                        f"max by (upstream) (abs({of('upstream_clock_skew_seconds')}))",
                        "{{upstream}}",
                    ),
                ),
                graph(
                    "Anchor",
                    "How far back binlogs must reach, at least, for a lost log to be made anew",
                    "s",
                    (
                        f"time() - max by (upstream) ({of('upstream_anchored_ts')}) / 1000",
                        "{{upstream}}",
                    ),
                ),
                graph(
                    "Future",
                    "How far an event was dated into the future",
                    "s",
                    (f"max by (upstream) ({of('upstream_time_ahead_seconds')})", "{{upstream}}"),
                ),
            ),
        ),
    ),
)


SPARK = Dashboard(
    "spark",
    "Spark",
    "The JVM, its workers, and the jobs that they run",
    (INSTANCE, FEED),
    (
        (
            "Processes",
            (
                states(
                    "Runs",
                    "Whether the JVM runs, where it should",
                    (of("spark_up"), "{{instance}}"),
                    mappings=UP,
                ),
                graph(
                    "Processor",
                    "Processors used, by kind of process",
                    "none",
                    (rate("process_cpu_seconds_total", "process"), "{{process}}"),
                    stacked=True,
                ),
                graph(
                    "Memory",
                    "A page that several share counts once",
                    "bytes",
                    (f"sum by (process) ({of('process_memory_bytes')})", "{{process}}"),
                    stacked=True,
                ),
                graph(
                    "Processes",
                    "By kind",
                    "none",
                    (f"sum by (process) ({of('processes')})", "{{process}}"),
                ),
            ),
        ),
        (
            "Jobs",
            (
                graph(
                    "Jobs",
                    "Jobs of windows",
                    "ops",
                    (rate("changefeed_job_seconds_count", "changefeed"), "{{changefeed}}"),
                    stacked=True,
                ),
                graph(
                    "Job",
                    "How long they take",
                    "s",
                    *quantiles("changefeed_job_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Task",
                    "How long their tasks take",
                    "s",
                    *quantiles("changefeed_task_seconds", "changefeed", "{{changefeed}}"),
                ),
                graph(
                    "Tasks of a job",
                    "A small window is one task",
                    "none",
                    (
                        ratio("changefeed_task_seconds_count", "changefeed_job_seconds_count"),
                        "{{changefeed}}",
                    ),
                ),
                graph(
                    "Busy",
                    "Tasks that run at once, in the mean",
                    "none",
                    (rate("changefeed_task_seconds_sum", "changefeed"), "{{changefeed}}"),
                    stacked=True,
                ),
                graph(
                    "Refused",
                    "Requests for a change log that the token shown does not open",
                    "ops",
                    (rate("log_server_refused_total", "instance"), "{{instance}}"),
                ),
                graph(
                    "Across captures",
                    "Tasks that captures have run for each other, by who asked and who did them",
                    "ops",
                    (rate("changefeed_borrowed_tasks_total", "changefeed"), "{{changefeed}}"),
                    (rate("lent_tasks_total", "instance"), "{{instance}}"),
                ),
                graph(
                    "Around tasks",
                    "A mean job less a mean task: what Spark, and tasks of unequal size, cost",
                    "s",
                    (
                        f"{mean('changefeed_job_seconds', 'changefeed')}"
                        f" - ({mean('changefeed_task_seconds', 'changefeed')})",
                        "{{changefeed}}",
                    ),
                ),
            ),
        ),
    ),
)


CAPTURES = Dashboard(
    "captures",
    "captures and store",
    "The processes, who owns, and the coordination store",
    (INSTANCE,),
    (
        (
            "Captures",
            (
                states(
                    "Answers",
                    "Whether Prometheus reaches it",
                    ('up{instance=~"$instance",job="tidegate"}', "{{instance}}"),
                    mappings=UP,
                ),
                states(
                    "Role",
                    "Who delivers",
                    (of("capture_is_owner"), "{{instance}}"),
                    mappings=OWNS,
                ),
                states(
                    "Parts",
                    "Parts that do their work",
                    (of("part_up"), "{{instance}} {{part}}"),
                    mappings=UP,
                ),
                graph(
                    "Captures",
                    "Captures that hold a lease, as the owner sees them",
                    "none",
                    (f"max({of('cluster_captures')})", "captures"),
                ),
                graph(
                    "Upstreams",
                    "What each capture holds, and what is on its way to it or from it",
                    "none",
                    (of("capture_upstreams"), "{{instance}} {{state}}"),
                ),
                graph(
                    "Versions",
                    "Captures by version",
                    "none",
                    (f"count by (version) ({of('build_info')})", "{{version}}"),
                ),
                graph(
                    "Up for",
                    "Since the process began",
                    "s",
                    ('time() - process_start_time_seconds{instance=~"$instance"}', "{{instance}}"),
                ),
                graph(
                    "Memory",
                    "All processes of a capture",
                    "bytes",
                    (f"sum by (instance) ({of('process_memory_bytes')})", "{{instance}}"),
                ),
                graph(
                    "Processor",
                    "Processors used by all processes of a capture",
                    "none",
                    (rate("process_cpu_seconds_total", "instance"), "{{instance}}"),
                ),
                graph(
                    "File descriptors",
                    "Open ones of the capture's process",
                    "none",
                    ('process_open_fds{instance=~"$instance"}', "{{instance}}"),
                ),
                graph(
                    "Garbage collection",
                    "Collections of the capture's Python, by generation",
                    "ops",
                    (
                        "sum by (generation) (rate(python_gc_collections_total"
                        '{instance=~"$instance"}[$__rate_interval]))',
                        "{{generation}}",
                    ),
                ),
            ),
        ),
        (
            "Store",
            (
                graph(
                    "Calls",
                    "Calls by operation",
                    "ops",
                    (rate("store_operation_seconds_count", "operation"), "{{operation}}"),
                    stacked=True,
                ),
                graph(
                    "Time",
                    "How long they take",
                    "s",
                    *quantiles("store_operation_seconds", "operation", "{{operation}}"),
                ),
                graph(
                    "Failures",
                    "Calls that failed",
                    "none",
                    (
                        increase("store_failures_total", "instance, operation"),
                        "{{instance}} {{operation}}",
                    ),
                ),
            ),
        ),
    ),
)
