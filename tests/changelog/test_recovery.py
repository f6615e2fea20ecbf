"""Truncation at every byte of every file; kills in the middle; roll-over of the file number."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdc.base.position import END, START
from cdc.changelog import names
from cdc.changelog.errors import LogCorrupt, LogWriteFailed
from cdc.changelog.manifest import read_lines
from cdc.changelog.reader import ChangeLog
from cdc.changelog.state import LogState, SegmentInfo
from cdc.changelog.verify import verify
from cdc.changelog.writer import LogWriter
from tests.changelog.logs import StillClock, dml, open_log
from tests.seeds import seed

COMMITS = 3


def small_log(folder: Path) -> dict[int, LogState]:
    """Three commits of two transactions each; returns the state at each, by resolved ts."""
    writer = open_log(folder)
    states: dict[int, LogState] = {0: writer.state}
    for i in range(1, COMMITS + 1):
        table = writer.table_id("s", f"t{i}", b"\x01")
        dml(writer, i * 10 - 5, [(table, 1)])
        dml(writer, i * 10, [(0, 2), (table, 1)])
        states[i * 10] = writer.commit(i * 10, {"at": i})
    writer.close()
    return states


def content(folder: Path) -> list[tuple[Any, ...]]:
    """All that a reader gets of a log."""
    log = ChangeLog.open(folder)
    runs = log.runs(START, END)
    log.verify(runs)
    found = [
        (
            int(runs.commit_ts[i]),
            log.tables[int(runs.table[i])].name,
            log.event(runs.slice(i, i + 1)),
        )
        for i in range(len(runs))
    ]
    log.close()
    return found


def _recovers(
    folder: Path, whole: list[tuple[Any, ...]], states: dict[int, LogState]
) -> tuple[LogWriter, int]:
    writer = open_log(folder)
    resolved = writer.state.resolved_ts
    assert writer.state.position == states[resolved].position
    assert writer.state.last_ts == resolved
    assert content(folder) == [row for row in whole if row[0] <= resolved]
    return writer, resolved


def goes_on(folder: Path, whole: list[tuple[Any, ...]], states: dict[int, LogState]) -> int:
    """Recover, check that it is a committed state, append what is missing; returns resolved."""
    writer, resolved = _recovers(folder, whole, states)
    for i in range(resolved // 10 + 1, COMMITS + 1):
        table = writer.table_id("s", f"t{i}", b"\x01")
        dml(writer, i * 10 - 5, [(table, 1)])
        dml(writer, i * 10, [(0, 2), (table, 1)])
        writer.commit(i * 10, {"at": i})
    writer.close()
    assert content(folder) == whole
    assert verify(folder) == []
    return resolved


@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=pytest.mark.soak), pytest.param(7, marks=pytest.mark.slow), 61]
)
@pytest.mark.parametrize("name", ["manifest", "tables", "000001.binlog", "000001.index"])
def test_truncated_at_every_byte_recovers_to_a_commit(
    tmp_path: Path, name: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Thousands of recoveries: nothing here depends on the disk having the bytes.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    origin = tmp_path / "origin"
    states = small_log(origin)
    whole = content(origin)
    data = (origin / name).read_bytes()
    base_end = next(iter(read_lines((origin / names.MANIFEST).read_bytes()))).end
    seen = set()
    # Few at a time, but others with each seed.
    for length in (*range(seed() % step, len(data), step), len(data)):
        folder = tmp_path / "cut"
        shutil.copytree(origin, folder)
        os.truncate(folder / name, length)
        if name == names.MANIFEST and length < base_end:
            # The base line appears whole or not at all; half of it is damage, not a torn tail.
            with pytest.raises(LogCorrupt):
                open_log(folder)
        else:
            if length // step % 37 == 0:
                seen.add(goes_on(folder, whole, states))
            else:
                writer, resolved = _recovers(folder, whole, states)
                writer.close()
                seen.add(resolved)
        shutil.rmtree(folder)
    assert seen == {0, 10, 20, 30} or (step > 1 and 30 in seen)


@pytest.mark.parametrize("name", ["manifest", "tables", "000001.binlog", "000001.index"])
def test_torn_bytes_behind_every_file_are_cut(tmp_path: Path, name: str) -> None:
    states = small_log(tmp_path)
    whole = content(tmp_path)
    with (tmp_path / name).open("ab") as file:
        file.write(b'{"crc32":"00')
    assert [f.file for f in verify(tmp_path)] == [name]
    assert goes_on(tmp_path, whole, states) == 30


def test_a_first_segment_without_commit_leaves_an_empty_log(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    dml(writer, 5, [(0, 1)])
    writer.close()
    writer = open_log(tmp_path)
    assert writer.state.segment == 0
    assert not (tmp_path / "000001.binlog").exists()
    dml(writer, 5, [(0, 1)])
    writer.commit(5, {})
    writer.close()
    assert [row[0] for row in content_without_tables(tmp_path)] == [5]


def test_segments_begun_since_the_last_commit_go(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=4096)
    dml(writer, 1, [(0, 1)])
    writer.commit(1, {"at": 1})
    for ts in range(2, 100):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
    assert (tmp_path / "000004.binlog").exists()
    writer.close()
    writer = open_log(tmp_path, segment_bytes=4096)
    assert (writer.state.segment, writer.state.resolved_ts) == (1, 1)
    assert not (tmp_path / "000002.binlog").exists()
    dml(writer, 2, [(0, 1)])
    writer.commit(2, {"at": 2})
    writer.close()
    assert [row[0] for row in content_without_tables(tmp_path)] == [1, 2]
    assert verify(tmp_path) == []


def content_without_tables(folder: Path) -> list[tuple[int, bytes]]:
    log = ChangeLog.open(folder)
    runs = log.runs(START, END)
    log.verify(runs)
    found = [(int(runs.commit_ts[i]), log.event(runs.slice(i, i + 1))) for i in range(len(runs))]
    log.close()
    return found


def test_damage_in_the_middle_of_the_manifest_is_no_tail(tmp_path: Path) -> None:
    small_log(tmp_path)
    path = tmp_path / names.MANIFEST
    data = bytearray(path.read_bytes())
    data[data.find(b"\n") + 20] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LogCorrupt, match="manifest:"):
        open_log(tmp_path)


def test_a_flipped_byte_of_the_open_segment_is_named_at_start(tmp_path: Path) -> None:
    small_log(tmp_path)
    path = tmp_path / "000001.binlog"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 16
    path.write_bytes(bytes(data))
    with pytest.raises(LogCorrupt, match=r"000001\.binlog:\d+"):
        open_log(tmp_path)


def test_the_file_number_gets_a_seventh_digit(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=4096)
    for ts in range(1, 21):
        dml(writer, ts, [(0, 1)], tag=b"y" * 500)
        writer.commit(ts, {})
    writer.close()
    _renumber(tmp_path, 999_999)
    writer = open_log(tmp_path, segment_bytes=4096)
    for ts in range(21, 41):
        dml(writer, ts, [(0, 1)], tag=b"y" * 500)
        writer.commit(ts, {})
    writer.close()
    assert (tmp_path / "999999.binlog").exists()
    assert (tmp_path / "1000000.binlog").exists()
    assert [row[0] for row in content_without_tables(tmp_path)] == list(range(1, 41))
    assert verify(tmp_path) == []


def _renumber(folder: Path, last: int) -> None:
    """Rename the files of a log so that its last segment has the number ``last``.

    The rows of the index name their segment too, so they are written anew.
    """
    from dataclasses import replace

    from cdc.changelog.manifest import ManifestWriter
    from cdc.changelog.segment_file import SegmentFile
    from cdc.changelog.startup import read_index

    state = ChangeLog.open(folder).state
    by = last - state.segment
    moved: list[SegmentInfo] = []
    for info in state.segments():
        runs = read_index(folder, info)
        (folder / names.index_name(info.number)).unlink()
        number = info.number + by
        (folder / names.data_name(info.number)).rename(folder / names.data_name(number))
        fresh = SegmentFile(folder, SegmentInfo(number=number, data=info.data, oldest=number))
        from cdc.changelog.index_file import SCHEMA_BYTES

        fresh._append_index(SCHEMA_BYTES)
        fresh.append_runs(replace(runs, segment=runs.segment + by))
        fresh.summarise(info.last_ts, info.time_ms)
        fresh.close()
        moved.append(fresh.info)
    manifest = ManifestWriter(folder, 1 << 20)
    manifest.rewrite(replace(state, current=moved[-1], closed=tuple(moved[:-1])))
    manifest.close()


def test_a_failed_write_breaks_the_writer_and_opening_anew_mends(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    dml(writer, 1, [(0, 1)])
    writer.commit(1, {"at": 1})
    os.close(writer._segment._data_fd)  # type: ignore[union-attr]
    writer._segment._data_fd = os.open(tmp_path / "manifest", os.O_RDONLY)  # type: ignore[union-attr]
    with pytest.raises(LogWriteFailed):
        dml(writer, 2, [(0, 1)])
    with pytest.raises(LogWriteFailed, match="open the log anew"):
        dml(writer, 2, [(0, 1)])
    writer.close()
    writer = open_log(tmp_path)
    assert writer.state.position == {"at": 1}
    dml(writer, 2, [(0, 1)])
    writer.commit(2, {})
    writer.close()


def test_the_manifest_stays_short_on_an_idle_log(tmp_path: Path) -> None:
    writer = open_log(tmp_path, StillClock(), manifest_bytes=1024)
    log = ChangeLog.open(tmp_path)
    for ts in range(1, 200):
        writer.commit(ts, {"at": ts})
        assert log.refresh().resolved_ts == ts
    assert (tmp_path / names.MANIFEST).stat().st_size < 4096
    writer.close()


def test_discard_gives_up_what_was_not_committed(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=4096)
    writer.table_id("s", "a", b"")
    dml(writer, 1, [(0, 1)])
    writer.commit(1, {"at": 1})
    assert writer.table_id("s", "b", b"") == 1
    for ts in range(2, 60):
        dml(writer, ts, [(1, 1)], tag=b"x" * 100)
    writer.discard()
    assert (writer.last_ts, writer.state.position) == (1, {"at": 1})
    assert writer.table_id("s", "c", b"") == 1
    dml(writer, 2, [(1, 1)])
    writer.commit(2, {"at": 2})
    writer.close()
    assert [row[:2] for row in content(tmp_path)] == [(1, "a"), (2, "c")]
    assert verify(tmp_path) == []
    with pytest.raises(LogWriteFailed):
        writer.discard()
