"""Promises of the store contract, for every implementation."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from cdc.coord.contract import (
    MAX_OPS,
    Delete,
    Held,
    KeyEvent,
    LeaseExpired,
    Put,
    Store,
    StoreTxnInvalid,
    StoreTxnTooLarge,
    Unchanged,
    Watch,
)
from cdc.coord.opening import open_store
from tests import servers
from tests.seeds import seed
from tests.servers.etcd import Etcd


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.t = 1000.0

    def now_ms(self) -> int:
        return int(self.t * 1000)

    def monotonic(self) -> float:
        return self.t


@pytest.fixture(scope="module")
def etcds() -> Iterator[Callable[[str], Etcd]]:
    """One etcd of each version for all tests of this module; each has a prefix of its own."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(servers.etcd(name)))


@pytest.fixture(
    params=[
        "embedded",
        *(pytest.param(n, marks=pytest.mark.real) for n in ("etcd-3.4", "etcd-3.5")),
    ]
)
def place(request: pytest.FixtureRequest, etcds: Callable[[str], Etcd], tmp_path: Path) -> str:
    """Address of a store that holds nothing."""
    if request.param == "embedded":
        return "embedded"
    return f"{etcds(request.param).address}/{tmp_path.name}"


@pytest.fixture
def make(place: str, tmp_path: Path) -> Callable[[], Store]:
    return lambda: open_store(place, tmp_path / "store" / "meta.db", ManualClock())


@pytest.fixture
def store(make: Callable[[], Store]) -> Iterator[Store]:
    made = make()
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


def test_ranges_are_what_was_put_and_not_deleted_in_order(store: Store) -> None:
    """Of every prefix, also of one that begins another one, and of what no key begins with."""
    drawn = random.Random(seed())
    known: dict[str, bytes] = {}
    for number in range(150):
        key = "/r/" + "".join(drawn.choice("ab/~é") for _ in range(drawn.randint(1, 4)))
        value = str(number).encode()
        if drawn.random() < 0.6:
            store.txn([], [Put(key, value)])
            known[key] = value
        else:
            store.txn([], [Delete(key)])
            known.pop(key, None)
        prefix = "/r/" + "".join(drawn.choice("ab/~é") for _ in range(drawn.randint(0, 2)))
        expected = [(k, known[k]) for k in sorted(known) if k.startswith(prefix)]
        assert [(e.key, e.value) for e in store.range(prefix)[1]] == expected


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


def test_the_token_of_nobody_never_holds(store: Store) -> None:
    assert not store.txn([Held("/nobody", 0)], [Put("/other", b"")])
    assert store.get("/other") is None


def test_what_no_store_takes_every_store_refuses(store: Store) -> None:
    assert store.txn([], [Put(f"/k/{n}", b"") for n in range(MAX_OPS)])
    with pytest.raises(StoreTxnTooLarge):
        store.txn([], [Put(f"/k/{n}", b"x") for n in range(MAX_OPS + 1)])
    with pytest.raises(StoreTxnInvalid):
        store.txn([], [Put("/k/0", b"x"), Delete("/k/0")])
    assert {e.value for e in store.range("/k/")[1]} == {b""}


def test_a_key_created_again_has_a_new_fencing_token(store: Store) -> None:
    store.txn([], [Put("/owner", b"a")])
    first = store.get("/owner")
    store.txn([], [Delete("/owner")])
    store.txn([], [Put("/owner", b"a")])
    assert first is not None
    assert not store.txn([Held("/owner", first.create_revision)], [Put("/x", b"")])


def test_revoke_deletes_at_once(store: Store) -> None:
    lease = store.grant(10)
    store.txn([], [Put("/session", b"me", lease), Put("/mine", b"stays")])
    entry = store.get("/session")
    assert entry is not None
    assert entry.lease == lease
    store.keepalive(lease)
    store.revoke(lease)
    assert store.get("/session") is None
    assert store.get("/mine") is not None
    with pytest.raises(LeaseExpired):
        store.keepalive(lease)
    with pytest.raises(LeaseExpired):
        store.txn([], [Put("/session", b"me", lease)])
    store.revoke(lease)
    assert store.grant(10) != lease


def _events(watch: Watch, count: int) -> list[KeyEvent]:
    """So many events, however they come."""
    events: list[KeyEvent] = []
    while len(events) < count:
        more = watch.next(10)
        assert more, events
        events += more
    return events


def test_watch_sees_changes_in_order_and_only_its_prefix(store: Store) -> None:
    store.txn([], [Put("/a/1", b"1")])
    start = store.revision()
    watch = store.watch("/a/", start + 1)
    store.txn([], [Put("/b", b"no")])
    store.txn([], [Put("/a/1", b"2"), Put("/a/2", b"3")])
    store.txn([], [Delete("/a/1")])
    events = _events(watch, 3)
    assert [(e.key, e.value) for e in events] == [("/a/1", b"2"), ("/a/2", b"3"), ("/a/1", None)]
    assert [e.revision - start for e in events] == [2, 2, 3]
    assert watch.next(0) == []


def test_watch_from_the_past(store: Store) -> None:
    store.txn([], [Put("/a", b"1")])
    revision = store.revision()
    store.txn([], [Put("/a", b"2")])
    watch = store.watch("/a", revision)
    assert [e.value for e in _events(watch, 2)] == [b"1", b"2"]
    watch.close()


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


def test_nothing_is_lost_over_close_and_open(make: Callable[[], Store]) -> None:
    store = make()
    lease = store.grant(10)
    store.txn([], [Put("/a", b"1"), Put("/session", b"", lease)])
    store.txn([], [Put("/a", b"2")], durable=False)
    before = store.get("/a")
    revision = store.revision()
    store.close()
    again = make()
    assert again.get("/a") == before
    assert again.revision() >= revision
    again.close()


def test_competing_increments_are_all_counted(store: Store) -> None:
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


def test_a_range_is_of_one_moment_however_long(store: Store) -> None:
    for first in range(0, 2500, 100):
        store.txn([], [Put(f"/many/{n:05}", b"0") for n in range(first, first + 100)])
    stop = threading.Event()

    def change() -> None:
        # Both ends in one transaction, so that whoever sees one of them old sees both so.
        n = 0
        while not stop.is_set():
            n += 1
            value = str(n).encode()
            store.txn([], [Put("/many/00000", value), Put("/many/02499", value)])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(20):
            _, entries = store.range("/many/")
            assert len(entries) == 2500
            assert entries[0].value == entries[-1].value
    finally:
        stop.set()
        thread.join()
