"""Prepared XA transactions across restarts, and what retention must not take."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from cdc.base.position import END, Position
from cdc.changelog.errors import LogCollected
from cdc.changelog.index import LAST_OF_TRANSACTION, RunKind, Runs
from cdc.changelog.reader import ChangeLog
from cdc.changelog.retention import removable
from cdc.changelog.state import SegmentInfo
from cdc.changelog.verify import verify
from cdc.changelog.writer import LogWriter
from tests.changelog.events import query
from tests.changelog.logs import StillClock, commit_prepared, dml, open_log, prepare, rows_event


def test_rows_of_xa_take_effect_at_commit_across_restart_and_segments(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=4096)
    dml(writer, 1, [(0, 1)])
    prepare(writer, "a")
    prepare(writer, "b")
    prepare(writer, "c")
    writer.commit(1, {})
    for ts in range(2, 40):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
    rolled = writer.xid_id("b")
    data = query("XA ROLLBACK")
    writer.append(data, Runs.build(1, kind=RunKind.ROLLBACK, length=len(data), xid=rolled))
    writer.commit(39, {})
    writer.close()

    clock = StillClock()
    clock.ms += 10**9
    writer = open_log(tmp_path, clock, segment_bytes=4096)
    assert len(writer.prepared(rolled)) == 0
    assert writer.xid_id("b") != rolled
    before = writer.xid_id("a")
    assert writer.state.prepared_from == 1
    # Everything is delivered and old, but segment 1 has rows that are still to be committed.
    assert writer.collect(10**6) == ()
    commit_prepared(writer, "a", 50)
    assert len(writer.prepared(before)) == 0
    assert writer.xid_id("a") != before
    commit_prepared(writer, "c", 51)
    writer.commit(51, {})
    assert writer.state.prepared_from == 0
    log = ChangeLog.open(tmp_path)
    runs = log.runs(Position(40), END)
    assert runs.commit_ts.tolist() == [50, 51]
    assert runs.segment.tolist() == [1, 1]
    assert runs.kind.tolist() == [RunKind.DML] * 2
    assert log.event(runs.slice(0, 1)) == rows_event(7, b"prepared a")
    log.verify(runs)
    # Now the newest segment points into the first one.
    assert writer.collect(10**6) == ()
    writer.close()
    assert verify(tmp_path) == []


def test_retention_by_checkpoint_and_time(tmp_path: Path) -> None:
    clock = StillClock()
    writer = open_log(tmp_path, clock, segment_bytes=4096, keep_s=100)
    for ts in (5, 15, 25):
        writer.save_snapshot(ts, {"at": ts})
    for ts in range(1, 101):
        dml(writer, ts, [(0, 1)], tag=b"x" * 200)
        writer.commit(ts, {})
    old = ChangeLog.open(tmp_path)
    assert len(old.runs(Position(0), END)) == 100
    assert writer.collect(50) == ()  # young
    clock.ms += 101_000
    gone = writer.collect(50)
    assert gone == tuple(range(1, len(gone) + 1))
    first = writer.state.first_ts
    assert 30 < first <= 50
    log = ChangeLog.open(tmp_path)
    assert log.runs(Position(first), END).commit_ts.tolist() == list(range(first + 1, 101))
    for reader in (log, old):
        reader.refresh()
        with pytest.raises(LogCollected):
            reader.runs(Position(first - 1), END)
        with pytest.raises(LogCollected):
            reader.segment(1)
    assert log.snapshots() == [25]
    assert not (tmp_path / "000001.binlog").exists()
    assert writer.collect(10**6)[-1] == writer.state.segment - 1
    writer.close()
    assert verify(tmp_path) == []


def _segment(number: int, last_ts: int, oldest: int) -> SegmentInfo:
    return SegmentInfo(number=number, last_ts=last_ts, oldest=oldest)


def test_removable_never_breaks_a_reference() -> None:
    segments = [_segment(n, n * 10, n) for n in range(1, 6)]
    assert removable(segments, 30, 0, 10**9, 0) == (1, 2, 3)
    assert removable(segments, 39, 2, 10**9, 0) == (1,)
    assert removable([], 30, 0, 0, 0) == ()
    assert removable(segments[:1], 99, 0, 10**9, 0) == ()
    chain = [*segments[:4], _segment(5, 50, 3)]
    assert removable(chain, 99, 0, 10**9, 0) == (1, 2)
    chain[2] = _segment(3, 30, 1)
    assert removable(chain, 99, 0, 10**9, 0) == ()


def test_disk_budget(tmp_path: Path) -> None:
    writer = open_log(tmp_path, disk_budget_bytes=3000)
    dml(writer, 1, [(0, 1)])
    writer.commit(1, {})
    assert writer.over_budget() is None
    dml(writer, 2, [(0, 1)], tag=b"x" * 3000)
    writer.commit(2, {})
    error = writer.over_budget()
    assert error is not None
    assert (error.code, error.kind) == ("TG:ErrDiskBudget", "transient")
    writer.close()
    writer = open_log(tmp_path, free_space_reserve_bytes=1 << 60)
    assert writer.over_budget() is not None
    writer.close()


def test_what_waits_for_its_commit_does_not_count(tmp_path: Path) -> None:
    """It goes only behind its commit, which a pause that counts it would keep from coming."""
    writer = open_log(tmp_path, disk_budget_bytes=5000, segment_bytes=4096, keep_s=0)
    for ts in range(1, 5):
        dml(writer, ts, [(0, 1)], tag=b"x" * 3000)
    writer.mark()
    assert writer.over_budget() is None
    # Nor where one has begun that waits for its end.
    _part(writer, 5, 0, 4500)
    assert writer.over_budget() is None
    _part(writer, 5, 1, 10, last=True)
    writer.commit(5, {})
    assert writer.over_budget() is not None
    assert writer.collect(5)
    assert writer.over_budget() is None
    writer.close()


def test_a_full_segment_over_the_budget_can_go(tmp_path: Path) -> None:
    """What comes at once may be more than a segment, and than the budget."""
    writer = open_log(tmp_path, disk_budget_bytes=5000, segment_bytes=4096, keep_s=0)
    dml(writer, 1, [(0, 1)], tag=b"x" * 7000)
    writer.commit(1, {})
    assert not writer.collect(1)
    # Nothing of it goes before another segment is begun, so that one may be.
    assert writer.over_budget() is None
    dml(writer, 2, [(0, 1)])
    writer.commit(2, {})
    assert writer.over_budget() is not None
    assert writer.collect(1)
    assert writer.over_budget() is None
    writer.close()


def _part(writer: LogWriter, ts: int, row: int, size: int, *, last: bool = False) -> None:
    """A run of a transaction; its end is still to come unless it is the ``last``."""
    data = rows_event(0, b"x" * size)
    flags = LAST_OF_TRANSACTION if last else 0
    runs = Runs.build(
        1, commit_ts=ts, length=len(data), rows=1, first_row=row, table=0, flags=flags
    )
    writer.append(data, runs)
    if last:
        writer.mark()


def test_an_open_transaction_counts_and_can_end(tmp_path: Path) -> None:
    writer = open_log(tmp_path, disk_budget_bytes=40_000, segment_bytes=4096, keep_s=0)
    for ts in range(1, 5):
        dml(writer, ts, [(0, 1)], tag=b"x" * 5000)
        writer.commit(ts, {})
    assert writer.over_budget() is None
    # More than the log has left, yet it would fit alone: it waits for others to go.
    for row in range(4):
        _part(writer, 5, row, 5000)
    error = writer.over_budget()
    assert error is not None
    assert error.code == "TG:ErrDiskBudget"
    assert f"{writer.open_bytes} bytes are of a transaction" in error.message
    assert writer.collect(4)
    assert writer.over_budget() is None
    assert writer.over_budget(30_000) is not None
    _part(writer, 5, 4, 10, last=True)
    writer.commit(5, {})
    assert writer.open_bytes == 0
    # One that would not fit into an empty log never ends: refused by name.
    row = 0
    while (error := writer.over_budget()) is None or error.kind == "transient":
        _part(writer, 6, row, 5000)
        row += 1
        assert row < 20
    assert (error.code, error.kind) == ("TG:ErrTransactionTooLarge", "definite")
    writer.discard()
    assert writer.open_bytes == 0
    writer.close()


def test_a_small_transaction_may_end_over_the_budget(tmp_path: Path) -> None:
    writer = open_log(tmp_path, disk_budget_bytes=3000)
    _part(writer, 1, 0, 5000)
    assert writer.over_budget() is None
    _part(writer, 1, 1, 10, last=True)
    writer.commit(1, {})
    assert writer.over_budget() is not None
    writer.close()


def test_readers_beside_a_writer_see_whole_prefixes(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=8192, manifest_bytes=2048)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            log = ChangeLog.open(tmp_path)
            seen: list[int] = []
            while len(seen) < 600:
                at = Position(seen[-1] if seen else 0)
                log.wait(at.ts, 10)
                runs = log.runs(at, END)
                log.verify(runs)
                assert len(runs)
                assert (np.diff(runs.commit_ts) == 1).all()
                seen += runs.commit_ts.tolist()
                # the dictionary is never behind the runs
                assert all(int(t) in log.tables for t in np.unique(runs.table))
            assert seen == list(range(1, 601))
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for ts in range(1, 601):
        table = writer.table_id("s", f"t{ts // 7}", b"")
        dml(writer, ts, [(table, 1)], tag=b"x" * 100)
        if ts % 3 == 0:
            writer.commit(ts, {})
    for reader in readers:
        reader.join(60)
    writer.close()
    assert failures == []
