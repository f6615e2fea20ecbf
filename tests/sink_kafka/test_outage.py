"""The world goes wrong: broker killed and back, broker silent, topic deleted, password wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer

from cdc.base.errors import ErrorKind, TidegateError, TransientError
from cdc.base.position import START, Position
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import KafkaDeliverer
from sink.kafka.errors import KafkaNotAuthorized, KafkaUnavailable
from sink.kafka.ledger import read
from sink.kafka.recovery import recover
from sink.kafka.settings import KafkaSettings
from sink.kafka.topics import verify
from tests import servers
from tests.sink_kafka.conftest import Lab, feed_of, framed, make_lab, make_topic

WINDOWS = 30


@pytest.fixture
def own_broker() -> Iterator[servers.Broker]:
    """A broker that the test may kill."""
    try:
        with servers.broker() as running:
            yield running
    except servers.Unavailable as error:
        pytest.skip(str(error))


def deliver_all(
    lab: Lab, errors: list[TidegateError], done: threading.Event, half: threading.Event
) -> None:
    """What a processor does: recover with a new epoch after every error, go on from the ledger."""
    settings = lab.settings(compression="lz4", write_timeout="1s", read_timeout="1s")
    epoch = 0
    while not done.is_set():
        epoch += 1
        try:
            positions = recover(settings, lab.feed, epoch, 1)
            deliverer = KafkaDeliverer(settings, lab.feed, epoch, 0)
            for window in range(WINDOWS):
                at = Position(window + 1)
                if positions.get((lab.topic, 0), START) >= at and window:
                    continue
                deliverer.begin()
                if positions.get((lab.topic, 0), Position(0)) < at:
                    values = [b"%d.%d" % (window, i) for i in range(500)]
                    deliverer.send(lab.topic, 0, *framed(values), 1, 1)
                deliverer.commit({(lab.topic, 0): max(at, positions.get((lab.topic, 0), at))})
                if window >= WINDOWS // 2:
                    half.set()
                time.sleep(0.02)
            deliverer.close()
            done.set()
        except TidegateError as e:
            errors.append(e)
            time.sleep(0.2)


def test_a_broker_killed_and_restarted_while_delivering(own_broker: servers.Broker) -> None:
    lab = make_lab(own_broker, "outage", 1)
    errors: list[TidegateError] = []
    done, half = threading.Event(), threading.Event()
    worker = threading.Thread(target=deliver_all, args=(lab, errors, done, half))
    worker.start()
    assert half.wait(60)
    own_broker.kill()
    time.sleep(4)
    own_broker.start()
    worker.join(90)
    done.set()
    assert not worker.is_alive()
    assert errors, "the outage was longer than the delivery timeout, so it must have been seen"
    assert {e.kind for e in errors} == {ErrorKind.TRANSIENT}, errors
    expected = [b"%d.%d" % (w, i) for w in range(WINDOWS) for i in range(500)]
    assert [v for _, v in lab.consume()[0]] == expected


def test_a_topic_deleted_under_a_running_deliverer(lab: Lab) -> None:
    settings = lab.settings(write_timeout="1s")
    recover(lab.settings(), lab.feed, 1, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    deliverer.begin()
    deliverer.send_small(lab.topic, 0, b"a", 1)
    deliverer.commit({(lab.topic, 0): Position(1)})
    with open_admin(settings) as admin:
        admin.delete_topics([lab.topic])
    deliverer.begin()
    began = time.monotonic()
    with pytest.raises(TransientError) as caught:  # noqa: PT012  either call may see it
        deliverer.send_small(lab.topic, 0, b"b", 1)
        deliverer.commit({(lab.topic, 0): Position(2)})
    assert time.monotonic() - began < 15
    assert caught.value.hint
    make_topic(settings, lab.topic, 2)
    assert recover(settings, lab.feed, 2, 1) == {(lab.topic, 0): Position(1)}
    again = KafkaDeliverer(settings, lab.feed, 2, 0)
    again.begin()
    again.send_small(lab.topic, 0, b"b", 1)
    again.commit({(lab.topic, 0): Position(2)})
    again.close()
    assert lab.consume()[0] == [(None, b"b")]


def test_a_ledger_without_a_leader_is_not_the_end(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client then does not know where it stands; it is the world's failure, to be retried."""
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    monkeypatch.setattr("sink.kafka.ledger_scan._READ_TIMEOUT_S", 0.3)
    monkeypatch.setattr(KafkaConsumer, "position", lambda *_, **__: None)
    with pytest.raises(KafkaUnavailable, match="nobody leads it"):
        read(settings, lab.feed)


def test_sasl_over_tls_and_a_wrong_password() -> None:
    try:
        with servers.broker(sasl=True, tls=True) as running:
            assert running.tls is not None
            uri = (
                f"kafka+ssl://{running.bootstrap}/t?protocol=canal-json&ca={running.tls.ca}"
                "&sasl-user=tidegate&sasl-mechanism=plain&read-timeout=3s&sasl-password="
            )
            settings = KafkaSettings.parse(uri + "tidegate")
            verify(settings)
            make_topic(settings, "t", 1)
            recover(settings, feed_of("f"), 1, 1)
            deliverer = KafkaDeliverer(settings, feed_of("f"), 1, 0)
            deliverer.begin()
            deliverer.send_small("t", 0, b"x", 1)
            deliverer.commit({("t", 0): Position(1)})
            deliverer.close()
            with pytest.raises(KafkaNotAuthorized) as caught:
                verify(KafkaSettings.parse(uri + "hunter2"))
            assert "hunter2" not in str(caught.value)
    except servers.Unavailable as error:
        pytest.skip(str(error))
