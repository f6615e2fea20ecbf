"""What only the embedded store promises: durability over kill -9, and privacy of its file."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.contract import LeaseExpired, Put, Store, StoreFailed, WatchCompacted
from cdc.coord.embedded import EmbeddedStore
from tests.coord.failing_sync import failing_sync
from tests.coord.test_contract import ManualClock

_WRITER = """
import sys
import tracemalloc
from pathlib import Path
from cdc.base.clock import SystemClock
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
store = EmbeddedStore(Path(sys.argv[1]), SystemClock())
i = int(store.get("/n").value) if store.get("/n") else 0
while True:
    i += 1
    store.txn([], [Put("/n", str(i).encode()), Put("/m", str(i).encode())], durable=i % 7 == 0)
    print(i, flush=True)
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    made = EmbeddedStore(tmp_path / "store" / "meta.db", clock)
    yield made
    made.close()


def test_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(150):
            line = writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged = [line, *writer.stdout.read().splitlines(keepends=True)]
        writer.wait()
        complete = [int(a) for a in acknowledged if a.endswith("\n")]
        store = EmbeddedStore(path, SystemClock())
        n, m = store.get("/n"), store.get("/m")
        assert n is not None
        assert m is not None
        assert n.value == m.value
        assert int(n.value) >= complete[-1]
        assert store.revision() == n.mod_revision
        store.close()


def test_its_files_are_private(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "store" / "meta.db", SystemClock())
    for file in (tmp_path / "store").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700
    store.close()


def test_a_full_disk_changes_nothing_and_is_transient(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    store.txn([], [Put("/a", b"1")])
    revision, lease = store.revision(), store.grant(60)
    # SQLite itself says that database or disk is full.
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(2):
        with pytest.raises(StoreFailed):
            store.txn([], [Put("/a", b"2"), Put("/large", b"x" * 1_000_000, lease)])
        assert (store.revision(), store.get("/large")) == (revision, None)
    store.keepalive(lease)
    store._db.execute("PRAGMA max_page_count = 1000000")
    assert store.txn([], [Put("/a", b"3"), Put("/large", b"x" * 1_000_000, lease)])
    store.close()
    again = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    found = again.get("/a")
    assert found is not None
    assert (found.value, again.get("/large")) == (b"3", None)
    again.close()


def test_what_watches_may_still_ask_for_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    """What the owner says of a busy changefeed's schema changes is some 16 KB, at each of them."""
    store = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    store.txn([], [Put("/small", b"1")])
    tracemalloc.start()
    try:
        for i in range(2000):
            store.txn([], [Put("/large", b"%05d" % i + bytes(16 << 10))], durable=False)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 8 << 20
    with pytest.raises(WatchCompacted):
        store.watch("/small", 1).next(0)
    late = store.watch("/large", store.revision() - 99).next(0)
    assert [event.value[:5] for event in late if event.value] == [
        b"%05d" % i for i in range(1900, 2000)
    ]
    store.close()


def test_a_sync_that_fails_is_no_success_and_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    with failing_sync() as disk:
        store = EmbeddedStore(path, SystemClock())
        store.txn([], [Put("/a", b"1")])
        # On its way to the disk with the next durable one.
        store.txn([], [Put("/b", b"1")], durable=False)
        revision, disk.broken = store.revision(), True
        with pytest.raises(StoreFailed):
            store.txn([], [Put("/a", b"2"), Put("/c", b"2")])
        assert disk.refused
        assert (store.revision(), store.get("/c")) == (revision, None)
        disk.broken = False
        store.txn([], [Put("/b", b"3")])
        store.close()
        again = EmbeddedStore(path, SystemClock())
        found = {e.key: e.value for e in again.range("/")[1]}
        again.close()
    assert found == {"/a": b"1", "/b": b"3"}


def test_keys_of_a_lease_go_with_it(store: Store, clock: ManualClock) -> None:
    lease = store.grant(10)
    store.txn([], [Put("/session", b"me", lease), Put("/mine", b"stays")])
    clock.t += 9
    store.keepalive(lease)
    clock.t += 9
    assert store.get("/session") is not None
    clock.t += 2
    # Seen to be over, it has its time once more: the holder may have been stopped with the store.
    assert store.get("/session") is not None
    clock.t += 11
    assert store.get("/session") is None
    assert store.get("/mine") is not None
    with pytest.raises(LeaseExpired):
        store.keepalive(lease)
    with pytest.raises(LeaseExpired):
        store.txn([], [Put("/session", b"me", lease)])
    store.revoke(lease)


def test_a_stall_of_the_whole_process_does_not_end_a_lease(
    store: Store, clock: ManualClock
) -> None:
    lease = store.grant(10)
    store.txn([], [Put("/session", b"me", lease)])
    for _ in range(3):
        clock.t += 60
        # Others are first to look, and the holder comes only behind them.
        assert store.get("/session") is not None
        assert store.revision()
        store.keepalive(lease)
        assert store.txn([], [Put("/again", b"", lease)])
    # The holder is the first one.
    clock.t += 60
    store.keepalive(lease)


def test_watch_of_forgotten_events_is_refused(store: Store) -> None:
    for i in range(9000):
        store.txn([], [Put("/busy", str(i).encode())], durable=False)
    with pytest.raises(WatchCompacted):
        store.watch("/busy", 5).next(0)
    assert store.watch("/busy", store.revision()).next(0)[0].value == b"8999"


def test_a_lease_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    store = EmbeddedStore(path, SystemClock())
    store.txn([], [Put("/session", b"", store.grant(10))])
    store.close()
    again = EmbeddedStore(path, SystemClock())
    assert again.get("/session") is None
    again.close()
