"""Tables under other names at a MySQL target: rows both ways, and conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc.schema.snapshot import load
from sink.dispatch.target import RouteConflict
from sink.open import open_sink
from tests.processor.in_process import InProcessJobs, Running
from tests.servers import Database
from tests.source.pulling import Pulled

SOURCE, TARGET = "routed_from", "routed_to"
COLUMNS = "(id INT PRIMARY KEY, v VARCHAR(20))"
SINK = {
    "dispatchers": [
        {
            "matcher": [f"{SOURCE}.*"],
            "target_schema": TARGET,
            "target_table": "{table}_x",
            # A database has no topics; what is said of them does not matter.
            "partition": "ts",
        }
    ]
}


class Log:
    """The log of some changes, and the schema before them."""

    def __init__(self, folder: Path, mariadb: Database) -> None:
        self.folder = folder
        mariadb.execute(
            *(f"DROP DATABASE IF EXISTS {s}" for s in (SOURCE, TARGET)),
            f"CREATE DATABASE {SOURCE}",
            *(f"CREATE TABLE {SOURCE}.{t} {COLUMNS}" for t in ("a", "b")),
            f"CREATE TABLE {SOURCE}.nokey (n INT)",
        )
        with Pulled(mariadb, folder) as pulled:
            mariadb.execute(
                "INSERT INTO a VALUES (1, 'one'), (2, 'two'), (3, 'three')",
                "INSERT INTO b VALUES (1, 'eins')",
                "UPDATE a SET v = 'zwei' WHERE id = 2",
                "UPDATE a SET id = 30 WHERE id = 3",
                "DELETE FROM a WHERE id = 1",
                "INSERT INTO nokey VALUES (7), (7)",
                database=SOURCE,
            )
            pulled.caught_up()
        opened, _ = pulled.runs()
        self.start_ts = opened.state.first_ts
        self.schema = load(opened.snapshot_at(self.start_ts))
        opened.close()


@pytest.fixture(scope="module")
def log(mariadb: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    yield Log(tmp_path_factory.mktemp("routed") / "log", mariadb)
    mariadb.execute(*(f"DROP DATABASE IF EXISTS {s}" for s in (SOURCE, TARGET)))


def _content(mariadb: Database, schema: str, suffix: str) -> list[Any]:
    found = []
    for table in ("a", "b", "nokey"):
        found.append(mariadb.execute(f"SELECT * FROM {schema}.{table}{suffix} ORDER BY 1"))
    return found


@pytest.mark.parametrize("query", ["apply=rows", "apply=sql", "apply=rows&worker-count=3"])
def test_rows_arrive_under_the_targets_names(
    log: Log, mariadb: Database, fresh_name: str, query: str
) -> None:
    mariadb.execute(
        f"DROP DATABASE IF EXISTS {TARGET}",
        f"CREATE DATABASE {TARGET}",
        *(f"CREATE TABLE {TARGET}.{t}_x {COLUMNS}" for t in ("a", "b")),
        f"CREATE TABLE {TARGET}.nokey_x (n INT)",
    )
    config = {"force_replicate": True, "filter": {"rules": [f"{SOURCE}.*"]}, "sink": SINK}
    uri, feed = f"{mariadb.uri()}/?{query}", fresh_name.replace("_", "-")
    running = Running(log.folder, uri, config, InProcessJobs(), start_ts=log.start_ts, feed=feed)
    try:
        running.done()
    finally:
        running.stop()
    assert _content(mariadb, TARGET, "_x") == _content(mariadb, SOURCE, "")
    assert _content(mariadb, TARGET, "_x")[0] == [(2, "zwei"), (30, "three")]
    mariadb.execute(f"DELETE FROM tidegate.ledger WHERE changefeed = '{feed}'")


def test_two_tables_into_one_are_refused(log: Log, mariadb: Database) -> None:
    rule = {"matcher": [f"{SOURCE}.*"], "target_schema": TARGET, "target_table": "one"}
    driver = open_sink(f"{mariadb.uri()}/", {"dispatchers": [rule]}).driver()
    tables = [log.schema[SOURCE, name] for name in ("a", "b")]
    with pytest.raises(RouteConflict) as e:
        driver.verify(tables, mariadb=True)
    assert e.value.object == f"{SOURCE}.b"
    assert e.value.hint
