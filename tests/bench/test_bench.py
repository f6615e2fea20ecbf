"""The loads are what they are said to be, and an item runs end to end on real servers."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench import gate, load, sustained
from bench.__main__ import main
from bench.ddl_pause import PAUSE_S, Lags
from tests.seeds import drawn
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
def test_the_sustained_load_counts_what_it_changes(
    database: Callable[..., Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = database("mariadb-11.4")
    db.execute(f"DROP DATABASE IF EXISTS {load.SCHEMA}", *load.CREATE)
    sustained._seed(db)
    monkeypatch.setattr(sustained, "_KEPT", 2)
    mine, its = multiprocessing.Pipe(False)
    written = multiprocessing.Value("q", 0, lock=False)
    sustained._write({"unix_socket": str(db.socket), "user": "root"}, 1.0, written, its)
    ((left, low, high),) = db.execute("SELECT COUNT(*), MIN(id), MAX(id) FROM bench.t")
    inserted = high + 1 - sustained._FIRST
    assert mine.recv() == written.value == inserted + (inserted - left)
    assert left == high + 1 - low == min(inserted, 2 * sustained._ROWS)
    db.execute(f"DROP DATABASE {load.SCHEMA}")


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``python -m bench`` with its results in another folder."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom bench import figures\n"
        "figures.OUT = Path(sys.argv.pop(1))\n"
        "figures.PARTIAL = figures.OUT / 'partial.json'\n"
        "figures.PARTIAL_RUNS = figures.OUT / 'partial_runs.json'\n"
        "from bench.__main__ import main\nmain(sys.argv[1:])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(folder), *words],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.parametrize(
    "words",
    drawn(
        [
            ("kafka_single", "--rows", "5000", "--no-peers", "--partitions", "2"),
            # The peer is a server of the harness like any other, so it is there.
            ("mysql_single", "--rows", "3000"),
        ]
    ),
    ids=lambda words: words[0],
)
def test_an_item_end_to_end(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = _run(tmp_path, *words, "--runs", "1")
    assert done.returncode == 0, done.stderr
    (figure,) = json.loads((tmp_path / "partial.json").read_text())
    assert figure["name"] == words[0]
    assert figure["value"] > 0
    assert ("--no-peers" in words) == (figure["ratio"] is None)
    assert words[0] in done.stdout
    assert figure["provenance"]["settings"]["runs"] == 1


@pytest.mark.slow
def test_many_tables_are_read(tmp_path: Path) -> None:
    done = _run(tmp_path, "schema_tables", "--rows", "300", "--runs", "1")
    assert done.returncode == 0, done.stderr
    read, memory = json.loads((tmp_path / "partial.json").read_text())
    assert (read["name"], read["peer_value"]) == ("schema_tables", 60.0 * 300 / 100_000)
    assert (memory["name"], memory["peer_value"]) == ("schema_tables_memory", 2.0)
    assert min(read["value"], memory["value"]) > 0


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.soak
def test_others_are_measured_while_one_table_changes(tmp_path: Path) -> None:
    done = _run(tmp_path, "ddl_pause", "--seconds", "13", "--rows", "500", "--no-peers")
    assert done.returncode == 0, done.stderr
    figures = {f["name"]: f for f in json.loads((tmp_path / "partial.json").read_text())}
    assert set(figures) == {"ddl_pause_p50", "ddl_pause_p99", "ddl_pause_resume"}
    assert all(f["value"] > 0 and f["peer_value"] > 0 for f in figures.values())
    runs = json.loads((tmp_path / "partial_runs.json").read_text())["ddl_pause"]
    # The change's end is seen up to a look too early.
    assert runs["took_s"] >= PAUSE_S - 0.1
    assert runs["during"]["rows"] > 0


def test_lags_of_rows_sent_in_a_time() -> None:
    lags = Lags(np.array([1.0, 2.0, 3.0, 4.0]), np.array([9.0, 1.0, 2.0, 9.0]))
    assert lags.percentiles(2, 4)["max"] == 2
    assert lags.percentiles(2)["rows"] == 3
    with pytest.raises(RuntimeError, match="no row"):
        lags.percentiles(5)


def test_unknown_item_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kafka_bluk"])
    assert "no such item: kafka_bluk" in capsys.readouterr().err
