"""Workers, capture, broker and topics die or change under a changefeed: nothing lost or twice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from processor import process_names
from processor.spark import forked_daemon
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import CaptureMaker, Way, make_way
from tests.e2e.counting import exactly
from tests.servers import Broker, Database
from tests.waiting import until

pytestmark = pytest.mark.real

_WINDOWS = """
[owner]
error-backoff-first = 0.5
error-backoff-max = 2.0
[processor]
window-bytes = 1048576
single-task-bytes = 65536
spark-start-after-s = 0
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    """Return a broker that tests may kill."""
    with servers.broker() as running:
        yield running


@pytest.fixture(scope="module")
def fragile(captures: CaptureMaker) -> CaptureProcess:
    """Return a capture with small windows, several to a large transaction."""
    return captures(settings=_WINDOWS)


@pytest.fixture
def way(
    fragile: CaptureProcess, mariadb: Database, kafka: Broker, fresh_name: str
) -> Iterator[Way]:
    """Return a way of this test alone; its changefeed is removed."""
    made = make_way(fragile, mariadb, kafka, fresh_name, "main")
    yield made
    fragile.api("DELETE", f"/changefeeds/{made.name}")


def _by_key(way: Way, **more: object) -> str:
    rule = {"matcher": [f"{way.schema}.*"], "partition": "index-value"}
    sink = more.pop("sink", None) or way.sink(partition_num=3)
    return way.create(config={"sink": {"dispatchers": [rule]}}, sink=sink, **more)


