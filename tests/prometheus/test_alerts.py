"""Each alert fires in the fault that it is for, and in no other, by Prometheus's own judgement.

A healthy capture is described by series; a fault replaces or adds some. What fires is compared as a
whole: one alert too many is as red as one too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.prometheus.promtool import promtool

ROOT = Path(__file__).parents[2]
RULES = ROOT / "configs/prometheus/alerts.yml"
ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text())["groups"]
    for rule in group["rules"]
}
MINUTES = 90

_ONE = 'instance="c:8300",job="tidegate"'
_FEED, _UPSTREAM = f'{{changefeed="f",{_ONE}}}', f'{{upstream="u",{_ONE}}}'
_PENDING = 'tidegate_changefeed_pending_ddls{{changefeed="f",state="{}",{}}}'
_STATE = 'tidegate_upstream_state{{upstream="u",state="{}",{}}}'
_OPERATION = '{operation="range",' + _ONE + "}"
_TXN = 'tidegate_store_operation_seconds_bucket{{le="{}",operation="txn",{}}}'

# Values are promtool's: start, step and number of steps, one a minute.
HEALTHY = {
    f"up{{{_ONE}}}": "1+0x90",
    f"process_start_time_seconds{{{_ONE}}}": "-7200+0x90",
    f"process_open_fds{{{_ONE}}}": "200+0x90",
    f"process_max_fds{{{_ONE}}}": "1024+0x90",
    f"tidegate_capture_is_owner{{{_ONE}}}": "1+0x90",
    f"tidegate_spark_up{{{_ONE}}}": "1+0x90",
    f'tidegate_part_up{{part="owner",{_ONE}}}': "1+0x90",
    f'tidegate_process_memory_bytes{{process="capture",{_ONE}}}': "5e8+0x90",
    f'tidegate_process_memory_bytes{{process="worker",{_ONE}}}': "9e8+0x90",
    f"tidegate_store_operation_seconds_count{_OPERATION}": "0+100x90",
    _TXN.format("0.1", _ONE): "0+99x90",
    _TXN.format("1", _ONE): "0+100x90",
    _TXN.format("+Inf", _ONE): "0+100x90",
    f"tidegate_changefeed_state{_FEED}": "0+0x90",
    f"tidegate_changefeed_checkpoint_ts{_FEED}": "1.7e12+60000x90",
    f"tidegate_changefeed_checkpoint_lag_seconds{_FEED}": "2+0x90",
    f"tidegate_changefeed_stopped_tables{_FEED}": "0+0x90",
    f"tidegate_changefeed_oldest_ddl_seconds{_FEED}": "0+0x90",
    **{_PENDING.format(s, _ONE): "0+0x90" for s in ("waiting", "held", "executing", "failed")},
    f"tidegate_upstream_up{_UPSTREAM}": "1+0x90",
    _STATE.format("running", _ONE): "1+0x90",
    _STATE.format("failed", _ONE): "0+0x90",
    _STATE.format("paused", _ONE): "0+0x90",
    f"tidegate_upstream_resolved_lag_seconds{_UPSTREAM}": "1+0x90",
    f"tidegate_upstream_connections_total{_UPSTREAM}": "1+0x90",
    f"tidegate_upstream_clock_skew_seconds{_UPSTREAM}": "0.01+0x90",
    f"tidegate_upstream_time_ahead_seconds{_UPSTREAM}": "0+0x90",
    f"tidegate_upstream_prepared_xa{_UPSTREAM}": "0+0x90",
    f"tidegate_upstream_held_seconds{_UPSTREAM}": "0+0x90",
    f"tidegate_upstream_log_bytes{_UPSTREAM}": "1e9+0x90",
    f"tidegate_log_budget_bytes{{{_ONE}}}": "4e9+0x90",
    f"tidegate_log_reserve_bytes{{{_ONE}}}": "1e9+0x90",
    f"tidegate_log_free_bytes{{{_ONE}}}": "5e10+0x90",
}


def _feed(name: str, value: str, more: str = "") -> dict[str, str]:
    return {f'tidegate_changefeed_{name}{{changefeed="f",{more}{_ONE}}}': value}


def _upstream(name: str, value: str) -> dict[str, str]:
    return {f"tidegate_upstream_{name}{_UPSTREAM}": value}


def _capture(name: str, value: str, more: str = "") -> dict[str, str]:
    return {f"{name}{{{more}{_ONE}}}": value}


def _state(**values: int) -> dict[str, str]:
    return {_STATE.format(s, _ONE): f"{n}+0x90" for s, n in values.items()}


_NO_OWNER = _capture("tidegate_capture_is_owner", "0+0x90")
_OTHER = {'tidegate_capture_is_owner{instance="d:8300",job="tidegate"}': "1+0x90"}

# Each fault by what it is, with the series that it changes, and all alerts that are for it.
FAULTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "nothing": ({}, set()),
    "ended": (_capture("up", "0+0x90"), {"CaptureDown"}),
    "nobody owns": (_NO_OWNER, {"NoOwner"}),
    "another owns": (_NO_OWNER | _OTHER, set()),
    "two own": (_OTHER, {"TwoOwners"}),
    "a part": (_capture("tidegate_part_up", "0+0x90", 'part="owner",'), {"PartFailing"}),
    "spark": (_capture("tidegate_spark_up", "0+0x90"), {"SparkDown"}),
    "spark starts": (
        _capture("tidegate_spark_up", "0+0x90")
        | _capture("process_start_time_seconds", f"{MINUTES * 60 - 60}+0x90"),
        set(),
    ),
    "restarts": (
        {f"tidegate_store_operation_seconds_count{_OPERATION}": "0+100x70 0 100 0 100 0+100x16"},
        {"RestartsOften"},
    ),
    "one restart": (
        {f"tidegate_store_operation_seconds_count{_OPERATION}": "0+100x75 0+100x14"},
        set(),
    ),
    "memory": (
        _capture("tidegate_process_memory_bytes", "8e9+0x90", 'process="jvm",'),
        {"MemoryHigh"},
    ),
    "descriptors": (_capture("process_open_fds", "900+0x90"), {"FileDescriptors"}),
    "store fails": (
        _capture("tidegate_store_failures_total", "0+1x90", 'operation="txn",'),
        {"StoreFailing"},
    ),
    "store is slow": ({_TXN.format("0.1", _ONE): "0+50x90"}, {"StoreSlow"}),
    "failed": (_feed("state", "2+0x90"), {"ChangefeedFailed"}),
    "pending": (_feed("state", "1+0x90"), {"ChangefeedRetries"}),
    "warning": (_feed("state", "6+0x90"), {"ChangefeedRetries"}),
    "far behind": (_feed("checkpoint_lag_seconds", "700+0x90"), {"CheckpointLag"}),
    "paused by its operator": (
        _feed("checkpoint_lag_seconds", "60+60x90")
        | _feed("state", "3+0x90")
        | _feed("checkpoint_ts", "1.7e12+0x90"),
        set(),
    ),
    "stands": (_feed("checkpoint_ts", "1.7e12+0x90"), {"CheckpointStands"}),
    "windows": (_feed("window_failures_total", "0+1x90", 'code="X",'), {"WindowsFail"}),
    "few windows": (_feed("window_failures_total", "0+0.3x90", 'code="X",'), set()),
    "tables": (_feed("stopped_tables", "2+0x90"), {"TablesStopped"}),
    "ddl failed": ({_PENDING.format("failed", _ONE): "1+0x90"}, {"DdlFailed"}),
    "ddl held": ({_PENDING.format("held", _ONE): "1+0x90"}, {"DdlHeld"}),
    "ddl runs long": (
        {_PENDING.format("executing", _ONE): "1+0x90"} | _feed("oldest_ddl_seconds", "60+60x90"),
        {"DdlSlow"},
    ),
    "ddl runs": (
        {_PENDING.format("executing", _ONE): "1+0x90"} | _feed("oldest_ddl_seconds", "60+0x90"),
        set(),
    ),
    "ddl waits": ({_PENDING.format("waiting", _ONE): "1+0x90"}, {"DdlWaits"}),
    "pulling ended": (
        _upstream("up", "0+0x90") | _state(running=0, failed=1),
        {"UpstreamFailed", "UpstreamDown"},
    ),
    "server away": (_upstream("up", "0+0x90"), {"UpstreamDown"}),
    "no room": (
        _upstream("up", "0+0x90") | _state(running=0, paused=1),
        {"PullingPaused", "UpstreamDown"},
    ),
    "log is late": (_upstream("resolved_lag_seconds", "400+0x90"), {"ResolvedLag"}),
    "line breaks": (_upstream("connections_total", "0+1x90"), {"Reconnects"}),
    "clock": (_upstream("clock_skew_seconds", "-8+0x90"), {"ClockSkew"}),
    "future": (_upstream("time_ahead_seconds", "3600+0x90"), {"EventsInFuture"}),
    "held": (_upstream("held_seconds", "5+60x90"), {"UpstreamHeld"}),
    "xa": (_upstream("prepared_xa", "1+0x90"), {"PreparedXa"}),
    "budget": (_upstream("log_bytes", "3.8e9+0x90"), {"LogBudget"}),
    "no budget": (
        _upstream("log_bytes", "3.8e9+0x90") | _capture("tidegate_log_budget_bytes", "0+0x90"),
        set(),
    ),
    "disk": (_capture("tidegate_log_free_bytes", "1.5e9+0x90"), {"LogDisk"}),
    "disk soon": (_capture("tidegate_log_free_bytes", "5e10-3e8x90"), {"LogDiskSoon"}),
}


def _case(changed: Mapping[str, str], firing: set[str]) -> dict[str, Any]:
    series = HEALTHY | changed
    expected = [{"labels": f'{{alertname="Tidegate{name}"}}', "value": 1} for name in firing]
    asked = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "interval": "1m",
        "input_series": [{"series": s, "values": v} for s, v in series.items()],
        "promql_expr_test": [
            {"expr": asked, "eval_time": f"{MINUTES}m", "exp_samples": expected},
        ],
    }


def _judged(folder: Path, cases: list[dict[str, Any]]) -> str:
    """What promtool has against them."""
    file = folder / "cases.yml"
    given = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}
    file.write_text(yaml.safe_dump(given, width=10**6))
    done = promtool("test", "rules", str(file))
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_each_fault_has_its_alerts_and_no_others(tmp_path: Path) -> None:
    cases = []
    for name, (changed, firing) in FAULTS.items():
        cases.append(_case(changed, firing) | {"name": name})
    assert not _judged(tmp_path, cases)


def test_one_alert_too_many_or_too_few_is_seen(tmp_path: Path) -> None:
    changed, _ = FAULTS["failed"]
    assert _judged(tmp_path, [_case(changed, set())])
    assert _judged(tmp_path, [_case({}, {"ChangefeedFailed"})])


def test_every_alert_has_a_fault_and_a_runbook() -> None:
    tried = {f"Tidegate{name}" for _, firing in FAULTS.values() for name in firing}
    assert tried == set(ALERTS)
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    assert sections == list(ALERTS)
    for name, rule in ALERTS.items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "description"} < set(rule["annotations"])


@pytest.mark.parametrize("file", [RULES], ids=lambda p: p.name)
def test_promtool_takes_the_rules(file: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
