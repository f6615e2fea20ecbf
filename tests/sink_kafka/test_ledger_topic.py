"""The ledger topic: what it must be, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from cdc.base.position import START
from sink.kafka.clients import open_admin
from sink.kafka.driver import KafkaDriver
from sink.kafka.errors import KafkaUnavailable
from sink.kafka.ledger import LEDGER_PARTITIONS, LEDGER_TOPIC, LedgerInvalid
from sink.kafka.ledger_topic import ensure_topic, topic_config
from tests.sink_kafka.conftest import Lab
from tests.waiting import until


def _policy(lab: Lab, value: str) -> None:
    with open_admin(lab.settings()) as admin:
        config = {"cleanup.policy": value}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, LEDGER_TOPIC, config)])
        shown = partial(topic_config, admin, LEDGER_TOPIC)
        until(lambda: shown()["cleanup.policy"] == value, "the broker has heard of it", 30)


@pytest.fixture
def deleting(lab: Lab) -> Iterator[Lab]:
    """A ledger that an operator, or a default of the broker, has made so."""
    with open_admin(lab.settings()) as admin:
        ensure_topic(admin, lab.settings())
    _policy(lab, "compact,delete")
    yield lab
    _policy(lab, "compact")


def test_a_ledger_that_would_be_deleted_is_refused(deleting: Lab) -> None:
    driver = KafkaDriver(deleting.settings())
    with pytest.raises(LedgerInvalid, match=r"cleanup\.policy is compact,delete"):
        driver.verify([], mariadb=False)
    with pytest.raises(LedgerInvalid, match=r"cleanup\.policy"):
        driver.recover(deleting.feed, 1, 1, (), START)


class Cluster:
    """What a cluster of so many brokers says; starting three takes a minute.

    The next ``unheard`` questions about the topic go to brokers that have not heard of it.
    """

    def __init__(self, brokers: int, replicas: int = 0) -> None:
        self.brokers, self.replicas = brokers, replicas
        self.unheard = 0

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": n} for n in range(self.brokers)]}

    def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        if not self.replicas:
            return []
        if self.unheard:
            self.unheard -= 1
            return [{"error_code": 3, "partitions": []}]
        partition = {"replica_nodes": list(range(self.replicas))}
        return [{"error_code": 0, "partitions": [partition] * LEDGER_PARTITIONS}]

    def describe_configs(self, resources: list[Any], config_filter: str) -> dict[str, Any]:
        return {"topic": {LEDGER_TOPIC: {"cleanup.policy": {"value": "compact"}}}}

    def create_topics(self, topics: dict[str, Any]) -> None:
        self.replicas = topics[LEDGER_TOPIC]["replication_factor"]

    def wait_for_topics(self, names: list[str], timeout_ms: int) -> None:
        """Ask one broker, which has made it; the next question goes to another one."""
        self.unheard = 2


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_it_gets_the_replicas_of_the_cluster(lab: Lab, brokers: int, replicas: int) -> None:
    cluster = Cluster(brokers)
    ensure_topic(cluster, lab.settings(), new=True)
    assert cluster.replicas == replicas


def test_one_replica_on_three_brokers_is_refused_at_creation(lab: Lab) -> None:
    with pytest.raises(LedgerInvalid, match="1 replicas"):
        ensure_topic(Cluster(3, replicas=1), lab.settings(), new=True)
    # Who runs already goes on, and who says that it is enough is believed.
    ensure_topic(Cluster(3, replicas=1), lab.settings())
    ensure_topic(Cluster(3, replicas=1), lab.settings(replication_factor=1), new=True)


def test_a_broker_that_has_not_heard_of_it_is_asked_again(lab: Lab) -> None:
    cluster = Cluster(3)
    ensure_topic(cluster, lab.settings(), new=True)
    assert cluster.unheard == 0

    class Deaf(Cluster):
        def wait_for_topics(self, names: list[str], timeout_ms: int) -> None:
            self.unheard = 1_000_000

    with pytest.raises(KafkaUnavailable, match="does not know it"):
        ensure_topic(Deaf(3), lab.settings(write_timeout="100ms"), new=True)
