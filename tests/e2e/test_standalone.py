"""The same proof on a ``spark://`` cluster of two workers."""

from __future__ import annotations

import time

import psutil
import pytest

from bench.fold import Fold, judge
from bench.follow import Follower
from bench.workload import Workload
from tests.e2e.capture_process import CaptureProcess, until
from tests.e2e.conftest import CaptureMaker
from tests.e2e.spark_cluster import cluster
from tests.servers import Broker, Database

pytestmark = [pytest.mark.real, pytest.mark.slow]

_SETTINGS = """
[owner]
error-backoff-first = 0.5
[processor]
single-task-bytes = 16384
"""


def _python_workers() -> list[psutil.Process]:
    """Forks of Spark's Python daemons below our own processes."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if (
                "processor.spark.daemon" in one.cmdline()
                and one.parent().cmdline() == one.cmdline()
            ):
                found.append(one)
        except (psutil.NoSuchProcess, AttributeError):
            continue
    return found


def test_two_workers_of_a_cluster_deliver_exactly_once(
    captures: CaptureMaker, mysql: Database, broker: Broker
) -> None:
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with cluster(2) as master:
        capture: CaptureProcess = captures(master=master, spark=memory, settings=_SETTINGS)
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
            assert follower.wait(committed, 60)
        finally:
            follower.close()
            capture.close()
        verdict = judge(fold, committed, mysql.connect, load.schema, load.tables)
        assert verdict.proven, verdict.lines()
