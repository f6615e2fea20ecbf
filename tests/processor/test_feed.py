"""Windows, failures and restarts of one changefeed, in this process, against a real broker."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog import origin
from cdc.changelog.origin import Origin
from processor.feed import Feed
from processor.phase import Phase
from tests.changelog.logs import StillClock, open_log
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.servers import Broker, Database
from tests.source.pulling import Pulled
from tests.waiting import until

ROWS = 6000


class Log:
    """A log with a large transaction of ``t``, rows of ``other``, and ``t`` altered behind.

    ``odd`` is altered without a word in the binlog.
    """

    def __init__(self, folder: Path, schema: str, start_ts: int, broker: Broker) -> None:
        self.folder, self.schema, self.start_ts, self.broker = folder, schema, start_ts, broker

    def sink(self, topic: str) -> str:
        return f"kafka://{self.broker.bootstrap}/{topic}?protocol=canal-json&partition-num=2"

    def config(self, *tables: str) -> dict[str, Any]:
        rule = {"matcher": [f"{self.schema}.*"], "partition": "index-value"}
        rules = [f"{self.schema}.{t}" for t in tables]
        return {"filter": {"rules": rules}, "sink": {"dispatchers": [rule]}}

    def ids(self, topic: str) -> list[int]:
        return topics.ids(topics.read(self.broker.bootstrap, [topic]))


@pytest.fixture(scope="module")
def log(mariadb: Database, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Log:
    schema = "feeds"
    mariadb.execute(f"DROP DATABASE IF EXISTS {schema}", f"CREATE DATABASE {schema}")
    for table in ("t", "other", "odd"):
        mariadb.execute(f"CREATE TABLE {schema}.{table} (id INT PRIMARY KEY, v VARCHAR(1000))")
    folder = tmp_path_factory.mktemp("feed") / "log"
    with Pulled(mariadb, folder) as pulled:
        mariadb.execute(
            f"INSERT INTO {schema}.t SELECT seq, REPEAT('x', 1000) "
            f"FROM {schema}.seq_0_to_{ROWS - 1}",
            f"INSERT INTO {schema}.other VALUES (1, 'one')",
            f"ALTER TABLE {schema}.t ADD COLUMN more INT",
            f"INSERT INTO {schema}.t VALUES (-1, 'x', 1)",
            f"INSERT INTO {schema}.other VALUES (2, 'two')",
            f"INSERT INTO {schema}.odd VALUES (1, 'one')",
            # A change of which the binlog says nothing.
            "SET sql_log_bin = 0",
            f"ALTER TABLE {schema}.odd ADD COLUMN more INT",
            "SET sql_log_bin = 1",
            f"INSERT INTO {schema}.odd VALUES (2, 'two', 2)",
        )
        pulled.caught_up()
    opened, _ = pulled.runs()
    start_ts = opened.state.first_ts
    opened.close()
    return Log(folder, schema, start_ts, broker)


@pytest.fixture
def run(log: Log, topic_prefix: str) -> Iterator[Callable[..., Running]]:
    """Return a function that runs the feed of this test; all are stopped."""
    started: list[Running] = []

    def give(
        *tables: str, after: Callable[[int, int], None] = lambda j, t: None, **how: Any
    ) -> Running:
        feed = topic_prefix.replace("_", "-")
        where = (log.folder, log.sink(topic_prefix), log.config(*tables), InProcessJobs(after))
        running = Running(*where, start_ts=log.start_ts, feed=feed, **how)
        started.append(running)
        return running

    yield give
    for running in started:
        running.stop()


def _below_the_ddl(log: Log) -> dict[str, int]:
    """The cap that the owner sets: just below the DDL."""
    from cdc.changelog.reader import ChangeLog

    opened = ChangeLog.open(log.folder)
    ddls = opened.ddls(log.start_ts, opened.state.resolved_ts)
    ts = int(ddls.commit_ts[0])
    opened.close()
    return {f"{log.schema}.t": ts - 1}


def _once(found: list[int], wanted: range) -> None:
    assert Counter(found) == Counter(wanted)


def test_a_log_that_took_the_place_of_its_own_ends_it(
    log: Log, topic_prefix: str, tmp_path: Path
) -> None:
    """It says so with the progress that it told last, and nobody waits for it in vain."""
    folder = tmp_path / "log"
    shutil.copytree(log.folder, folder)
    origin.save(folder, Origin("one"))
    feed = topic_prefix.replace("_", "-")
    where = (folder, log.sink(topic_prefix), log.config("other"), InProcessJobs())
    running = Running(*where, start_ts=log.start_ts, feed=feed)
    told = running.done()
    folder.rename(tmp_path / "before")
    with open_log(folder) as writer:
        writer.begin(log.start_ts, {})
        origin.save(folder, Origin("other"))
        running.feed.wake()
        report = running.ended()
    assert report.error is not None
    assert report.error.code == "TG:ErrLogReplaced"
    assert (report.checkpoint_ts, report.transactions) == (told.checkpoint_ts, told.transactions)
    running.feed._reporter.owed = True
    running.stop()
    assert sorted(log.ids(topic_prefix)) == [1, 2]


def test_a_transaction_larger_than_a_window_is_cut(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    running = run("t", barriers=_below_the_ddl(log), window_bytes=1 << 20)
    running.done()
    assert len(running.jobs.jobs) >= 5
    assert any(not job[0].hi.whole() for job in running.jobs.jobs)
    _once(log.ids(topic_prefix), range(ROWS))


@pytest.mark.parametrize("task", [0, 1])
def test_a_new_owner_goes_on_inside_the_transaction(
    run: Callable[..., Running], log: Log, topic_prefix: str, task: int
) -> None:
    caps = _below_the_ddl(log)

    def die(job: int, now: int) -> None:
        if job == 2 and now == task:
            raise SystemExit("the capture is killed")

    first = run("t", after=die, barriers=caps, window_bytes=1 << 20)
    first.ended()
    delivered = len(log.ids(topic_prefix))
    assert 0 < delivered < ROWS
    # The checkpoint of the store is older than the ledger: it still stands before the transaction.
    second = run("t", barriers=caps, window_bytes=1 << 20, epoch=2)
    second.done()
    assert second.jobs.jobs[0][0].lo.ts == log.start_ts
    assert any(d.starts for d in second.jobs.jobs[0])
    _once(log.ids(topic_prefix), range(ROWS))


def test_a_worker_that_dies_after_one_of_two_commits_repeats_nothing(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    dead = []

    def die(job: int, task: int) -> None:
        if job in (1, 3) and task == 0:
            dead.append(job)
            raise WorkerDied("gone")

    running = run("t", after=die, barriers=_below_the_ddl(log), window_bytes=1 << 20)
    running.done()
    assert dead == [1, 3]
    assert not any(r.error for r in running.reports), "mended without a word to the owner"
    epochs = {d.plan.epoch for job in running.jobs.jobs for d in job}
    assert len(epochs) == 3, "each recovery has an epoch of its own"
    _once(log.ids(topic_prefix), range(ROWS))


def test_what_a_feed_does_is_in_the_log_in_the_order_in_which_it_happens(
    run: Callable[..., Running], log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    def die(job: int, task: int) -> None:
        if job == 1:
            raise WorkerDied("gone")

    caplog.set_level(logging.DEBUG, "phase")
    running = run("t", after=die, barriers=_below_the_ddl(log), window_bytes=1 << 20)
    running.done()
    until(lambda: caplog.messages[-1].endswith("idle"), "it is idle")
    said = [m.split(": ", 1)[1] for m in caplog.messages if m.startswith("changefeed ")]
    recovery = [Phase.TAKING_OVER, Phase.FENCING, Phase.PLANNING, Phase.DELIVERING]
    assert [s for s in said if s in set(Phase)] == [
        *recovery, Phase.WAITING, *recovery, Phase.IDLE,
    ]  # fmt: skip


def test_an_epoch_whose_recoveries_are_used_up_never_runs_into_the_next(
    run: Callable[..., Running],
    log: Log,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner's next epoch would not be a newer one: it must begin before that."""
    monkeypatch.setattr("processor.recovery.RECOVERY_BITS", 2)
    dead = []

    def die(job: int, task: int) -> None:
        dead.append(job)
        raise WorkerDied("gone")

    caps = _below_the_ddl(log)
    first = run("t", after=die, barriers=caps, window_bytes=1 << 20)
    report = first.ended()
    assert report.error is not None
    assert (report.error.code, report.error.kind) == ("TG:ErrEpochUsedUp", "fenced")
    assert len(dead) == 3
    second = run("t", barriers=caps, window_bytes=1 << 20, epoch=2)
    second.done()
    of = [{d.plan.epoch for job in one.jobs.jobs for d in job} for one in (first, second)]
    assert max(of[0]) < min(of[1])
    _once(log.ids(topic_prefix), range(ROWS))


