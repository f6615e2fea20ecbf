"""Clients of kafka-python as they are opened here."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.cluster import ClusterMetadata

from cdc.base.errors import TidegateError
from sink.kafka.batch import discard
from sink.kafka.clients import open_admin, open_producer, partitions_of
from sink.kafka.ledger import LEDGER_TOPIC, read
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.recovery import recover
from sink.kafka.settings import KafkaSettings
from tests.servers.broker import broker
from tests.sink_kafka.conftest import Lab, feed_of

pytestmark = pytest.mark.real


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each question about topics was held back, in milliseconds, not a matter of age."""
    found: list[float] = []
    ttl = ClusterMetadata.ttl

    def noted(self: ClusterMetadata) -> Any:
        ms = ttl(self)
        if self.need_update:
            found.append(ms)
        return ms

    monkeypatch.setattr(ClusterMetadata, "ttl", noted)
    return found


def test_a_producer_asks_about_each_topic_at_once(lab: Lab, rests: list[float]) -> None:
    with open_admin(lab.settings()) as admin:
        ensure_topic(admin, lab.settings())
    producer = open_producer(lab.settings())
    try:
        for topic in (lab.topic, LEDGER_TOPIC):
            assert partitions_of(producer, topic)
            assert partitions_of(producer, topic) == producer.partitions_for(topic)
    finally:
        discard(producer)
    assert rests
    assert max(rests) == 0


def test_a_reader_of_the_ledger_does_not_rest(lab: Lab, rests: list[float]) -> None:
    # Of a kind of its own, as one that is kept knows its topic already.
    settings = lab.settings(kafka_client_id="does-not-rest")
    with open_admin(settings) as admin:
        ensure_topic(admin, settings)
    assert read(settings, lab.feed).epoch == 0
    assert rests
    assert max(rests) <= 10


def test_clients_of_one_login_are_opened_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    for kind in (KafkaAdminClient, KafkaConsumer, KafkaProducer):

        def begin(self: Any, real: Any = kind.__init__, **how: Any) -> None:
            opened.append(how.get("sasl_plain_password", ""))
            real(self, **how)

        monkeypatch.setattr(kind, "__init__", begin)
    settings = lab.settings(kafka_client_id="counted")
    for epoch in range(1, 4):
        recover(settings, lab.feed, epoch, 1)
    # The admin client, a reader of all records, one of those that count, and a producer.
    assert len(opened) == 4
    login = {"sasl_user": "a", "sasl_mechanism": "plain", "write_timeout": "1s"}
    for password in ("first", "second"):
        with (
            pytest.raises(TidegateError),
            open_admin(lab.settings(sasl_password=password, read_timeout="1s", **login)),
        ):
            pass
    assert opened[4:] == ["first", "second"]


def test_a_client_that_was_kept_over_a_restart_of_its_broker_works() -> None:
    with broker() as own:
        settings = KafkaSettings.parse(f"kafka://{own.bootstrap}/t?protocol=canal-json")
        feed = feed_of("t")
        recover(settings, feed, 1, 1)
        own.restart()
        # Clients are kept for 5 s, and a broker takes less to start.
        assert recover(settings, feed, 2, 1) == {}
        assert read(settings, feed).epoch == 2
