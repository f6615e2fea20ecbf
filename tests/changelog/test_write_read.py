"""What is written can be read: positions, bytes, tables, DDL, snapshots, segments."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from cdc.base.position import END, START, Position
from cdc.changelog import names
from cdc.changelog.errors import LogCollected, LogLocked, LogMissing, LogOrderBroken
from cdc.changelog.reader import ChangeLog
from cdc.changelog.verify import verify
from tests.changelog.events import query
from tests.changelog.logs import ddl, dml, open_log, rows_event


def test_a_transaction_is_read_as_it_was_written(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    table = writer.table_id("shop", "orders", b"\x01\x02")
    assert writer.table_id("shop", "orders", b"\x01\x02") == table
    assert writer.table_id("shop", "orders", b"\x03") != table
    assert writer.source_id("0-1") == 0
    dml(writer, 10, [(table, 2), (table + 1, 3)])
    ddl(writer, 20, "create table t (a int)")
    writer.commit(25, {"file": "a", "pos": 4})

    log = ChangeLog.open(tmp_path)
    assert log.state.resolved_ts == 25
    assert log.state.position == {"file": "a", "pos": 4}
    assert (log.tables[table].schema, log.tables[table].map_body) == ("shop", b"\x01\x02")
    assert log.sources == {0: "0-1"}
    runs = log.runs(START, END)
    assert runs.rows.tolist() == [2, 3]
    assert log.end_position(runs, END) == Position(25)
    assert log.event(runs.slice(0, 1)) == rows_event(table, b"10/0")
    found = log.ddls(0, 100)
    assert log.event(found) == query("create table t (a int)")
    assert len(log.ddls(20, 100)) == 0
    writer.close()
    assert verify(tmp_path) == []


def test_an_index_is_read_for_schema_changes_only_where_there_are_more(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    ddl(writer, 10, "create table t (a int)")
    writer.commit(10, {})
    log = ChangeLog.open(tmp_path)
    assert len(log.ddls(0, 10)) == 1
    dml(writer, 20, [(0, 1)])
    writer.commit(20, {})
    index = tmp_path / names.index_name(1)
    log.refresh()
    moved = index.rename(tmp_path / "moved")
    assert log.ddls(0, 20).commit_ts.tolist() == [10]
    moved.rename(index)
    assert len(log.runs(START, END)) == 1
    ddl(writer, 30, "drop table t")
    writer.commit(30, {})
    log.refresh()
    assert log.ddls(0, 30).commit_ts.tolist() == [10, 30]
    writer.close()


def test_uncommitted_bytes_are_not_seen(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    with pytest.raises(LogMissing):
        ChangeLog.open(tmp_path / "no")
    log = ChangeLog.open(tmp_path)
    dml(writer, 10, [(0, 1)])
    assert log.refresh().resolved_ts == 0
    assert len(log.runs(START, END)) == 0
    writer.commit(10, {})
    assert log.refresh().resolved_ts == 10
    assert len(log.runs(START, END)) == 1
    writer.close()


def test_second_writer_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    with pytest.raises(LogLocked, match=r"process \d+"):
        open_log(tmp_path)
    writer.close()
    open_log(tmp_path).close()


def test_order_is_held(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    dml(writer, 10, [(0, 1)])
    with pytest.raises(LogOrderBroken):
        dml(writer, 10, [(0, 1)])
    with pytest.raises(LogOrderBroken):
        dml(writer, 9, [(0, 1)])
    writer.commit(15, {})
    with pytest.raises(LogOrderBroken):
        writer.commit(14, {})
    with pytest.raises(LogOrderBroken):
        dml(writer, 15, [(0, 1)])
    dml(writer, 16, [(0, 1)])
    writer.close()


def test_snapshots(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    writer.begin(5, {"pos": 4})
    writer.save_snapshot(5, {"a": "create table a"})
    writer.save_snapshot(50, {"a": "create table b"})
    log = ChangeLog.open(tmp_path)
    assert log.snapshots() == [5, 50]
    assert log.snapshot_at(49) == {"a": "create table a"}
    assert log.snapshot_at(50) == {"a": "create table b"}
    with pytest.raises(LogCollected):
        log.snapshot_at(4)
    with pytest.raises(LogCollected):
        log.runs(Position(4), END)
    assert len(log.runs(Position(5), END)) == 0
    writer.close()


def test_a_log_that_holds_nothing_may_begin_later(tmp_path: Path) -> None:
    with open_log(tmp_path) as writer:
        writer.begin(5, {"pos": 4})
        writer.begin_later(9)
        with pytest.raises(LogOrderBroken):
            writer.begin_later(8)
    with open_log(tmp_path) as writer, closing(ChangeLog.open(tmp_path)) as log:
        assert (log.state.first_ts, log.state.resolved_ts) == (9, 9)
        assert log.state.position == {"pos": 4}
        with pytest.raises(LogCollected):
            log.runs(Position(8), END)
        with pytest.raises(LogOrderBroken):
            dml(writer, 9, [(0, 1)])
        dml(writer, 10, [(0, 1)])
        with pytest.raises(LogOrderBroken):
            writer.begin_later(20)
        writer.commit(10, {})
        assert len(ChangeLog.open(tmp_path).runs(Position(9), END)) == 1


def test_segments_roll_and_each_begins_with_the_format(tmp_path: Path) -> None:
    writer = open_log(tmp_path, segment_bytes=4096)
    for ts in range(1, 101):
        dml(writer, ts, [(0, 1)], tag=b"x" * 100)
        if ts % 10 == 0:
            writer.commit(ts, {"ts": ts})
    log = ChangeLog.open(tmp_path)
    assert log.state.segment > 4
    runs = log.runs(START, END)
    assert runs.commit_ts.tolist() == list(range(1, 101))
    for i in range(100):
        expected = rows_event(0, b"%d/0" % (i + 1) + b"x" * 100)
        assert log.event(runs.slice(i, i + 1)) == expected
    head = bytes(log.segment(1)[:100])
    assert all(bytes(log.segment(s.number)[:100]) == head for s in log.state.segments())
    writer.close()
    assert verify(tmp_path) == []


def test_the_index_needs_no_pandas() -> None:
    """Importing it would hold up the first commit of a process, and cost memory for nothing."""
    code = (
        "import sys; from cdc.changelog.index import Runs; import cdc.changelog.index_file as f;"
        "r = Runs.build(3, commit_ts=[1, 2, 3]);"
        "d = f.decode(f.SCHEMA_BYTES + f.encode_batch(r, 0), whole=True);"
        "assert d.equals(r); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
