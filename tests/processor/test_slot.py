"""A slot belongs to one live process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from processor.slot import NoSlotFree, Slot, remove_older

_HOLDER = """
import sys, time
from pathlib import Path
from processor.slot import Slot
slot = Slot.claim(Path(sys.argv[1]), 4)
print(slot.number, flush=True)
time.sleep(60)
"""


def test_slots_differ_and_run_out(tmp_path: Path) -> None:
    first, second = Slot.claim(tmp_path, 2), Slot.claim(tmp_path, 2)
    assert {first.number, second.number} == {0, 1}
    with pytest.raises(NoSlotFree):
        Slot.claim(tmp_path, 2)
    first.release()
    assert Slot.claim(tmp_path, 2).number == first.number


def test_a_killed_process_gives_its_slot_back(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline().strip() == "0"
        assert Slot.claim(tmp_path, 2).number == 1
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert Slot.claim(tmp_path, 2).number == 0


def test_folders_of_older_epochs_go_and_a_lock_in_them_holds(tmp_path: Path) -> None:
    for epoch in ("9", "10", "11", "notes"):
        (tmp_path / epoch).mkdir()
    zombie = Slot.claim(tmp_path / "9", 1)
    remove_older(tmp_path, 10)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["10", "11", "notes"]
    zombie.release()
    remove_older(tmp_path / "none", 10)
