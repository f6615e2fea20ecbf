"""The filter, routing and columns in delivery: a real log into a real broker, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Broker, Database
from tests.source.pulling import Pulled

SCHEMA = "filtered"


class Log:
    """Changes of ``worker`` and ``other``; ``ts`` and ``gtid`` are those of a transaction."""

    def __init__(self, folder: Path, broker: Broker, start_ts: int, ts: int, gtid: str) -> None:
        self.folder, self.broker, self.start_ts = folder, broker, start_ts
        self.ts, self.gtid = ts, gtid


@pytest.fixture(scope="module")
def log(mariadb: Database, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Log:
    mariadb.execute(f"DROP DATABASE IF EXISTS {SCHEMA}", f"CREATE DATABASE {SCHEMA}")
    for table in ("worker", "other"):
        columns = "(id INT PRIMARY KEY, name VARCHAR(20), age INT)"
        mariadb.execute(f"CREATE TABLE {SCHEMA}.{table} {columns}")
    folder = tmp_path_factory.mktemp("filtered") / "log"
    with Pulled(mariadb, folder) as pulled:
        mariadb.execute(
            "INSERT INTO worker VALUES (1, 'john', 20), (2, 'lili', 30), (100, 'x', 40)",
            "INSERT INTO other VALUES (1, 'a', 1)",
            "UPDATE worker SET age = 31 WHERE id = 2",
            "UPDATE worker SET id = 3 WHERE id = 1",
            "DELETE FROM worker WHERE id = 100",
            "INSERT INTO other VALUES (2, 'b', 2)",
            "INSERT INTO other VALUES (3, 'c', 3)",
            database=SCHEMA,
        )
        pulled.caught_up()
    opened, runs = pulled.runs()
    last = runs.take(runs.kind == 1)
    at = len(last) - 2
    ts = int(last.commit_ts[at])
    gtid = f"{opened.sources[int(last.gtid_source[at + 1])]}-{int(last.gtid_seq[at + 1])}"
    start_ts = opened.state.first_ts
    opened.close()
    return Log(folder, broker, start_ts, ts, gtid)


@pytest.fixture
def delivered(log: Log, topic_prefix: str) -> Iterator[Callable[[dict[str, Any]], list[Any]]]:
    """Return a function that delivers the log under a configuration; its messages' bodies."""
    started: list[Running] = []

    def give(config: dict[str, Any]) -> list[Any]:
        uri = f"kafka://{log.broker.bootstrap}/{topic_prefix}?protocol=canal-json&partition-num=2"
        config = {"filter": {"rules": [f"{SCHEMA}.*"]} | config.pop("filter", {}), **config}
        feed = topic_prefix.replace("_", "-")
        jobs = InProcessJobs()
        running = Running(log.folder, uri, config, jobs, start_ts=log.start_ts, feed=feed)
        started.append(running)
        running.done()
        found = topics.read(log.broker.bootstrap, [topic_prefix])
        return sorted(
            (m.body for m in found), key=lambda b: (b["table"], b["es"], b["data"][0]["id"])
        )

    yield give
    for running in started:
        running.stop()


def _seen(bodies: list[Any]) -> list[str]:
    return sorted(f"{b['table'][0]} {b['type'][0]} {b['data'][0]['id']}" for b in bodies)


ALL = ["o I 1", "o I 2", "o I 3", "w D 100", "w I 1", "w I 100", "w I 2", "w U 2", "w U 3"]


def test_without_a_filter(delivered: Callable[..., list[Any]]) -> None:
    assert _seen(delivered({})) == ALL


def test_kinds_and_values(delivered: Callable[..., list[Any]]) -> None:
    rules = [
        {"matcher": ["*.worker"], "ignore_event": ["delete"]},
        {"matcher": ["*.worker"], "ignore_insert_value_expr": "id >= 100"},
        {"matcher": ["*.worker"], "ignore_update_old_value_expr": "name = 'lili'"},
    ]
    gone = {"w D 100", "w I 100", "w U 2"}
    found = delivered({"filter": {"event_filters": rules}})
    assert _seen(found) == [row for row in ALL if row not in gone]


def test_a_split_update_is_one_update(delivered: Callable[..., list[Any]]) -> None:
    rules = [{"matcher": ["*.*"], "ignore_event": ["insert", "delete"]}]
    sink = {"dispatchers": [{"matcher": ["*.*"], "partition": "index-value"}]}
    found = delivered({"filter": {"event_filters": rules}, "sink": sink})
    assert _seen(found) == ["w D 1", "w I 3", "w U 2"]


def test_whole_transactions(delivered: Callable[..., list[Any]], log: Log) -> None:
    section = {"ignore_txn_start_ts": [log.ts], "ignore_txn_gtid": [log.gtid]}
    found = delivered({"filter": section})
    assert _seen(found) == [row for row in ALL if row not in ("o I 2", "o I 3")]


def test_names_and_columns(delivered: Callable[..., list[Any]]) -> None:
    sink = {
        "dispatchers": [
            {"matcher": ["*.worker"], "target_schema": "archive", "target_table": "{table}_x"}
        ],
        "column_selectors": [{"matcher": ["*.worker"], "columns": ["id", "n*"]}],
    }
    found = delivered({"sink": sink})
    assert {(b["database"], b["table"]) for b in found} == {
        (SCHEMA, "other"),
        ("archive", "worker_x"),
    }
    assert {tuple(b["data"][0]) for b in found if b["table"] == "worker_x"} == {("id", "name")}
    assert _seen(found) == ALL
