"""``make demo`` in small: it must prove what it says, and leave nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from bench.demo.changes import STEPS
from tests.servers import install


@pytest.mark.real
@pytest.mark.slow
def test_the_demo_proves_itself(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("mariadb-11.4", "kafka-4.1"):
        if not install.is_fetched(name):
            pytest.skip(f"{name} is not fetched")
    command = [sys.executable, "-m", "bench.demo", "--seconds", "8", "--rate", "4000"]
    picture = tmp_path_factory.mktemp("drawn") / "lag.svg"
    command += ["--picture", str(picture)]
    done = subprocess.run(
        command,
        env={**os.environ, "TIDEGATE_TMP": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tables = re.findall(r"(\w+) +upstream = downstream  (\d+) rows, (\d+) rows", done.stdout)
    assert len(tables) == 10, "five tables in the topic, five at the target"
    assert all(int(up) == int(down) > 0 for _, up, down in tables)
    assert done.stdout.count("lost 0, duplicated 0") == 2
    for what in ("schema", "changed"):
        assert len(re.findall(rf"{what} +upstream = downstream  .*\d", done.stdout)) == 2
    # The server writes quotes of its own into a DROP TABLE.
    shown, waits = done.stdout.replace("`", ""), r" s, \d+\.\d\d s "
    for step in STEPS:
        assert re.search(f"{waits}.*{waits}.*{re.escape(step.statement[:60])}", shown)
    counted = re.findall(r"expected +([\d,]+) = +([\d,]+) found", done.stdout)
    assert len(counted) == 11
    assert any(wanted != "0" for wanted, _ in counted)
    for feed in ("to-kafka", "to-mysql", "filtered"):
        assert f"changefeed create -c {feed} -u main" in done.stdout
    assert "kill -9" in done.stdout
    assert re.search(r"console is at http://127\.0\.0\.1:\d+/ ", done.stdout)
    lines = ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}polyline")
    colours = {line.get("stroke") for line in lines if len((line.get("points") or "").split()) > 1}
    assert len(colours) == 3, "both ends and the kill"
    assert list(tmp_path.iterdir()) == []
    mine = str(tmp_path)
    assert [p.pid for p in psutil.process_iter(["cmdline"]) if mine in str(p.info["cmdline"])] == []
