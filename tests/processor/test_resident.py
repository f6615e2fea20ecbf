"""Small windows go to workers that stay; what is lost with one is known, and nothing hangs."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from cdc.base.ids import FeedId
from cdc.base.position import Position
from cdc.coord.messages import UpstreamInfo
from cdc.source.settings import SourceSettings
from processor import process_names
from processor.chunk_reading import ChunkTask
from processor.jobs import JobTimedOut
from processor.resident.handle import WorkerLost
from processor.resident.jobs import ResidentJobs
from processor.resident.spawner import Spawner
from processor.slot import NoSlotFree, Slot
from processor.task_messages import Ack, Descriptor, FeedPlan
from sink.contract import Layout
from tests.changelog.logs import StillClock
from tests.codec.binlog_rows import table_of
from tests.processor.workers import StandInJvm, Workers
from tests.servers import Database, process
from tests.source.pulling import Pulled
from tests.waiting import until

_SPAWNER = """
import socket, sys
from processor.resident import spawner
from processor.spark import task
task.preload()
spawner.Serving(socket.socket(fileno=int(sys.argv[1]))).serve()
"""
# One that never comes to an end of loading.
_LOADING = """
import os, socket, sys, time
from processor.resident import spawner
from processor.spark import task
task.load_modules()
serving = spawner.Serving(socket.socket(fileno=int(sys.argv[1])))
ours = os.open("/dev/null", os.O_WRONLY)
while True:
    serving.serve_waiting((ours,))
    time.sleep(0.01)
"""
_SCHEMA = "resident"
_DESTINATIONS = 64
_TIMEOUT_S = 60.0
_LARGEST = 1000


class Log(NamedTuple):
    """Three rows of one table in three transactions, between two ts."""

    folder: Path
    first_ts: int
    last_ts: int


class Forking:
    """A process that has loaded what workers need, and forks them."""

    def __init__(self, program: str = _SPAWNER) -> None:
        requests, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", program, str(theirs.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self.requests, self.spawner = requests, Spawner(requests)

    def workers(self) -> list[psutil.Process]:
        """Those that run."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            # One may end while it is looked at.
            with suppress(psutil.NoSuchProcess):
                alive = child.status() != psutil.STATUS_ZOMBIE
                if alive and child.name() == process_names.RESIDENT:
                    found.append(child)
        return found


class Residents:
    """Resident workers, and a log to deliver."""

    def __init__(self, folder: Path, log: Log, forking: Forking) -> None:
        self.folder, self.log = folder, log
        self.spark, self.jvm = Workers("spark", 2), StandInJvm()
        self.jobs = ResidentJobs(self.spark, self.jvm, forking.spawner, _LARGEST)
        self.forking, self.workers = forking, forking.workers

    def plan(self, feed: str, **changes: Any) -> FeedPlan:
        layout = Layout({"blackhole": _DESTINATIONS})
        plan = FeedPlan(
            FeedId("i", feed, 1), 1, str(self.log.folder), self.log.first_ts, "blackhole://",
            {"force_replicate": True, "filter": {"rules": [f"{_SCHEMA}.*"]}}, 1,
            str(self.folder / feed), layout,
        )  # fmt: skip
        return replace(plan, **changes)

    def window(self, plan: FeedPlan, log_bytes: int = 0) -> Descriptor:
        lo, hi = Position(self.log.first_ts), Position(self.log.last_ts)
        all_of_it = tuple(("blackhole", n) for n in range(_DESTINATIONS))
        return Descriptor(plan, lo, hi, all_of_it, log_bytes=log_bytes)

    def run(self, *windows: Descriptor, timeout_s: float = _TIMEOUT_S) -> list[Ack]:
        return self.jobs.run(windows, "4 KiB to t", timeout_s, "")


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Log:
    mariadb.execute(f"DROP DATABASE IF EXISTS {_SCHEMA}", f"CREATE DATABASE {_SCHEMA}")
    mariadb.execute(f"CREATE TABLE {_SCHEMA}.t (id INT PRIMARY KEY)")
    folder = tmp_path_factory.mktemp("resident") / "log"
    with Pulled(mariadb, folder) as pulled:
        mariadb.execute(*(f"INSERT INTO t VALUES ({i})" for i in range(3)), database=_SCHEMA)
        pulled.caught_up()
    opened, _ = pulled.runs()
    made = Log(folder, opened.state.first_ts, opened.state.resolved_ts)
    opened.close()
    return made


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    made = Forking()
    yield made
    made.requests.close()
    assert made.process.wait(30) == 0, "it ends with its capture"


