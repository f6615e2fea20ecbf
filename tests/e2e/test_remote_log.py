"""A cluster whose workers see nothing of the data directory, shared by two captures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from bench.fold import Fold, judge
from bench.follow import Follower
from bench.workload import Workload
from tests.e2e import topics
from tests.e2e.capture_process import SMALL_WINDOWS, CaptureProcess
from tests.e2e.conftest import make_way
from tests.e2e.counting import exactly
from tests.e2e.seen_outside import process_list, spark_pages
from tests.e2e.spark_cluster import Cluster, cluster
from tests.seeds import one_run_in
from tests.servers import Broker, Database, process
from tests.servers.database import database
from tests.servers.proxy import HeardProxy
from tests.sink_mysql.replay import content, same_schema
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

PLANTED = "pl4nted-passw0rd"


class Heard(HeardProxy):
    """The network between the second capture's logs and its workers, which is listened to."""

    def tokens(self) -> set[str]:
        """What workers have proved their right by, an upstream's each."""
        return {t.decode() for t in re.findall(rb"Authorization: Bearer (\w+)", self.heard)}


@dataclass(frozen=True)
class Shared:
    """Two captures that share a cluster, whose workers do not see ``hidden``."""

    first: CaptureProcess
    second: CaptureProcess
    hidden: Path
    events: Path
    heard: Heard
    running: Cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """Return both captures, ready, with a core of the cluster each."""
    folder = tmp_path_factory.mktemp("remote")
    hidden, events = folder / "hidden", folder / "events"
    hidden.mkdir(mode=0o700)
    events.mkdir()
    spark = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    port = process.free_port()
    common = f"{SMALL_WINDOWS}executors-timeout-s = 20.0\n"
    with cluster(2, hidden=hidden) as running, Heard(port) as heard:
        seen = f'addr = "127.0.0.1:{port}"\nadvertise-addr = "127.0.0.1:{heard.port}"'
        settings = {"first": common, "second": f"{common}[log-server]\n{seen}\n"}
        captures = [
            CaptureProcess(hidden / name, master=running.address, spark=spark, settings=text)
            for name, text in settings.items()
        ]
        try:
            for one in captures:
                one.start(ready=False)
            for one in captures:
                one.await_ready()
            yield Shared(captures[0], captures[1], hidden, events, heard, running)
        finally:
            for one in captures:
                one.close()


def _executors(capture: CaptureProcess) -> list[psutil.Process]:
    """JVMs of the executors that work for a capture."""
    with httpx.Client(trust_env=False, timeout=20 * PATIENCE) as http:
        base = f"http://127.0.0.1:{capture.ui_port}/api/v1/applications"
        (app,) = http.get(base).json()
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            words = one.cmdline()
        except psutil.NoSuchProcess:
            continue
        if "--executor-id" in words and app["id"] in words and one.name() == "java":
            found.append(one)
    return found


def test_both_deliver_exactly_once_though_executors_are_killed(
    shared: Shared, mysql: Database, broker: Broker
) -> None:
    load = Workload(mysql.connect, mysql.kind, schema="remote", rows_per_s=500)
    load.prepare()
    rule = {"matcher": ["remote.*"], "partition": "index-value"}
    followers = []
    for number, capture in enumerate((shared.first, shared.second)):
        topic = f"remote-{number}"
        capture.register("main", mysql.uri())
        sink = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=3"
        capture.create(topic, "main", sink, load.rules, {"sink": {"dispatchers": [rule]}})
        followers.append(Follower(broker.bootstrap, topic, Fold(load.tables)))
    try:
        load.start()
        for capture, follower in zip((shared.first, shared.second), followers, strict=True):
            until(lambda f=follower: f.fold.messages > 300, "messages arrive")  # type: ignore[misc]
            (executor,) = _executors(capture)
            data = Path(f"/proc/{executor.pid}/root{shared.hidden}")
            assert list(shared.hidden.iterdir())
            assert list(data.iterdir()) == [], "a worker sees the data directory"
            (copies,) = Path(_scratch(executor)).glob("tidegate-log/*/manifest")
            assert copies.stat().st_size
            family = [executor, *executor.children(recursive=True)]
            executor.kill()
            # What was delivered before may still be on its way to the follower.
            until(lambda c=capture: _executors(c), "there is another executor", 90)  # type: ignore[misc]
            seen = follower.fold.messages
            until(lambda f=follower, n=seen: f.fold.messages > n + 200, "they arrive again", 90)  # type: ignore[misc]
            assert psutil.wait_procs(family, 30)[1] == [], "its workers end with it"
        committed = load.stop()
        assert all(follower.wait(committed, PATIENCE * 60) for follower in followers)
    finally:
        for follower in followers:
            follower.close()
    for follower in followers:
        verdict = judge(follower.fold, committed, mysql.connect, load.schema, load.tables)
        assert verdict.proven, verdict.lines()


def _scratch(executor: psutil.Process) -> str:
    """The folder that Spark has made for an executor."""
    (python,) = [c for c in executor.children() if "processor.spark.daemon" in c.cmdline()]
    return str(python.environ()["SPARK_LOCAL_DIRS"]).split(",")[0]


