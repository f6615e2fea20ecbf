"""Rows that a changefeed begins with are lost with the disk, in the middle of their delivery."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sink.file.reader import messages, tables
from tests.e2e import topics
from tests.e2e.beside import WritesBeside
from tests.e2e.capture_process import SETTINGS, CaptureProcess
from tests.seeds import seed
from tests.servers import Broker, Database
from tests.servers.etcd import Etcd
from tests.sink_mysql.replay import content
from tests.waiting import until

pytestmark = pytest.mark.real
_ROWS = dict.fromkeys("abcd", 1500)
# Each megabyte of rows waits some seconds, so that a capture dies in the middle of them.
_SLOW = """window-bytes = 1048576
single-task-bytes = 16384
spark-start-after-s = 0
min-interval-s = 5.0
"""


class Changes(WritesBeside):
    """Changes, removes and adds rows of all tables."""

    def __init__(self, server: Database, schema: str) -> None:
        super().__init__(server)
        self._schema = schema
        self._chosen = random.Random(seed())

    def _write(self) -> None:
        self.written += 1
        table = self._chosen.choice(sorted(_ROWS))
        row = self._chosen.randrange(1, _ROWS[table])
        change = self._chosen.choice(
            (
                f"UPDATE {table} SET v = {self.written} WHERE id = {row}",
                f"DELETE FROM {table} WHERE id = {row}",
                f"INSERT INTO {table} VALUES ({10_000 + self.written}, 0, 'new')",
            )
        )
        self._server.execute(change, database=self._schema)


def _kept(bodies: Iterable[Any]) -> tuple[dict[str, dict[str, str]], Counter[tuple[str, str]]]:
    """By table the rows that a consumer has at the end, and how often each came as an INSERT."""
    rows: dict[str, dict[str, str]] = {name: {} for name in _ROWS}
    inserts: Counter[tuple[str, str]] = Counter()
    for body in bodies:
        if body.get("isDdl") or body["type"] not in ("INSERT", "UPDATE", "DELETE"):
            continue
        for row in body["data"]:
            if body["type"] == "DELETE":
                rows[body["table"]].pop(row["id"], None)
            else:
                rows[body["table"]][row["id"]] = row["v"]
            inserts[body["table"], row["id"]] += body["type"] == "INSERT"
    return rows, inserts


def test_the_rest_is_copied_again_behind_all_changes(
    etcd: Etcd,
    mariadb: Database,
    broker: Broker,
    database: Callable[[str], Database],
    schema_name: str,
    tmp_path: Path,
) -> None:
    target, root = database("mariadb-11.8"), tmp_path / "out"
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    for table, rows in _ROWS.items():
        mariadb.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT, pad VARCHAR(500))",
            f"INSERT INTO {table} SELECT seq, 0, REPEAT('x', 450) FROM seq_1_to_{rows}",
            database=schema_name,
        )
    store = f'store = "{etcd.address}/rows-{schema_name}"\ncapture-session-ttl = 5\n'
    more = "[changelog]\nanchor-s = 1.0\n[processor]\n"
    first = CaptureProcess(tmp_path / "first", settings=f"{store}{SETTINGS}{more}{_SLOW}")
    second = CaptureProcess(tmp_path / "second", settings=f"{store}{SETTINGS}{more}")
    sinks = {
        "lost-to-files": f"file://{root}?protocol=canal-json&flush-interval=100ms",
        "lost-to-table": f"mysql://root@127.0.0.1:{target.port}/?worker-count=2",
        "lost-to-topic": f"kafka://{broker.bootstrap}/{schema_name}?protocol=canal-json",
    }
    load = Changes(mariadb, schema_name)

    def info(feed: str) -> dict[str, Any]:
        found: dict[str, Any] = second.ask("GET", f"/changefeeds/{feed}")
        return found

    def in_the_middle(feed: str) -> bool:
        """Whether a first window is delivered, with all rows of a table, and others are not."""
        shown = info(feed)
        rows = shown["snapshot"] or {}
        if not rows.get("ts"):
            return False
        assert rows["state"] == "delivering"
        return bool(shown["checkpoint_ts"] > rows["base_ts"])

    def is_lost(feed: str) -> bool:
        shown = info(feed)
        assert shown["error"] is None or shown["error"]["code"] == "TG:ErrSnapshotLost"
        return bool(shown["state"] == "failed")

    def has_all(feed: str) -> bool:
        return bool((info(feed)["snapshot"]["again"] or {}).get("delivered"))

    try:
        first.start()
        first.register("main", mariadb.uri())
        second.start()
        load.start()
        for feed, sink in sinks.items():
            copied = {"mode": "initial", "chunk-rows": 500}
            if feed == "lost-to-table":
                copied["create-tables"] = True
            first.create(feed, "main", sink, [f"{schema_name}.*"], {"snapshot": copied})
        refused = first.cli("changefeed", "resume", "-c", "lost-to-files", "--copy-again")
        assert refused.returncode != 0
        until(lambda: all(map(in_the_middle, sinks)), "all deliver rows", 120)
        first.kill_with_its_disk()
        for feed in sinks:
            until(partial(is_lost, feed), f"{feed} has failed", 90)
            done = second.cli("changefeed", "resume", "-c", feed, "--copy-again")
            assert done.returncode == 0, done.stderr
        for feed in sinks:
            until(partial(has_all, feed), f"rows of {feed} are delivered again", 120)
        load.stop()
        for feed in sinks:
            second.wait_checkpoint(feed)
        shown = {feed: info(feed) for feed in sinks}
        assert {s["state"] for s in shown.values()} == {"normal"}
        assert {s["snapshot"]["state"] for s in shown.values()} == {"delivered"}
        at_most = {feed: s["snapshot"]["again"]["rows_at_most"] for feed, s in shown.items()}
        # Changes of rows that the target lacks stop no table.
        assert "TG:ErrTargetRowMissing" not in second.text()
        orders = second.ask("GET", "/changefeeds/lost-to-topic/snapshots")["items"]
    finally:
        load.stop()
        first.close()
        second.close()
    there = content(mariadb, schema_name)
    assert content(target, schema_name) == there
    wanted = {
        name: {
            r[0]: r[1] for r in mariadb.execute(f"SELECT id, v FROM {name}", database=schema_name)
        }
        for name in _ROWS
    }
    sent = {
        "lost-to-files": [json.loads(m) for folder in tables(root) for m in messages(folder)],
        "lost-to-topic": [m.body for m in topics.read(broker.bootstrap, [schema_name])],
    }
    for feed, bodies in sent.items():
        rows, inserts = _kept(bodies)
        assert {t: {int(k): int(v) for k, v in r.items()} for t, r in rows.items()} == wanted
        # Of rows that were there before; one that changed since comes as a change and as a row.
        twice = Counter(t for (t, row), n in inserts.items() if n > 1 and int(row) < 10_000)
        # A table that had all of its rows gets none again, nor does one that had none.
        assert 0 < len(twice) < len(_ROWS)
        assert twice.total() <= at_most[feed] < 3 * 1500 + load.written
    assert [(o["id"], o["state"]) for o in orders] == [("1", "delivered")]
