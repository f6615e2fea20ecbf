"""Schema changes in topics: to whom, once, and whatever dies in between."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaProducer

from cdc.base.errors import FencedError
from cdc.base.position import Position
from cdc.schema.catalog import Catalog
from sink.contract import RECOVERY_BITS
from sink.kafka.change_ledger import read_changes
from sink.kafka.changer import KafkaChanger
from sink.kafka.deliverer import KafkaDeliverer
from sink.kafka.driver import KafkaDriver
from sink.kafka.ledger import read
from sink.kafka.recovery import recover
from sink.kafka.sink import KafkaSink
from sink.schema_change import Recorded
from tests.codec.record_debezium import GOLDEN
from tests.codec.test_debezium import bare
from tests.e2e import topics
from tests.sink_kafka.changes import at, history
from tests.sink_kafka.conftest import Lab

CHANGES = 40


def uri(lab: Lab, **options: str) -> str:
    pairs = {"protocol": "canal-json"} | options
    query = "&".join(f"{k.replace('_', '-')}={v}" for k, v in pairs.items())
    return f"kafka://{lab.bootstrap}/{lab.topic}?{query}"


@contextmanager
def opened(lab: Lab, epoch: int = 1, **options: Any) -> Iterator[KafkaChanger]:
    config = {"dispatchers": options.pop("dispatchers", [])}
    made = KafkaSink(uri(lab, **options), config).changer(lab.feed, epoch << RECOVERY_BITS)
    assert isinstance(made, KafkaChanger)
    try:
        yield made
    finally:
        made.close()


def bodies(lab: Lab) -> list[list[Any]]:
    return [[json.loads(value or b"null") for _, value in part] for part in lab.consume()]


def statements(lab: Lab) -> list[list[str]]:
    return [[body["sql"] for body in part] for part in bodies(lab)]


def test_to_every_partition_once_and_recorded(lab: Lab) -> None:
    made, added = history("CREATE DATABASE shop", "CREATE TABLE t (id INT PRIMARY KEY)")
    with opened(lab, enable_tidb_extension="true") as changer:
        assert changer.take_over() == {}
        changer.execute(made)
        changer.execute(added)
        changer.execute(added)
    first, second = bodies(lab)
    assert [m["sql"] for m in first] == [made.sql, added.sql]
    assert first == second
    said = first[1]
    assert said.pop("ts") > 0
    assert said.pop("_tidegate")["defaultDatabase"] == "shop"
    assert said == {
        "id": 0,
        "database": "shop",
        "table": "t",
        "pkNames": None,
        "isDdl": True,
        "type": "CREATE",
        "es": at(1) >> 18,
        "sql": added.sql,
        "sqlType": None,
        "mysqlType": None,
        "data": None,
        "old": None,
        "_tidb": {"commitTs": at(1)},
    }
    assert first[0]["type"] == "QUERY"
    with opened(lab, epoch=2) as changer:
        assert changer.take_over() == {at(0): Recorded.DONE, at(1): Recorded.DONE}
        changer.execute(added)
    assert len(statements(lab)[0]) == 2


def test_positions_of_rows_are_not_disturbed(lab: Lab) -> None:
    """A topic may be called ddl, and an old reader of positions reads on."""
    settings = lab.settings()
    with opened(lab) as changer:
        changer.take_over()
        changer.execute(history("CREATE DATABASE shop")[0])
    epoch = (1 << RECOVERY_BITS) + 1
    recover(settings, lab.feed, epoch, 1)
    deliverer = KafkaDeliverer(settings, lab.feed, epoch, 0)
    deliverer.begin()
    deliverer.send_small(lab.topic, 0, b"x", 1)
    deliverer.commit({("ddl", 3): Position(5, 0)})
    deliverer.close()
    assert read(settings, lab.feed).positions == {("ddl", 3): Position(5, 0)}
    with opened(lab) as changer:
        # Recoveries of rows are no change of owner.
        assert changer.take_over() == {at(0): Recorded.DONE}
        changer.execute(history("CREATE DATABASE shop")[0])
    KafkaDriver(settings).forget(lab.feed, 1)
    assert read_changes(settings, lab.feed) == {}
    assert read(settings, lab.feed).positions == {}


def test_skipped_and_forgotten(lab: Lab) -> None:
    changes = history("CREATE DATABASE shop", *(f"CREATE TABLE t{n} (a INT)" for n in range(3)))
    with opened(lab) as changer:
        changer.take_over()
        changer.execute(changes[0])
        changer.skip(changes[1])
        changer.execute(changes[1])
        changer.execute(changes[2])
        changer.forget_below(at(0))
    with opened(lab, epoch=2) as changer:
        assert changer.take_over() == {at(1): Recorded.SKIPPED, at(2): Recorded.DONE}
        changer.execute(changes[3])
    assert statements(lab) == [[changes[n].sql for n in (0, 2, 3)]] * 2


def test_an_older_changer_is_fenced(lab: Lab) -> None:
    changes = history("CREATE DATABASE shop", "CREATE TABLE t (a INT)")
    with opened(lab, epoch=1) as old, opened(lab, epoch=2) as new:
        old.take_over()
        old.execute(changes[0])
        assert new.take_over() == {at(0): Recorded.DONE}
        with pytest.raises(FencedError):
            old.execute(changes[1])
        with pytest.raises(FencedError):
            old.take_over()
        # The old one took the producer's id before it read the epoch: the new one goes on.
        new.execute(changes[1])
    assert statements(lab) == [[c.sql for c in changes]] * 2


def test_a_removed_changefeed_is_not_brought_back(lab: Lab) -> None:
    changes = history("CREATE DATABASE shop")
    with opened(lab) as changer:
        changer.take_over()
        KafkaDriver(lab.settings()).forget(lab.feed, 1)
        with pytest.raises(FencedError):
            changer.execute(changes[0])
    assert statements(lab) == [[], []]


def test_topics_of_the_tables_and_new_ones(lab: Lab) -> None:
    changes = history(
        "CREATE DATABASE shop",
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "CREATE TABLE b (id INT PRIMARY KEY)",
        "RENAME TABLE a TO between, between TO c",
        "DROP TABLE b, c",
        "DROP DATABASE shop",
    )
    rules = [{"matcher": ["shop.*"], "topic": lab.topic + "_{table}"}]
    with opened(lab, dispatchers=rules) as changer:
        changer.take_over()
        for change in changes:
            changer.execute(change)
    assert statements(lab) == [["CREATE DATABASE shop", "DROP DATABASE shop"]] * 2
    found = topics.read(lab.bootstrap, [f"{lab.topic}_{t}" for t in "abc"])
    said = {t: [] for t in "abc"}  # type: dict[str, list[tuple[str, str]]]
    for m in found:
        if m.partition == 0:
            said[m.topic[-1]].append((m.body["type"], m.body["sql"]))
    renamed = ("RENAME", changes[3].sql)
    assert said["a"] == [("CREATE", changes[1].sql), renamed]
    assert said["b"] == [("CREATE", changes[2].sql), ("ERASE", "DROP TABLE `shop`.`b`")]
    assert said["c"] == [renamed, ("ERASE", "DROP TABLE `shop`.`c`")]
    assert {m.partition for m in found} == {0, 1, 2}
    assert topics.named(lab.bootstrap, f"{lab.topic}_between") == []


def test_without_transactions(lab: Lab) -> None:
    changes = history("CREATE DATABASE shop")
    with opened(lab, exactly_once="false") as changer:
        assert changer.take_over() == {}
        changer.execute(changes[0])
        changer.forget_below(at(0))
    assert statements(lab) == [[changes[0].sql]] * 2


@pytest.mark.parametrize(("ledger", "times"), [("yes", {1}), ("no", {1, 2})])
def test_killed_at_any_moment(lab: Lab, ledger: str, times: set[int]) -> None:
    """All of them, in order, once; without the ledger they come again (the negative control)."""
    rng = random.Random(5)
    kills = 3 if ledger == "yes" else 1
    for epoch in range(1, kills + 2):
        child = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.sink_kafka.change_child"),
                *(uri(lab, enable_tidb_extension="true"), lab.feed.name),
                *(str(epoch), str(CHANGES), ledger),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if epoch <= kills:
            for _ in range(rng.randrange(1, 12)):
                assert child.stdout.readline() == "sent\n"
            time.sleep(rng.uniform(0.0, 0.02))
            child.kill()
            child.wait()
        else:
            assert child.communicate(timeout=120)[0].endswith("end\n")
        child.stdout.close()
    for part in bodies(lab):
        found = [m["_tidb"]["commitTs"] for m in part]
        assert set(Counter(found).values()) <= times
        assert list(dict.fromkeys(found)) == [at(n) for n in range(CHANGES + 1)]
        if ledger == "no":
            assert len(found) > CHANGES + 1


def test_before_its_first_change_it_has_no_producer(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one changer for each changefeed, and most have nothing to do for days."""
    producers: list[str] = []
    real = KafkaProducer.__init__

    def begin(self: KafkaProducer, **how: Any) -> None:
        if "transactional_id" in how:
            producers.append(how["transactional_id"])
        real(self, **how)

    monkeypatch.setattr(KafkaProducer, "__init__", begin)
    with opened(lab) as changer:
        changer.take_over()
        assert producers == []
        changer.execute(history("CREATE DATABASE shop")[0])
        assert len(producers) == 1


