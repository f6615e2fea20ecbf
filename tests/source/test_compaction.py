"""Snapshots that a log makes of itself: what follows from them is what follows from the first."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog import journal, names, snapshots
from cdc.changelog.errors import LogCollected, LogCorrupt
from cdc.changelog.index import RunKind, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.snapshots import spare
from cdc.changelog.writer import LogWriter
from cdc.source import statements
from cdc.source.compaction import Compaction, at
from cdc.source.known_snapshots import KnownSnapshot
from cdc.source.statements import History
from tests.changelog.events import QUERY, event
from tests.changelog.logs import StillClock, dml, open_log
from tests.schema.test_compacted import first_snapshot, lost, shown

STATEMENTS = (
    "CREATE TABLE first (id int PRIMARY KEY, v varchar(20))",
    "ALTER TABLE untouched ADD COLUMN w int",
    "CREATE TABLE keyed (id int PRIMARY KEY)",
    "ALTER TABLE keyed DROP PRIMARY KEY",
    "RENAME TABLE first TO second",
    "CREATE TABLE gone (id int PRIMARY KEY)",
    "ALTER TABLE gone ADD COLUMN x NONSENSE(3) OF SORTS",
    "DROP TABLE untouched",
    "CREATE TABLE keyless (id int)",
    "ALTER TABLE gone ADD COLUMN y int",
    "CREATE DATABASE more CHARACTER SET gbk",
    "CREATE TABLE more.t LIKE second",
    "ALTER TABLE more.t ADD COLUMN z enum('a','b') DEFAULT 'b', ADD UNIQUE KEY (z)",
    "ALTER DATABASE test CHARACTER SET utf8mb4",
    "CREATE VIEW seen AS SELECT 1",
    "DROP DATABASE more",
    "ALTER TABLE keyed ADD PRIMARY KEY (id)",
    "ALTER TABLE second PARTITION BY HASH (id) PARTITIONS 3",
)
STEP, LAST = 10, 10 * len(STATEMENTS) + 9


def statement(writer: LogWriter, ts: int, sql: str) -> None:
    """A QUERY event of database ``test``."""
    body = struct.pack("<IIBHH", 1, 0, 4, 0, 0) + b"test\0" + sql.encode()
    data = event(QUERY, body)
    writer.append(data, Runs.build(1, commit_ts=ts, kind=RunKind.DDL, flags=1, length=len(data)))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogWriter]:
    """A log with a statement at every tenth ts, rows between them, in many segments."""
    with open_log(tmp_path, StillClock(), segment_bytes=4096, keep_s=0) as made:
        made.save_snapshot(1, first_snapshot("mariadb"))
        made.begin(1, {})
        for ts in range(2, LAST + 1):
            if ts % STEP == 0:
                statement(made, ts, STATEMENTS[ts // STEP - 1])
            else:
                dml(made, ts, [(0, 1)], tag=b"x" * 400)
            made.commit(ts, {})
        yield made


def known(folder: Path, start_ts: int) -> list[Any]:
    """All that one who begins at ``start_ts`` knows there, and behind each statement to come."""
    with closing(ChangeLog.open(folder)) as log:
        history = History(log, start_ts)
        unkeyed = dict(history.unkeyed)
        history.refresh(LAST)
        places = (start_ts, *range(start_ts // STEP * STEP + STEP, LAST + 1, STEP))
        found = [(ts, shown(history.versions.at(ts))) for ts in places]
        return [found, lost(history.versions), unkeyed, history.unkeyed]


def test_every_start_knows_the_same_whatever_snapshots_there_are(
    writer: LogWriter, tmp_path: Path
) -> None:
    starts = sorted({*range(1, LAST + 1, 17), 52, *range(69, 73)})
    wanted = {start: known(tmp_path, start) for start in starts}
    assert wanted[1][1]
    assert wanted[STEP * 5 + 2][2] == {("test", "keyed"): STEP * 4}
    compaction = Compaction(tmp_path, 3)
    made = []
    for checkpoint in range(2, LAST + 1, 7):
        if compaction.run(writer.state, checkpoint, starts=range(1, LAST)):
            made.append(checkpoint)
    assert len(made) >= 5
    assert snapshots.list_ts(tmp_path) == [1, *made]
    for start in starts:
        assert known(tmp_path, start) == wanted[start], start
    for checkpoint in (30, 71, 140):
        writer.collect(checkpoint)
        first = writer.state.first_ts
        for start in starts:
            if start >= first:
                assert known(tmp_path, start) == wanted[start], (checkpoint, start)


def test_what_is_kept_and_what_is_followed_stays_small(writer: LogWriter, tmp_path: Path) -> None:
    compaction = Compaction(tmp_path, 3)
    for checkpoint in range(2, LAST + 1):
        compaction.run(writer.state, checkpoint)
        writer.collect(checkpoint)
        first = writer.state.first_ts
        assert len([ts for ts in snapshots.list_ts(tmp_path) if ts <= first]) <= 1
        with closing(ChangeLog.open(tmp_path)) as log:
            near = int(log.snapshot_at(checkpoint)["ts"])
            assert len(log.statements(near, checkpoint)) <= 3
    kept = (tmp_path / names.SCHEMA_FOLDER / names.STATEMENTS).read_bytes()
    assert kept.count(b'"event"') <= 6


def test_few_statements_make_no_snapshot(writer: LogWriter, tmp_path: Path) -> None:
    compaction = Compaction(tmp_path, len(STATEMENTS))
    assert not any(compaction.run(writer.state, ts) for ts in range(2, STEP * len(STATEMENTS)))
    assert compaction.run(writer.state, STEP * len(STATEMENTS))
    assert not compaction.run(writer.state, LAST)
    assert snapshots.list_ts(tmp_path) == [1, STEP * len(STATEMENTS)]


def test_a_reader_with_an_older_snapshot_begins_with_a_newer_one(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention trims the journal between its two readings: it must not take the rest for all."""
    start = STEP * 12 + 5
    wanted = known(tmp_path, start)
    real = statements.snapshot_at
    read: list[int] = []

    def slow(log: ChangeLog, ts: int) -> KnownSnapshot:
        found = real(log, ts)
        read.append(found.ts)
        if len(read) == 1:
            assert Compaction(tmp_path, 1).run(writer.state, STEP * 12 + 1)
            assert writer.collect(start)
        return found

    monkeypatch.setattr(statements, "snapshot_at", slow)
    assert known(tmp_path, start) == wanted
    assert read == [1, STEP * 12 + 1]
    monkeypatch.undo()
    with closing(ChangeLog.open(tmp_path)) as log:
        with pytest.raises(LogCollected):
            log.statements(1, LAST)
        with pytest.raises(LogCollected):
            History(log, STEP * 12)


