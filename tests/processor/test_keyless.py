"""A table that comes without a key, or loses it, is never left out without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc.changelog.reader import ChangeLog
from processor.catalog import TableKeyless
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Broker, Database
from tests.sink_mysql.replay import changed_twice, content
from tests.source.pulling import Pulled

SCHEMA = "keyless"
STATEMENTS = (
    "alter table loses drop primary key",
    "insert into loses values (1)",
    "create table late (id int)",
    "insert into late values (2)",
    # Made anew, it is another table, and never had one.
    "drop table again",
    "create table again (id int)",
    "insert into again values (3)",
    "insert into keyed values (4)",
)


@pytest.fixture(scope="module")
def folder(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keyless") / "log"
    mariadb.execute(f"drop database if exists {SCHEMA}", f"create database {SCHEMA}")
    tables = [f"create table {t} (id int primary key)" for t in ("loses", "again", "keyed")]
    mariadb.execute(*tables, database=SCHEMA)
    with Pulled(mariadb, made) as pulled:
        mariadb.execute(*STATEMENTS, database=SCHEMA)
        pulled.caught_up()
    return made


@pytest.mark.parametrize(
    ("config", "stopped", "delivered"),
    [
        ({}, {"loses", "late", "again"}, [4]),
        ({"ignore_ineligible_table": True}, {"loses"}, [4]),
        ({"force_replicate": True}, set(), [1, 2, 3, 4]),
    ],
    ids=["by-default", "ignored", "forced"],
)
def test_the_answer_is_that_of_a_changefeeds_creation(
    folder: Path,
    broker: Broker,
    topic_prefix: str,
    config: dict[str, Any],
    stopped: set[str],
    delivered: list[int],
) -> None:
    opened = ChangeLog.open(folder)
    start_ts = opened.state.first_ts
    opened.close()
    sink = f"kafka://{broker.bootstrap}/{topic_prefix}?protocol=canal-json&partition-num=1"
    rules = {"filter": {"rules": [f"{SCHEMA}.*"]}, **config}
    feed = topic_prefix.replace("_", "-")
    running = Running(folder, sink, rules, InProcessJobs(), start_ts=start_ts, feed=feed)
    try:
        found = running.through().stopped_tables
    finally:
        running.stop()
    assert {stop.table.partition(".")[2] for stop in found} == stopped
    assert {stop.error.code for stop in found} <= {TableKeyless.code}
    assert sorted(topics.ids(topics.read(broker.bootstrap, [topic_prefix]))) == delivered


@pytest.mark.real
def test_a_row_is_changed_twice_of_a_table_that_has_no_key_at_the_target(
    mariadb: Database, mysql: Database, tmp_path: Path, schema_name: str
) -> None:
    columns = "id int not null, n int, c int, key (c, n)"
    for server, more in ((mariadb, ", primary key (id)"), (mysql, "")):
        server.execute(f"drop database if exists {schema_name}", f"create database {schema_name}")
        server.execute(f"create table {schema_name}.t ({columns}{more})")
    with Pulled(mariadb, tmp_path / "log") as pulled:
        mariadb.execute(*changed_twice("t"), database=schema_name)
        pulled.caught_up()
    opened = ChangeLog.open(tmp_path / "log")
    start_ts = opened.state.first_ts
    opened.close()
    config = {"filter": {"rules": [f"{schema_name}.*"]}, "sink": {"apply": "rows"}}
    running = Running(
        tmp_path / "log", f"{mysql.uri()}/", config, InProcessJobs(), start_ts=start_ts
    )
    try:
        running.done()
    finally:
        running.stop()
    assert content(mysql, schema_name) == content(mariadb, schema_name)
