"""A processor goes on by its log alone, up to the first DDL that the owner has not judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc.base.clock import SystemClock
from cdc.base.ts import MAX_TS, compose
from cdc.changelog.reader import ChangeLog
from cdc.changelog.writer import LogWriter
from cdc.coord.contract import Put
from cdc.coord.embedded import EmbeddedStore
from cdc.coord.keys import Keys
from cdc.coord.messages import Assignment, FeedInfo, Report
from processor.ddl_horizon import DdlHorizon
from processor.runner import ProcessorRunner
from processor.settings import ProcessorSettings
from tests.changelog.logs import ddl, open_log
from tests.processor.in_process import InProcessJobs
from tests.waiting import until

START = compose(1_700_000_000_000)


def _log(folder: Path) -> LogWriter:
    writer = open_log(folder)
    writer.begin(START, {})
    server = {"kind": "mysql", "version": "8.0.33"}
    writer.save_snapshot(START, {"ts": START, "server": server, "databases": {}, "tables": {}})
    return writer


def _ddl(writer: LogWriter, at: int) -> None:
    ddl(writer, START + at, "CREATE TABLE other.t (i INT)")


def test_it_ends_below_the_first_ddl_that_is_not_judged(tmp_path: Path) -> None:
    with _log(tmp_path / "log") as writer:
        log = ChangeLog.open(tmp_path / "log")
        horizon = DdlHorizon(log)

        def upto(judged: int) -> int:
            log.refresh()
            return horizon.upto(START + judged) - START

        writer.commit(START + 10, {})
        assert upto(0) == 10
        _ddl(writer, 20)
        _ddl(writer, 25)
        writer.commit(START + 30, {})
        assert upto(0) == 19
        assert upto(20) == 24
        assert upto(30) == 30
        # The owner may have read further than we have; what it judged there holds.
        assert upto(45) == 30
        _ddl(writer, 40)
        _ddl(writer, 50)
        writer.commit(START + 60, {})
        assert upto(45) == 49
        log.close()


@dataclass
class Processing:
    """A processor thread; the owner's part is played by the test."""

    writer: LogWriter
    store: EmbeddedStore
    keys: Keys

    def assign(self, **more: int) -> None:
        """Write the assignment; by default nothing holds back what is judged."""
        values = {"checkpoint_ts": START, "judged_ts": START, "barrier_ts": MAX_TS} | more
        told = Assignment(feed="f", epoch=1, run=True, **values)
        put = Put(self.keys.assignment("c", "f"), told.model_dump_json().encode())
        self.store.txn([], [put])

    def reached(self, at: int) -> bool:
        """Whether the processor says that all up to ``START + at`` is delivered."""
        entry = self.store.get(self.keys.report("c", "f"))
        return entry is not None and (
            Report.model_validate_json(entry.value).checkpoint_ts >= START + at
        )


@pytest.fixture
def processing(tmp_path: Path) -> Iterator[Processing]:
    store, keys = EmbeddedStore(tmp_path / "meta.db", SystemClock()), Keys()
    info = FeedInfo(id="f", upstream="u", sink_uri="blackhole://", start_ts=START, epoch=1)
    store.txn([], [Put(keys.feed_info("f"), info.model_dump_json().encode())])
    with _log(tmp_path / "log") as writer:
        runner = ProcessorRunner(
            store, keys, "c", lambda _: tmp_path / "log", InProcessJobs(),
            ProcessorSettings(retry_first_s=0.01, report_interval_s=0.5), SystemClock(),
        )  # fmt: skip
        runner.start()
        yield Processing(writer, store, keys)
        runner.stop()
    store.close()


def test_windows_without_a_ddl_do_not_wait_for_the_owner(processing: Processing) -> None:
    processing.assign()
    for at in (10, 20):
        processing.writer.commit(START + at, {})
        until(lambda at=at: processing.reached(at), "the log alone takes it on")
    _ddl(processing.writer, 30)
    processing.writer.commit(START + 40, {})
    until(lambda: processing.reached(29), "it comes to the DDL")
    processing.writer.commit(START + 50, {})
    with pytest.raises(AssertionError):
        until(lambda: processing.reached(30), "nobody has judged it", 1.0)
    processing.assign(judged_ts=START + 40)
    until(lambda: processing.reached(50), "the owner has judged it")


def test_progress_is_told_by_time(processing: Processing) -> None:
    processing.assign()
    processing.writer.commit(START + 1, {})
    until(lambda: processing.reached(1), "it runs")
    before = processing.store.revision()
    for at in range(2, 200):
        processing.writer.commit(START + at, {})
    until(lambda: processing.reached(199), "the last one is told too")
    assert processing.store.revision() - before < 100


def test_what_is_resolved_takes_one_look(
    processing: Processing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the report that comes later, nor the end of a window takes another one."""
    looks = []
    upto = DdlHorizon.upto
    monkeypatch.setattr(DdlHorizon, "upto", lambda *a: looks.append(a) or upto(*a))
    processing.assign()
    for at in (1, 2):
        processing.writer.commit(START + at, {})
        until(lambda at=at: processing.reached(at), "it is told")
    looks.clear()
    for at in range(3, 8):
        processing.writer.commit(START + at, {})
        until(lambda at=at: processing.reached(at), "it is told")
    assert len(looks) <= 6
