"""The owner's thread over a real log and store: how soon a resolved ts becomes a barrier."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.ts import compose
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import (
    Assignment,
    CaptureInfo,
    DdlEntries,
    DdlEntry,
    DdlState,
    FeedInfo,
    UpstreamInfo,
)
from cdc.server.owner_log import OwnerLogs
from owner import admin
from owner.runner import OwnerRunner
from sink.schema_change import Recorded, SchemaChange


class Nothing:
    """A sink that never had a schema change."""

    def take_over(self) -> dict[int, Recorded]:
        """Nothing is recorded."""
        return {}

    def ties(self) -> tuple[tuple[str, str], ...]:
        """Nothing is tied."""
        return ()

    def execute(self, change: SchemaChange) -> None:
        """There are none."""
        raise NotImplementedError

    skip = execute

    def forget_below(self, ts: int) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to close."""


@dataclass
class Owned:
    """An owner's thread over a store and a log; the changefeed is not there yet."""

    store: EmbeddedStore
    keys: Keys
    writer: LogWriter
    start: int

    def create(self) -> None:
        """Create the changefeed ``f``."""
        sink = "kafka://h/t?protocol=canal-json"
        info = FeedInfo(id="f", upstream="u", sink_uri=sink, start_ts=self.start)
        admin.create(self.store, self.keys, info)

    def barrier(self) -> int:
        """Return what the processor is told."""
        entry = self.store.get(self.keys.assignment("c", "f"))
        return Assignment.model_validate_json(entry.value).barrier_ts if entry else 0

    def resolve(self, ts: int) -> float:
        """Resolve a ts; return the seconds until it was the barrier."""
        key = self.keys.assignment("c", "f")
        watch = self.store.watch(key, self.store.revision() + 1)
        began = time.monotonic()
        self.writer.commit(ts, {})
        committed = time.monotonic()
        while self.barrier() < ts:
            assert watch.next(5.0)
            assert time.monotonic() - began < 5
        return time.monotonic() - committed


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    clock, keys = SystemClock(), Keys()
    store = EmbeddedStore(tmp_path / "meta.db", clock)
    upstream = UpstreamInfo(name="u", uri="mysql://h")
    capture = CaptureInfo(id="c", address="x")
    store.txn(
        [],
        [
            Put(keys.owner, b"c"),
            Put(keys.capture("c"), capture.model_dump_json().encode()),
            Put(keys.upstream_info("u"), upstream.model_dump_json().encode()),
        ],
    )
    owner = store.get(keys.owner)
    assert owner is not None
    start = compose(clock.now_ms())
    writer = LogWriter.open(tmp_path / "log", ChangelogSettings(), clock)
    writer.begin(start, {})
    server = {"kind": "mysql", "version": "8.0.33"}
    writer.save_snapshot(start, {"ts": start, "server": server, "databases": {}, "tables": {}})
    logs = OwnerLogs(lambda _: tmp_path / "log", lambda _: upstream)
    runner = OwnerRunner(store, keys, owner.create_revision, logs.log, lambda _: Nothing(), clock)
    runner.start()
    try:
        yield Owned(store, keys, writer, start)
    finally:
        runner.stop()
        writer.close()
        store.close()


def test_a_resolved_ts_becomes_a_barrier_within_milliseconds(owned: Owned) -> None:
    owned.create()
    waits = [owned.resolve(owned.start + i) for i in range(1, 60)]
    # The first ones wait for the threads to start.
    assert statistics.median(waits[10:]) < 0.02, waits


def test_a_new_owner_shows_what_had_ended_before_it(owned: Owned) -> None:
    done = DdlEntry(ts=7, sql="TRUNCATE t", kind="TRUNCATE", state=DdlState.DONE)
    shown = DdlEntries(ended=[done], executed=1)
    key = owned.keys.feed_ddls("f")
    owned.store.txn([], [Put(key, shown.model_dump_json().encode())])
    owned.create()
    owned.resolve(owned.start + 1)
    entry = owned.store.get(key)
    assert entry is not None
    assert DdlEntries.model_validate_json(entry.value) == shown
