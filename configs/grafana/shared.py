"""Expressions over our metrics, and the panels that several dashboards share."""

from __future__ import annotations

from configs.grafana.panels import Panel, graph, states

INSTANCE = ("instance", "tidegate_build_info")
FEED = ("changefeed", "tidegate_changefeed_info")
UPSTREAM = ("upstream", "tidegate_upstream_up")
STATES = (
    ("0", "normal", "green"),
    ("1", "pending", "orange"),
    ("2", "failed", "red"),
    ("3", "stopped", "blue"),
    ("4", "finished", "purple"),
    ("6", "warning", "yellow"),
)
UP = (("0", "no", "red"), ("1", "yes", "green"))
OWNS = (("0", "stands by", "blue"), ("1", "owner", "green"))
LAG = ((None, "green"), (60, "yellow"), (600, "red"))


def of(metric: str, *more: str) -> str:
    """A metric with what the dashboard's variables choose."""
    kind = metric.split("_")[0]
    chosen = {"changefeed": 'changefeed=~"$changefeed"', "upstream": 'upstream=~"$upstream"'}
    labels = ['instance=~"$instance"', *([chosen[kind]] if kind in chosen else []), *more]
    return f"tidegate_{metric}{{{','.join(labels)}}}"


def rate(metric: str, by: str, *more: str) -> str:
    """Its rate, summed by labels."""
    return f"sum by ({by}) (rate({of(metric, *more)}[$__rate_interval]))"


def mean(metric: str, by: str) -> str:
    """The mean of a histogram."""
    return f"{rate(f'{metric}_sum', by)} / {rate(f'{metric}_count', by)}"


def quantiles(metric: str, by: str, legend: str, *more: str) -> tuple[tuple[str, str], ...]:
    """Half and 99 % of a histogram, with what each is called."""
    return tuple(
        (
            f"histogram_quantile({q}, {rate(f'{metric}_bucket', f'{by}, le', *more)})",
            f"{legend} {name}",
        )
        for q, name in ((0.5, "half"), (0.99, "99 %"))
    )


def increase(metric: str, by: str) -> str:
    """What a counter gained, summed by labels."""
    return f"sum by ({by}) (increase({of(metric)}[$__rate_interval]))"


def by_sink(metric: str) -> str:
    """A rate by the kind of sink."""
    gained, about = rate(metric, "instance, changefeed"), of("changefeed_info")
    joined = "on (instance, changefeed) group_left (sink)"
    return f"sum by (sink) ({gained} * {joined} {about})"


def ratio(above: str, below: str) -> str:
    """One rate of a changefeed by another."""
    return f"{rate(above, 'changefeed')} / {rate(below, 'changefeed')}"


def between(upper: str, lower: str) -> str:
    """Seconds from one ts of a changefeed to another."""
    apart = f"{of(f'changefeed_{upper}_ts')} - {of(f'changefeed_{lower}_ts')}"
    return f"max by (changefeed) ({apart}) / 1000"


def checkpoint_lag(**more: int) -> Panel:
    """The panel of every dashboard that is about being late."""
    text = "Age of what is delivered for all tables: what consumers see is that old"
    expr = f"max by (changefeed) ({of('changefeed_checkpoint_lag_seconds')})"
    return graph("Checkpoint lag", text, "s", (expr, "{{changefeed}}"), **more)


def resolved_lag(**more: int) -> Panel:
    """The same of upstreams."""
    text = "Age of what the log of an upstream holds whole: no changefeed can be nearer"
    expr = f"max by (upstream) ({of('upstream_resolved_lag_seconds')})"
    return graph("Resolved lag of upstreams", text, "s", (expr, "{{upstream}}"), **more)


def rows(**more: int) -> Panel:
    """Throughput."""
    text = "Rows delivered"
    return graph(
        "Rows",
        text,
        "rowsps",
        (rate("changefeed_rows_total", "changefeed"), "{{changefeed}}"),
        **more,
    )


def feed_states(**more: int) -> Panel:
    """A band for each changefeed."""
    expr = f"max by (changefeed) ({of('changefeed_state')})"
    return states(
        "States", "States of changefeeds", (expr, "{{changefeed}}"), mappings=STATES, **more
    )


def waiting_tables() -> tuple[Panel, ...]:
    """Tables that do not stand where the others do."""
    name = "{{changefeed}}"
    return (
        graph(
            "Tables that wait",
            "Tables that stand elsewhere than the others: behind a schema change, or stopped",
            "none",
            (f"max by (changefeed) ({of('changefeed_waiting_tables')})", f"{name} wait"),
            (f"max by (changefeed) ({of('changefeed_stopped_tables')})", f"{name} stopped"),
        ),
        graph(
            "Slowest tables",
            "Age of the checkpoints of the ten slowest tables of those",
            "s",
            (f"topk(10, {of('changefeed_table_lag_seconds')})", f"{name} {{{{table}}}}"),
        ),
    )
