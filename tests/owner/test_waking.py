"""The owner rests while nobody waits for it, and no longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.coord.contract import Put, Store
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from owner.concerned import Concerned
from owner.logs import UpstreamLog
from owner.waking import Waking

_LONG_S = 30.0


def _no_log(name: str) -> UpstreamLog:
    raise AssertionError(name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield made
    made.close()


@pytest.fixture
def waking(store: Store) -> Iterator[Waking]:
    stop = threading.Event()
    made = Waking(store, Keys(), _no_log, SystemClock(), stop, Parts())
    made.start()
    made.wait(_LONG_S)
    yield made
    stop.set()
    made.close(_LONG_S)


def test_a_rest_ends_with_news_that_somebody_waits_for(waking: Waking) -> None:
    feed = frozenset({"f"})
    threading.Timer(0.05, waking.wake, [Concerned(feeds=feed)]).start()
    began = time.monotonic()
    waking.rest(_LONG_S)
    assert time.monotonic() - began < _LONG_S / 2
    assert waking.wait(_LONG_S).feeds == feed


def test_progress_ends_no_rest_but_is_not_forgotten(waking: Waking) -> None:
    waking.wake(Concerned(progress=frozenset({"f"})))
    began = time.monotonic()
    waking.rest(0.2)
    assert time.monotonic() - began >= 0.2
    assert waking.wait(_LONG_S).progress == {"f"}


def test_a_capture_concerns_all_and_the_record_of_a_request_none(
    waking: Waking, store: Store
) -> None:
    for key in (Keys().audit("changes", 1), Keys().audit_next("changes")):
        store.txn([], [Put(key, b"1")])
    assert not waking.wait(0.3).urgent
    store.txn([], [Put(Keys().capture("c"), b"{}")])
    assert waking.wait(_LONG_S).every
