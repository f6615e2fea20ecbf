"""Whose ledger it is: installations and incarnations that share a broker, and records of before."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from cdc.base.ids import FeedId
from cdc.base.position import START, Position
from sink.errors import FencedEpoch
from sink.kafka.clients import open_admin
from sink.kafka.deliverer import KafkaDeliverer, transactional_id
from sink.kafka.driver import KafkaDriver
from sink.kafka.errors import KafkaLedgerLost, KafkaProducerFenced
from sink.kafka.ledger import LedgerInvalid, ledger_partition, write_plain
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.records import SmallRecord
from sink.kafka.sink import KafkaSink
from sink.schema_change import Recorded
from tests.sink_kafka.changes import history
from tests.sink_kafka.conftest import Lab, feed_of


def deliver(lab: Lab, feed: FeedId, epoch: int, ts: int, slot: int = 0) -> KafkaDeliverer:
    """Recover, and commit a window that has no rows."""
    KafkaDriver(lab.settings()).recover(feed, epoch, 2, (), START)
    made = KafkaDeliverer(lab.settings(), feed, epoch, slot)
    made.begin()
    made.commit({(lab.topic, 0): Position(ts)})
    return made


def test_installations_with_one_id_share_no_entry(lab: Lab) -> None:
    driver = KafkaDriver(lab.settings())
    ours, theirs = feed_of(lab.topic), feed_of(lab.topic, installation="others")
    assert transactional_id(ours, 0) != transactional_id(theirs, 0)
    running = deliver(lab, ours, 3, 100)
    assert driver.recover(theirs, 9, 2, (), START).positions == {}
    assert set(driver.admit(ours)) == {ours, theirs}
    driver.forget(theirs, 2)
    running.begin()
    running.commit({(lab.topic, 0): Position(200)})
    running.close()
    assert driver.delivered(ours) == {(lab.topic, 0): Position(200)}
    assert set(driver.admit(theirs)) == {ours}


def test_a_new_incarnation_ends_the_old_one(lab: Lab) -> None:
    driver, older, newer = KafkaDriver(lab.settings()), feed_of(lab.topic), feed_of(lab.topic, 2)
    running = deliver(lab, older, 3, 100)
    # Whatever its epoch is.
    assert driver.recover(newer, 1, 2, (), START).positions == {}
    running.begin()
    with pytest.raises(FencedEpoch):
        running.commit({(lab.topic, 0): Position(200)})
    with pytest.raises(FencedEpoch):
        KafkaDeliverer(lab.settings(), older, 3, 1)
    with pytest.raises(FencedEpoch):
        driver.recover(older, 99, 2, (), START)
    assert set(driver.admit(older)) == {newer}


def test_the_end_of_an_incarnation_leaves_its_successor(lab: Lab) -> None:
    """A changefeed is removed, and made anew before its ledger could be cleared."""
    driver, newer = KafkaDriver(lab.settings()), feed_of(lab.topic, 2)
    deliver(lab, newer, 3, 100).close()
    driver.forget(feed_of(lab.topic), 2)
    assert driver.delivered(newer) == {(lab.topic, 0): Position(100)}


def test_an_installation_that_is_gone_is_forgotten_with_all_its_producers(lab: Lab) -> None:
    """How many there were is in the ledger: the store that knew it is gone too."""
    driver, gone = KafkaDriver(lab.settings()), feed_of(lab.topic, installation="gone")
    running = deliver(lab, gone, 3, 100, slot=1)
    driver.forget(gone, 0)
    running.begin()
    with pytest.raises((FencedEpoch, KafkaProducerFenced)):
        running.commit({(lab.topic, 0): Position(200)})
    assert not driver.admit(gone)


def test_schema_changes_belong_to_one_installation(lab: Lab) -> None:
    uri = f"kafka://{lab.bootstrap}/{lab.topic}?protocol=canal-json"
    ours, theirs = feed_of(lab.topic), feed_of(lab.topic, installation="others")
    (change,) = history("CREATE DATABASE shop")
    mine = KafkaSink(uri, {}).changer(ours, 1 << 20)
    mine.take_over()
    mine.execute(change)
    other = KafkaSink(uri, {}).changer(theirs, 2 << 20)
    assert other.take_over() == {}
    other.close()
    KafkaDriver(lab.settings()).forget(theirs, 1)
    assert mine.take_over() == {change.ts: Recorded.DONE}
    newer = KafkaSink(uri, {}).changer(replace(ours, incarnation=2), 1)
    assert newer.take_over() == {}
    newer.close()
    with pytest.raises(FencedEpoch):
        mine.take_over()
    mine.close()


@pytest.mark.parametrize(
    "key",
    [lambda name: [name, 7], lambda name: [name, "t", 0], lambda name: [[name, "ddl"], 7]],
)
def test_records_of_an_earlier_version_are_refused(
    lab: Lab, key: Callable[[str], list[object]]
) -> None:
    settings, at = lab.settings(), ledger_partition(lab.feed)
    record = json.dumps(key(lab.topic), separators=(",", ":")).encode()
    with open_admin(settings) as admin:
        ensure_topic(admin, settings)
    write_plain(settings, at, [SmallRecord(record, b"{}")])
    try:
        with pytest.raises(LedgerInvalid, match="earlier version"):
            KafkaDriver(settings).admit(lab.feed)
    finally:
        write_plain(settings, at, [SmallRecord(record, None)])
    assert not KafkaDriver(settings).admit(lab.feed)


def test_a_ledger_that_is_lost_is_an_error(lab: Lab) -> None:
    """A topic that was deleted: the owner's part makes it anew, and writes its epoch first."""
    driver, feed = KafkaDriver(lab.settings()), lab.feed
    uri = f"kafka://{lab.bootstrap}/{lab.topic}?protocol=canal-json"
    changer = KafkaSink(uri, {}).changer(feed, 1 << 16)
    assert changer.take_over() == {}
    with pytest.raises(KafkaLedgerLost, match="delivered already"):
        driver.recover(feed, (1 << 16) + 1, 2, (), Position(9), begun=True)
    # One that has no rows to deliver yet leaves no position, but its epoch.
    driver.recover(feed, (1 << 16) + 2, 2, (), START)
    driver.recover(feed, (1 << 16) + 3, 2, (), Position(9), begun=True)
    again = KafkaSink(uri, {}).changer(feed, 2 << 16)
    assert again.take_over() == {}
    driver.recover(feed, (2 << 16) + 1, 2, (), Position(9), begun=True)
    again.close()
    changer.close()
