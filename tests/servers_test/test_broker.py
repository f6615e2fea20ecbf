"""The broker harness: transactions on one node, kill and restart on the same log."""

from __future__ import annotations

import psutil
import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from tests import servers


def _produce(kafka: servers.Broker, topic: str, value: bytes) -> None:
    producer = KafkaProducer(**kafka.client_settings(), transactional_id="harness")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value).get(20)
        producer.commit_transaction()
    finally:
        producer.close()


def _consume(kafka: servers.Broker, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        **kafka.client_settings(),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=20000,
    )
    try:
        return [next(consumer).value for _ in range(count)]
    finally:
        consumer.close()


def _create(kafka: servers.Broker, topic: str) -> None:
    admin = KafkaAdminClient(**kafka.client_settings())
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        admin.close()


@pytest.mark.real
def test_killed_broker_comes_back_with_its_log() -> None:
    with servers.broker() as kafka:
        _create(kafka, "a")
        _produce(kafka, "a", b"1")
        pid, bootstrap = kafka.pid, kafka.bootstrap
        kafka.kill()
        assert not psutil.pid_exists(pid)
        kafka.start()
        assert kafka.bootstrap == bootstrap
        _produce(kafka, "a", b"2")
        kafka.restart(options={"message.max.bytes": "2000000"})
        assert _consume(kafka, "a", 2) == [b"1", b"2"]
        done = kafka.java_tool(
            "org.apache.kafka.tools.GetOffsetShell",
            *("--bootstrap-server", kafka.bootstrap, "--topic", "a"),
        )
        # Two records and a commit marker for each; one not yet safe at the kill comes once more
        # each time that its coordinator is loaded.
        topic, partition, end = done.stdout.strip().split(":")
        assert (topic, partition, int(end) >= 4) == ("a", "0", True), done.stderr
        folder = kafka.folder
    assert not folder.exists()
    assert not kafka.running


@pytest.mark.real
@pytest.mark.parametrize(("sasl", "tls"), [(True, False), (False, True), (True, True)])
def test_secured_listeners(sasl: bool, tls: bool) -> None:
    with servers.broker(sasl=sasl, tls=tls) as kafka:
        _create(kafka, "a")
        _produce(kafka, "a", b"1")
        assert _consume(kafka, "a", 1) == [b"1"]


def test_session_fixtures(
    mariadb: servers.Database, broker: servers.Broker, schema_name: str, topic_prefix: str
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    assert (schema_name,) in mariadb.execute("SHOW DATABASES")
    _create(broker, f"{topic_prefix}.a")
    assert topic_prefix == schema_name
