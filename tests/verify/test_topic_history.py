"""A topic with schema changes against the upstream that had them."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Producer

from cdc.source.settings import SourceSettings
from cdc.verify.report import TableResult
from cdc.verify.running import Run, Task
from cdc.verify.sessions import UpstreamServers
from cdc.verify.table import CompareOptions
from sink.codec.canal.settings import CanalSettings
from sink.kafka.settings import KafkaSettings
from tests.consumer.history import HISTORY, PARTITIONS, WITH, History
from tests.consumer.made_topic import Placing, by_key, by_table, delivered
from tests.e2e import topics
from tests.servers import Broker, Database
from tests.verify.sides import Still, upstream

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def history(mariadb: Database) -> History:
    """Return what happened upstream; nothing happens while it is compared."""
    return History.of(mariadb, HISTORY)


def _verified(
    history: History,
    mariadb: Database,
    broker: Broker,
    topic: str,
    placing: Placing,
    parts: list[list[bytes]],
) -> dict[str, TableResult]:
    topics.create(broker.bootstrap, topic, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    for partition, messages in enumerate(parts):
        for message in messages:
            producer.produce(topic, message, partition=partition)
    producer.flush(30)
    rules = [{"matcher": ["*.*"], "partition": "index-value" if placing is by_key else "table"}]
    run = Run(
        Task(
            lambda: UpstreamServers(upstream(mariadb), SourceSettings()),
            Still(),
            lambda schema, _: schema == history.schema,
            True,
            CompareOptions(whole=True),
            mariadb=True,
        )
    )
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json"
    run.topics(KafkaSettings.parse(uri, {"dispatchers": rules}))
    return {r.table.partition(".")[2]: r for r in run.results}


@pytest.mark.parametrize("placing", [by_key, by_table])
@pytest.mark.parametrize("settings", [WITH, CanalSettings(only_output_updated_columns=True)])
def test_a_topic_with_schema_changes_is_equal(
    history: History,
    mariadb: Database,
    broker: Broker,
    topic_prefix: str,
    placing: Placing,
    settings: CanalSettings,
) -> None:
    steps = history.steps(settings, placing)
    if settings is not WITH:
        # The last table can only be read with what the extension tells.
        steps = [s for s in steps if not any(name == "odd" for _, name in s.tables)]
    parts = delivered(steps, settings, PARTITIONS, random.Random(3))
    found = _verified(history, mariadb, broker, topic_prefix, placing, parts)
    odd = found.pop("odd")
    assert (odd.verdict == "equal") is (settings is WITH)
    said = {name: (r.verdict, r.notes, r.differences) for name, r in found.items()}
    assert {r.verdict for r in found.values()} == {"equal"}, said
    assert set(found) == {"a", "b", "kinds", "parts", "gone", "late"}


def test_one_row_lost_behind_a_schema_change_is_found(
    history: History, mariadb: Database, broker: Broker, topic_prefix: str
) -> None:
    """The negative control."""
    parts = delivered(history.steps(), WITH, PARTITIONS, random.Random(4))
    cut = [[m for m in part if not _inserts(m, "b", "5")] for part in parts]
    assert sum(map(len, cut)) == sum(map(len, parts)) - 1
    found = _verified(history, mariadb, broker, topic_prefix, by_key, cut)
    assert {name for name, r in found.items() if r.verdict != "equal"} == {"b"}
    assert [d.key for d in found["b"].differences] == [{"id": "5"}]


def _inserts(message: bytes, table: str, key: str) -> bool:
    body = json.loads(message)
    return (body["type"], body["table"]) == ("INSERT", table) and body["data"][0]["id"] == key
