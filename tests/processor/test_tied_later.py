"""Tables that a foreign key ties together while rows flow: no key of a parent is split behind it.

MySQL before 9.6 does not log what a cascade changes. The target does it again, and must not see
the parent go as DELETE and INSERT instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.changelog.reader import ChangeLog
from tests.changelog.logs import StillClock
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema
from tests.source.pulling import Pulled
from tests.waiting import until

SCHEMA = "tied_later"
TIE = (
    "alter table child add constraint of_parent foreign key (p) references parent (id)"
    " on delete cascade on update cascade"
)


class TiedLog:
    """Rows, the foreign key at ``tie_ts``, and a key of the parent that changes behind it."""

    def __init__(self, folder: Path, source: Database) -> None:
        self.folder, self.source = folder, source
        source.execute(f"drop database if exists {SCHEMA}", f"create database {SCHEMA}")
        tables = [f"create table {t} (id int primary key, p int)" for t in ("child", "parent")]
        tables.append("create table other (id int primary key, v varchar(900))")
        source.execute(*tables, database=SCHEMA)
        with Pulled(source, folder) as pulled:
            source.execute(
                "insert into parent values (1, 0), (2, 0), (3, 0)",
                "insert into child values (10, 1), (20, 2), (30, 3)",
                # Of each bucket's blocks some.
                *(f"insert into child values ({i << 10}, 3)" for i in range(1, 8)),
                TIE,
                "delete from parent where id = 1",
                "update parent set id = id + 5000 where id = 2",
                *(f"insert into other values ({i << 10}, 'x')" for i in range(8)),
                database=SCHEMA,
            )
            pulled.caught_up()
        log = ChangeLog.open(folder)
        self.start_ts = log.state.first_ts
        self.tie_ts = int(log.ddls(self.start_ts, log.state.resolved_ts).commit_ts[0])
        self.upto = log.state.resolved_ts
        log.close()
        self.wanted = content(source, SCHEMA)
        assert len(self.wanted["child"]) == 9, "the source has cascaded"


@pytest.fixture(scope="module")
def log(mysql: Database, tmp_path_factory: pytest.TempPathFactory) -> TiedLog:
    return TiedLog(tmp_path_factory.mktemp("tied") / "log", mysql)


@pytest.fixture
def start(
    log: TiedLog, database: Callable[..., Database], fresh_name: str
) -> Iterator[Callable[..., tuple[Running, Database]]]:
    """Return a function that runs the feed as far as the foreign key, into a target without it."""
    target, started = database("mysql-9.7"), []
    same_schema(log.source, target, SCHEMA)
    target.execute("alter table child drop foreign key of_parent", database=SCHEMA)
    target.execute("alter table child drop key of_parent", database=SCHEMA)
    held = dict.fromkeys((f"{SCHEMA}.child", f"{SCHEMA}.parent"), log.tie_ts - 1)

    def give(jobs: InProcessJobs, **how: Any) -> tuple[Running, Database]:
        running = Running(
            log.folder,
            f"{target.uri()}/?worker-count=2",
            {"filter": {"rules": [f"{SCHEMA}.*"]}},
            jobs,
            start_ts=log.start_ts,
            feed=fresh_name.replace("_", "-"),
            barriers=held,
            clock=StillClock(),
            **how,
        )
        started.append(running)
        return running, target

    yield give
    for running in started:
        running.stop()


def _whole(running: Running, target: Database, log: TiedLog) -> None:
    """All has come, and the target has what the source has."""

    def through() -> bool:
        assert running.feed.alive, running.reports[-1:]
        if not running.reports:
            return False
        last = running.reports[-1]
        assert not last.stopped_tables
        return last.checkpoint_ts >= log.upto and not last.table_checkpoints

    until(through, "all of every table", 60)
    assert content(target, SCHEMA) == log.wanted


def test_the_owner_lets_tables_go_while_a_window_is_cut(
    log: TiedLog, start: Callable[..., tuple[Running, Database]]
) -> None:
    running, target = start(InProcessJobs())
    running.done()
    refresh, lifted = running.log.refresh, []

    def change_now() -> Any:
        if not lifted:
            lifted.append(target.execute(TIE, database=SCHEMA))
            running.lift((f"{SCHEMA}.child", f"{SCHEMA}.parent"))
        return refresh()

    # The first look at the log in a turn is where its window begins.
    running.log.refresh = change_now  # type: ignore[method-assign]
    running.hold(dict.fromkeys((f"{SCHEMA}.child", f"{SCHEMA}.parent"), log.tie_ts - 1), log.upto)
    _whole(running, target, log)
    assert lifted


@pytest.mark.parametrize("ahead", ["other", "child"])
def test_a_layout_that_is_kept_holds_tables_that_it_parts(
    log: TiedLog, start: Callable[..., tuple[Running, Database]], ahead: str
) -> None:
    """A bucket is ahead, with other tables or with these, as the foreign key comes."""
    died, started = [], threading.Event()

    def die(job: int, task: int) -> None:
        assert started.wait(60), "the feed is known here"
        last = running.reports[-1].checkpoint_ts if running.reports else 0
        if died or (ahead == "other") != (last >= log.tie_ts - 1):
            return
        died.append(task)
        target.execute(TIE, database=SCHEMA)
        running.hold({}, log.upto)
        raise WorkerDied("gone")

    running, target = start(InProcessJobs(die), barrier_ts=log.tie_ts - 1)
    started.set()
    if ahead == "other":
        run_to = log.tie_ts - 1
        until(lambda: running.reports and running.reports[-1].checkpoint_ts == run_to, "come")
        running.hold(dict.fromkeys((f"{SCHEMA}.child", f"{SCHEMA}.parent"), run_to), log.upto)
    _whole(running, target, log)
    assert died == [0]
    assert any(task.starts for job in running.jobs.jobs for task in job), "a bucket was ahead"