@pytest.fixture
def residents(tmp_path: Path, log: Log, forking: Forking) -> Iterator[Residents]:
    made = Residents(tmp_path, log, forking)
    yield made
    made.jobs.stop()
    until(lambda: not made.workers(), "its workers have ended")


def test_each_changefeed_has_its_worker_and_each_core_one(residents: Residents) -> None:
    for _ in range(3):
        for feed in "abcd":
            (ack,) = residents.run(residents.window(residents.plan(feed)))
            assert ack.error is None
            assert ack.rows == 3
    assert residents.spark.given == []
    assert len(residents.workers()) == residents.spark.parallelism
    # Each has claimed its changefeeds' only slot once, and holds it.
    for feed in "abcd":
        with pytest.raises(NoSlotFree):
            Slot.claim(residents.folder / feed, 1)


def test_what_is_large_or_of_several_tasks_is_a_job_of_sparks(residents: Residents) -> None:
    plan = residents.plan("a")
    for windows, jobs in (
        ([residents.window(plan, _LARGEST)], 0),
        ([residents.window(plan, _LARGEST + 1)], 1),
        ([residents.window(plan), residents.window(plan)], 2),
    ):
        assert len(residents.run(*windows)) == len(windows)
        assert len(residents.spark.given) == jobs


def test_a_jvm_that_has_ended_is_started_anew_by_the_next_window(residents: Residents) -> None:
    residents.jvm.up, residents.jvm.broken = False, True
    (ack,) = residents.run(residents.window(residents.plan("a")))
    assert ack.rows == 3, "which does not wait for it"
    assert residents.jvm.begun == 1
    residents.jobs.tend(["a"])
    assert residents.jvm.begun == 2, "though no window comes"
    assert residents.spark.given == []


def test_until_the_jvm_runs_they_deliver_all_and_what_is_large_starts_it(
    residents: Residents,
) -> None:
    residents.jvm.up = False
    plan = residents.plan("a", slots=2)
    half = _DESTINATIONS // 2
    whole = residents.window(plan)
    halves = [
        replace(whole, destinations=whole.destinations[:half]),
        replace(whole, destinations=whole.destinations[half:]),
    ]
    for windows, begun, workers in (
        ([whole], 0, 1),
        ([residents.window(plan, _LARGEST + 1)], 1, 1),
        (halves, 2, 2),
    ):
        acks = residents.run(*windows)
        assert [ack.error for ack in acks] == [None] * len(windows)
        assert sum(ack.rows for ack in acks) == 3
        assert residents.jvm.begun == begun
        assert len(residents.workers()) == workers
    residents.jvm.up = True
    residents.run(*halves)
    assert len(residents.spark.given) == 1


def test_only_large_windows_that_go_on_coming_start_the_jvm(residents: Residents) -> None:
    residents.jvm.up = False
    clock = StillClock()
    jobs = ResidentJobs(
        *(residents.spark, residents.jvm, residents.forking.spawner, _LARGEST),
        jvm_after_s=10.0,
        monotonic=clock.monotonic,
    )
    plan = residents.plan("a")
    try:
        # A small one says nothing of how long large ones come.
        for later_ms, size, begun in (
            (0, 0, 0), (5_000, _LARGEST + 1, 0), (6_000, _LARGEST + 1, 0), (3_900, 0, 0),
            (100, _LARGEST + 1, 1), (60_000, _LARGEST + 1, 1), (59_000, _LARGEST + 1, 2),
        ):  # fmt: skip
            clock.ms += later_ms
            (ack,) = jobs.run([residents.window(plan, size)], "", _TIMEOUT_S, "")
            assert (ack.error, ack.rows) == (None, 3)
            assert residents.jvm.begun == begun
    finally:
        jobs.stop()


def test_a_worker_is_forked_while_kernels_are_loaded(tmp_path: Path, log: Log) -> None:
    """It loads those that it needs, and holds nothing of what waits for others there."""
    forking = Forking(_LOADING)
    residents = Residents(tmp_path, log, forking)
    try:
        (ack,) = residents.run(residents.window(residents.plan("a")))
        assert (ack.error, ack.rows) == (None, 3)
        (worker,) = residents.workers()
        loading = psutil.Process(forking.process.pid)
        assert _sinks(loading) == _sinks(worker) + 1
    finally:
        residents.jobs.stop()
        forking.process.kill()
        forking.process.wait()
        forking.requests.close()


