"""Topics are read up to the ends that they have when somebody begins to read."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer

from tests.e2e import topics
from tests.servers import Broker
from tests.waiting import until

pytestmark = pytest.mark.real


def test_a_topic_that_never_rests_is_read_up_to_its_end(broker: Broker, fresh_name: str) -> None:
    topics.create(broker.bootstrap, fresh_name)
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": fresh_name}
    producer, rests, committed = Producer(settings), threading.Event(), 0
    producer.init_transactions(60)

    def write() -> None:
        nonlocal committed
        while not rests.is_set():
            producer.begin_transaction()
            producer.produce(fresh_name, b"null")
            producer.commit_transaction(60)
            committed += 1

    read: list[int] = []

    def look() -> None:
        read.append(len(topics.records(broker.bootstrap, [fresh_name])))

    writing, looking = threading.Thread(target=write), threading.Thread(target=look)
    writing.start()
    try:
        until(lambda: committed > 50, "something is there")
        before = committed
        looking.start()
        until(lambda: read, "it is read while more comes", 20)
        assert read[0] >= before
    finally:
        rests.set()
        writing.join()
        looking.join()
    assert len(topics.records(broker.bootstrap, [fresh_name])) == committed
