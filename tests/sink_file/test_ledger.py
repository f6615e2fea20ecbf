"""A folder's ledger: who may write, what counts, and what a crash or a zombie leaves."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import Position, Stand
from cdc.base.ts import Ts
from sink.binlog.ledger import StreamLedger
from sink.contract import RECOVERY_BITS
from sink.errors import FencedEpoch
from sink.file.errors import FileLedgerDamaged, FileLedgerLost
from sink.file.ledger import (
    CHANGE,
    ROWS,
    FileLedger,
    Journal,
    PartFile,
    Reached,
    ledgers,
    window_line,
)
from sink.file.names import change_name, folder, part, rows_name
from sink.schema_change import Recorded

FEED = FeedId("i", "feed", 3)
AT = ("s/t", 0)


def _began(root: Path, epoch: int) -> FileLedger:
    ledger = FileLedger(root, FEED)
    ledger.claim(epoch)
    ledger.begin(epoch)
    return ledger


def _window(ledger: FileLedger, epoch: int, ts: int, *, slot: int = 0) -> PartFile:
    """A window of one file that is committed, and not yet moved to its place."""
    made = PartFile(f"{ROWS}{epoch}-{slot}-{ts}", f"s/t/{rows_name(Position(ts), 0)}")
    (ledger.parts / made.part).write_bytes(b"{}\r\n")
    with Journal(ledger.path / f"slot-{epoch}-{slot}") as journal:
        journal.append(window_line({AT: Reached("s.t", Stand(ts))}, [made]))
    return made


def _files(root: Path) -> list[str]:
    return sorted(p.relative_to(root).as_posix() for p in root.glob("s/t/*"))


def test_what_is_committed_comes_to_its_place_and_what_is_not_goes(tmp_path: Path) -> None:
    ledger = _began(tmp_path, 1)
    made = [_window(ledger, 1, 10), _window(ledger, 1, 20, slot=1)]
    ledger.move(made[:1])
    (ledger.parts / f"{ROWS}1-0-x").write_bytes(b"half of a wind")
    (ledger.parts / f"{CHANGE}1-9-0").write_bytes(b"the owner's")
    with (ledger.path / "slot-1-0").open("ab") as torn:
        torn.write(window_line({AT: Reached("s.t", Stand(99))}, [])[:-1])

    ledger.claim(2)
    assert {d: r.at for d, r in ledger.begin(2).items()} == {AT: Stand(20)}
    assert _files(tmp_path) == [m.place for m in made]
    assert [p.name for p in ledger.parts.iterdir()] == [f"{CHANGE}1-9-0"]
    # Again, from what it has written itself; readers may have taken the files meanwhile.
    (tmp_path / made[0].place).unlink()
    ledger.claim(3)
    assert {d: r.at for d, r in ledger.begin(3).items()} == {AT: Stand(20)}
    assert _files(tmp_path) == [made[1].place]
    assert sorted(p.name for p in ledger.path.glob("*-*")) == ["base-3"]


def test_a_worker_that_looked_before_a_recovery_and_wrote_behind_it_adds_nothing(
    tmp_path: Path,
) -> None:
    ledger = _began(tmp_path, 1)
    ledger.claim(2)
    ledger.begin(2)
    # Its journal and its file are made anew, as it does not know yet.
    made = _window(ledger, 1, 99)
    for epoch in (3, 4):
        ledger.claim(epoch)
        assert ledger.begin(epoch) == {}
    assert _files(tmp_path) == []
    assert not (ledger.parts / made.part).exists()


def test_the_table_that_stands_higher_counts(tmp_path: Path) -> None:
    ledger = _began(tmp_path, 1)
    held = [Stand(50, held={"s.t": Position(ts)}) for ts in (30, 10, 20)]
    for slot, at in enumerate(held):
        with Journal(ledger.path / f"slot-1-{slot}") as journal:
            journal.append(window_line({AT: Reached("s.t", at)}, []))
    assert ledger.reached()[AT].own == Position(30)


def test_an_older_epoch_and_an_older_incarnation_are_fenced(tmp_path: Path) -> None:
    ledger = _began(tmp_path, 5)
    with pytest.raises(FencedEpoch):
        ledger.claim(4)
    with pytest.raises(FencedEpoch):
        ledger.check(4)
    ledger.check(5)
    later = FileLedger(tmp_path, FeedId("i", "feed", 4))
    later.claim(1)
    assert list(ledgers(tmp_path)) == [later.feed]
    for call in (lambda: ledger.check(5), lambda: ledger.claim(6)):
        with pytest.raises(FencedEpoch):
            call()


def test_recoveries_of_rows_do_not_fence_the_owner(tmp_path: Path) -> None:
    ledger, owner = FileLedger(tmp_path, FEED), 7 << RECOVERY_BITS
    ledger.claim(owner + 2)
    ledger.claim(owner, bits=RECOVERY_BITS)
    assert ledger.epoch == owner + 2
    ledger.check(owner, bits=RECOVERY_BITS)
    ledger.claim((8 << RECOVERY_BITS) + 1)
    with pytest.raises(FencedEpoch):
        ledger.check(owner, bits=RECOVERY_BITS)


def test_a_ledger_that_is_gone_or_damaged_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileLedgerLost):
        FileLedger(tmp_path, FEED).claim(1, begun=True)
    ledger = _began(tmp_path, 1)
    ledger.claim(2, begun=True)
    _window(ledger, 1, 10)
    slot = ledger.path / "slot-1-0"
    slot.write_bytes(slot.read_bytes().replace(b"10", b"11", 1))
    with pytest.raises(FileLedgerDamaged, match="not what was written"):
        ledger.begin(2)


def test_schema_changes_are_recorded_and_forgotten(tmp_path: Path) -> None:
    ledger = _began(tmp_path, 1)
    assert ledger.begin_changes(1) == {}
    ledger.record(1, {5: Recorded.DONE, 6: Recorded.SKIPPED})
    ledger.record(1, {5: None, 7: Recorded.DONE})
    left = {6: Recorded.SKIPPED, 7: Recorded.DONE}
    assert ledger.begin_changes(1) == left
    assert len((ledger.path / "changes-1").read_bytes().splitlines()) == 2
    assert FileLedger(tmp_path, FEED).begin_changes(2) == left
    with pytest.raises(FileNotFoundError):
        ledger.record(1, {8: Recorded.DONE})
    assert [p.name for p in ledger.path.glob("changes-*")] == ["changes-2"]


@pytest.mark.parametrize(("mode", "of_files"), [(0o750, 0o640), (0o700, 0o600), (0o2775, 0o664)])
def test_who_may_enter_the_folder_may_read_the_files(
    tmp_path: Path, mode: int, of_files: int
) -> None:
    root = tmp_path / "out"
    root.mkdir()
    root.chmod(mode)
    before = os.umask(0o077)
    try:
        ledger = _began(root, 1)
        made = _window(ledger, 1, 10)
        assert ledger.move([made]) == []
    finally:
        os.umask(before)
    file = root / made.place
    assert [stat.S_IMODE(p.stat().st_mode) for p in (file, file.parent)] == [of_files, mode]
    assert ledger.move([made]) == [made]


def test_names_sort_as_the_tables_history(tmp_path: Path) -> None:
    whole = Position(10)
    history = [
        rows_name(Position(9), 0), rows_name(Position(10, 5), 0), rows_name(Position(10, 40), 0),
        rows_name(whole, 0), rows_name(whole, 1), change_name(11), rows_name(Position(12), 0),
        rows_name(Position(1 << 60), 0),
    ]  # fmt: skip
    assert sorted(history) == history
    names = ["a", "A", "a/b", "..", ".x", "%2E.", "50%", "é😀", "a b"]
    assert len({part(name) for name in names}) == len(names)
    for name in names:
        (tmp_path / folder(name, name)).mkdir(parents=True)


@pytest.mark.parametrize("kind", [FileLedger, partial(StreamLedger, name="binlog")])
def test_half_written_files_of_a_crash_do_not_count(
    kind: Callable[..., FileLedger], tmp_path: Path
) -> None:
    ledger = kind(tmp_path, FEED)
    ledger.claim(1)
    ledger.begin(1)
    ledger.begin_changes(1)
    ledger.record(1, {Ts(7): Recorded.DONE})
    _window(ledger, 1, 10)
    for left in ("base-2.tmp", "slot-1-0.tmp", "changes-2.tmp"):
        (ledger.path / left).write_bytes(b"half of a line")
    assert ledger.reached()[AT].own == Position(10)
    ledger.claim(2)
    assert ledger.begin(2)[AT].own == Position(10)
    assert ledger.begin_changes(2) == {7: Recorded.DONE}


def test_an_epoch_that_begins_while_lines_are_read(tmp_path: Path) -> None:
    ledger = _began(tmp_path, 1)
    _window(ledger, 1, 10)

    class Overtaken(FileLedger):
        def counting(self) -> list[Path]:
            files = super().counting()
            if self.epoch == 1:
                ledger.claim(2)
                ledger.begin(2)
            return files

    assert Overtaken(tmp_path, FEED).reached()[AT].own == Position(10)
