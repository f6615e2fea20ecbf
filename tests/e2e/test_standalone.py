"""A ``spark://`` cluster of two workers that map a log: the same proof, and a host cut off.

Workers that do not see them are in ``test_remote_log``.
"""

from __future__ import annotations

import time
from contextlib import suppress

import httpx
import psutil
import pytest

from bench.fold import Fold, judge
from bench.follow import Follower
from bench.workload import Workload
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import CaptureMaker, make_way
from tests.e2e.counting import exactly_in
from tests.e2e.spark_cluster import cluster
from tests.servers import Broker, Database
from tests.servers.proxy import Proxy
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.real, pytest.mark.slow]

_SETTINGS = """
[owner]
error-backoff-first = 0.5
[processor]
single-task-bytes = 16384
[log-server]
serve = "never"
"""


def _python_workers() -> list[psutil.Process]:
    """Forks of the Python daemons of a cluster's executors; other captures have such, too."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            daemon = one.parent()
            if (
                "processor.spark.daemon" in one.cmdline()
                and daemon.cmdline() == one.cmdline()
                and any("CoarseGrainedExecutor" in word for word in daemon.parent().cmdline())
            ):
                found.append(one)
        except (psutil.NoSuchProcess, AttributeError):
            continue
    return found


# Those of test_remote_log, which see less of the capture, do the same in every run.
@pytest.mark.soak
def test_two_workers_of_a_cluster_deliver_exactly_once(
    captures: CaptureMaker, mysql: Database, broker: Broker
) -> None:
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with cluster(2) as spark:
        capture: CaptureProcess = captures(master=spark.address, spark=memory, settings=_SETTINGS)
        load = Workload(mysql.connect, mysql.kind, schema="cluster", rows_per_s=2000)
        load.prepare()
        capture.register("main", mysql.uri())
        sink = f"kafka://{broker.bootstrap}/cluster?protocol=canal-json&partition-num=4"
        rule = {"matcher": ["cluster.*"], "partition": "index-value"}
        capture.create("cluster", "main", sink, load.rules, {"sink": {"dispatchers": [rule]}})
        fold = Fold(load.tables)
        follower = Follower(broker.bootstrap, "cluster", fold)
        try:
            load.start()
            until(lambda: fold.messages > 2000, "messages arrive")
            workers = _python_workers()
            assert len(workers) >= 2
            assert len({w.ppid() for w in workers}) == 2, "both executors have Python workers"
            workers[0].kill()
            time.sleep(3)
            capture.kill()
            capture.start()
            seen = fold.messages
            until(lambda: fold.messages > seen + 500, "messages arrive again", 90)
            committed = load.stop()
            assert follower.wait(committed, PATIENCE * 60)
        finally:
            follower.close()
            capture.close()
        verdict = judge(fold, committed, mysql.connect, load.schema, load.tables)
        assert verdict.proven, verdict.lines()


def test_a_task_of_a_host_that_is_cut_off_is_not_delivered_again(
    captures: CaptureMaker, mysql: Database, fresh_name: str
) -> None:
    """Spark takes its executor for lost and runs the task again, while it still delivers."""
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with cluster(2) as spark, Proxy() as proxy, servers.broker(advertised=proxy.port) as broker:
        proxy.switch(broker.port)
        capture: CaptureProcess = captures(master=spark.address, spark=memory, settings=_SETTINGS)
        way = make_way(capture, mysql, broker, fresh_name, "main")
        way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
        sink = way.sink(write_timeout="60s", read_timeout="60s", partition_num=1)
        way.create(sink=sink.replace(broker.bootstrap, f"127.0.0.1:{proxy.port}"))
        way.execute("INSERT INTO t VALUES (0, '')")
        way.delivered()
        proxy.stall()
        rows = ", ".join(f"({i}, REPEAT('x', 1000))" for i in range(1, 201))
        way.execute(f"INSERT INTO t VALUES {rows}")
        executor = until(lambda: _busy_executor(capture), "a task delivers", 120)
        host = executor.parent()
        family = [executor, *executor.children(recursive=True)]
        try:
            # The Python worker goes on: only Spark cannot see it any more.
            executor.suspend()
            host.kill()
            until(lambda: "TG:ErrTaskRepeated" in capture.text(), "Spark runs the task again", 90)
            proxy.go_on()
            executor.resume()
            way.execute("INSERT INTO t VALUES (201, '')")
            way.delivered()
            exactly_in(topics.read(broker.internal, [way.schema]), 202)
        finally:
            # Nobody else knows of them now.
            for one in family:
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        capture.close()


def _busy_executor(capture: CaptureProcess) -> psutil.Process | None:
    """The JVM of the executor that runs a task, if one does; Spark's pages know which."""
    base = f"http://127.0.0.1:{capture.ui_port}/api/v1/applications"
    with httpx.Client(trust_env=False, timeout=20 * PATIENCE) as http:
        (app,) = http.get(base).json()
        shown = http.get(f"{base}/{app['id']}/executors").json()
    busy = [e["id"] for e in shown if e["activeTasks"]]
    for one in psutil.Process().children(recursive=True) if busy else ():
        with suppress(psutil.NoSuchProcess):
            words = one.cmdline()
            if "--executor-id" in words and words[words.index("--executor-id") + 1] in busy:
                return one
    return None