def test_a_large_transaction_is_cut_and_killed_in_its_middle(way: Way) -> None:
    way.execute("CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(1000))")
    _by_key(way)
    rows = 100_000
    with way.database.connect(database=way.schema) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE n (i INT)")
        cursor.execute(f"INSERT INTO n SELECT seq FROM seq_0_to_{rows - 1}")
        cursor.execute(
            "INSERT INTO big SELECT i, REPEAT(CHAR(65 + i % 26), 1000) FROM n ORDER BY i"
        )
    until(lambda: _count(way) > rows // 20, "delivery is in the middle", 120)
    way.capture.kill()
    before = _count(way)
    assert before < rows, "the kill came too late to show anything"
    way.capture.start()
    until(lambda: _count(way) > before + rows // 20, "delivery goes on", 120)
    for worker in way.capture.workers():
        worker.kill()
    way.delivered(180)
    exactly(way, rows)


def _count(way: Way) -> int:
    """Committed messages so far, by the watermarks of librdkafka (a little above for markers)."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": way.broker.bootstrap,
            "group.id": "count",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    try:
        known = consumer.list_topics(way.schema, timeout=20).topics[way.schema].partitions
        places = (TopicPartition(way.schema, p) for p in known)
        return sum(consumer.get_watermark_offsets(p, timeout=20)[1] for p in places)
    finally:
        consumer.close()


def test_workers_and_capture_are_killed_between_changes(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    _by_key(way)
    done = 0
    for kill in ("worker", "capture", "worker"):
        for _ in range(20):
            way.execute(f"INSERT INTO t VALUES {','.join(f'({done + i})' for i in range(10))}")
            done += 10
        if kill == "worker":
            until(way.capture.workers, "there are workers")[0].kill()
        else:
            way.capture.kill()
            way.capture.start()
    way.delivered()
    exactly(way, done)


def _jvm_at_work(way: Way) -> tuple[psutil.Process, set[Path]] | None:
    """The one that runs jobs, and the library that it has unpacked for itself."""
    for one in way.capture.family():
        # A short one says how to start it.
        with suppress(psutil.NoSuchProcess):
            unpacked = {Path(m.path) for m in one.memory_maps() if "liblz4" in m.path}
            if one.name() == "java" and unpacked:
                return one, unpacked
    return None


def _of_daemons(way: Way) -> list[str]:
    """What has started Spark's daemons; some may end while they are looked at."""
    with suppress(psutil.NoSuchProcess):
        return [one.parent().name() for one in way.capture.daemons()]
    return []


def test_a_jvm_that_dies_alone_is_replaced(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    _by_key(way)
    way.execute("INSERT INTO t VALUES (0)")
    way.delivered()
    (daemon,) = way.capture.daemons()
    spawner = daemon.parent()
    assert spawner.name() == process_names.SPAWNER
    assert spawner.ppid() == way.capture.pid, "it is a fork of the capture's"
    way.execute("INSERT INTO t SELECT seq FROM seq_1_to_30000")
    jvm, unpacked = until(lambda: _jvm_at_work(way), "what is large starts it")
    # Before it has asked for its daemon that would wait for another one to do so.
    waits_at = forked_daemon.address(way.capture.data_dir / "spark")
    until(lambda: not waits_at.exists(), "its daemon is its own")
    way.delivered()
    jvm.kill()
    way.execute("INSERT INTO t VALUES (30001), (30002)")
    way.delivered(120)
    exactly(way, 30_003)
    until(lambda: not any(path.exists() for path in unpacked), "nothing is left of it")
    until(lambda: not daemon.is_running(), "its daemon has ended")
    until(lambda: _of_daemons(way) == ["java"], "there is another one, whose daemon loads itself")


def test_a_broker_that_is_killed_is_seen_and_survived(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    feed = _by_key(way)
    way.execute("INSERT INTO t VALUES (0)")
    way.delivered()
    way.broker.kill()
    way.execute("INSERT INTO t VALUES (1)")
    shown = way.capture.wait_state(feed, "warning", timeout_s=90)
    assert shown["error"]["code"] == "TG:ErrKafkaUnavailable"
    assert shown["error"]["hint"]
    way.broker.start()
    way.execute("INSERT INTO t VALUES (2)")
    way.delivered(90)
    way.capture.wait_state(feed, "normal")
    exactly(way, 3)


def test_a_broker_whose_disk_is_full_is_seen_and_survived(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    feed = _by_key(way)
    way.execute("INSERT INTO t SELECT seq, REPEAT('x', 1000) FROM seq_0_to_299")
    way.delivered()
    way.broker.fill_disk(300_000, way.schema)
    way.execute("INSERT INTO t SELECT seq, REPEAT('y', 1000) FROM seq_300_to_4999")
    shown = way.capture.wait_state(feed, "warning", timeout_s=90)
    assert shown["error"]["code"] in ("TG:ErrKafkaUnavailable", "TG:ErrKafkaStorage")
    assert shown["error"]["hint"]
    assert shown["checkpoint_ts"] < way.capture.tso()
    until(lambda: not way.broker.running, "the broker has ended for want of space")
    way.broker.start()
    way.execute("INSERT INTO t SELECT seq, REPEAT('z', 1000) FROM seq_5000_to_5099")
    way.delivered(90)
    way.capture.wait_state(feed, "normal")
    exactly(way, 5100)


def test_a_deleted_topic_is_shown_and_what_comes_after_is_not_skipped(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    feed = _by_key(way, sink=way.sink(partition_num=3, auto_create_topic=True))
    way.execute("INSERT INTO t VALUES (0), (1), (2)")
    way.delivered()
    way.capture.ask("POST", f"/changefeeds/{feed}/pause")
    sink = way.sink(partition_num=3, auto_create_topic=False)
    way.capture.ask("PUT", f"/changefeeds/{feed}", {"sink_uri": sink})
    way.capture.ask("POST", f"/changefeeds/{feed}/resume")
    topics.delete(way.broker.bootstrap, way.schema)
    way.execute("INSERT INTO t VALUES (3), (4), (5)")
    shown = way.capture.wait_state(feed, "warning", "failed", timeout_s=90)
    assert shown["error"]["code"] in ("TG:ErrKafkaTopicMissing", "TG:ErrKafkaTopicNotExists")
    assert "create" in shown["error"]["hint"]
    topics.create(way.broker.bootstrap, way.schema, 3)
    if shown["state"] == "failed":
        way.capture.ask("POST", f"/changefeeds/{feed}/resume")
    way.delivered(90)
    # What the topic held is gone with it; everything after comes once.
    assert sorted(topics.ids(way.messages())) == [3, 4, 5]


def test_a_message_above_the_limit_stops_with_its_name_and_is_not_lost(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    topics.create(way.broker.bootstrap, way.schema, 1, {"max.message.bytes": "300000"})
    feed = way.create()
    way.execute(
        "INSERT INTO t VALUES (0, 'small')",
        "INSERT INTO t VALUES (1, REPEAT('x', 400000))",
        "INSERT INTO t VALUES (2, 'after')",
    )
    shown = way.capture.wait_state(feed, "warning")
    error = shown["error"]
    assert error["code"] == "TG:ErrMessageTooLarge"
    said = json.dumps(error)
    assert f"{way.schema}.t" in said
    assert "id=1" in said or "id 1" in said or "(1)" in said or "'1'" in said, said
    assert "400" in said
    assert error["hint"]
    topics.configure(way.broker.bootstrap, way.schema, max_message_bytes="1000000")
    way.capture.ask("POST", f"/changefeeds/{feed}/resume")
    way.delivered()
    exactly(way, 3)


def test_watermarks_tell_what_precedes_them(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    _by_key(way, sink=way.sink(partition_num=3, enable_tidb_extension=True))
    for i in range(60):
        way.execute(f"INSERT INTO t VALUES ({i})")
        if i == 30:
            until(way.capture.workers, "there are workers")[0].kill()
        time.sleep(0.08)
    way.delivered()
    last = max(m.body["_tidb"]["commitTs"] for m in way.messages() if m.body["type"] == "INSERT")

    def told() -> bool:
        found = [m for m in way.messages() if m.body["type"] == "TIDB_WATERMARK"]
        latest = {m.partition: m.body["_tidb"]["watermarkTs"] for m in found}
        return len(latest) == 3 and min(latest.values()) >= last

    until(told, "every partition has a watermark above the last row")
    high: dict[int, int] = {}
    seen = []
    for m in way.messages():
        if m.body["type"] == "TIDB_WATERMARK":
            high[m.partition] = max(high.get(m.partition, 0), m.body["_tidb"]["watermarkTs"])
        else:
            assert m.body["_tidb"]["commitTs"] > high.get(m.partition, 0), "a row after its mark"
            seen += topics.ids([m])
    assert sorted(seen) == list(range(60))


def test_jobs_are_readable_in_the_ui_of_spark_and_little_is_none(way: Way) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    way.create()
    base = f"http://127.0.0.1:{way.capture.ui_port}/api/v1/applications"
    rows = 0

    def insert(size: int) -> None:
        nonlocal rows
        way.execute(f"INSERT INTO t VALUES ({rows}, REPEAT('x', {size}))")
        rows += 1
        way.delivered()

    with httpx.Client(trust_env=False, timeout=20) as http:

        def shown(kind: str) -> list[str]:
            # It is not there before something large has come, nor just after its JVM has died.
            with suppress(httpx.TransportError, ValueError):
                (app,) = http.get(base).json()
                assert app["name"] == "tidegate"
                asked = http.get(f"{base}/{app['id']}/{kind}").json()
                told = [one.get("description", "") for one in asked]
                return [text for text in told if text.startswith(f"{way.name}: ")]
            return []

        def shown_of_large() -> list[str]:
            insert(200_000)
            return shown("jobs")

        jobs = until(shown_of_large, "what is large is a job")
        for text in (jobs[0], shown("stages")[0]):
            assert way.schema in text
        insert(10)
        assert shown("jobs") == jobs, "little is none"
    exactly(way, rows)
