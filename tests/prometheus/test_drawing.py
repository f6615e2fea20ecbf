"""Pictures of dashboards have what was answered, at its place."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest

from tests.prometheus.dashboards import FILES, panels
from tests.prometheus.drawing import Series, dashboard, shown

_SVG = "{http://www.w3.org/2000/svg}"


def _drawn(answered: Sequence[Series]) -> ET.Element:
    panel = {
        "type": "timeseries",
        "title": "a < b",
        "gridPos": {"x": 0, "y": 0, "w": 8, "h": 8},
        "targets": [{"expr": "e", "legendFormat": "l"}],
        "fieldConfig": {"defaults": {"unit": "s"}},
    }
    return ET.fromstring(dashboard({"panels": [panel]}, (100.0, 200.0), lambda _e, _l: answered))


def test_a_line_goes_from_its_first_to_its_last_sample() -> None:
    picture = _drawn([Series("x", [(100.0, 0.0), (150.0, 4.0), (200.0, 2.0)])])
    (line,) = picture.iter(f"{_SVG}polyline")
    (a, b, c) = [tuple(map(float, p.split(","))) for p in line.attrib["points"].split()]
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2)
    # Up is a smaller y: 4 is on top, 2 half way.
    assert a[1] > c[1] > b[1]
    assert a[1] - c[1] == pytest.approx(c[1] - b[1], abs=0.2)
    texts = {t.text for t in picture.iter(f"{_SVG}text")}
    assert {"a < b", "4 s", "0 s", "x"} <= texts


def test_where_there_was_no_sample_there_is_no_line() -> None:
    samples = [(t, 1.0) for t in (100.0, 110.0, 120.0, 170.0, 180.0)]
    lines = _drawn([Series("x", samples)]).iter(f"{_SVG}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 2]


def test_a_panel_without_data_says_so() -> None:
    picture = _drawn([])
    assert not list(picture.iter(f"{_SVG}polyline"))
    assert "nothing: it has not happened" in {t.text for t in picture.iter(f"{_SVG}text")}


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_each_panel_of_ours_is_drawn(file: object) -> None:
    stored = json.loads(file.read_text())  # type: ignore[attr-defined]
    samples = [(100.0, 1.0), (200.0, 0.0)]
    picture = ET.fromstring(
        dashboard(stored, (100.0, 200.0), lambda _e, legend: [Series(legend, samples)])
    )
    texts = [t.text for t in picture.iter(f"{_SVG}text")]
    assert {p["title"] for p in panels(stored)} <= set(texts)
    lines = sum(len(p["targets"]) for p in panels(stored) if p["type"] == "timeseries")
    assert len(list(picture.iter(f"{_SVG}polyline"))) == lines


def test_values_are_told_in_their_unit() -> None:
    assert shown(3 * 2**20, "bytes") == "3 MiB"
    assert shown(2048, "Bps") == "2 KiB/s"
    assert shown(0.5, "percentunit") == "50 %"
    assert shown(12345, "rowsps") == "12.3k rows/s"
    assert shown(7, "none") == "7"