def test_a_snapshot_of_the_server_that_came_meanwhile_counts(
    writer: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows tables that statements have lost."""
    fresh = {**first_snapshot("mariadb"), "ts": STEP * 8}

    def meanwhile(log: ChangeLog, ts: int) -> dict[str, Any] | None:
        made = at(log, ts)
        snapshots.save(tmp_path, STEP * 8, fresh)
        return made

    monkeypatch.setattr("cdc.source.compaction.at", meanwhile)
    assert not Compaction(tmp_path, 3).run(writer.state, STEP * 9)
    assert snapshots.list_ts(tmp_path) == [1, STEP * 8]


def test_nothing_is_made_of_a_damaged_snapshot(writer: LogWriter, tmp_path: Path) -> None:
    path = tmp_path / names.SCHEMA_FOLDER / "1.json"
    path.write_bytes(path.read_bytes().replace(b"untouched", b"unt0uched"))
    with pytest.raises(LogCorrupt):
        Compaction(tmp_path, 3).run(writer.state, LAST)
    assert snapshots.list_ts(tmp_path) == [1]
    assert list(journal.read(tmp_path, 0, LAST)) == []


@pytest.mark.parametrize(
    ("first", "starts", "gone"),
    [
        (0, (), []),
        (30, (), [10, 20]),
        (34, (), [10, 20]),
        (29, (), [10]),
        (5, (), []),
    ],
)
def test_snapshots_below_the_begin_go_but_one(
    first: int, starts: tuple[int, ...], gone: list[int]
) -> None:
    assert spare([10, 20, 30, 40], first, starts) == gone


@pytest.mark.parametrize("pick", [lambda n: (), lambda n: range(0, 10 * n, 30)])
def test_of_many_snapshots_those_stay_that_lie_apart(pick: Callable[[int], Any]) -> None:
    kept: list[int] = []
    for ts in range(0, 10_000, 10):
        kept.append(ts)
        starts = [s for s in pick(20) if s <= ts]
        for one in spare(kept, 0, starts):
            kept.remove(one)
        assert kept[0] == 0
        assert kept[-1] == ts
        assert {s for s in starts if s % 10 == 0} <= set(kept)
        assert len(kept) <= max(8, len(starts) + 2)
    if not list(pick(20)):
        gaps = [b - a for a, b in pairwise(kept)]
        assert max(gaps) <= 10_000 / 2
