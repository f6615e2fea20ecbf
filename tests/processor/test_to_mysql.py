"""A feed into a real database, in this process: buckets, whole transactions, and every crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cdc.base.ids import FeedId
from cdc.coord.messages import ErrorInfo
from processor.feed import Feed
from sink.mysql.driver import MysqlDriver
from sink.mysql.errors import MysqlTransactionTooLarge, TargetDuplicateKey, TargetRowMissing
from sink.mysql.placement import BLOCKS, SPREAD
from sink.mysql.worker import MysqlWorker
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.processor.to_mysql import PAIRS, Log, ledger
from tests.servers import Database
from tests.sink_mysql.replay import content
from tests.waiting import until

Start = Callable[..., Any]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda p: p[0])
def way(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Log, Database]:
    one, other = request.param
    folder = tmp_path_factory.mktemp("log") / "log"
    return Log(folder, database(one), "to_" + one.replace("-", "_").replace(".", "_")), database(
        other
    )


@pytest.fixture
def start(way: tuple[Log, Database], fresh_name: str) -> Iterator[Start]:
    """Return a function that runs this test's feed; the target is empty at first."""
    log, target = way
    feed = fresh_name.replace("_", "-")
    log.empty(target, feed)
    started = []

    def give(
        query: str = "", after: Callable[[int, int], None] = lambda j, t: None, **how: Any
    ) -> Any:
        running = log.run(target, feed, InProcessJobs(after), query, **how)
        started.append(running)
        return running

    yield give
    for running in started:
        running.stop()


def _feed(fresh_name: str) -> str:
    return fresh_name.replace("_", "-")


def test_every_conflict_stays_in_order(
    way: tuple[Log, Database], start: Start, fresh_name: str
) -> None:
    log, target = way
    running = start("worker-count=4")
    running.done()
    assert content(target, log.schema) == log.wanted
    placed = running.jobs.jobs[0][0].plan.layout.placed
    by_name = {name.rpartition(".")[2]: bucket for name, bucket in placed.items()}
    assert (by_name["spread"], by_name["dated"]) == (BLOCKS, SPREAD)
    assert min(by_name[n] for n in ("ci", "swap", "nokey", "parent")) >= 0
    assert by_name["parent"] == by_name["child"] == by_name["grandchild"]
    assert len(ledger(target, _feed(fresh_name))) == 4
    assert any(len(job) == 2 for job in running.jobs.jobs), "buckets in two tasks at once"
    assert running.reports[-1].rows > 6000


@pytest.mark.parametrize("task", [0, 1])
def test_killed_between_commit_and_acknowledgement(
    way: tuple[Log, Database], start: Start, fresh_name: str, task: int
) -> None:
    log, target = way
    dead = []

    def die(job: int, now: int) -> None:
        if job in (1, 3) and now == min(task, len(running.jobs.jobs[job]) - 1):
            dead.append(job)
            raise WorkerDied("gone")

    running = start("worker-count=2", die)
    running.done()
    assert dead == [1, 3]
    assert content(target, log.schema) == log.wanted
    epochs = {entry[0] for entry in ledger(target, _feed(fresh_name)).values()}
    assert len(epochs) == 1, "recovery has brought every bucket to its epoch"