def test_a_database_without_known_tables_reaches_its_topics(lab: Lab) -> None:
    """ALTER DATABASE names no table, but its later CREATE TABLEs depend on it."""
    changes = history(
        "CREATE DATABASE shop",
        "CREATE TABLE a (id INT PRIMARY KEY)",
        "ALTER DATABASE shop CHARACTER SET latin1",
    )
    assert isinstance(changes[2].before, Catalog)
    rules = [{"matcher": ["shop.*"], "topic": lab.topic + "_{table}"}]
    with opened(lab, dispatchers=rules) as changer:
        changer.take_over()
        for change in changes:
            changer.execute(change)
    found = topics.read(lab.bootstrap, [lab.topic + "_a"])
    assert [m.body["sql"] for m in found if m.partition == 0] == [c.sql for c in changes[1:]]


def test_rows_behind_a_change_prove_that_it_was_sent(lab: Lab) -> None:
    """Its record was forgotten, and the checkpoint that allowed it is lost."""
    settings, epoch = lab.settings(), (1 << RECOVERY_BITS) + 1
    recover(settings, lab.feed, epoch, 1)
    rows = KafkaDeliverer(settings, lab.feed, epoch, 0)
    rows.begin()
    rows.commit({(lab.topic, 0): Position(at(1) + 1)})
    rows.close()
    _, sent, waits = history("CREATE DATABASE shop", "CREATE TABLE t (i INT)", "DROP TABLE t")
    with opened(lab) as changer:
        assert changer.take_over() == {}
        changer.execute(sent)
        changer.execute(waits)
        assert changer.take_over() == dict.fromkeys((at(1), at(2)), Recorded.DONE)
    assert statements(lab)[0] == [waits.sql]


