"""Rows that were copied for a changefeed go with it, whether or not it ran when it was removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.coord.contract import Delete, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, FeedInfo, FeedState
from processor.runner import ProcessorRunner
from processor.settings import ProcessorSettings
from tests.processor.in_process import InProcessJobs
from tests.waiting import until

KEYS = Keys()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    made = EmbeddedStore(tmp_path / "meta.db", SystemClock())
    yield made
    made.close()


@pytest.fixture
def runner(store: EmbeddedStore, tmp_path: Path) -> Iterator[ProcessorRunner]:
    jobs = InProcessJobs()
    made = ProcessorRunner(
        store, KEYS, "c", lambda _: tmp_path, jobs, ProcessorSettings(), SystemClock()
    )
    yield made
    made.stop()
    jobs.close()


def _paused(store: EmbeddedStore, feed: str) -> None:
    state = FeedState.STOPPED
    info = FeedInfo(id=feed, upstream="u", sink_uri="kafka://h/t", start_ts=1, state=state)
    told = Assignment(feed=feed, epoch=1, run=False, checkpoint_ts=1, judged_ts=1, barrier_ts=1)
    store.txn(
        [],
        [
            Put(KEYS.feed_info(feed), info.model_dump_json().encode()),
            Put(KEYS.assignment("c", feed), told.model_dump_json().encode()),
        ],
    )


def test_of_one_that_is_removed_while_it_is_paused(
    store: EmbeddedStore, runner: ProcessorRunner, tmp_path: Path
) -> None:
    folders = [tmp_path / kind / feed / "1" for kind in ("snapshot", "copied") for feed in "fg"]
    for folder in folders:
        (folder / "rows").mkdir(parents=True)
    # Of g, which was removed while no capture ran, is nothing known but its rows.
    _paused(store, "f")
    runner.start()
    until(lambda: _left(tmp_path) == {"f"}, "g is gone")
    store.txn([], [Delete(KEYS.feed_info("f")), Delete(KEYS.assignment("c", "f"))])
    until(lambda: not _left(tmp_path), "f is gone")


def _left(folder: Path) -> set[str]:
    return {p.name for kind in ("snapshot", "copied") for p in (folder / kind).glob("*")}
