"""Promises of the store contract, for every implementation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.contract import (
    Delete,
    Held,
    LeaseExpired,
    Put,
    Store,
    Unchanged,
    WatchCompacted,
)
from cdc.coord.embedded import EmbeddedStore


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.t = 1000.0

    def now_ms(self) -> int:
        return int(self.t * 1000)

    def monotonic(self) -> float:
        return self.t


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def _embedded(path: Path, clock: ManualClock) -> Store:
    return EmbeddedStore(path / "store" / "meta.db", clock)


@pytest.fixture(params=[_embedded], ids=["embedded"])
def make(request: pytest.FixtureRequest) -> Callable[[Path, ManualClock], Store]:
    return request.param


@pytest.fixture
def store(make, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    made = make(tmp_path, clock)
    yield made
    made.close()


def test_put_get_range_delete(store: Store) -> None:
    assert store.get("/a") is None
    assert store.txn([], [Put("/a/2", b"two"), Put("/a/1", b"one"), Put("/b", b"x")])
    revision, entries = store.range("/a/")
    assert [(e.key, e.value) for e in entries] == [("/a/1", b"one"), ("/a/2", b"two")]
    assert revision == store.revision() == entries[0].mod_revision == entries[0].create_revision
    assert store.txn([], [Delete("/a/1"), Put("/a/2", b"two!")])
    entry = store.get("/a/2")
    assert entry is not None
    assert (entry.create_revision, entry.mod_revision) == (revision, revision + 1)
    assert store.get("/a/1") is None


def test_a_failed_compare_changes_nothing(store: Store) -> None:
    store.txn([], [Put("/k", b"1")])
    entry = store.get("/k")
    assert entry is not None
    assert not store.txn([Unchanged("/k", 0)], [Put("/other", b"")])
    assert not store.txn([Unchanged("/k", entry.mod_revision + 1)], [Put("/other", b"")])
    assert not store.txn([Held("/nobody", 1)], [Put("/other", b"")])
    assert store.get("/other") is None
    assert store.revision() == entry.mod_revision
    assert store.txn([Unchanged("/k", entry.mod_revision), Unchanged("/x", 0)], [Put("/k", b"2")])
    assert store.txn([Held("/k", entry.create_revision)], [Put("/k", b"3")])


def test_a_key_created_again_has_a_new_fencing_token(store: Store) -> None:
    store.txn([], [Put("/owner", b"a")])
    first = store.get("/owner")
    store.txn([], [Delete("/owner")])
    store.txn([], [Put("/owner", b"a")])
    assert first is not None
    assert not store.txn([Held("/owner", first.create_revision)], [Put("/x", b"")])


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


def test_revoke_deletes_at_once(store: Store) -> None:
    lease = store.grant(10)
    store.txn([], [Put("/session", b"me", lease)])
    store.revoke(lease)
    assert store.get("/session") is None
    assert store.grant(10) != lease


def test_watch_sees_changes_in_order_and_only_its_prefix(store: Store) -> None:
    store.txn([], [Put("/a/1", b"1")])
    start = store.revision()
    watch = store.watch("/a/", start + 1)
    store.txn([], [Put("/b", b"no")])
    store.txn([], [Put("/a/1", b"2"), Put("/a/2", b"3")])
    store.txn([], [Delete("/a/1")])
    events = watch.next(0)
    assert [(e.key, e.value) for e in events] == [("/a/1", b"2"), ("/a/2", b"3"), ("/a/1", None)]
    assert [e.revision - start for e in events] == [2, 2, 3]
    assert watch.next(0) == []


def test_watch_from_the_past(store: Store) -> None:
    store.txn([], [Put("/a", b"1")])
    revision = store.revision()
    store.txn([], [Put("/a", b"2")])
    assert [e.value for e in store.watch("/a", revision).next(0)] == [b"1", b"2"]


def test_watch_wakes_and_close_ends_it(store: Store) -> None:
    watch = store.watch("/a", store.revision() + 1)
    got: list[object] = []

    def follow() -> None:
        while events := watch.next():
            got.extend(e.value for e in events)

    thread = threading.Thread(target=follow)
    thread.start()
    store.txn([], [Put("/a", b"1")])
    store.txn([], [Put("/a", b"2")])
    for _ in range(500):
        if got == [b"1", b"2"]:
            break
        threading.Event().wait(0.01)
    watch.close()
    thread.join(5)
    assert not thread.is_alive()
    assert got == [b"1", b"2"]


def test_watch_of_forgotten_events_is_refused(store: Store) -> None:
    for i in range(9000):
        store.txn([], [Put("/busy", str(i).encode())], durable=False)
    with pytest.raises(WatchCompacted):
        store.watch("/busy", 5).next(0)
    assert store.watch("/busy", store.revision()).next(0)[0].value == b"8999"


def test_nothing_is_lost_over_close_and_open(make, tmp_path: Path, clock: ManualClock) -> None:
    store = make(tmp_path, clock)
    lease = store.grant(10)
    store.txn([], [Put("/a", b"1"), Put("/session", b"", lease)])
    store.txn([], [Put("/a", b"2")], durable=False)
    before = store.get("/a")
    revision = store.revision()
    store.close()
    again = make(tmp_path, clock)
    assert again.get("/a") == before
    assert again.revision() >= revision
    assert again.get("/session") is None
    again.close()


def test_competing_increments_are_all_counted(make, tmp_path: Path) -> None:
    store = make(tmp_path, SystemClock())
    store.txn([], [Put("/n", b"0")])

    def count() -> None:
        for _ in range(50):
            while True:
                entry = store.get("/n")
                put = Put("/n", str(int(entry.value) + 1).encode())
                if store.txn([Unchanged("/n", entry.mod_revision)], [put], durable=False):
                    break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert store.get("/n").value == b"200"
    store.close()
