"""Whose ledger it is, as far as Kafka has words of its own for it; the rest is `tests/contract`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sink.kafka.clients import open_admin
from sink.kafka.deliverer import transactional_id
from sink.kafka.driver import KafkaDriver
from sink.kafka.ledger import LedgerInvalid, ledger_partition, write_plain
from sink.kafka.ledger_topic import ensure_topic
from sink.kafka.records import SmallRecord
from tests.sink_kafka.conftest import Lab, feed_of


def test_installations_with_one_id_have_other_producers(lab: Lab) -> None:
    ours, theirs = feed_of(lab.topic), feed_of(lab.topic, installation="others")
    assert transactional_id(ours, 0) != transactional_id(theirs, 0)


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