def _sinks(process: psutil.Process) -> int:
    """How many of its file descriptors lead to nothing."""
    return sum(
        one.readlink() == Path("/dev/null") for one in Path(f"/proc/{process.pid}/fd").iterdir()
    )


def _chunk(database: Database, folder: Path, condition: str) -> ChunkTask:
    """Rows of the table to read into a file in ``folder``."""
    info = UpstreamInfo(name="u", uri=database.uri(), server_kind=database.kind)
    table = table_of(database, _SCHEMA, "t")
    return ChunkTask(info, SourceSettings(), table, condition, 1, str(folder / "chunk"))


@pytest.mark.parametrize("up", [False, True])
def test_rows_of_a_copy_are_read_by_others_than_deliver(
    residents: Residents, mariadb: Database, tmp_path: Path, up: bool
) -> None:
    """No window waits behind them, and no JVM is needed."""
    residents.jvm.up = up
    residents.run(residents.window(residents.plan("a")))
    (deliverer,) = residents.workers()
    task = _chunk(mariadb, tmp_path, "id < 2")
    for number in range(2):
        (read,) = residents.jobs.read([task], "a chunk of t", _TIMEOUT_S)
        assert (read.error, read.rows, Path(read.path).parent) == (None, 2, tmp_path)
        assert len(residents.workers()) == 2 + number
    (read,) = residents.jobs.read([replace(task, condition="nothing")], "a chunk", _TIMEOUT_S)
    assert read.error is not None, "an error of ours is part of the answer"
    assert (residents.jvm.begun, residents.spark.chunks) == (0, [])
    residents.jobs.tend(["a"])
    assert len(residents.workers()) == 3, "they have read of late"
    residents.jobs.tend(["a"])
    until(lambda: residents.workers() == [deliverer], "they are not needed any more")
    (read,) = residents.jobs.read([task], "a chunk of t", _TIMEOUT_S)
    assert read.rows == 2


def test_who_reads_is_needed(residents: Residents, mariadb: Database, tmp_path: Path) -> None:
    """However long it takes, and though another copy has ended."""
    long = _chunk(mariadb, tmp_path, "GET_LOCK('resident', 60) = 1")
    with closing(mariadb.connect()) as held, ThreadPoolExecutor(1) as pool:
        held.cursor().execute("SELECT GET_LOCK('resident', 1)")
        reading = pool.submit(residents.jobs.read, [long], "a chunk of t", _TIMEOUT_S)
        until(residents.workers, "it reads")
        for _ in range(3):
            residents.jobs.tend([])
        held.cursor().execute("SELECT RELEASE_LOCK('resident')")
        (read,) = reading.result()
    assert (read.error, read.rows) == (None, 3)


def test_a_worker_that_is_killed_while_it_reads_is_known(
    residents: Residents, mariadb: Database, tmp_path: Path
) -> None:
    long = _chunk(mariadb, tmp_path, "GET_LOCK('resident', 60) = 1")
    with closing(mariadb.connect()) as held, ThreadPoolExecutor(1) as pool:
        held.cursor().execute("SELECT GET_LOCK('resident', 1)")
        reading = pool.submit(residents.jobs.read, [long], "a chunk of t", _TIMEOUT_S)
        (worker,) = until(residents.workers, "it reads")
        worker.kill()
        with pytest.raises(WorkerLost, match="the rows are read again"):
            reading.result()


def test_one_of_several_tasks_that_is_lost_is_known_when_all_have_ended(
    residents: Residents,
) -> None:
    residents.jvm.up = False
    whole = residents.window(residents.plan("a", slots=2))
    half = _DESTINATIONS // 2
    residents.run(whole)
    (first,) = residents.workers()
    process.send(first.pid, signal.SIGSTOP)
    with pytest.raises(JobTimedOut):
        residents.run(
            replace(whole, destinations=whole.destinations[:half]),
            replace(whole, destinations=whole.destinations[half:]),
            timeout_s=1.0,
        )
    until(lambda: first not in residents.workers(), "it is killed, though it is stopped")
    assert len(residents.workers()) == 1, "the other has delivered"


