"""Statements outlive their segments: the schema of what stays still follows from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc.changelog import journal, names
from cdc.changelog.errors import LogCollected, LogCorrupt
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from tests.changelog.events import query
from tests.changelog.logs import StillClock, ddl, dml, open_log

EVERY = 1 << 62


def _path(folder: Path) -> Path:
    return folder / names.SCHEMA_FOLDER / names.STATEMENTS


def _sql(ts: int) -> str:
    return f"ALTER TABLE t ADD COLUMN c{ts} INT"


def _write(writer: LogWriter, first: int, last: int) -> None:
    """Every fifth ts a statement, rows at the others; several segments."""
    for ts in range(first, last + 1):
        if ts % 5 == 0:
            ddl(writer, ts, _sql(ts))
        else:
            dml(writer, ts, [(0, 1)], tag=b"x" * 200)
        writer.commit(ts, {})


def _all(last: int) -> list[tuple[int, bytes]]:
    return [(ts, query(_sql(ts))) for ts in range(5, last + 1, 5)]


def test_what_is_kept_is_read_back_within_its_bounds(tmp_path: Path) -> None:
    assert list(journal.read(tmp_path, 0, EVERY)) == []
    found = [(3, b"three"), (5, b"\x00\xff"), (9, b"nine")]
    journal.keep(tmp_path, 0, found)
    assert list(journal.read(tmp_path, 0, EVERY)) == found
    assert list(journal.read(tmp_path, 3, 5)) == found[1:2]
    assert list(journal.read(tmp_path, 9, EVERY)) == []


def test_keeping_again_changes_nothing(tmp_path: Path) -> None:
    """A writer that died between the journal and the manifest keeps the same ones once more."""
    journal.keep(tmp_path, 0, [(3, b"three"), (5, b"five")])
    before = _path(tmp_path).read_bytes()
    journal.keep(tmp_path, 0, [(3, b"three"), (5, b"five")])
    journal.keep(tmp_path, 0, [])
    assert _path(tmp_path).read_bytes() == before
    journal.keep(tmp_path, 0, [(5, b"five"), (7, b"seven")])
    assert [ts for ts, _ in journal.read(tmp_path, 0, EVERY)] == [3, 5, 7]


def test_statements_below_the_oldest_snapshot_go(tmp_path: Path) -> None:
    journal.keep(tmp_path, 0, [(3, b"three"), (5, b"five")])
    journal.keep(tmp_path, 3, [(3, b"three"), (7, b"seven")])
    assert [ts for ts, _ in journal.read(tmp_path, 3, EVERY)] == [5, 7]
    # Whoever still has an older snapshot must not take what is left for all.
    with pytest.raises(LogCollected):
        list(journal.read(tmp_path, 2, EVERY))


@pytest.mark.parametrize(
    ("line", "at"), [(0, 3), (0, 25), (1, 3), (1, 15), (1, 40), (2, -20), (2, -1)]
)
def test_damage_is_named(tmp_path: Path, line: int, at: int) -> None:
    journal.keep(tmp_path, 0, [(3, b"three"), (5, b"five")])
    data = bytearray(_path(tmp_path).read_bytes())
    start = sum(map(len, bytes(data).splitlines(keepends=True)[:line]))
    data[at if at < 0 else start + at] ^= 1
    _path(tmp_path).write_bytes(data)
    with pytest.raises(LogCorrupt) as caught:
        list(journal.read(tmp_path, 0, EVERY))
    assert caught.value.object == "schema/statements"
    assert caught.value.position == f"schema/statements:{start}"
    with pytest.raises(LogCorrupt):
        # What stays must not be written anew without what was lost.
        journal.keep(tmp_path, 0, [(7, b"seven")])
    assert _path(tmp_path).read_bytes() == data


def test_statements_reach_across_segments_that_are_gone(tmp_path: Path) -> None:
    clock = StillClock()
    with open_log(tmp_path, clock, segment_bytes=4096, keep_s=0) as writer:
        writer.save_snapshot(0, {"at": 0})
        _write(writer, 1, 100)
        old = ChangeLog.open(tmp_path)
        assert old.statements(0, EVERY) == _all(100)
        for checkpoint in (30, 31, 70):
            writer.collect(checkpoint, starts=(0,))
            first = writer.state.first_ts
            assert first > checkpoint - 20
            log = ChangeLog.open(tmp_path)
            assert log.statements(0, EVERY) == _all(100)
            assert log.statements(25, 95) == [s for s in _all(95) if s[0] > 25]
            assert log.statements(first, 95) == [s for s in _all(95) if s[0] > first]
            assert log.statements(0, 10) == _all(10)
            assert [ts for ts, _ in journal.read(tmp_path, 0, EVERY)] == list(
                range(5, first + 1, 5)
            )
            # A reader that has not looked since finds the segment gone, not the statements.
            assert old.statements(0, EVERY) == _all(100)
            log.close()
        old.close()
    with open_log(tmp_path, clock, segment_bytes=4096, keep_s=0) as writer:
        _write(writer, 101, 200)
        writer.collect(170, starts=(0,))
        log = ChangeLog.open(tmp_path)
        assert log.statements(0, EVERY) == _all(200)
        log.close()


def test_the_journal_goes_with_the_snapshots_that_it_continues(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=4096, keep_s=0) as writer:
        writer.save_snapshot(0, {"at": 0})
        _write(writer, 1, 100)
        writer.save_snapshot(40, {"at": 40})
        writer.collect(60)
        log = ChangeLog.open(tmp_path)
        assert log.snapshots() == [40]
        assert log.snapshot_at(60)["at"] == 40
        assert log.statements(40, EVERY) == [s for s in _all(100) if s[0] > 40]
        _write(writer, 101, 200)
        writer.collect(160)
        assert min(ts for ts, _ in journal.read(tmp_path, 40, EVERY)) == 45
        with pytest.raises(LogCollected):
            log.statements(0, EVERY)
        log.close()
