"""The loads are what they are said to be, and an item runs end to end on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import gate, load
from bench.__main__ import main
from tests.servers import Database


@pytest.mark.slow
def test_loads(database: Callable[..., Database]) -> None:
    db = database("mariadb-11.4")
    db.execute(f"DROP DATABASE IF EXISTS {load.SCHEMA}", *load.CREATE)
    db.execute("FLUSH BINARY LOGS")
    load.run(db, load.bulk(4_000))
    _, size, _ = gate.position(db)
    ((count,),) = db.execute("SELECT COUNT(*) FROM bench.t")
    ((columns,),) = db.execute(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'bench'"
    )
    ((annotated,),) = db.execute("SELECT @@binlog_annotate_row_events")
    statements = sum(len(s) for s in load.bulk(4_000)) if annotated else 0
    assert (count, columns) == (4_000, 10)
    assert 215 < (size - statements) / 4_000 < 240
    load.empty(db)
    before = db.execute("SELECT @@gtid_binlog_pos")[0][0]
    load.run(db, load.single(1_000))
    after = db.execute("SELECT @@gtid_binlog_pos")[0][0]
    assert int(after.split("-")[2]) - int(before.split("-")[2]) == 1_000
    ((count,),) = db.execute("SELECT COUNT(*) FROM bench.t")
    kinds = [s.split(" ", 1)[0] for s in load.single(1_000)]
    assert count == kinds.count("INSERT") - kinds.count("DELETE")
    assert {kinds.count(k) for k in ("UPDATE", "DELETE")} == {300, 100}
    db.execute(f"DROP DATABASE {load.SCHEMA}")


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize(
    "words",
    [
        ("kafka_single", "--rows", "5000", "--no-peers", "--partitions", "2"),
        # The peer is a server of the harness like any other, so it is there.
        ("mysql_single", "--rows", "3000"),
    ],
    ids=lambda words: words[0],
)
def test_an_item_end_to_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom bench import figures\n"
        "figures.OUT = Path(sys.argv.pop(1))\n"
        "figures.LATEST, figures.RUNS = figures.OUT / 'latest.json', figures.OUT / 'runs.json'\n"
        "from bench.__main__ import main\nmain(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *words, "--runs", "1"],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (figure,) = json.loads((tmp_path / "latest.json").read_text())
    assert figure["name"] == words[0]
    assert figure["value"] > 0
    assert ("--no-peers" in words) == (figure["ratio"] is None)
    assert words[0] in done.stdout


def test_unknown_item_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kafka_bluk"])
    assert "no such item: kafka_bluk" in capsys.readouterr().err
