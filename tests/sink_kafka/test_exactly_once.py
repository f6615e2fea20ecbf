"""Exactly once: kill -9 in the middle, zombies on both sides of the fence, the ledger itself."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from cdc.base.errors import FencedError, TransientError
from cdc.base.position import START, Position
from sink.kafka import batch
from sink.kafka.clients import TRANSACTION_TIMEOUT_MS, open_admin, open_producer
from sink.kafka.deliverer import KafkaDeliverer, transactional_id
from sink.kafka.driver import KafkaDriver
from sink.kafka.errors import FencedEpoch, KafkaLedgerBlocked, KafkaProducerFenced
from sink.kafka.ledger import (
    LEDGER_TOPIC,
    key_of,
    ledger_partition,
    position_records,
    read,
    read_epochs,
    write_epoch,
)
from sink.kafka.records import frame
from sink.kafka.recovery import fence, recover
from tests.seeds import drawn
from tests.sink_kafka.conftest import Lab, feed_of
from tests.sink_kafka.crash_child import MESSAGES
from tests.waiting import PATIENCE

WINDOWS = 60
_MOST_BEFORE_A_KILL = 10


def run_with_kills(lab: Lab, seed: int, kills: int, ledger: str) -> None:
    """Deliver all windows, the process killed several times at random moments.

    Each kill hits one of the windows behind the first that this process has committed, and so
    leaves something that the next one must know of.
    """
    rng = random.Random(seed)
    uri = f"kafka://{lab.bootstrap}/{lab.topic}?protocol=canal-json&compression=lz4"
    for epoch in range(1, kills + 2):
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.sink_kafka.crash_child"),
                *(uri, lab.feed.name, str(epoch), str(WINDOWS), ledger),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if epoch <= kills:
            for _ in range(rng.randrange(1, _MOST_BEFORE_A_KILL)):
                assert child.stdout.readline() == "committed\n"
            time.sleep(rng.uniform(0.0, 0.02))
            child.kill()
            child.wait()
        else:
            assert child.communicate(timeout=60 * PATIENCE)[0].endswith("end\n")
        child.stdout.close()


def counts(lab: Lab) -> list[Counter[bytes | None]]:
    return [Counter(v for _, v in part) for part in lab.consume()]


EXPECTED = {
    b"%d.%d.%d" % (w, b, i) for w in range(WINDOWS) for b in range(4) for i in range(MESSAGES)
}


@pytest.mark.parametrize("seed", drawn([1, 2]))
def test_killed_in_the_middle_nothing_lost_nothing_twice(lab: Lab, seed: int) -> None:
    run_with_kills(lab, seed, 3, "yes")
    for found in counts(lab):
        assert set(found) == EXPECTED
        assert set(found.values()) == {1}
    firsts = [list(dict.fromkeys(v for _, v in part)) for part in lab.consume()]
    assert (
        firsts[0]
        == firsts[1]
        == sorted(EXPECTED, key=lambda v: tuple(int(x) for x in v.split(b".")))
    )


def test_without_the_ledger_there_are_duplicates(lab: Lab) -> None:
    """The negative control: the same kills, the ledger not asked."""
    run_with_kills(lab, 1, 2, "no")
    for found in counts(lab):
        assert set(found) == EXPECTED
    assert any(max(found.values()) > 1 for found in counts(lab))


def test_a_zombie_that_claimed_its_id_before_the_fence(lab: Lab) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    zombie = KafkaDeliverer(settings, lab.feed, 1, 0)
    zombie.begin()
    zombie.send_small(lab.topic, 0, b"zombie", 1)
    zombie._pipeline.drain(10)
    assert recover(settings, lab.feed, 2, 1) == {}
    with pytest.raises(FencedError) as caught:
        zombie.commit({(lab.topic, 0): Position(1)})
    assert caught.value.code == "TG:ErrFencedEpoch"
    assert lab.consume() == [[], []]
    assert recover(settings, lab.feed, 2, 1) == {}


def test_a_zombie_that_claims_its_id_after_the_fence(lab: Lab) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    recover(settings, lab.feed, 2, 1)
    current = KafkaDeliverer(settings, lab.feed, 2, 0)
    with pytest.raises(FencedEpoch):
        KafkaDeliverer(settings, lab.feed, 1, 0)
    # The zombie took the id before it stopped: the rightful owner recovers, it is not fenced.
    current.begin()
    current.send_small(lab.topic, 0, b"x", 1)
    with pytest.raises(TransientError) as caught:
        current.commit({(lab.topic, 0): Position(1)})
    assert isinstance(caught.value, KafkaProducerFenced)
    recover(settings, lab.feed, 3, 1)
    again = KafkaDeliverer(settings, lab.feed, 3, 0)
    again.begin()
    again.send_small(lab.topic, 0, b"x", 1)
    again.commit({(lab.topic, 0): Position(1)})
    again.close()
    assert lab.consume()[0] == [(None, b"x")]


def test_an_old_owner_cannot_take_over_again(lab: Lab) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 5, 1)
    with pytest.raises(FencedEpoch):
        recover(settings, lab.feed, 4, 1)
    # Its record may still come late, when it looked before the newer one wrote.
    write_epoch(settings, lab.feed, 4)
    assert read_epochs(settings, lab.feed).epoch == 5
    with pytest.raises(FencedEpoch):
        KafkaDeliverer(settings, lab.feed, 4, 0)


def test_recovery_waits_for_its_own_open_transactions_only_once(lab: Lab) -> None:
    """Eight slots, each with an open transaction in data and ledger: fenced, not waited for."""
    settings = lab.settings()
    recover(settings, lab.feed, 1, 8)
    zombies = [KafkaDeliverer(settings, lab.feed, 1, slot) for slot in range(8)]
    for zombie in zombies:
        zombie.begin()
        zombie.send_small(lab.topic, 0, b"open", 1)
        entries = position_records(lab.feed, 1, {(lab.topic, 0): Position(99)})
        zombie._submit(ledger_partition(lab.feed), frame(entries), 1, (1, 1), 1 << 20, None)
        zombie._pipeline.drain(10)
    began = time.monotonic()
    assert recover(settings, lab.feed, 2, 8) == {}
    # Whoever waits for them instead of fencing them waits until they expire.
    assert time.monotonic() - began < TRANSACTION_TIMEOUT_MS / 2000
    for zombie in zombies:
        zombie.close()


def test_another_feeds_open_transaction_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    stranger_feed = feed_of("stranger-" + lab.topic)
    stranger = open_producer(settings, transactional_id(stranger_feed, 0))
    stranger.begin_transaction()
    stranger.partitions_for(LEDGER_TOPIC)
    at = ledger_partition(lab.feed)
    ready = batch.ReadyRecords(
        frame(position_records(stranger_feed, 1, {("t", 0): Position(1)})), 1, 1, 1, 0
    )
    assert batch.enqueue(stranger, at, ready).wait(10)
    monkeypatch.setattr("sink.kafka.ledger_scan._READ_TIMEOUT_S", 0.5)
    with pytest.raises(KafkaLedgerBlocked):
        read(settings, lab.feed)
    # The zombie check must not wait for it.
    assert read_epochs(settings, lab.feed).epoch == 1
    with open_admin(settings) as admin:
        fence(admin, settings, [transactional_id(stranger_feed, 0)])
    batch.discard(stranger)
    assert read(settings, lab.feed).epoch == 1


def test_forget(lab: Lab) -> None:
    settings = lab.settings()
    driver = KafkaDriver(settings)
    driver.recover(lab.feed, 7, 2, (), START)
    deliverer = KafkaDeliverer(settings, lab.feed, 7, 1)
    deliverer.begin()
    deliverer.commit({(lab.topic, p): Position(3) for p in range(2)})
    driver.forget(lab.feed, 2)
    assert read(settings, lab.feed).positions == {}
    assert read(settings, lab.feed).epoch == 0
    deliverer.begin()
    with pytest.raises(FencedEpoch):
        deliverer.commit({(lab.topic, 0): Position(4)})
    with pytest.raises(FencedEpoch):
        KafkaDeliverer(settings, lab.feed, 7, 0)


def test_the_ledger_after_compaction(lab: Lab) -> None:
    """Closed segments are compacted by the broker; the state read is the same."""
    settings = lab.settings()
    recover(settings, lab.feed, 1, 1)
    at = ledger_partition(lab.feed)
    with open_admin(settings) as admin:
        quick = {"segment.ms": "200", "min.cleanable.dirty.ratio": "0.0001"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, LEDGER_TOPIC, quick)])
    deliverer = KafkaDeliverer(settings, lab.feed, 1, 0)
    for n in range(60):
        deliverer.begin()
        deliverer.commit({(lab.topic, 0): Position(n + 1), (lab.topic, 1): Position(n + 1, 2)})
    deadline = time.monotonic() + 60 * PATIENCE
    while (left := _kept(lab, at)) > 100:
        assert time.monotonic() < deadline, f"{left} records: the broker did not compact"
        time.sleep(0.5)
        deliverer.begin()
        deliverer.commit({(lab.topic, 0): Position(1000)})
    deliverer.close()
    ledger = read(settings, lab.feed)
    assert ledger.positions[lab.topic, 1] == Position(60, 2)
    assert ledger.positions[lab.topic, 0].ts >= 60
    assert recover(settings, lab.feed, 2, 1) == ledger.positions


def _kept(lab: Lab, at: TopicPartition) -> int:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer(
        {"bootstrap.servers": lab.bootstrap, "group.id": "c", "enable.partition.eof": True}
    )
    consumer.assign([Place(at.topic, at.partition, 0)])
    n = 0
    while True:
        message = consumer.poll(20)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return n
        n += (message.key() or b"").startswith(key_of("position", lab.feed)[:-1])
