"""A partition of the ledger is read on from where it is known: that is what a whole read has."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.errors import KafkaError

from sink.kafka import ledger_scan
from sink.kafka.clients import open_admin
from sink.kafka.ledger_scan import Pairs, scan
from tests import seeds
from tests.e2e import topics
from tests.sink_kafka.conftest import Lab, make_topic
from tests.waiting import until

ISOLATIONS = ("read_committed", "read_uncommitted")


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From where each reading began; -1: the first record."""
    found: list[int] = []
    records = ledger_scan._records

    def noted(consumer, at, begin, end):  # type: ignore[no-untyped-def]
        found.append(begin)
        return records(consumer, at, begin, end)

    monkeypatch.setattr(ledger_scan, "_records", noted)
    return found


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    ledger_scan._remembered.clear()
    yield
    ledger_scan._remembered.clear()


def _write(lab: Lab, **values: str | None) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for key, value in values.items():
        producer.produce(lab.topic, value, key, partition=0)
    assert producer.flush(60) == 0


def _scan(lab: Lab, isolation: str = "read_committed") -> dict[str, str]:
    return _texts(scan(lab.settings(), TopicPartition(lab.topic, 0), isolation))


def _texts(pairs: Pairs) -> dict[str, str]:
    assert all(key is not None and value is not None for key, value in pairs)
    return {(key or b"").decode(): (value or b"").decode() for key, value in pairs}


def _by_another_reader(lab: Lab) -> dict[str, str]:
    """What librdkafka reads from the beginning."""
    found: dict[str, str] = {}
    for key, value in lab.consume()[0]:
        name = (key or b"").decode()
        found.pop(name, None)
        if value is not None:
            found[name] = value.decode()
    return found


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_is_read_on_is_what_is_there(lab: Lab, begins: list[int], isolation: str) -> None:
    rng = random.Random(seeds.seed())
    assert _scan(lab, isolation) == {}
    for number in range(8):
        for _ in range(rng.randint(0, 3)):
            keys = rng.sample("abcdef", rng.randint(1, 4))
            _write(lab, **{k: rng.choice((None, f"{k}{number}")) for k in keys})
        found = _scan(lab, isolation)
        there = _by_another_reader(lab)
        assert (found, list(found)) == (there, list(there))
    _write(lab, a="1")
    _scan(lab, isolation)
    begins.clear()
    _write(lab, b="2")
    assert _scan(lab, isolation)["b"] == "2"
    (begin,) = begins
    assert begin >= 0


def test_another_topic_of_the_name_is_read_from_its_beginning(lab: Lab, begins: list[int]) -> None:
    """It is longer by now, so only what lies at the place tells."""
    _write(lab, a="1", b="1")
    assert _scan(lab) == {"a": "1", "b": "1"}
    topics.delete(lab.bootstrap, lab.topic)
    until(lambda: _made(lab), "the topic is there again", 30)
    _write(lab, c="1", d="1", e="1", a="2")
    begins.clear()
    assert _scan(lab) == {"c": "1", "d": "1", "e": "1", "a": "2"}
    assert begins == [1, -1]


def _made(lab: Lab) -> bool:
    try:
        make_topic(lab.settings(), lab.topic, 1)
    except KafkaError:
        # The broker has not done with the old one.
        return False
    return True


def test_where_the_last_record_is_gone_all_is_read(lab: Lab, begins: list[int]) -> None:
    """As compaction takes one away that others have replaced."""
    _write(lab, a="1", b="1")
    assert _scan(lab) == {"a": "1", "b": "1"}
    _write(lab, b="2", c="2")
    with open_admin(lab.settings()) as admin:
        admin.delete_records({TopicPartition(lab.topic, 0): 2})
    begins.clear()
    assert _scan(lab) == {"b": "2", "c": "2"}
    assert begins == [1, -1]


def test_without_looking_at_the_last_record_it_would_be_mixed_up(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: the same, of a reader that takes the place for what it was."""
    _write(lab, a="1", b="1")
    _scan(lab)
    (known,) = ledger_scan._remembered.values()
    _write(lab, b="2", c="2")
    with open_admin(lab.settings()) as admin:
        admin.delete_records({TopicPartition(lab.topic, 0): 2})
    monkeypatch.setattr(ledger_scan, "_what", lambda _: known.last)
    assert "a" in _scan(lab)
