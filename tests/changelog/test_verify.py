"""A flipped bit anywhere is found, and placed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from cdc.base.position import END, Position
from cdc.changelog import names
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.reader import ChangeLog
from cdc.changelog.verify import verify
from tests.changelog.logs import dml, open_log

BEGIN = Position(1)


def _log(folder: Path) -> None:
    writer = open_log(folder, segment_bytes=4096)
    writer.begin(1, {"pos": 4})
    writer.save_snapshot(1, {"s.t": "create table t (a int)"})
    for ts in range(2, 62):
        table = writer.table_id("s", f"t{ts % 5}", b"\x01\x02")
        dml(writer, ts, [(table, 1)], tag=random.Random(ts).randbytes(120))
        if ts % 4 == 0:
            writer.commit(ts, {"pos": ts})
    writer.commit(61, {"pos": 61})
    writer.close()


def test_a_thousand_flipped_bits_are_found_and_placed(tmp_path: Path) -> None:
    _log(tmp_path)
    assert verify(tmp_path) == []
    files = [p for p in sorted(tmp_path.rglob("*")) if p.is_file() and p.name != names.LOCK]
    assert len(files) > 8
    chance = random.Random(20261120)
    near = 0
    for turn in range(1000):
        # Every file is as likely as any other, however small.
        path = files[turn % len(files)]
        good = path.read_bytes()
        at = chance.randrange(len(good))
        broken = bytearray(good)
        broken[at] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(broken))
        findings = verify(tmp_path)
        assert findings, f"{path.name}:{at}"
        name = str(path.relative_to(tmp_path))
        assert {f.file for f in findings} == {name}, f"{path.name}:{at}"
        assert findings[0].offset <= at, f"{path.name}:{at}"
        near += at - findings[0].offset < 3000
        path.write_bytes(good)
    assert near == 1000
    assert verify(tmp_path) == []


def test_readers_deliver_no_flipped_byte(tmp_path: Path) -> None:
    _log(tmp_path)
    path = tmp_path / "000001.binlog"
    good = path.read_bytes()
    runs = ChangeLog.open(tmp_path).runs(BEGIN, END)
    first = np.flatnonzero(runs.segment == 1)
    lo, hi = int(runs.offset[first[0]]), int(runs.offset[first[0]] + runs.length[first[0]])
    for at in range(lo, hi, 3):
        broken = bytearray(good)
        broken[at] ^= 4
        path.write_bytes(bytes(broken))
        log = ChangeLog.open(tmp_path)
        with pytest.raises(LogCorrupt, match=rf"000001\.binlog:({lo}|\d+)"):
            log.verify(runs)
    path.write_bytes(good)
    log = ChangeLog.open(tmp_path)
    log.verify(runs)
    log.verify(runs)


def test_a_damaged_index_is_not_read(tmp_path: Path) -> None:
    _log(tmp_path)
    path = tmp_path / "000002.index"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogCorrupt, match=r"000002\.index:\d+"):
        ChangeLog.open(tmp_path).runs(BEGIN, END)


def test_lengths_that_lie_are_found(tmp_path: Path) -> None:
    _log(tmp_path)
    path = tmp_path / "000001.binlog"
    path.write_bytes(path.read_bytes()[:-1])
    assert [(f.file, f.what[:24]) for f in verify(tmp_path)] == [
        ("000001.binlog", "the segment is shorter t")
    ]


def test_the_command_verifies_a_whole_log(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from cdc.cli.log import app

    folder = tmp_path / "log"
    _log(folder)
    good = CliRunner().invoke(app, ["verify", str(folder)])
    assert good.exit_code == 0, good.output
    assert "good" in good.output
    assert "ts 1 to 61" in good.output
    # While somebody writes, what lies behind the last commit is no damage.
    writer = open_log(folder)
    dml(writer, 70, [(0, 1)])
    live = CliRunner().invoke(app, ["verify", str(folder)])
    assert live.exit_code == 0, live.output
    writer.close()
    for name in ("000001.binlog", "000001.index", "tables", "manifest"):
        damaged = tmp_path / f"damaged-{name}"
        shutil.copytree(folder, damaged)
        data = bytearray((damaged / name).read_bytes())
        data[len(data) // 2] ^= 4
        (damaged / name).write_bytes(bytes(data))
        found = CliRunner().invoke(app, ["verify", str(damaged)])
        assert found.exit_code == 1
        assert f"[TG:ErrLogCorrupt] {name}" in found.output
    empty = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert empty.exit_code == 1
    assert "there is no manifest" in empty.output
