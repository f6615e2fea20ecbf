"""A file that begins as a segment does becomes one, as it lies there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import END, START
from cdc.binlog.header import MAGIC
from cdc.changelog import names
from cdc.changelog.errors import LogOrderBroken
from cdc.changelog.index import LAST_OF_TRANSACTION, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.verify import verify
from tests.changelog.events import format_description
from tests.changelog.logs import dml, open_log, rows_event

HEAD = MAGIC + format_description()


def _file(path: Path, *ts: int, head: bytes = HEAD) -> Runs:
    """A transaction of one row for each ts, as ``dml`` appends them; where they lie."""
    events = [rows_event(0, b"%d/0" % one) for one in ts]
    path.write_bytes(head + b"".join(events))
    return Runs.build(
        len(ts),
        commit_ts=list(ts),
        flags=LAST_OF_TRANSACTION,
        table=0,
        offset=[len(head) + sum(map(len, events[:i])) for i in range(len(ts))],
        length=[len(event) for event in events],
        rows=1,
    )


def _read(folder: Path) -> list[bytes]:
    with closing(ChangeLog.open(folder)) as log:
        runs = log.runs(START, END)
        log.verify(runs)
        return [log.event(runs.slice(i, i + 1)) for i in range(len(runs))]


def test_a_file_becomes_the_next_segment_and_is_written_on(tmp_path: Path) -> None:
    folder, file = tmp_path / "log", tmp_path / "file"
    with open_log(folder) as writer:
        dml(writer, 10, [(0, 1)])
        runs = _file(file, 20, 30)
        inode = file.stat().st_ino
        writer.adopt(file, runs)
        dml(writer, 40, [(0, 1)])
        writer.adopt(file, _file(file, 50))
        writer.commit(60, {})
    assert not file.exists()
    assert (folder / names.data_name(2)).stat().st_ino == inode
    with open_log(folder) as writer:
        assert [s.number for s in writer.state.segments()] == [1, 2, 3]
        dml(writer, 70, [(0, 1)])
        writer.commit(70, {})
    assert _read(folder) == [rows_event(0, b"%d/0" % ts) for ts in range(10, 80, 10) if ts != 60]
    assert verify(folder) == []


def test_a_log_may_begin_with_it(tmp_path: Path) -> None:
    folder, file = tmp_path / "log", tmp_path / "file"
    with open_log(folder) as writer:
        writer.adopt(file, _file(file, 20))
        writer.commit(20, {})
    assert _read(folder) == [rows_event(0, b"20/0")]
    assert verify(folder) == []


def test_without_a_commit_nothing_of_it_is_there(tmp_path: Path) -> None:
    folder, file = tmp_path / "log", tmp_path / "file"
    with open_log(folder) as writer:
        dml(writer, 10, [(0, 1)])
        writer.commit(10, {})
        writer.adopt(file, _file(file, 20))
        writer.rollback()
        writer.adopt(file, _file(file, 30))
    with open_log(folder) as writer:
        dml(writer, 20, [(0, 1)])
        writer.commit(20, {})
    assert _read(folder) == [rows_event(0, b"10/0"), rows_event(0, b"20/0")]
    assert verify(folder) == []


@pytest.mark.parametrize("head", [b"", MAGIC, MAGIC + format_description()[:-1] + b"x"])
def test_one_that_begins_otherwise_is_left_alone(tmp_path: Path, head: bytes) -> None:
    folder, file = tmp_path / "log", tmp_path / "file"
    with open_log(folder) as writer:
        dml(writer, 10, [(0, 1)])
        with pytest.raises(LogOrderBroken, match="begins otherwise"):
            writer.adopt(file, _file(file, 20, head=head))
        dml(writer, 20, [(0, 1)])
        writer.commit(20, {})
    assert file.exists()
    assert _read(folder) == [rows_event(0, b"10/0"), rows_event(0, b"20/0")]


def test_runs_lie_in_it_and_rise(tmp_path: Path) -> None:
    folder, file = tmp_path / "log", tmp_path / "file"
    with open_log(folder) as writer:
        dml(writer, 10, [(0, 1)])
        runs = _file(file, 20)
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(LogOrderBroken, match="outside"):
            writer.adopt(file, runs)
        with pytest.raises(LogOrderBroken):
            writer.adopt(file, _file(file, 10))
        assert file.exists()