def test_rows_that_were_there_come_from_workers_that_read_them(
    shared: Shared, mariadb: Database, broker: Broker, fresh_name: str
) -> None:
    way = make_way(shared.first, mariadb, broker, fresh_name, "copied")
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100))")
    rows = ", ".join(f"({i}, REPEAT('x', 100))" for i in range(1000))
    way.execute(f"INSERT INTO t VALUES {rows}")
    config = {"snapshot": {"mode": "initial", "chunk-rows": 300}}
    way.create(config=config)
    way.delivered()
    more = ", ".join(f"({i}, 'later')" for i in range(1000, 1100))
    way.execute(f"INSERT INTO t VALUES {more}")
    way.delivered()
    exactly(way, 1100)


def test_a_log_over_those_of_its_nodes(
    shared: Shared, mariadb: Database, broker: Broker, fresh_name: str
) -> None:
    capture, topic = shared.first, f"{fresh_name}_all"
    with database("mariadb-11.4") as other:
        nodes = (mariadb, other)
        for node in nodes:
            node.execute(
                f"CREATE DATABASE {fresh_name}",
                f"CREATE TABLE {fresh_name}.t (id INT PRIMARY KEY, v INT)",
            )
        words = [f"--node=n{i}={node.uri()}" for i, node in enumerate(nodes)]
        done = capture.cli("upstream", "create", "-u", "fleet", "--kind", "shards", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        sink = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=1"
        config = {"shard-mode": "pessimistic"}
        capture.create("fleet", "fleet", sink, [f"{fresh_name}.t"], config)
        for first in (0, 100):
            for number, node in enumerate(nodes):
                low = first + 50 * number
                rows = ", ".join(f"({i}, 0)" for i in range(low, low + 50))
                node.execute(f"INSERT INTO {fresh_name}.t VALUES {rows}")
            capture.wait_checkpoint("fleet", timeout_s=120)
        found = topics.read(broker.bootstrap, [topic])
        assert sorted(topics.ids(found)) == list(range(200))
        capture.ask("DELETE", "/changefeeds/fleet")


def test_a_worker_that_cannot_reach_the_capture_goes_on_when_it_can(
    shared: Shared, mysql: Database, broker: Broker, fresh_name: str
) -> None:
    capture = shared.second
    way = make_way(capture, mysql, broker, fresh_name, "main")
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    way.create()
    way.execute("INSERT INTO t VALUES (0, 0)")
    way.delivered()
    shared.heard.refuse()
    way.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    until(lambda: "TG:ErrLogUnreachable" in capture.text(), "a worker cannot read the log")
    assert sorted(topics.ids(way.messages())) == [0]
    shared.heard.go_on()
    way.delivered()
    # A capture that begins anew has another token, and its workers another copy.
    tokens = len(shared.heard.tokens())
    capture.kill()
    capture.start()
    way.execute("INSERT INTO t VALUES (3, 3)")
    way.delivered()
    exactly(way, 4)
    assert len(shared.heard.tokens()) > tokens


def test_secrets_stand_in_no_page_event_log_or_process_list(
    shared: Shared, mysql: Database, mariadb: Database, broker: Broker, fresh_name: str
) -> None:
    capture = shared.second
    way = make_way(capture, mysql, broker, fresh_name, "main")
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    same_schema(mysql, mariadb, fresh_name)
    mariadb.execute(f"GRANT ALL ON *.* TO planted@'127.0.0.1' IDENTIFIED BY '{PLANTED}'")
    way.create(sink=f"mysql://planted:{PLANTED}@127.0.0.1:{mariadb.port}/")
    way.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    way.delivered()
    assert content(mariadb, fresh_name) == content(mysql, fresh_name)
    tokens = shared.heard.tokens()
    assert tokens
    seen = {
        "event log": "".join(p.read_text("utf-8", "replace") for p in shared.events.iterdir()),
        "pages": "".join(spark_pages(capture.ui_port)),
        "process list": "".join(process_list()),
        "log": capture.text(),
    }
    # What is there is found: the changefeed by its name, a process by its words.
    assert way.name in seen["event log"]
    assert way.name in seen["pages"]
    assert way.name in seen["log"]
    assert "processor.spark.daemon" in seen["process list"]
    found = [where for where, text in seen.items() for s in (PLANTED, *tokens) if s in text]
    assert found == []


@one_run_in(2)
def test_a_master_that_knows_of_nobody_is_told_anew(
    shared: Shared, mariadb: Database, broker: Broker, fresh_name: str
) -> None:
    """Last of all: a new master ends the executors of applications that it does not know."""
    way = make_way(shared.first, mariadb, broker, fresh_name, "copied")
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    way.create()
    way.execute("INSERT INTO t VALUES (0, 0)")
    way.delivered()
    pid = shared.first.pid
    shared.running.lose_master()
    for number in range(1, 40):
        way.execute(f"INSERT INTO t VALUES ({number}, 0)")
    until(lambda: "TG:ErrExecutorsLost" in shared.first.text(), "the executors are gone", 120)
    way.execute("INSERT INTO t VALUES (40, 0)")
    way.delivered(240)
    exactly(way, 41)
    assert shared.first.pid == pid
