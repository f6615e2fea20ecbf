"""latest.json: its shape, medians' ratios, and single items that keep the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import figures
from bench.figures import Figure

KEYS = ["name", "value", "unit", "peer", "peer_value", "ratio"]


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the results elsewhere."""
    monkeypatch.setattr(figures, "OUT", tmp_path)
    monkeypatch.setattr(figures, "LATEST", tmp_path / "latest.json")
    monkeypatch.setattr(figures, "RUNS", tmp_path / "runs.json")
    return tmp_path


def test_ratio_above_one_is_good() -> None:
    assert Figure.more("a", 800, "rows/s", "peer", 100).ratio == 8
    assert Figure.less("b", 0.2, "s", "target", 0.7).ratio == 3.5
    assert Figure.less("c", 0, "s", "target", 0.7).ratio is None


def test_single_item_replaces_only_its_own(out: Path) -> None:
    figures.store([Figure("a", 1, "s"), Figure("b", 2, "s")], {"a": [1]})
    figures.store([Figure.more("b", 3, "s", "peer", 2)], {"b": [3]})
    written = json.loads((out / "latest.json").read_text())
    assert [list(one) for one in written] == [KEYS, KEYS]
    assert written[0] == dict.fromkeys(KEYS) | {"name": "a", "value": 1, "unit": "s"}
    assert written[1]["value"] == 3
    assert written[1]["ratio"] == 1.5
    assert json.loads((out / "runs.json").read_text()) == {"a": [1], "b": [3]}
