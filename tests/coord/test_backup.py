"""A backup is the store at one moment, whoever writes it meanwhile; nothing else passes for one."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.backup import BackupInvalid, BackupRefused, back_up, restore
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore


def _store(folder: Path) -> EmbeddedStore:
    return EmbeddedStore(folder / "store" / "meta.db", SystemClock())


def test_a_backup_of_a_store_that_is_written_is_one_moment_of_it(tmp_path: Path) -> None:
    """Two keys that always change together are the same in each backup."""
    store, stopping = _store(tmp_path / "data"), threading.Event()
    store.txn([], [Put("/a", b"0"), Put("/b", b"0")])
    first = threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            value = json.dumps([number] * 200).encode()
            store.txn([], [Put("/a", value), Put("/b", value)], durable=number % 3 == 0)
            first.set()

    writer = threading.Thread(target=write)
    writer.start()
    first.wait()
    seen = []
    for number in range(8):
        made = tmp_path / f"backup-{number}"
        assert back_up(tmp_path / "data/store/meta.db", made) == 2
        assert made.stat().st_mode & 0o777 == 0o600
        assert restore(made, tmp_path / f"data-{number}") == 2
        again = _store(tmp_path / f"data-{number}")
        one, two = again.get("/a"), again.get("/b")
        assert one is not None
        assert two is not None
        assert one.value == two.value
        seen.append(one.mod_revision)
        again.close()
    stopping.set()
    writer.join()
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] <= store.revision()
    store.close()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    _store(tmp_path / "data").close()
    made = tmp_path / "backup"
    back_up(tmp_path / "data/store/meta.db", made)
    for target in (made, tmp_path / "no/such/folder"):
        with pytest.raises(BackupRefused):
            back_up(tmp_path / "data/store/meta.db", target)
    with pytest.raises(BackupRefused):
        restore(made, tmp_path / "data")
    with pytest.raises(BackupRefused):
        back_up(tmp_path / "other/store/meta.db", tmp_path / "backup-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


def test_what_is_no_whole_backup_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path / "data")
    store.txn([], [Put(f"/{n}", bytes(5000)) for n in range(100)])
    store.close()
    made = tmp_path / "backup"
    back_up(tmp_path / "data/store/meta.db", made)
    whole = made.read_bytes()
    # Through the middle of a page's list of cells.
    damaged = whole[:8192] + bytes(4096) + whole[12288:]
    for number, data in enumerate((b"", b"no database", whole[: len(whole) // 2], damaged)):
        bad = tmp_path / f"bad-{number}"
        bad.write_bytes(data)
        with pytest.raises(BackupInvalid):
            restore(bad, tmp_path / f"new-{number}")
        assert list((tmp_path / f"new-{number}").iterdir()) == []
