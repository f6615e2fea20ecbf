"""Idle workers are used now and then, so that Spark does not end them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.base.ts import MAX_TS
from cdc.coord.contract import Delete, Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, FeedInfo
from processor.runner import ProcessorRunner
from processor.settings import ProcessorSettings
from processor.spark.session import SparkRunner
from tests.changelog.logs import open_log
from tests.processor.in_process import InProcessJobs
from tests.waiting import until


def test_workers_are_kept_for_the_changefeeds_that_run(tmp_path: Path) -> None:
    store, keys, jobs = EmbeddedStore(tmp_path / "meta.db", SystemClock()), Keys(), InProcessJobs()
    open_log(tmp_path / "log").close()
    info = FeedInfo(id="f", upstream="u", sink_uri="blackhole://", start_ts=1, epoch=1)
    told = Assignment(feed="f", epoch=1, run=True, checkpoint_ts=1, judged_ts=1, barrier_ts=MAX_TS)
    store.txn(
        [],
        [
            Put(keys.feed_info("f"), info.model_dump_json().encode()),
            Put(keys.assignment("c", "f"), told.model_dump_json().encode()),
        ],
    )
    settings = ProcessorSettings(keep_workers_s=0.01)
    runner = ProcessorRunner(
        store, keys, "c", lambda _: tmp_path / "log", jobs, settings, SystemClock()
    )
    runner.start()
    until(lambda: frozenset({"f"}) in jobs.tended, "its worker is kept")
    store.txn([], [Delete(keys.assignment("c", "f"))])
    until(lambda: jobs.tended[-1] == frozenset(), "what it had is given back")
    runner.stop()
    store.close()


class _Dying(InProcessJobs):
    def tend(self, feeds: Collection[str]) -> None:
        super().tend(feeds)
        raise ConnectionResetError("a worker was killed")


def test_a_worker_that_dies_meanwhile_is_no_trouble(tmp_path: Path) -> None:
    store, parts, jobs = EmbeddedStore(tmp_path / "meta.db", SystemClock()), Parts(), _Dying()
    settings = ProcessorSettings(keep_workers_s=0.01)
    runner = ProcessorRunner(
        store, Keys(), "c", lambda _: tmp_path, jobs, settings, SystemClock(), parts
    )
    runner.start()
    until(lambda: len(jobs.tended) > 2, "it goes on")
    assert parts.troubles() == {}
    runner.stop()
    store.close()


def test_a_jvm_that_has_ended_is_not_started_for_it(tmp_path: Path) -> None:
    spark = SparkRunner(ProcessorSettings(), tmp_path)
    spark.tend(["f"])
    assert not spark.up