def test_debezium_tells_a_change_once_in_the_topic_of_the_uri(lab: Lab) -> None:
    """Consumers of rows do not know its message, as with Debezium itself."""
    rows = f"{lab.topic}.shop.t"
    dispatchers = [{"matcher": ["shop.*"], "topic": lab.topic + ".{schema}.{table}"}]
    _, added = history("CREATE DATABASE shop", "CREATE TABLE t (id INT PRIMARY KEY)")
    with opened(lab, protocol="debezium", dispatchers=dispatchers) as changer:
        changer.take_over()
        changer.execute(added)
        changer.execute(added)
    first, second = lab.consume()
    assert second == []
    ((key, value),) = first
    said = json.loads(value or b"")["payload"]
    assert json.loads(key or b"")["payload"] == {"databaseName": "shop"}
    assert (said["ddl"], said["databaseName"]) == (added.sql, "shop")
    assert (said["source"]["table"], said["source"]["commit_ts"]) == ("t", added.ts)
    golden = json.loads(GOLDEN.read_text())["statement"][0]
    for ours, theirs in zip((key, value), golden, strict=True):
        whole = json.loads(ours or b"")
        assert whole["payload"].keys() - {"ts_ms"} == theirs["payload"].keys()
        assert bare(whole["schema"]) == bare(theirs["schema"])
    assert topics.records(lab.bootstrap, [rows]) == []
