"""Clients of kafka-python as they are opened here."""

from __future__ import annotations

import time

import pytest
from kafka.cluster import ClusterMetadata

from sink.kafka.batch import discard
from sink.kafka.clients import ask_soon, open_consumer, open_producer
from tests.sink_kafka.conftest import Lab


def test_what_a_client_is_asked_first_it_asks_at_once() -> None:
    cluster = ClusterMetadata(retry_backoff_ms=60_000)
    cluster._last_refresh_ms = time.monotonic() * 1000
    cluster.request_update()
    # As kafka-python has it behind the answer that says where the brokers are.
    assert cluster.ttl() > 0
    ask_soon(cluster)
    assert cluster.ttl() == 0


@pytest.mark.real
def test_clients_are_opened_so(lab: Lab) -> None:
    with open_consumer(lab.settings(), "read_committed") as consumer:
        assert consumer._client.cluster._last_refresh_ms == 0
    producer = open_producer(lab.settings())
    try:
        assert producer._metadata._last_refresh_ms == 0
    finally:
        discard(producer)
