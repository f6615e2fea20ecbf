"""The power goes at any moment: several files of a log are torn at once, and it recovers whole."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdc.base.errors import TidegateError
from cdc.changelog.errors import LogCorrupt
from cdc.changelog.verify import verify
from cdc.changelog.writer import LogWriter
from tests.changelog.logs import dml, open_log
from tests.changelog.test_recovery import content
from tests.faults.power import Disk, after_power_loss
from tests.soak.plan import new_seed

COMMITS = 6
_EACH = 3
_SETTINGS = {"segment_bytes": 4096, "manifest_bytes": 1500}


def _sync_nothing(patch: pytest.MonkeyPatch) -> None:
    """Hundreds of recoveries: nothing in them depends on the disk having the bytes."""
    for name in ("fsync", "fdatasync"):
        patch.setattr(os, name, lambda fd: None)


def _commit(writer: LogWriter, i: int) -> None:
    """The i-th commit: two transactions, a new table, a segment or two."""
    table = writer.table_id("s", f"t{i}", b"\x01")
    dml(writer, i * 10 - 5, [(table, 1)], tag=b"x" * 1500)
    dml(writer, i * 10, [(0, 2), (table, 1)], tag=b"y" * 900)
    writer.commit(i * 10, {"at": i})


def _story(folder: Path, disk: Disk) -> list[tuple[Any, ...]]:
    """All commits; ``note`` is the last that the writer has said to be durable."""
    disk.note = 0
    writer = open_log(folder, **_SETTINGS)
    for i in range(1, COMMITS + 1):
        _commit(writer, i)
        disk.note = i * 10
    disk.remember()
    writer.close()
    return content(folder)


def test_a_log_survives_the_loss_of_all_that_was_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = new_seed()
    print(f"SEED={seed}")
    chosen = random.Random(seed)
    origin = tmp_path / "origin"
    origin.mkdir()
    disk = Disk(origin)
    disk.watch(monkeypatch)
    whole = _story(origin, disk)
    assert len(disk.moments) > 3 * COMMITS, "the disk was not watched"
    monkeypatch.undo()
    _sync_nothing(monkeypatch)
    behind = _all_recover(tmp_path, disk, whole, chosen, f"SEED={seed}")
    # A commit that was cut off may have been whole: both outcomes were met.
    assert behind, "no unsynced commit survived, so nothing was torn"


def _all_recover(
    place: Path, disk: Disk, whole: list[tuple[Any, ...]], chosen: random.Random, said: str
) -> int:
    """Lose the power at each moment, several times; how often more survived than was durable."""
    behind = 0
    for number, moment in enumerate(disk.moments):
        for again in range(_EACH):
            folder = place / "after"
            after_power_loss(moment, folder, chosen)
            reached = _recovers(folder, whole, moment.note, f"{said}: moment {number}, try {again}")
            behind += reached > moment.note
            shutil.rmtree(folder)
    return behind


def _recovers(folder: Path, whole: list[tuple[Any, ...]], sure: int, said: str) -> int:
    """The log opens at a commit, not below ``sure``, and takes all that is missing."""
    try:
        writer = open_log(folder, **_SETTINGS)
    except TidegateError as error:
        # A log that never was: its first lines were not yet synced.
        if isinstance(error, LogCorrupt) and sure == 0:
            return 0
        raise AssertionError(f"{said}: {error}") from error
    reached = writer.state.resolved_ts
    assert reached >= sure, f"{said}: {reached} of {sure} that were durable"
    assert content(folder) == [row for row in whole if row[0] <= reached], said
    for i in range(reached // 10 + 1, COMMITS + 1):
        _commit(writer, i)
    writer.close()
    assert content(folder) == whole, said
    assert verify(folder) == [], said
    return reached


def test_a_log_that_was_not_synced_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: of a writer that syncs its manifest alone, some commits would be lost."""
    from cdc.changelog import segment_file

    origin = tmp_path / "origin"
    origin.mkdir()
    disk = Disk(origin)
    disk.watch(monkeypatch)
    monkeypatch.setattr(segment_file.SegmentFile, "syncs", lambda self: [])
    whole = _story(origin, disk)
    monkeypatch.undo()
    _sync_nothing(monkeypatch)
    with pytest.raises(AssertionError, match="control: "):
        _all_recover(tmp_path, disk, whole, random.Random(1), "control")