def test_a_worker_that_is_killed_is_replaced(residents: Residents) -> None:
    window = residents.window(residents.plan("a"))
    residents.run(window)
    (worker,) = residents.workers()
    worker.kill()
    until(lambda: not residents.workers(), "it has ended")
    # Whether its end is known yet or not, a window is delivered or known to be lost.
    try:
        residents.run(window)
    except WorkerLost:
        residents.run(window)
    assert [w.pid for w in residents.workers()] != [worker.pid]
    assert residents.spark.given == []


@pytest.mark.parametrize("other", ["b", "c"])
def test_a_worker_that_hangs_is_killed_and_replaced(residents: Residents, other: str) -> None:
    windows = [residents.window(residents.plan(feed)) for feed in ("a", other)]
    residents.run(windows[0])
    (worker,) = residents.workers()
    process.send(worker.pid, signal.SIGSTOP)
    with pytest.raises(JobTimedOut, match="4 KiB to t"):
        residents.run(windows[0], timeout_s=0.2)
    until(lambda: not worker.is_running(), "it is killed, though it is stopped")
    for window in windows:
        until(lambda window=window: _delivered(residents, window), "it is delivered")  # type: ignore[misc]


def test_a_worker_that_hangs_while_it_idles_is_killed_too(residents: Residents) -> None:
    """Whatever hangs, no window is needed to find out; one that answers lives on."""
    jobs = ResidentJobs(residents.spark, residents.jvm, residents.forking.spawner, _LARGEST, 1.0)
    try:
        for feed in "ab":
            jobs.run([residents.window(residents.plan(feed))], "", _TIMEOUT_S, "")
        hung, well = residents.workers()
        process.send(hung.pid, signal.SIGSTOP)

        def killed() -> bool:
            jobs.tend([])
            return not hung.is_running()

        until(killed, "it is killed, though it is stopped")
        assert residents.workers() == [well]
    finally:
        jobs.stop()


def _delivered(residents: Residents, window: Descriptor) -> bool:
    try:
        return residents.run(window)[0].rows == 3
    except WorkerLost:
        return False


def test_without_a_spawner_all_are_jobs_of_sparks(
    residents: Residents, mariadb: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests, theirs = socket.socketpair()
    theirs.close()
    jobs = ResidentJobs(residents.spark, residents.jvm, Spawner(requests), _LARGEST)
    window = residents.window(residents.plan("a"))
    chunk = _chunk(mariadb, tmp_path, "TRUE")
    for n in range(2):
        jobs.run([window], "", _TIMEOUT_S, "")
        jobs.read([chunk], "", _TIMEOUT_S)
        assert len(residents.spark.given) == len(residents.spark.chunks) == n + 1
    assert caplog.text.count("nothing forks workers") == 1
    requests.close()


def test_what_is_no_error_of_ours_is_one_and_others_go_on(residents: Residents) -> None:
    with pytest.raises(RuntimeError, match="ValidationError") as caught:
        residents.run(residents.window(residents.plan("a", config={"secret": "hunter2"})))
    assert "hunter2" not in str(caught.value)
    assert residents.run(residents.window(residents.plan("a")))[0].rows == 3
    missing = residents.plan("a", log_folder=str(residents.folder / "none"))
    (ack,) = residents.run(residents.window(missing))
    assert ack.error is not None
    assert ack.error["code"].startswith("TG:ErrLog")


def test_what_does_not_run_is_given_back(residents: Residents) -> None:
    for feed in ("kept", "removed"):
        residents.run(residents.window(residents.plan(feed)))
    residents.jobs.tend(["kept"])
    assert residents.spark.tended == [{"kept"}]

    def freed() -> bool:
        try:
            Slot.claim(residents.folder / "removed", 1).release()
        except NoSlotFree:
            return False
        return True

    until(freed, "its slot is free")
    with pytest.raises(NoSlotFree):
        Slot.claim(residents.folder / "kept", 1)


def test_workers_end_with_their_capture(residents: Residents) -> None:
    residents.run(residents.window(residents.plan("a")))
    (worker,) = residents.workers()
    residents.jobs.stop()
    until(lambda: not worker.is_running(), "the worker has ended")
    residents.run(residents.window(residents.plan("a")))
    assert len(residents.spark.given) == 1, "and no other one is forked"