def test_without_the_ledger_rows_come_twice(
    way: tuple[Log, Database], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the test above."""

    def die(job: int, now: int) -> None:
        # More than once: a task that the target has sent back for its locks has nothing to repeat.
        if job % 2:
            raise WorkerDied("gone")

    recover = MysqlDriver.recover

    def forgetful(self: MysqlDriver, feed: FeedId, epoch: int, *more: Any, **how: Any) -> Any:
        found = recover(self, feed, epoch, *more, **how)
        return type(found)(found.layout, {}, recorded=False)

    begin = MysqlWorker.begin
    monkeypatch.setattr(MysqlDriver, "recover", forgetful)
    monkeypatch.setattr(MysqlWorker, "begin", lambda *a: begin(*a) and {})
    running = start("worker-count=2", die)

    def codes() -> set[str]:
        if not running.reports:
            return set()
        last = running.reports[-1]
        found = {stop.error.code for stop in last.stopped_tables}
        return found | ({last.error.code} if last.error else set())

    assert until(codes, "rows come twice") <= {TargetDuplicateKey.code, "TG:ErrMysqlInternal"}


@pytest.mark.parametrize("atomicity", ["table", "global"])
def test_transactions_stay_whole(
    way: tuple[Log, Database], start: Start, atomicity: str, fresh_name: str
) -> None:
    log, target = way
    running = start(f"worker-count=3&transaction-atomicity={atomicity}", window_bytes=1 << 20)
    running.done()
    assert content(target, log.schema) == log.wanted
    assert all(job[0].hi.whole() for job in running.jobs.jobs)
    ends = [job[0].hi.ts for job in running.jobs.jobs]
    assert log.large() in ends, "the large one is a window of its own"
    used = {d for job in running.jobs.jobs for task in job for d in task.destinations}
    assert (len(used) == 1) == (atomicity == "global")


def test_windows_shrink_to_what_one_transaction_of_the_target_may_hold(
    way: tuple[Log, Database], start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    log, target = way
    ((most,),) = target.execute("select @@global.max_binlog_cache_size")
    target.execute(f"set global max_binlog_cache_size = {2 << 20}")
    try:
        running = start("worker-count=2", window_bytes=192 << 20)
        running.done()
    finally:
        target.execute(f"set global max_binlog_cache_size = {most}")
    assert MysqlTransactionTooLarge.code in caplog.text
    assert content(target, log.schema) == log.wanted
    assert not any(report.stopped_tables or report.error for report in running.reports)
    assert running.feed.window_size.now < 8 << 20


def test_another_number_of_buckets_waits_for_those_that_are_ahead(
    way: tuple[Log, Database], start: Start, fresh_name: str
) -> None:
    log, target = way

    def die(job: int, now: int) -> None:
        if job == 2:
            raise SystemExit("the capture is killed")

    start("worker-count=4", die).ended()
    second = start("worker-count=2", epoch=2)
    second.done()
    counts = [job[0].plan.layout.counts["mysql"] for job in second.jobs.jobs]
    assert counts[0] == 4
    assert counts[-1] == 2
    assert counts == sorted(counts, reverse=True)
    assert content(target, log.schema) == log.wanted


def test_the_store_is_older_than_the_ledger(
    way: tuple[Log, Database], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is delivered, and the checkpoint was never written: nothing is sent again."""
    log, target = way
    start("worker-count=2").done()
    sent: list[int] = []
    deliver = MysqlWorker.deliver
    monkeypatch.setattr(
        MysqlWorker, "deliver", lambda self, *a: (sent.append(len(a[2])), deliver(self, *a))
    )
    again = start("worker-count=2", epoch=2)
    again.done()
    assert sent == []
    assert isinstance(again.feed, Feed)
    assert content(target, log.schema) == log.wanted


def test_text_for_all_tables(way: tuple[Log, Database], start: Start) -> None:
    log, target = way
    running = start("worker-count=2&apply=sql")
    running.done()
    assert content(target, log.schema) == log.wanted


def test_text_where_definitions_differ_and_images_elsewhere(
    way: tuple[Log, Database], start: Start
) -> None:
    log, target = way
    target.execute(
        "alter table dated modify v bigint",
        "alter table swap modify u bigint",
        "alter table nokey modify a bigint",
        database=log.schema,
    )
    running = start("worker-count=2")
    running.done()
    assert content(target, log.schema) == log.wanted


def _stopped(running: Running, table: str) -> ErrorInfo:
    """Wait until the table has stopped; why."""

    def look() -> ErrorInfo | None:
        stops = running.reports[-1].stopped_tables if running.reports else []
        return next((stop.error for stop in stops if stop.table == table), None)

    return until(look, f"{table} stops")


def test_text_that_is_refused_names_its_row(way: tuple[Log, Database], start: Start) -> None:
    log, target = way
    target.execute("insert into parent values (7, 7)", database=log.schema)
    error = _stopped(start("worker-count=1&apply=sql"), f"{log.schema}.parent")
    assert error.code == TargetDuplicateKey.code
    assert f"{log.schema}.parent, row id=7" in error.object


def test_text_that_finds_no_row_is_an_error(way: tuple[Log, Database], start: Start) -> None:
    log, target = way
    target.execute(
        "create trigger other before insert on nokey for each row set new.b = 'other'",
        database=log.schema,
    )
    error = _stopped(start("worker-count=1&apply=sql"), f"{log.schema}.nokey")
    assert error.code == TargetRowMissing.code
    assert f"{log.schema}.nokey" in error.object


KEYS = (("child", "parent"), ("grandchild", "child"))


def test_tables_that_foreign_keys_hold_together_catch_up_together(
    way: tuple[Log, Database], start: Start
) -> None:
    """All were held at a schema change: no child may come before its parent, or go after it."""
    log, target = way
    # The last is more than a window, so all of them come up step by step.
    held = [f"{log.schema}.{t}" for t in ("child", "grandchild", "parent", "spread")]
    running = start(barriers=dict.fromkeys(held, log.start_ts))
    running.done()
    assert target.execute("select count(*) from grandchild", database=log.schema) == [(0,)]
    running.lift(*((f"{log.schema}.{a}", f"{log.schema}.{b}") for a, b in KEYS))
    until(lambda: not running.reports[-1].table_checkpoints, "they have caught up", 60)
    assert not any(report.stopped_tables for report in running.reports)
    assert content(target, log.schema) == log.wanted
