"""A commit carried out behind its caller: same order, only what it began with, failures told."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.changelog import names
from cdc.changelog.errors import LogOrderBroken, LogWriteFailed
from cdc.changelog.verify import verify
from cdc.changelog.writer import LogWriter
from tests.changelog.logs import dml, open_log
from tests.changelog.test_recovery import content_without_tables


class Disk:
    """Notes each ``fdatasync`` by file; those of ``held`` files wait, and may fail then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.held = ""
        self.error: OSError | None = None
        self.go_on = threading.Event()
        self.reached = threading.Event()
        self._real = os.fdatasync
        monkeypatch.setattr(os, "fdatasync", self._fdatasync)

    def _fdatasync(self, fd: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).name
        if self.held and self.held in name:
            self.reached.set()
            assert self.go_on.wait(30)
            if self.error is not None:
                raise self.error
        self._real(fd)
        self.synced.append(name)


def _log(folder: Path, commits: int, **settings: int) -> LogWriter:
    writer = open_log(folder, **settings)
    for ts in range(1, commits + 1):
        dml(writer, ts, [(0, 1)])
        writer.commit(ts, {"at": ts})
    return writer


def _behind(writer: LogWriter, ts: int) -> threading.Event:
    done = threading.Event()
    writer.commit_behind(ts, {"at": ts}, done.set)
    return done


def _lines(folder: Path) -> int:
    return (folder / names.MANIFEST).read_bytes().count(b"\n")


@pytest.mark.parametrize("held", [".binlog", ".index", names.MANIFEST])
def test_nothing_is_resolved_before_every_file_is_durable(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _log(tmp_path, 1)
    lines = _lines(tmp_path)
    disk = Disk(monkeypatch)
    disk.held = held
    dml(writer, 2, [(0, 1)])
    done = _behind(writer, 2)
    assert disk.reached.wait(30)
    # What comes meanwhile is written, but no part of this commit.
    dml(writer, 3, [(0, 1)])
    assert (writer.state.resolved_ts, writer.last_ts, done.is_set()) == (1, 3, False)
    assert _lines(tmp_path) == lines + (held == names.MANIFEST)
    disk.go_on.set()
    assert done.wait(30)
    writer.wait()
    assert (writer.state.resolved_ts, writer.state.position) == (2, {"at": 2})
    # The manifest last, behind data and index.
    assert [name.split(".")[-1] for name in disk.synced][-1] == names.MANIFEST
    assert {name.split(".")[-1] for name in disk.synced} == {"binlog", "index", names.MANIFEST}
    assert _lines(tmp_path) == lines + 1
    writer.close()
    assert [row[0] for row in content_without_tables(tmp_path)] == [1, 2]
    open_log(tmp_path).close()
    assert verify(tmp_path) == []


def test_killed_while_a_commit_is_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the disk is then: the log of the last durable commit, and it goes on."""
    writer = _log(tmp_path / "log", 2)
    disk = Disk(monkeypatch)
    disk.held = ".index"
    dml(writer, 3, [(0, 1)])
    done = _behind(writer, 3)
    assert disk.reached.wait(30)
    dml(writer, 4, [(0, 1)])
    shutil.copytree(tmp_path / "log", tmp_path / "killed")
    disk.go_on.set()
    assert done.wait(30)
    writer.close()
    again = open_log(tmp_path / "killed")
    assert (again.state.resolved_ts, again.state.position) == (2, {"at": 2})
    dml(again, 3, [(0, 1)])
    again.commit(3, {"at": 3})
    again.close()
    assert [row[0] for row in content_without_tables(tmp_path / "killed")] == [1, 2, 3]
    assert verify(tmp_path / "killed") == []


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.commit(9, {}),
        lambda w: w.commit_behind(9, {}, lambda: None),
        lambda w: w.rollback(),
        lambda w: w.collect(0),
        lambda w: w.save_snapshot(9, {}),
    ],
)
def test_a_failure_is_raised_by_the_next_call_and_opening_anew_mends(
    call: Callable[[LogWriter], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _log(tmp_path, 1)
    disk = Disk(monkeypatch)
    disk.held, disk.error = ".binlog", OSError(28, "No space left on device")
    disk.go_on.set()
    dml(writer, 2, [(0, 1)])
    done = _behind(writer, 2)
    assert done.wait(30)
    for _ in range(2):
        with pytest.raises(LogWriteFailed, match="No space left"):
            call(writer)
    assert writer.state.resolved_ts == 1
    disk.held = ""
    writer.discard()
    assert writer.state.position == {"at": 1}
    dml(writer, 2, [(0, 1)])
    writer.commit(2, {"at": 2})
    writer.close()
    assert [row[0] for row in content_without_tables(tmp_path)] == [1, 2]


def test_segments_change_and_commits_follow_each_other_meanwhile(tmp_path: Path) -> None:
    writer = _log(tmp_path, 1, segment_bytes=4096)
    for ts in range(2, 200):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
        if ts % 3 == 0:
            _behind(writer, ts)
    with pytest.raises(LogOrderBroken):
        writer.commit_behind(5, {}, lambda: None)
    writer.wait()
    assert writer.state.resolved_ts == 198
    assert len(writer.state.closed) > 5
    # What no commit named is given up, as ever.
    writer.close()
    assert [row[0] for row in content_without_tables(tmp_path)] == list(range(1, 199))
    open_log(tmp_path, segment_bytes=4096).close()
    assert verify(tmp_path) == []


def test_a_commit_syncs_the_segments_that_filled_up_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = _log(tmp_path, 1, segment_bytes=4096)
    disk = Disk(monkeypatch)
    before = len(os.listdir("/proc/self/fd"))
    for ts in range(2, 60):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
    writer.commit(59, {"at": 59})
    written = {p.name for p in tmp_path.iterdir() if names.segment_of(p.name) is not None}
    assert len(written) > 8
    assert written <= set(disk.synced)
    assert disk.synced.index("000002.binlog") < disk.synced.index("000004.binlog")
    assert len(os.listdir("/proc/self/fd")) == before
    writer.close()


def test_rollback_over_segments_that_are_not_durable_yet(tmp_path: Path) -> None:
    writer = _log(tmp_path, 1, segment_bytes=4096)
    for ts in range(2, 40):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
    writer.mark()
    for ts in range(40, 80):
        dml(writer, ts, [(0, 1)], tag=b"y" * 200)
    writer.rollback()
    for ts in range(40, 60):
        dml(writer, ts, [(0, 1)], tag=b"z" * 200)
    writer.commit(60, {"at": 60})
    writer.close()
    found = content_without_tables(tmp_path)
    assert [row[0] for row in found] == list(range(1, 60))
    assert not any(b"y" * 200 in row[1] for row in found)
    open_log(tmp_path, segment_bytes=4096).close()
    assert verify(tmp_path) == []
