"""The owner's thread over a real log and store: how soon a resolved ts becomes a barrier."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.base.ts import compose
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, CaptureInfo, FeedInfo, UpstreamInfo
from cdc.server.owner_log import OwnerLogs
from owner import admin
from owner.runner import OwnerRunner


def test_a_resolved_ts_becomes_a_barrier_within_milliseconds(tmp_path: Path) -> None:
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
    logs = OwnerLogs(lambda _: tmp_path / "log", lambda _: upstream)
    runner = OwnerRunner(store, keys, owner.create_revision, logs.log, clock)
    runner.start()
    try:
        info = FeedInfo(id="f", upstream="u", sink_uri="kafka://h/t", start_ts=start)
        admin.create(store, keys, info)
        key = keys.assignment("c", "f")

        def barrier() -> int:
            entry = store.get(key)
            return Assignment.model_validate_json(entry.value).barrier_ts if entry else 0

        waits = []
        for i in range(1, 60):
            watch = store.watch(key, store.revision() + 1)
            began = time.monotonic()
            writer.commit(start + i, {})
            committed = time.monotonic()
            while barrier() < start + i:
                assert watch.next(5.0)
                assert time.monotonic() - began < 5
            waits.append(time.monotonic() - committed)
        # The first ones wait for the threads to start.
        assert statistics.median(waits[10:]) < 0.02, waits
    finally:
        runner.stop()
        writer.close()
        store.close()
