"""A data directory of which an older copy is put back: each row comes once all the same."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.server_process import CdcServer
from tests.e2e import topics
from tests.seeds import one_run_in
from tests.server.without_spark import STARTED
from tests.servers import Broker, Database
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]

SCHEMA = "older_copy"
FEEDS = ("to-mysql", "to-kafka")
_SETTINGS = """
[source]
heartbeat-s = 0.2
"""


@pytest.fixture
def server(
    tmp_path: Path, mariadb: Database, mysql: Database, broker: Broker, monkeypatch: Any
) -> Iterator[CdcServer]:
    """A server with a changefeed into a database and one into Kafka."""
    started = tmp_path / "started"
    started.touch()
    monkeypatch.setenv(STARTED, str(started))
    (tmp_path / "server.toml").write_text(_SETTINGS)
    flags = ("--config", str(tmp_path / "server.toml"))
    made = CdcServer(tmp_path / "data", *flags, module="tests.server.without_spark")
    for database in (mariadb, mysql):
        database.execute(
            f"CREATE DATABASE {SCHEMA}", f"CREATE TABLE {SCHEMA}.t (id INT PRIMARY KEY)"
        )
    try:
        made.start()
        upstream = {"name": "main", "uri": mariadb.uri()}
        assert made.api("POST", "/upstreams", upstream).is_success
        sinks = (
            f"{mysql.uri()}/",
            f"kafka://{broker.bootstrap}/{SCHEMA}?protocol=canal-json&partition-num=1",
        )
        for feed, sink in zip(FEEDS, sinks, strict=True):
            body = {"changefeed_id": feed, "upstream": "main", "sink_uri": sink}
            body |= {"replica_config": {"filter": {"rules": [f"{SCHEMA}.*"]}}}
            answer = made.api("POST", "/changefeeds", body)
            assert answer.is_success, answer.text
        yield made
    finally:
        made.end()


@pytest.fixture
def found(mysql: Database, broker: Broker) -> Callable[[], list[list[int]]]:
    """Return a function that tells which rows the table and the topic have."""

    def look() -> list[list[int]]:
        rows = mysql.execute(f"SELECT id FROM {SCHEMA}.t ORDER BY id")
        return [
            [int(str(id)) for (id,) in rows],
            topics.ids(topics.read(broker.bootstrap, [SCHEMA])),
        ]

    return look


@one_run_in(2)
def test_an_older_copy_goes_on_where_the_ledgers_stand(
    server: CdcServer,
    tmp_path: Path,
    mariadb: Database,
    found: Callable[[], list[list[int]]],
) -> None:
    data, copy = server.data_dir, tmp_path / "copy"

    def insert(key: int) -> None:
        mariadb.execute(f"INSERT INTO {SCHEMA}.t VALUES ({key})")

    def all_have(*keys: int) -> None:
        until(lambda: found() == [list(keys)] * 2, f"both have {keys}, each once", 60)

    insert(1)
    all_have(1)
    server.stop()
    shutil.copytree(data, copy)
    server.start()
    insert(2)
    all_have(1, 2)
    behind_2 = server.api("POST", "/tso").json()["tso"]
    server.stop()
    shutil.rmtree(data)
    copy.rename(data)
    # Servers date what they log by the second.
    until(lambda: time.time() * 1000 >= (behind_2 >> 18) + 1000, "another second", 10)
    insert(3)
    server.start()
    all_have(1, 2, 3)
    insert(4)
    all_have(1, 2, 3, 4)
    # Where one ledger could not be read as the log was made anew, its position is waited for, and
    # nothing is made anew once more: a capture that begins anew does not answer meanwhile.
    for feed in FEEDS:
        shown = server.api("GET", f"/changefeeds/{feed}").json()
        assert shown["state"] == "normal", shown
    assert server.log.read_text().count("its log is to be made anew") <= 1
