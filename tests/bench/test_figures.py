"""latest.json: its shape, medians' ratios, and single items that keep the others."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench import figures, kafka, lag, provenance
from bench.figures import Figure
from bench.settings import Settings

KEYS = ["name", "value", "unit", "peer", "peer_value", "ratio"]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the results elsewhere."""
    monkeypatch.setattr(figures, "OUT", tmp_path)
    monkeypatch.setattr(figures, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(figures, "RUNS", tmp_path / "runs.json")
    monkeypatch.setattr(figures, "PARTIAL", tmp_path / "partial.json")
    monkeypatch.setattr(figures, "PARTIAL_RUNS", tmp_path / "partial_runs.json")
    return tmp_path


def test_ratio_above_one_is_good() -> None:
    assert Figure.more("a", 800, "rows/s", "peer", 100).ratio == 8
    assert Figure.less("b", 0.2, "s", "target", 0.7).ratio == 3.5
    assert Figure.less("c", 0, "s", "target", 0.7).ratio is None


def store(
    *found: Figure, runs: dict[str, list[int]], whole: bool = True, commit: str = "c"
) -> None:
    """Store as the program does, with a provenance that names a commit."""
    figures.store(found, runs, {"commit": commit}, whole=whole)


def test_single_item_replaces_only_its_own(out: Path) -> None:
    store(Figure("a", 1, "s"), Figure("b", 2, "s"), runs={"a": [1]}, commit="old")
    store(Figure.more("b", 3, "s", "peer", 2), runs={"b": [3]}, commit="new")
    written = json.loads((out / "latest.json").read_text())
    assert [list(one) for one in written] == [[*KEYS, "provenance"]] * 2
    first = dict.fromkeys(KEYS) | {"name": "a", "value": 1, "unit": "s"}
    assert written[0] == first | {"provenance": {"commit": "old"}}
    assert written[1]["value"] == 3
    assert written[1]["ratio"] == 1.5
    assert written[1]["provenance"] == {"commit": "new"}
    assert json.loads((out / "runs.json").read_text()) == {"a": [1], "b": [3]}


def test_a_partial_run_leaves_whole_ones_alone(out: Path) -> None:
    store(Figure("a", 100, "rows/s"), runs={"a": [100]})
    store(Figure("a", 7, "rows/s"), runs={"a": [7]}, whole=False)
    assert json.loads((out / "latest.json").read_text())[0]["value"] == 100
    assert json.loads((out / "runs.json").read_text()) == {"a": [100]}
    assert json.loads((out / "partial.json").read_text())[0]["value"] == 7


@pytest.mark.parametrize(
    ("settings", "whole"),
    [
        (Settings(), True),
        (Settings(runs=5), True),
        (Settings(runs=1), False),
        (Settings(rows=10_000_000), False),
        (Settings(seconds=20), False),
        (Settings(server="mysql-8.0"), False),
        (Settings(peers=False), False),
    ],
)
def test_what_is_a_whole_run(settings: Settings, whole: bool) -> None:
    assert settings.whole is whole


def test_provenance_names_code_machine_settings_and_servers() -> None:
    found = provenance.of(Settings(rows=5), provenance.code(), datetime.now(UTC), 0.5)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert found["commit"] == head.stdout.strip()
    assert found["settings"]["rows"] == 5
    assert found["servers"]["mariadb-11.4"].startswith("11.4.")
    assert found["servers"]["kafka-4.1"].startswith("4.1")
    machine = found["machine"]
    assert machine["cores"] == len(os.sched_getaffinity(0))
    assert machine["memory_bytes"] > 1 << 28
    assert machine["cpu"]
    assert found["seconds"] >= 0


def test_the_producers_warm_rate_leaves_its_first_seconds_out() -> None:
    printed = (
        "1000 records sent, 200.0 records/sec (0.1 MB/sec), 1.0 ms avg latency, 2.0 ms max\n"
        "4000 records sent, 800.0 records/sec (0.4 MB/sec), 1.0 ms avg latency, 2.0 ms max\n"
        "2000 records sent, 400.0 records/sec (0.2 MB/sec), 1.0 ms avg latency, 2.0 ms max\n"
        "7500 records sent, 450.0 records/sec (0.2 MB/sec), 1.0 ms avg latency, 2.0 ms max\n"
    )
    assert kafka._warm_rate(printed) == 600.0
    assert kafka._warm_rate(printed.splitlines()[-1]) == 450.0


def test_a_load_that_was_not_offered_is_no_figure() -> None:
    lag.check_offered({"rows_per_s": 19_900.0})
    with pytest.raises(RuntimeError, match="cannot offer the load"):
        lag.check_offered({"rows_per_s": 15_000.0})