def test_workers_that_keep_dying_are_reported(run: Callable[..., Running], log: Log) -> None:
    def die(job: int, task: int) -> None:
        raise WorkerDied("gone")

    report = run("t", after=die, barriers=_below_the_ddl(log)).ended()
    assert report.error is not None
    assert (report.error.code, report.error.kind) == ("TG:ErrWindowFailed", "transient")
    assert not report.running


def test_a_failure_that_takes_long_is_reported_the_first_time(
    run: Callable[..., Running], log: Log
) -> None:
    """A sink that is away fails slowly: four such attempts in silence would take minutes."""
    clock = StillClock()

    def die(job: int, task: int) -> None:
        clock.ms += 11_000
        raise WorkerDied("gone")

    running = run("t", after=die, clock=clock, barriers=_below_the_ddl(log))
    assert running.ended().error is not None
    assert len(running.jobs.jobs) == 1


def test_rows_of_an_unknown_layout_stop_their_table_alone(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    """The binlog does not say how the table came by its third column: nothing is guessed."""
    running = run("odd", "other")
    report = running.done()
    (stop,) = report.stopped_tables
    assert (stop.table, stop.error.code) == (f"{log.schema}.odd", "TG:ErrSchemaMismatch")
    assert report.table_checkpoints == {stop.table: stop.ts - 1}
    assert report.error is None
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    assert topics.ids(m for m in found if m.body["table"] == "odd") == [1]
    assert topics.ids(m for m in found if m.body["table"] == "other") == [1, 2]


def test_no_window_crosses_a_schema_change(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    """Without the owner's barrier: the processor itself must not deliver both sides together."""
    report = run("t", "other").ended()
    assert report.error is not None
    assert report.error.code == "TG:ErrSchemaChangeCrossed"
    assert log.ids(topic_prefix) == []


def test_a_table_waits_at_its_barrier_and_catches_up_behind_it(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    barriers = _below_the_ddl(log)
    ((name, cap),) = barriers.items()
    running = run("t", "other", barriers=barriers, window_bytes=1 << 20)
    report = running.done()
    assert report.table_checkpoints == {name: cap}
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    assert topics.ids(m for m in found if m.body["table"] == "other") == [1, 2]
    _once(topics.ids(m for m in found if m.body["table"] == "t"), range(ROWS))
    running.lift()
    until(lambda: not running.reports[-1].table_checkpoints, "it has caught up", 60)
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    _once(topics.ids(m for m in found if m.body["table"] == "t"), range(-1, ROWS))
    (new,) = (m for m in found if m.body["data"][0]["id"] == "-1")
    assert new.body["data"][0]["more"] == "1"


def test_a_restart_knows_which_table_waited(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    """The store has forgotten all, the ledger has not: nothing comes twice, nothing is missing."""
    barriers = _below_the_ddl(log)
    first = run("t", "other", barriers=barriers)
    first.done()
    first.stop()
    second = run("t", "other", barriers=barriers, epoch=2)
    second.done()
    second.lift()
    until(lambda: not second.reports[-1].table_checkpoints, "it has caught up", 60)
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    _once(topics.ids(m for m in found if m.body["table"] == "t"), range(-1, ROWS))
    assert topics.ids(m for m in found if m.body["table"] == "other") == [1, 2]


def test_a_table_that_stands_lower_passes_no_change_before_it_is_judged(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    """As where the log is made anew, and the owner comes to the change once more."""
    ((name, cap),) = _below_the_ddl(log).items()
    first = run("t", "other", barriers={name: cap})
    first.done()
    first.stop()
    second = run(
        *("t", "other"),
        starts={name: cap},
        checkpoint_ts=first.upto,
        epoch=2,
        assigned={"judged_ts": cap},
    )
    until(lambda: second.reports and second.reports[-1].running, "it runs")
    # It tells once more when it has looked at everything with another barrier.
    told = len(second.reports)
    second.hold({}, first.upto + 1)
    until(lambda: len(second.reports) > told, "it has looked")
    assert not second.jobs.jobs
    second.judge(first.upto)
    until(lambda: not second.reports[-1].table_checkpoints, "it has caught up", 60)
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    _once(topics.ids(m for m in found if m.body["table"] == "t"), range(-1, ROWS))


def test_a_table_that_a_change_has_passed_begins_behind_it(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    """The ledger says that the change ran, so all before it was delivered."""
    ((name, cap),) = _below_the_ddl(log).items()
    running = run("t", "other", starts={name: cap + 1})
    running.done()
    found = topics.read(log.broker.bootstrap, [topic_prefix])
    assert topics.ids(m for m in found if m.body["table"] == "t") == [-1]


def test_nothing_is_run_for_a_table_that_has_stopped(
    run: Callable[..., Running], log: Log, topic_prefix: str
) -> None:
    running = run("t", "other", barriers={f"{log.schema}.t": log.start_ts}, window_bytes=1 << 20)
    running.done()
    assert len(running.jobs.jobs) <= 2
    assert log.ids(topic_prefix) == [1, 2]


def test_a_feed_that_has_nothing_to_deliver_says_that_it_runs(
    run: Callable[..., Running], log: Log
) -> None:
    """It begins at the barrier of a change, which the owner does not order before."""
    running = run("t", barrier_ts=log.start_ts)
    until(lambda: running.reports and running.reports[-1].running, "it says that it runs")
    assert not running.jobs.jobs


def test_a_sink_that_cannot_be_used_is_reported_at_once(log: Log, topic_prefix: str) -> None:
    sink = f"kafka://{log.broker.bootstrap}/{topic_prefix}?protocol=canal-json"
    jobs = InProcessJobs()
    running = Running(
        log.folder, f"{sink}&auto-create-topic=false", log.config("t"), jobs, start_ts=log.start_ts
    )
    report = running.ended()
    running.stop()
    assert report.error is not None
    assert report.error.code == "TG:ErrKafkaTopicNotExists"
    assert not jobs.jobs


def test_a_feed_is_stopped_while_it_waits(run: Callable[..., Running]) -> None:
    running = run("other")
    running.done()
    running.feed.stop(5)
    assert isinstance(running.feed, Feed)
    assert not running.feed.alive
