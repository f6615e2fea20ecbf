"""A topic gets partitions while some of a window is committed, and the rest is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from cdc.changelog.reader import ChangeLog
from tests.changelog.logs import StillClock
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running, WorkerDied
from tests.servers import Broker, Database
from tests.source.pulling import Pulled

SCHEMA = "partitions"
ROWS = 300


@pytest.fixture(scope="module")
def folder(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("partitions") / "log"
    mariadb.execute(f"drop database if exists {SCHEMA}", f"create database {SCHEMA}")
    mariadb.execute("create table t (id int primary key)", database=SCHEMA)
    with Pulled(mariadb, made) as pulled:
        mariadb.execute(f"insert into t select seq from seq_0_to_{ROWS - 1}", database=SCHEMA)
        pulled.caught_up()
    return made


@pytest.fixture
def admin(broker: Broker) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield client
    client.close()


def _create(admin: Any, topic: str, count: int) -> None:
    admin.create_topics({topic: {"num_partitions": count, "replication_factor": 1}})
    admin.wait_for_topics([topic])


@pytest.mark.parametrize("task", [0, 1])
def test_rows_of_a_window_go_where_its_first_attempt_sent_them(
    folder: Path, broker: Broker, admin: Any, topic_prefix: str, task: int
) -> None:
    opened = ChangeLog.open(folder)
    start_ts = opened.state.first_ts
    opened.close()
    _create(admin, topic_prefix, 3)
    died = []

    def die(job: int, now: int) -> None:
        if not died and now == task:
            died.append(now)
            admin.create_partitions({topic_prefix: 5})
            raise WorkerDied("gone")

    rule = {"matcher": [f"{SCHEMA}.*"], "partition": "index-value"}
    config = {"filter": {"rules": [f"{SCHEMA}.*"]}, "sink": {"dispatchers": [rule]}}
    sink = f"kafka://{broker.bootstrap}/{topic_prefix}?protocol=canal-json"
    feed = topic_prefix.replace("_", "-")
    jobs, clock = InProcessJobs(die), StillClock()
    running = Running(folder, sink, config, jobs, start_ts=start_ts, feed=feed, clock=clock)
    try:
        running.through()
    finally:
        running.stop()
    assert died
    found = Counter(topics.ids(topics.read(broker.bootstrap, [topic_prefix])))
    lost, doubled = set(range(ROWS)) - found.keys(), [i for i, n in found.items() if n > 1]
    assert (lost, doubled) == (set(), [])
    assert running.jobs.jobs[-1][0].plan.layout.counts == {topic_prefix: 3}
