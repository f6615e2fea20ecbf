"""docs/metrics.md says what the program measures, and no page names what it does not."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.metric_table import BEGIN, END, PAGE, every_metric, samples, table
from tests.docs.test_docs import PAGES
from tests.servers import Unavailable, install

CONFIGS = sorted((Path(__file__).parents[2] / "configs").rglob("*.*"))


def test_the_table_of_metrics_is_that_of_the_program() -> None:
    shown = PAGE.read_text().split(BEGIN)[1].split(END)[0].strip()
    assert shown == table(), "python -m tests.docs.metric_table writes it anew"


@pytest.mark.parametrize("page", [*PAGES, *CONFIGS], ids=lambda p: p.name)
def test_metrics_in_a_page_exist(page: Path) -> None:
    known = samples() | {re.sub("_(bucket|count)$", "", name) for name in samples()}
    others = {"tidegate_rows", "tidegate_none", "tidegate_new"}  # names at a target
    named = set(re.findall(r"\btidegate_[a-z_]*[a-z]\b", page.read_text())) - others
    assert named <= known


def test_prometheus_finds_nothing_wrong_with_the_names() -> None:
    try:
        promtool = install.fetch("prometheus-2.53").program("promtool")
    except Unavailable as error:
        pytest.skip(str(error))
    assert promtool is not None
    text = every_metric().text()
    done = subprocess.run([*promtool, "check", "metrics"], input=text, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b""), done.stdout + done.stderr
    bad = text + b"# TYPE tidegate_bad counter\ntidegate_bad 1\n"
    done = subprocess.run([*promtool, "check", "metrics"], input=bad, capture_output=True)
    assert b"tidegate_bad" in done.stdout + done.stderr
