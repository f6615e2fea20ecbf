"""Rights that are missing at creation, or taken away under a changefeed, and given back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from confluent_kafka.admin import AclOperation

from sink.kafka.ledger import LEDGER_TOPIC
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.e2e.counting import exactly_in
from tests.e2e.load import Load
from tests.servers import Database
from tests.servers.guarded import Guarded, On, Right, guarded_broker
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

LOGIN = "&sasl-user=tidegate&sasl-mechanism=PLAIN&sasl-password=tidegate"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    """Return a broker with ACLs, and its ledger topic."""
    with guarded_broker() as running:
        topics.create(running.broker.internal, LEDGER_TOPIC, 16, {"cleanup.policy": "compact"})
        yield running


@pytest.fixture
def way(
    capture: CaptureProcess, mariadb: Database, guarded: Guarded, fresh_name: str
) -> Iterator[Way]:
    """Return a way to a topic of three partitions that nobody may use yet."""
    made = make_way(capture, mariadb, guarded.broker, fresh_name, "main")
    topics.create(guarded.broker.internal, fresh_name, 3)
    yield made
    capture.api("DELETE", f"/changefeeds/{made.name}")


def _rights(way: Way) -> dict[str, Right]:
    """All that a changefeed of this way needs, and no more."""
    own = f"tidegate-{way.name}-"
    return {
        "topic write": Right(On.TOPIC, way.schema, AclOperation.WRITE),
        "ledger write": Right(On.TOPIC, LEDGER_TOPIC, AclOperation.WRITE),
        "ledger read": Right(On.TOPIC, LEDGER_TOPIC, AclOperation.READ),
        "transactions": Right(On.TRANSACTIONAL_ID, own, AclOperation.WRITE, prefix=True),
    }


@pytest.fixture
def rights(way: Way, guarded: Guarded) -> Iterator[dict[str, Right]]:
    """Return the rights of this test's changefeed, granted; the ledger's are taken back."""
    given = _rights(way)
    guarded.grant(*given.values())
    yield given
    way.capture.api("DELETE", f"/changefeeds/{way.name}")
    guarded.revoke(*given.values())


def _create(way: Way) -> str:
    rule = {"matcher": [f"{way.schema}.*"], "partition": "index-value"}
    return way.create(sink=way.sink() + LOGIN, config={"sink": {"dispatchers": [rule]}})


# What the error's object and hint must say of each missing right.
NAMED = {
    "topic write": ("{topic}", "Write"),
    "ledger write": (LEDGER_TOPIC, "Write"),
    "ledger read": (LEDGER_TOPIC, "Read"),
    "transactions": ("", "transactional ids"),
}


def test_each_missing_right_is_refused_at_creation(
    way: Way, guarded: Guarded, rights: dict[str, Right]
) -> None:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    for name, right in rights.items():
        guarded.revoke(right)
        # Describe alone makes the topic visible, and is not enough.
        seen = Right(right.on, right.name, AclOperation.DESCRIBE, right.prefix)
        guarded.grant(seen)
        uri, rules = way.sink() + LOGIN, [f"{way.schema}.*"]
        body = way.capture.body(way.name, way.upstream, uri, rules)
        answer = way.capture.api("POST", "/changefeeds", body)
        guarded.revoke(seen)
        guarded.grant(right)
        said = answer.json()
        assert said.get("error_code") == "TG:ErrKafkaNotAuthorized", (name, said)
        _names(way, name, said["object"], said["hint"])
    assert way.capture.api("GET", f"/changefeeds/{way.name}").status_code == 404


def _names(way: Way, name: str, about: str, hint: str) -> None:
    thing, right = NAMED[name]
    assert thing.format(topic=way.schema) in about, (name, about, hint)
    assert right in hint, (name, about, hint)


def _strike(way: Way, feed: str) -> bool:
    """Kill the workers, unless the changefeed has seen enough."""
    if way.capture.feed(feed)["state"] == "warning":
        return True
    for worker in way.capture.workers():
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    time.sleep(0.5)
    return False


@pytest.mark.parametrize("name", list(NAMED))
def test_a_right_is_taken_away_and_given_back(
    way: Way, guarded: Guarded, rights: dict[str, Right], name: str
) -> None:
    # The changefeed first: what is committed before it begins is not delivered.
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    feed = _create(way)
    with Load(way) as load:
        load.more(100)
        way.delivered(150)
        guarded.revoke(rights[name])
        if name == "ledger read":
            # It is read only to take over: a window must die first. An idle worker is not missed.
            until(lambda: _strike(way, feed), "a window dies", 150)
        shown = way.capture.wait_state(feed, "warning", timeout_s=150)
        assert shown["error"]["code"] == "TG:ErrKafkaNotAuthorized"
        _names(way, name, shown["error"]["object"], shown["error"]["hint"])
        load.more(100)
        guarded.grant(rights[name])
        way.capture.wait_state(feed, "normal", timeout_s=150)
    way.delivered(150)
    exactly_in(topics.read(guarded.broker.internal, [way.schema]), load.committed)
