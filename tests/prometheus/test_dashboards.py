"""The dashboards are what the code makes, and Grafana and Prometheus understand them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from configs.grafana import make
from tests.docs.metric_table import samples
from tests.prometheus.dashboards import FILES, asked, faults, queries
from tests.prometheus.promtool import promtool


def test_the_files_are_what_the_code_makes() -> None:
    made = {f"{d.uid}.json": make.text(d) for d in make.DASHBOARDS}
    assert {f.name: f.read_text() for f in FILES} == made, "make dashboards"


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_grafana_knows_all_of_it(file: Path) -> None:
    assert not faults(json.loads(file.read_text()))


def test_what_grafana_would_not_know_is_seen() -> None:
    dashboard = json.loads(FILES[0].read_text())
    dashboard["panels"][1]["targets"][0]["expr"] += " + $nothing"
    dashboard["panels"][1]["gridPosition"] = {"x": 0}
    dashboard["panels"][2]["gridPos"] = dashboard["panels"][1]["gridPos"]
    found = " ".join(faults(dashboard))
    for word in ("$nothing", "gridPosition", "overlap"):
        assert word in found


def test_every_expression_is_one(tmp_path: Path) -> None:
    rules = [
        {"record": f"r{n}", "expr": asked(expr, "5m")} for n, (_, expr) in enumerate(queries())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    done = promtool("check", "rules", str(file))
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_metric_is_on_a_dashboard_and_none_else() -> None:
    known = samples()
    shown = {m for _, expr in queries() for m in re.findall(r"\btidegate_\w+", expr)}
    assert shown <= known
    # A histogram is shown if one of its three is.
    stems = {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    assert {re.sub("_(bucket|sum|count)$", "", name) for name in known} == stems


@pytest.mark.parametrize("name", sorted(d.uid for d in make.DASHBOARDS))
def test_the_docs_name_it(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    assert f"`{name}.json`" in text
