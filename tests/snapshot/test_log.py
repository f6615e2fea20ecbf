"""A snapshot's rows and the log behind them are one log to whoever reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cdc.base.clock import SystemClock
from cdc.base.position import Position
from cdc.binlog.events import EventType
from cdc.binlog.writer import build_event, format_description
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.snapshot.log import SnapshotRows, open_log

FORMAT = build_event(EventType.FORMAT_DESCRIPTION, format_description("8.0.36").encode())
SNAPSHOT_TS = 100


def _write(folder: Path, first_ts: int, tables: list[str], ts: list[int], resolved: int) -> None:
    with LogWriter.open(folder, ChangelogSettings(segment_bytes=4096), SystemClock()) as writer:
        writer.set_format(FORMAT)
        writer.begin(first_ts, {})
        for i, at in enumerate(ts):
            event = build_event(EventType.WRITE_ROWS, bytes(1000) + at.to_bytes(4, "little"))
            table = writer.table_id("s", tables[i % len(tables)], b"map")
            runs = Runs.build(
                1, commit_ts=at, flags=LAST_OF_TRANSACTION, table=table, length=len(event), rows=1
            )
            writer.append(event, runs)
        writer.commit(resolved, {})


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ChangeLog]:
    """Rows of a and b up to 100; the upstream's log has b and c from 50 on."""
    _write(tmp_path / "rows", 90, ["a", "b"], list(range(91, 99)), SNAPSHOT_TS)
    _write(tmp_path / "log", 40, ["c", "b"], [*range(50, 60), 95, 100, *range(101, 109)], 120)
    opened = open_log(tmp_path / "log", SnapshotRows(str(tmp_path / "rows"), SNAPSHOT_TS))
    yield opened
    opened.close()


def _told(log: ChangeLog, runs: Runs) -> list[tuple[int, str]]:
    """Ts and table of each run, with the ts that its bytes have."""
    found = []
    for i in range(len(runs)):
        one = runs.slice(i, i + 1)
        bytes_ = log.event(one)
        assert int.from_bytes(bytes_[-8:-4], "little") == int(one.commit_ts[0])
        found.append((int(one.commit_ts[0]), log.tables[int(one.table[0])].name))
    return found


WANTED = [(ts, "ab"[(ts - 91) % 2]) for ts in range(91, 99)] + [
    (ts, "cb"[i % 2]) for i, ts in enumerate(range(101, 109), 12)
]


def test_rows_then_changes_and_nothing_of_what_lies_below(log: ChangeLog) -> None:
    runs = log.runs(Position(90), Position(120))
    assert (runs.kind == RunKind.DML).all()
    assert _told(log, runs) == WANTED
    assert log.end_position(runs, Position(120)) == Position(120)


@pytest.mark.parametrize("size", [1, 1500, 4000, 100_000])
def test_windows_of_any_size_together_are_all(log: ChangeLog, size: int) -> None:
    at, found = Position(90), list[tuple[int, str]]()
    while at < Position(120):
        runs = log.runs(at, Position(120), max_bytes=size)
        found += _told(log, runs)
        end = log.end_position(runs, Position(120))
        assert end > at
        at = end
    assert found == WANTED


def test_a_window_may_end_among_the_rows(log: ChangeLog) -> None:
    assert _told(log, log.runs(Position(93), Position(97))) == WANTED[3:7]
    assert _told(log, log.runs(Position(99), Position(103))) == [*WANTED[8:11]]
    assert _told(log, log.runs(Position(100), Position(102))) == WANTED[8:10]


def test_single_tables_of_both(log: ChangeLog) -> None:
    ids = [i for i, entry in log.tables.items() if entry.name == "b"]
    assert len(ids) == 2
    assert sorted(log.tables) == list(range(4))
    runs = log.runs(Position(90), Position(120), tables=ids)
    assert _told(log, runs) == [one for one in WANTED if one[1] == "b"]
    assert np.unique(runs.table).tolist() == ids
