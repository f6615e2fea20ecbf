"""Rows that were there before come first, once, whatever changes while they are read."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.parts import Parts
from cdc.changelog.reader import ChangeLog
from cdc.coord.messages import Assignment, FeedInfo, Report, TableReadState
from cdc.schema.snapshot import Schema
from cdc.schema.table import Table
from cdc.snapshot.errors import SnapshotReadBroken
from cdc.snapshot.servers import SourceServers
from cdc.snapshot.touched import Touched
from processor.chunk_reading import ChunkRead, ChunkTask
from processor.copying import Copying, copied_rows, rows_folder
from processor.settings import ProcessorSettings
from tests import seeds
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Database
from tests.sink_mysql.replay import content, same_schema
from tests.source.pulling import Pulled
from tests.waiting import until

pytestmark = pytest.mark.real

TABLES = (
    "create table numbers (id bigint primary key, v varchar(300), n decimal(20,4))",
    "create table names (name varchar(40) primary key, v double, at timestamp(3) null)"
    " collate utf8mb4_general_ci",
    "create table pairs (a int unsigned, b date, v blob, primary key (a, b))",
    "create table still (id int primary key, v text)",
)
ROWS = 3000
PAIRS = [("mariadb-11.4", "mariadb-11.8"), ("mysql-8.0", "mysql-9.7")]


class Changes:
    """Inserts, updates, deletes and moved keys, all the time while the context lasts."""

    def __init__(self, source: Database, schema: str) -> None:
        self._source, self._schema = source, schema
        self._random = random.Random(seeds.seed())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.made = 0

    def __enter__(self) -> Changes:
        self._thread.start()
        until(lambda: self.made > 20, "there are changes")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with self._source.connect(database=self._schema) as one, one.cursor() as cursor:
            while not self._stop.is_set():
                for statement in self._some():
                    cursor.execute(statement)
                one.commit()
                self.made += 1

    def _some(self) -> Iterator[str]:
        r, i = self._random.randrange(2 * ROWS), self.made
        yield f"delete from numbers where id = {r}"
        other = self._random.randrange(2 * ROWS)
        yield f"insert ignore into numbers values ({other}, 'new {i}', {i})"
        yield f"update ignore numbers set id = {r + 1} where id = {r + 2}"
        yield f"update numbers set v = repeat('z', {i % 300}) where id between {r} and {r + 5}"
        yield f"update ignore names set name = upper(name) where name = 'name {r}'"
        yield f"delete from names where name = 'Name {r + 7}'"
        yield f"replace into pairs values ({r}, '2024-01-{1 + i % 28:02}', 'again')"
        yield f"delete from pairs where a = {r + 1} limit 2"


class Reading(InProcessJobs):
    """Tasks without Spark; ``between``: what happens behind the first jobs of ``numbers``.

    ``lost``: what happens to the first jobs of ``still`` instead of what they read.
    """

    def __init__(self) -> None:
        super().__init__()
        self.between: list[Callable[[], object]] = []
        self.lost: list[Callable[[list[ChunkRead]], list[ChunkRead]]] = []
        # By table how long its last job might take, and no byte come.
        self.limits: dict[str, tuple[float, float]] = {}

    def read(
        self, tasks: Sequence[ChunkTask], description: str, timeout_s: float
    ) -> list[ChunkRead]:
        self.limits[tasks[0].table.name] = (timeout_s, tasks[0].settings.silence_s)
        found = super().read(tasks, description, timeout_s)
        if self.between and tasks[0].table.name == "numbers":
            self.between.pop(0)()
        if self.lost and tasks[0].table.name == "still":
            return self.lost.pop(0)(found)
        return found


def fill(source: Database, schema: str) -> None:
    """Rows that are there before anybody looks."""

    def rows(of: Callable[[int], str]) -> str:
        return ", ".join(of(i) for i in range(0, 2 * ROWS, 2))

    time = "'2024-05-06 07:08:09'"
    source.execute(
        "insert into numbers values " + rows(lambda i: f"({i}, 'row {i}', {i}.25)"),
        "insert into names values " + rows(lambda i: f"('name {i}', {i} / 7, {time})"),
        "insert into pairs values " + rows(lambda i: f"({i}, '2024-02-{1 + i % 28:02}', 'x')"),
        database=schema,
    )


class Way:
    """From a schema of one server through a copy into another server."""

    def __init__(self, source: Database, target: Database, schema: str, folder: Path) -> None:
        self.source, self.target, self.schema, self.folder = source, target, schema, folder
        source.execute(f"create database {schema}")
        source.execute(*TABLES, database=schema)
        fill(source, schema)
        same_schema(source, target, schema)
        self.pulled = Pulled(source, folder)
        self.config: dict[str, Any] = {
            "filter": {"rules": [f"{schema}.*"]},
            "snapshot": {"mode": "initial", "chunk_rows": 500},
        }
        self.info = FeedInfo(
            id=schema.replace("_", "-"), upstream="u", sink_uri=f"mysql://root@127.0.0.1:{target.port}/",
            config=self.config, start_ts=1,
        )  # fmt: skip
        self.jobs = Reading()
        self.reports: list[Report] = []
        self.settings = ProcessorSettings()
        # The URI of a replica that rows are read from.
        self.replica = ""

    def copy(self) -> Report:
        """Copy all rows; the last report."""
        log = ChangeLog.open(self.folder)
        assignment = Assignment(
            feed=self.info.id, epoch=1, run=True, checkpoint_ts=log.state.first_ts,
            judged_ts=0, barrier_ts=0,
        )  # fmt: skip
        made = Copying(
            self.info, assignment, log, self.folder, self.jobs, self.settings,
            lambda stop: SourceServers(
                self.pulled.info, self.pulled.settings, stop, self.replica,
                lambda: self.pulled.info,
            ),
            self.reports.append, SystemClock(), Parts(),
        )  # fmt: skip
        made.start()
        until(lambda: self._ended(), "all is copied", 120)
        made.stop(10)
        log.close()
        return self.reports[-1]

    def tables(self) -> list[Table]:
        """The tables of the upstream as its log has them."""
        log = ChangeLog.open(self.folder)
        found = list(Schema(log.snapshot_at(log.state.first_ts)).values())
        log.close()
        return found

    def _ended(self) -> bool:
        last = self.reports[-1] if self.reports else None
        return last is not None and bool(last.error or (last.snapshot and last.snapshot.ts))

    def begun(self, report: Report) -> FeedInfo:
        """The changefeed as its owner begins it with the rows."""
        assert report.error is None, report.error
        assert report.snapshot is not None
        at = report.snapshot
        return self.info.model_copy(update={"snapshot_ts": at.ts, "start_ts": at.base_ts})

    def running(self, info: FeedInfo, **more: Any) -> Running:
        """Its delivery from where it began, whatever has been delivered."""
        rows = copied_rows(self.folder, info, info.start_ts)
        return Running(
            self.folder, info.sink_uri, self.config, Reading(), start_ts=info.start_ts, rows=rows,
            feed=info.id, **more,
        )  # fmt: skip

    def deliver(self, report: Report) -> None:
        """Deliver the rows and all that follows."""
        info = self.begun(report)
        running = self.running(info)
        running.done()
        running.rows_delivered()
        until(lambda: not self.kept(info), "the room of the rows is given back")
        running.stop()

    def kept(self, info: FeedInfo) -> bool:
        """Whether its rows are still there."""
        return (rows_folder(self.folder, info) / "rows").is_dir()


@pytest.fixture
def way(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Way]:
    one, other = getattr(request, "param", PAIRS[0])
    made = Way(database(one), database(other), fresh_name, tmp_path / "log")
    yield made
    made.jobs.close()


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_rows_and_changes_while_they_are_read_arrive_once(way: Way) -> None:
    with way.pulled as pulled:
        with Changes(way.source, way.schema) as changes:
            report = way.copy()
            more = changes.made + 50
            until(lambda: changes.made > more, "changes follow")
        pulled.caught_up()
        way.deliver(report)
    assert content(way.target, way.schema) == content(way.source, way.schema)


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_it_is_told_how_much_is_read_of_which_table(way: Way) -> None:
    names = {f"{way.schema}.{name}" for name in ("numbers", "names", "pairs", "still")}
    with way.pulled as pulled:
        # A server looks at how many there are when it has nothing better to do.
        way.source.execute(*(f"analyze table {name}" for name in sorted(names)))
        server = SourceServers(pulled.info, pulled.settings, threading.Event())
        tables = [t for t in way.tables() if t.full_name in names]
        few = server.row_guesses(tables, "1 = 0")
        # Of a statement that fails there is no guess, and no error.
        assert set(server.row_guesses(tables, "no_such_column = 1").values()) == {0}
        server.close()
        at = way.copy().snapshot
    assert at is not None
    read = {one.name: one.rows for one in at.reads}
    assert read == {n: 0 if n.endswith(".still") else ROWS for n in names}
    assert {one.state for one in at.reads} == {TableReadState.READ}
    expected = {one.name: one.expected for one in at.reads}
    filled = [n for n in names if not n.endswith(".still")]
    # They are guesses of the server's, of which only the order of size can be relied on.
    assert all(ROWS / 10 < expected[n] < 10 * ROWS for n in filled)
    assert all(few[n] < expected[n] for n in filled)
    assert at.rows_per_second > 0


def test_rows_stay_until_it_is_stored_that_they_are_delivered(way: Way) -> None:
    with way.pulled as pulled:
        report = way.copy()
        way.source.execute("delete from still", "update numbers set n = 1", database=way.schema)
        pulled.caught_up()
    info = way.begun(report)
    first = way.running(info, barrier_ts=info.snapshot_ts)
    until(lambda: first.reports and first.reports[-1].checkpoint_ts >= info.snapshot_ts, "rows", 60)
    first.hold({}, first.upto)
    # Turns have been since the last row, but it all dies before the store knows of any.
    first.done()
    first.stop()
    assert way.kept(info)
    second = way.running(info, epoch=2)
    second.done()
    second.rows_delivered()
    until(lambda: not way.kept(info), "the room of the rows is given back")
    second.stop()
    assert content(way.target, way.schema) == content(way.source, way.schema)


def _changed_between_chunks(way: Way) -> Report:
    """Rows change in chunks that are read, in those that are not, and from one to the other."""
    last = 2 * ROWS - 2
    # What is behind a chunk that was read must not be read beside it.
    way.config["snapshot"]["max_connections"] = 1

    def change(*statements: str) -> None:
        way.jobs.between.append(lambda: way.source.execute(*statements, database=way.schema))

    change(
        "update numbers set v = 'read already' where id = 0",
        f"update numbers set v = 'not read yet' where id = {last}",
        f"update numbers set id = {last + 1} where id = 2",
        f"update numbers set id = 3 where id = {last - 2}",
        f"delete from numbers where id in (4, {last - 4})",
        "delete from numbers where id = 6",
    )
    change("insert into numbers values (6, 'again', 1)", "update numbers set v = 'b' where id = 3")
    return way.copy()


@pytest.mark.parametrize("least_adopted", [1, 4 << 20])
def test_what_changes_between_chunks(
    way: Way, least_adopted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.snapshot.settle._LEAST_ADOPTED", least_adopted)
    with way.pulled as pulled:
        report = _changed_between_chunks(way)
        assert not way.jobs.between
        segments = (rows_folder(way.folder, way.begun(report)) / "rows").glob("*.binlog")
        # Files of chunks that nothing has touched are segments as they are.
        assert (len(list(segments)) > 1) == (least_adopted == 1)
        pulled.caught_up()
        way.deliver(report)
    assert content(way.target, way.schema) == content(way.source, way.schema)


def test_control_rows_of_the_log_are_not_looked_at(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.snapshot.settle.touched", lambda *_: Touched.none())
    with way.pulled as pulled:
        report = _changed_between_chunks(way)
        pulled.caught_up()
        way.deliver(report)
    found, wanted = content(way.target, way.schema), content(way.source, way.schema)
    assert found.pop("numbers") != wanted.pop("numbers")
    assert found == wanted


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_the_access_may_be_changed_while_rows_are_read(way: Way) -> None:
    users = [f"{way.schema[-12:]}_{number}" for number in range(2)]
    uris = [way.source.uri(user, "pw") for user in users]

    def add(number: int) -> None:
        way.source.execute(
            f"create user '{users[number]}'@'%' identified by 'pw'",
            f"grant all on *.* to '{users[number]}'@'%'",
        )
        way.pulled.info = way.pulled.info.model_copy(update={"uri": uris[number]})

    def change() -> None:
        add(1)
        way.source.execute(f"drop user '{users[0]}'@'%'")

    add(0)
    way.jobs.between.append(change)
    with way.pulled:
        report = way.copy()
    assert not way.jobs.between
    assert report.error is None, report.error
    way.source.execute(f"drop user '{users[1]}'@'%'")


def test_rows_leave_the_disk_what_the_log_needs(way: Way) -> None:
    way.settings = ProcessorSettings(copy_reserve_bytes=1 << 60)
    with way.pulled:
        error = way.copy().error
        assert error is not None
        assert (error.code, error.kind) == ("TG:ErrSnapshotDiskSpent", "transient")
        # What was read is gone, and it begins anew once there is room.
        assert not list(way.folder.glob("snapshot/*/*/chunks"))
        way.settings = ProcessorSettings(copy_reserve_bytes=1)
        way.reports.clear()
        assert way.copy().error is None


def test_a_table_that_nothing_cuts_may_take_long(way: Way) -> None:
    uncut = "create table uncut (kind enum('a', 'b'), id int, primary key (kind, id))"
    way.source.execute(uncut, "insert into uncut values ('a', 1)", database=way.schema)
    with way.pulled as pulled:
        way.config["snapshot"] |= {"where": "1 = 1"}
        way.info = way.info.model_copy(update={"config": way.config})
        pulled.caught_up()
        assert way.copy().error is None
    limits = way.jobs.limits
    assert limits["numbers"] == (ProcessorSettings().job_timeout_s, pulled.settings.silence_s)
    assert min(limits["uncut"]) > 86400


def test_tables_that_change_are_read_again(way: Way) -> None:
    for statement in (
        "alter table numbers add column w int default 7 first",
        "truncate table names",
        "create table late (id int primary key, v int)",
        "insert into late values (1, 1), (2, 2)",
        "drop table still",
    ):
        way.jobs.between.append(lambda s=statement: way.source.execute(s, database=way.schema))
    with way.pulled as pulled:
        report = way.copy()
        assert not way.jobs.between
        way.source.execute("insert into names values ('new', 1, null)", database=way.schema)
        pulled.caught_up()
        same_schema(way.source, way.target, way.schema)
        way.deliver(report)
    found = content(way.target, way.schema)
    assert found == content(way.source, way.schema)
    assert found.keys() == {"numbers", "names", "pairs", "late"}
    assert len(found["names"]) == 1


def test_chunks_whose_worker_is_lost_are_read_again(way: Way) -> None:
    """By Spark's word of a job, then by a chunk's; what is there of other chunks is kept."""

    def job_aborted(_: list[ChunkRead]) -> list[ChunkRead]:
        raise RuntimeError("Job aborted due to stage failure")

    def cut_off(found: list[ChunkRead]) -> list[ChunkRead]:
        return [ChunkRead(error=SnapshotReadBroken("cut off").to_dict()) for _ in found]

    rows = ", ".join(f"({i}, 'v {i}')" for i in range(2 * ROWS))
    way.source.execute(f"insert into still values {rows}", database=way.schema)
    way.jobs.lost = [job_aborted, cut_off, cut_off]
    with way.pulled as pulled:
        report = way.copy()
        assert not way.jobs.lost
        pulled.caught_up()
        way.deliver(report)
    assert content(way.target, way.schema) == content(way.source, way.schema)


def test_a_table_that_may_not_be_read_is_named(way: Way) -> None:
    user = f"u{way.schema[-20:]}"
    way.source.execute(
        f"create user {user}@'%' identified by 'p'",
        f"grant replication slave, replication client, process on *.* to {user}@'%'",
        f"grant select on {way.schema}.numbers to {user}@'%'",
        f"grant select on {way.schema}.names to {user}@'%'",
    )
    with way.pulled as pulled:
        pulled.info = pulled.info.model_copy(
            update={"uri": f"mysql://{user}:p@127.0.0.1:{way.source.port}"}
        )
        error = way.copy().error
    assert error is not None
    assert (error.code, error.object) == ("TG:ErrSnapshotTableUnreadable", f"{way.schema}.pairs")


def _copied_with(way: Way, **limits: int) -> float:
    """Seconds that a copy takes under these limits."""
    way.config["snapshot"] |= limits
    way.info = way.info.model_copy(update={"config": way.config})
    began = time.monotonic()
    report = way.copy()
    assert report.snapshot is not None
    assert report.snapshot.rows == 3 * ROWS
    return time.monotonic() - began


def test_rows_a_second_are_limited(way: Way) -> None:
    with way.pulled:
        # What is read last has nothing to wait for.
        assert _copied_with(way, max_rows_per_second=ROWS) > (3 * ROWS - 1000) / ROWS


@pytest.mark.parametrize("way", PAIRS, ids=lambda p: str(p[0]), indirect=True)
def test_nothing_is_read_while_the_upstream_lags(way: Way) -> None:
    with way.pulled as pulled:
        server = SourceServers(pulled.info, pulled.settings, threading.Event())
        assert server.replica_lag_s() == 0
        way.source.execute("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='x'")
        try:
            assert server.replica_lag_s() == math.inf
            threading.Timer(1.5, way.source.execute, ("RESET SLAVE ALL",)).start()
            assert _copied_with(way, max_replica_lag=5) > 1
        finally:
            way.source.execute("RESET SLAVE ALL")
            server.close()


def test_nothing_is_read_while_the_upstream_is_busy(way: Way) -> None:
    def sleep() -> None:
        way.source.execute("select sleep(3)")

    with way.pulled as pulled, ThreadPoolExecutor(8) as sessions:
        server = SourceServers(pulled.info, pulled.settings, threading.Event())
        # The puller's own sessions may still be on their way.
        most = server.threads_running() + 4
        done = [sessions.submit(sleep) for _ in range(8)]
        until(lambda: server.threads_running() > most, "the upstream is busy")
        server.close()
        assert _copied_with(way, max_threads_running=most) > 2
        assert all(session.result() is None for session in done)
