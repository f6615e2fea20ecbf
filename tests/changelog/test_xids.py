"""Xids: what has ended leaves nothing behind, what is prepared survives whatever happens."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cdc.changelog import lines, names
from cdc.changelog.errors import LogCorrupt, LogWriteFailed
from cdc.changelog.index import Runs
from cdc.changelog.manifest import ManifestWriter
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from tests.changelog.logs import StillClock, commit_prepared, open_log, prepare

_MANY = 3000


def _ended(writer: LogWriter, first: int, count: int) -> None:
    """Transactions with long xids, each prepared and committed, some group commits between."""
    for ts in range(first, first + count):
        prepare(writer, f"'{ts:060}'")
        commit_prepared(writer, f"'{ts:060}'", ts)
        if ts % 10 == 0:
            writer.commit(ts, {})
    writer.commit(first + count, {})


def _size(folder: Path, name: str) -> int:
    path = folder / name
    return path.stat().st_size if path.exists() else 0


def test_what_has_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    prepare(writer, "'for long'")
    writer.commit(1, {})
    number = writer.xid_id("'for long'")
    rows = writer.prepared(number)
    assert len(rows)
    tables = _size(tmp_path, names.TABLES)
    _ended(writer, 2, _MANY)
    assert _size(tmp_path, names.TABLES) == tables
    # Some 300,000 bytes were written; what is dead may wait until 64 KiB of it are worth it.
    assert _size(tmp_path, names.XIDS) < 160_000
    assert writer.xid_id("'for long'") == number
    # Killed here: another process finds it in what is on the disk.
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-killed")
    writer.close()
    for folder in (tmp_path.parent / f"{tmp_path.name}-killed", tmp_path):
        with open_log(folder) as again:
            assert again.xid_id("'for long'") == number
            assert len(again.prepared(number)) == len(rows)
            assert _size(folder, names.XIDS) < 200
    log = ChangeLog.open(tmp_path)
    assert log._dictionaries.xids == {}
    log.close()


def test_one_that_has_ended_is_kept_until_that_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_log(tmp_path)
    prepare(writer, "'a'")
    writer.commit(1, {})
    _ended(writer, 2, 900)
    # The commit of its end rewrites the file, and dies before the manifest.
    for i in range(900):
        prepare(writer, f"'{i:060} more'")
        commit_prepared(writer, f"'{i:060} more'", 2000 + i)
    commit_prepared(writer, "'a'", 4000)
    prepare(writer, "'b'")

    def dies(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(ManifestWriter, "append", dies)
        with pytest.raises(LogWriteFailed):
            writer.commit(4000, {})
    assert _size(tmp_path, names.XIDS) < 200_000
    writer.discard()
    assert len(writer.prepared(writer.xid_id("'a'"))), "its rows are prepared still"
    assert not len(writer.prepared(writer.xid_id("'b'")))
    writer.close()


def test_numbers_begin_again_and_pass_over_what_is_in_use(tmp_path: Path) -> None:
    with open_log(tmp_path) as writer:
        prepare(writer, "'for long'")
        number = writer.xid_id("'for long'")
        writer.take_xids(2**31 - 3, {})
        assert writer.free_xids(2) == 2**31 - 3
        assert writer.free_xids(3) == number + 1
        assert writer.xid_id("'another'") == number + 1
        assert writer.xid_id("'for long'") == number
        assert writer.xids() == {number: "'for long'", number + 1: "'another'"}


def test_a_log_of_an_older_version(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    for text in ("'ended'", "'a'"):
        line = lines.encode({"xid": writer.xid_id(text), "text": text})
        writer._dictionaries.unwritten.append(line)
        prepare(writer, text)
    commit_prepared(writer, "'ended'", 1)
    writer.commit(1, {})
    writer.close()
    (tmp_path / names.XIDS).unlink()
    for _ in range(2):
        with open_log(tmp_path) as again:
            assert len(again.prepared(again.xid_id("'a'")))
            assert [p.xid for p in again.pinned()] == ["'a'"]


def test_an_xid_that_is_missing_is_damage(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    prepare(writer, "'a'")
    writer.commit(1, {})
    writer.close()
    path = tmp_path / names.XIDS
    data = path.read_bytes()
    path.write_bytes(data.replace(b"'a'", b"'b'"))
    with pytest.raises(LogCorrupt):
        open_log(tmp_path)
    # A line that was cut before its commit is none.
    path.write_bytes(data + data[:20])
    with open_log(tmp_path) as again:
        assert len(again.prepared(again.xid_id("'a'")))


def test_what_a_transaction_that_nobody_ends_pins(tmp_path: Path) -> None:
    clock = StillClock()
    writer = open_log(tmp_path, clock, segment_bytes=4096)
    _ended(writer, 1, 100)
    first = clock.now_ms()
    prepare(writer, "'a'")
    writer.commit(101, {})
    clock.ms += 5000
    prepare(writer, "'b'")
    writer.commit(102, {})
    before = writer.pinned()
    assert [(p.xid, p.since_ms) for p in before] == [("'a'", first), ("'b'", first + 5000)]
    _ended(writer, 110, 100)
    after = writer.pinned()[0]
    assert after.log_bytes > before[0].log_bytes + 4096
    state = writer.state
    assert after.log_bytes < state.bytes()
    clock.ms += 10**9
    assert writer.collect(10**6)
    # What is left is what it pins.
    assert writer.pinned()[0].log_bytes == writer.state.bytes() - writer.state.tables_length
    commit_prepared(writer, "'a'", 300)
    writer.commit(300, {})
    assert [p.xid for p in writer.pinned()] == ["'b'"]
    assert isinstance(writer.prepared(99), Runs)
    writer.close()
