"""Several tables of the upstream become one at the target: rows, order, keys that meet."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.coord.feed_config import FeedConfig
from cdc.coord.messages import ErrorInfo
from cdc.schema.snapshot import load
from owner.eligibility import checked_tables
from sink.dispatch.rules import Router
from sink.dispatch.shards import ShardTablesDiffer
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.seeds import seed
from tests.servers import Broker, Database
from tests.source.pulling import Pulled
from tests.waiting import until

SOURCE, TARGET = "sharded_from", "sharded_to"
SHARDS = [f"t_{i}" for i in range(1, 5)]
# A key that is spread by its hash, in which the table's name is.
COLUMNS = "(id DECIMAL(12) PRIMARY KEY, v VARCHAR(20), KEY (v))"
RULE = {
    "matcher": [f"{SOURCE}.t_*", f"{SOURCE}.met_*", f"{SOURCE}.odd_*"],
    "target-schema": TARGET,
    "target-table": "t",
}
CONFIG = {
    "shard_mode": "pessimistic",
    "filter": {"rules": [f"{SOURCE}.t_*"]},
    "sink": {"dispatchers": [{**RULE, "partition": "index-value"}]},
}


def _changes(rng: random.Random, count: int) -> Iterator[str]:
    """Statements of which each key is in one shard at a time; keys move between shards too."""
    home: dict[int, str] = {}
    for i in range(count):
        key, word = rng.randrange(60), f"v{i}"
        there = home.get(key)
        if there is None:
            home[key] = rng.choice(SHARDS)
            yield f"INSERT INTO {home[key]} VALUES ({key}, '{word}')"
        elif rng.random() < 0.5:
            yield f"UPDATE {there} SET v = '{word}' WHERE id = {key}"
        elif rng.random() < 0.5:
            home[key] = rng.choice([s for s in SHARDS if s != there])
            together = rng.random() < 0.5
            yield from ["BEGIN"] * together
            yield f"DELETE FROM {there} WHERE id = {key}"
            yield f"INSERT INTO {home[key]} VALUES ({key}, '{word}')"
            yield from ["COMMIT"] * together
        else:
            del home[key]
            yield f"DELETE FROM {there} WHERE id = {key}"


class Log:
    """The log of some changes, and the schema before them."""

    def __init__(self, folder: Path, source: Database, rng: random.Random) -> None:
        self.folder = folder
        source.execute(
            f"DROP DATABASE IF EXISTS {SOURCE}",
            f"CREATE DATABASE {SOURCE}",
            *(f"CREATE TABLE {SOURCE}.{t} {COLUMNS}" for t in (*SHARDS, "met_1", "met_2")),
            f"CREATE TABLE {SOURCE}.odd_1 (id DECIMAL(12) PRIMARY KEY, v VARCHAR(21), KEY (v))",
        )
        with Pulled(source, folder) as pulled:
            source.execute(
                *_changes(rng, 400),
                "INSERT INTO met_1 VALUES (1, 'one'), (7, 'seven')",
                "INSERT INTO met_2 VALUES (2, 'two'), (7, 'another')",
                database=SOURCE,
            )
            pulled.caught_up()
        opened, _ = pulled.runs()
        self.start_ts = opened.state.first_ts
        self.schema = load(opened.snapshot_at(self.start_ts))
        opened.close()

    def deliver(self, uri: str, config: dict[str, Any], feed: str) -> Running:
        """A feed over all of it; the caller stops it."""
        return Running(self.folder, uri, config, InProcessJobs(), start_ts=self.start_ts, feed=feed)


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield Log(tmp_path_factory.mktemp("sharded") / "log", mariadb, random.Random(seed()))
    mariadb.execute(f"DROP DATABASE IF EXISTS {SOURCE}")


def _union(mariadb: Database) -> list[Any]:
    parts = " UNION ALL ".join(f"SELECT * FROM {SOURCE}.{t}" for t in SHARDS)
    return mariadb.execute(f"SELECT * FROM ({parts}) AS u ORDER BY id")


def _empty(target: Database) -> None:
    target.execute(
        f"DROP DATABASE IF EXISTS {TARGET}",
        f"CREATE DATABASE {TARGET}",
        f"CREATE TABLE {TARGET}.t {COLUMNS}",
    )


@pytest.mark.parametrize("query", ["worker-count=3", "worker-count=3&apply=sql", "worker-count=1"])
@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_the_target_is_the_union(
    log: Log, mariadb: Database, request: pytest.FixtureRequest, fresh_name: str,
    server: str, query: str,
) -> None:  # fmt: skip
    target = request.getfixturevalue(server)
    _empty(target)
    running = log.deliver(f"{target.uri()}/?{query}", CONFIG, fresh_name.replace("_", "-"))
    try:
        running.done()
    finally:
        running.stop()
    found = target.execute(f"SELECT * FROM {TARGET}.t ORDER BY id")
    assert found == _union(mariadb)
    assert found
    target.execute(f"DROP DATABASE {TARGET}")


def _fold(messages: list[topics.Message]) -> tuple[dict[int, str], dict[int, set[int]]]:
    rows: dict[int, str] = {}
    places: dict[int, set[int]] = {}
    for message in messages:
        assert message.table == f"{TARGET}.t"
        for row in message.body["data"]:
            key = int(row["id"])
            places.setdefault(key, set()).add(message.partition)
            if message.body["type"] == "DELETE":
                del rows[key]
            else:
                assert (key in rows) == (message.body["type"] == "UPDATE")
                rows[key] = row["v"]
    return rows, places


def _to_kafka(log: Log, broker: Broker, topic: str, feed: str) -> list[topics.Message]:
    uri = f"kafka://{broker.bootstrap}/{topic}?protocol=canal-json&partition-num=3"
    running = log.deliver(uri, CONFIG, feed)
    try:
        running.done()
    finally:
        running.stop()
    return topics.read(broker.bootstrap, [topic])


def test_a_key_has_one_partition_whatever_shard_it_is_in(
    log: Log, mariadb: Database, broker: Broker, topic_prefix: str, fresh_name: str
) -> None:
    sent = _to_kafka(log, broker, topic_prefix, fresh_name.replace("_", "-"))
    rows, places = _fold(sent)
    assert sorted(rows.items()) == _union(mariadb)
    assert {len(there) for there in places.values()} == {1}
    assert len(set().union(*places.values())) == 3


def test_control_by_the_shards_own_names_keys_have_several_partitions(
    log: Log, broker: Broker, topic_prefix: str, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Router, "_known_by", lambda self, schema, table: (schema, table))
    places: dict[str, set[int]] = {}
    for message in _to_kafka(log, broker, topic_prefix, fresh_name.replace("_", "-")):
        for row in message.body["data"]:
            places.setdefault(row["id"], set()).add(message.partition)
    assert max(len(there) for there in places.values()) > 1


@pytest.mark.parametrize("query", ["worker-count=3", "worker-count=1&apply=sql"])
def test_keys_that_meet_are_an_error(
    log: Log, mariadb: Database, fresh_name: str, query: str
) -> None:
    _empty(mariadb)
    config = {**CONFIG, "filter": {"rules": [f"{SOURCE}.met_*"]}}
    running = log.deliver(f"{mariadb.uri()}/?{query}", config, fresh_name.replace("_", "-"))
    try:
        error = _error(running)
    finally:
        running.stop()
    assert error.code == "TG:ErrShardKeyConflict"
    assert error.object == f"{SOURCE}.met_2, row id=7"
    assert f"{TARGET}.t" in error.message
    assert f"{SOURCE}.met_1" in error.message
    assert error.hint
    assert mariadb.execute(f"SELECT v FROM {TARGET}.t WHERE id = 7") in ([], [("seven",)])
    mariadb.execute(f"DROP DATABASE {TARGET}")


def test_keys_that_meet_may_overwrite(log: Log, mariadb: Database, fresh_name: str) -> None:
    _empty(mariadb)
    config = {**CONFIG, "filter": {"rules": [f"{SOURCE}.met_*"]}}
    uri = f"{mariadb.uri()}/?safe-mode=true"
    running = log.deliver(uri, config, fresh_name.replace("_", "-"))
    try:
        running.done()
    finally:
        running.stop()
    found = mariadb.execute(f"SELECT * FROM {TARGET}.t ORDER BY id")
    assert found == [(1, "one"), (2, "two"), (7, "another")]
    mariadb.execute(f"DROP DATABASE {TARGET}")


def test_definitions_must_be_the_same(log: Log) -> None:
    config = FeedConfig.model_validate(CONFIG)
    checked_tables(log.schema, config)
    more = config.model_copy(
        update={"filter": config.filter.model_copy(update={"rules": [f"{SOURCE}.*"]})}
    )
    with pytest.raises(ShardTablesDiffer) as e:
        checked_tables(log.schema, more)
    assert f"{SOURCE}.odd_1" in f"{e.value.object} {e.value.message}"
    assert "varchar(21)" in e.value.message


def _error(running: Running) -> ErrorInfo:
    """What stops a table, or the feed."""
    until(lambda: _errors(running), "something stops", 60)
    return _errors(running)[0]


def _errors(running: Running) -> list[ErrorInfo]:
    if not running.reports:
        return []
    last = running.reports[-1]
    return [*(stop.error for stop in last.stopped_tables), *([last.error] if last.error else [])]
