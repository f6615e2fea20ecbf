"""Leaders and coordinators of a cluster move or die under load: it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaConnectionError

from cdc.base.ids import FeedId
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import transactional_id
from sink.kafka.ledger import feeds, ledger_partition
from sink.kafka.settings import KafkaSettings
from tests import servers
from tests.e2e import topics
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.conftest import Way, make_way
from tests.e2e.counting import exactly
from tests.e2e.load import Load
from tests.servers import Cluster, Database
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

PARTITIONS = 3
# Three brokers and a Spark share two cores with the other tests; alone all of it takes seconds.
_LIMIT_S = 200.0


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """Return three nodes that tests may kill; two of them go on."""
    with servers.cluster() as running:
        yield running


@pytest.fixture
def way(
    capture: CaptureProcess, mariadb: Database, nodes: Cluster, fresh_name: str
) -> Iterator[Way]:
    """Return a way into a topic of three replicas; all nodes run again afterwards."""
    nodes.start()
    made = make_way(capture, mariadb, nodes.node(1), fresh_name, "main")
    yield made
    nodes.start()
    capture.api("DELETE", f"/changefeeds/{made.name}")


def _create(way: Way, nodes: Cluster) -> str:
    way.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000))")
    rule = {"matcher": [f"{way.schema}.*"], "partition": "index-value"}
    sink = way.sink(partition_num=PARTITIONS, replication_factor=3)
    sink = sink.replace(way.broker.bootstrap, nodes.bootstrap)
    feed = way.create(sink=sink, config={"sink": {"dispatchers": [rule]}})
    way.delivered()
    return feed


def _admin(nodes: Cluster) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=nodes.bootstrap.split(","))


def _leader(nodes: Cluster, at: TopicPartition) -> int:
    admin = _admin(nodes)
    try:
        (topic,) = admin.describe_topics([at.topic])
        (found,) = [p for p in topic["partitions"] if p["partition_index"] == at.partition]
        return int(found["leader_id"])
    finally:
        admin.close()


def _coordinator(way: Way, nodes: Cluster, feed: str) -> int:
    settings = KafkaSettings.parse(way.sink())
    (known,) = feeds(settings, FeedId("", feed, 0))
    admin = _admin(nodes)
    try:
        own = transactional_id(known, 0)
        return int(admin.describe_transactions([own])[own].coordinator_id)
    finally:
        admin.close()


def _goes_on_without(way: Way, nodes: Cluster, number: int, feed: str) -> None:
    """Kill a node under load; what is committed afterwards arrives while it is still dead."""
    with Load(way) as load:
        load.more()
        nodes.node(number).kill()
        load.more()
        way.delivered(_LIMIT_S)
    way.delivered(_LIMIT_S)
    way.capture.wait_state(feed, "normal")
    assert not nodes.node(number).running
    nodes.start()
    exactly(way, load.committed)


def test_the_leader_is_killed(way: Way, nodes: Cluster) -> None:
    feed = _create(way, nodes)
    _goes_on_without(way, nodes, _leader(nodes, TopicPartition(way.schema, 0)), feed)


def test_the_coordinator_of_the_transactions_is_killed(way: Way, nodes: Cluster) -> None:
    feed = _create(way, nodes)
    _goes_on_without(way, nodes, _coordinator(way, nodes, feed), feed)


def test_too_few_replicas_are_shown_by_name(way: Way, nodes: Cluster) -> None:
    feed = _create(way, nodes)
    topics.configure(nodes.bootstrap, way.schema, min_insync_replicas="3")
    with Load(way) as load:
        load.more()
        leader = _leader(nodes, TopicPartition(way.schema, 0))
        nodes.node(leader % len(nodes.brokers) + 1).kill()
        # At first nodes and coordinators may be missing; then it is the replicas that are.
        until(lambda: _shown(way)["code"] == "TG:ErrKafkaStorage", "the cause is shown", _LIMIT_S)
        assert "replicas" in _shown(way)["hint"]
        nodes.start()
        load.more()
    way.delivered(_LIMIT_S)
    way.capture.wait_state(feed, "normal")
    exactly(way, load.committed)


def _shown(way: Way) -> dict[str, str]:
    """Code and hint of what a changefeed backs off for; empty while it does not."""
    found = way.capture.feed(way.name)
    known: dict[str, str] = found["error"] if found["state"] == "warning" else {}
    return {"code": "", "hint": ""} | (known or {})


def test_a_node_that_comes_back_is_asked_by_who_knew_it_dead(way: Way, nodes: Cluster) -> None:
    """Any living broker may be named as the controller, also one that a client does not know."""
    nodes.node(1).kill()
    until(lambda: _brokers(nodes) == {2, 3}, "the others know that it has died")
    settings = KafkaSettings.parse(way.sink().replace(way.broker.bootstrap, nodes.bootstrap))
    with open_admin(settings) as admin:
        nodes.start()
        until(lambda: _brokers(nodes) == {1, 2, 3}, "it is there again")
        asked = set()
        for _ in range(50):
            admin._controller_id = None
            admin.create_topics({"never": {"replication_factor": 3}}, validate_only=True)
            asked.add(admin._controller_id)
        assert asked == {1, 2, 3}


def _brokers(nodes: Cluster) -> set[int]:
    """The nodes that one of them says are there; none where it asks one that is not."""
    admin = _admin(nodes)
    try:
        known = admin.describe_cluster()["brokers"]
        return {int(b["broker_id"]) for b in known if not b["is_fenced"]}
    except KafkaConnectionError:
        return set()
    finally:
        admin.close()


def test_leadership_moves_between_living_nodes(way: Way, nodes: Cluster) -> None:
    feed = _create(way, nodes)
    places = [TopicPartition(way.schema, p) for p in range(PARTITIONS)]
    places.append(ledger_partition(FeedId("", feed, 0)))
    with Load(way) as load:
        for _ in range(3):
            load.more(100)
            _move(nodes, places)
        load.more(100)
        way.delivered(_LIMIT_S)
    way.delivered()
    way.capture.wait_state(feed, "normal")
    exactly(way, load.committed)


def _move(nodes: Cluster, places: list[TopicPartition]) -> None:
    """Make another node the leader of each partition: first of its replicas, then elected."""
    after = {at: _leader(nodes, at) % len(nodes.brokers) + 1 for at in places}
    admin = _admin(nodes)
    try:
        admin.alter_partition_reassignments(
            {at: sorted((1, 2, 3), key=lambda n: n != after[at]) for at in places}
        )
        topics: dict[str, list[int]] = {}
        for at in places:
            topics.setdefault(at.topic, []).append(at.partition)
        admin.elect_leaders(0, topics)
    finally:
        admin.close()
    until(
        lambda: all(_leader(nodes, at) == leader for at, leader in after.items()),
        "the leaders have moved",
    )
