"""Many puts at once are few transactions, and nobody hears of success before it is there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.contract import MAX_OPS, Compare, Op, StoreFailed
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.grouped_puts import GroupedPuts

THREADS, ROUNDS = 200, 5


class SlowStore(EmbeddedStore):
    """Takes as long as another machine does; fails while it is told so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SystemClock())
        self.sizes: list[int] = []
        self.broken = False

    def txn(self, compares: Sequence[Compare], ops: Sequence[Op], *, durable: bool = True) -> bool:
        threading.Event().wait(0.01)
        if self.broken:
            raise StoreFailed("a test breaks it", object="store")
        self.sizes.append(len(ops))
        return super().txn(compares, ops, durable=durable)


def test_what_comes_at_once_goes_together(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "meta.db")
    grouped = GroupedPuts(store)
    missing: list[str] = []

    def put(name: int) -> None:
        for n in range(ROUNDS):
            key, value = f"/report/{name}", str(n).encode()
            grouped.put(key, value)
            entry = store.get(key)
            if entry is None or entry.value != value:
                missing.append(key)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert sum(store.sizes) == THREADS * ROUNDS
    assert max(store.sizes) <= MAX_OPS
    # One by one they would be a thousand.
    assert len(store.sizes) < THREADS * ROUNDS / 10
    store.close()


def test_all_of_a_group_hear_that_it_failed(tmp_path: Path) -> None:
    store = SlowStore(tmp_path / "meta.db")
    grouped = GroupedPuts(store)
    store.broken = True
    heard = []

    def put(name: int) -> None:
        try:
            grouped.put(f"/report/{name}", b"")
        except StoreFailed:
            heard.append(name)

    threads = [threading.Thread(target=put, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(heard) == list(range(20))
    store.broken = False
    grouped.put("/report/0", b"again")
    entry = store.get("/report/0")
    assert entry is not None
    assert entry.value == b"again"
    store.broken = True
    with pytest.raises(StoreFailed):
        grouped.put("/report/1", b"")
    store.close()
