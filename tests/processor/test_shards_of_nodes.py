"""Two servers with two tables each become one table at a target, and one topic, through one log."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cdc.base.clock import SystemClock
from cdc.base.nodes import qualified
from cdc.changelog import node_logs
from cdc.changelog.node_logs import NodeFolder
from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.schema.snapshot import CreateText, load
from cdc.source.merging import Merging, NodeLog, position_of
from tests.e2e import topics
from tests.processor.in_process import InProcessJobs, Running
from tests.seeds import seed
from tests.servers import Broker, Database
from tests.source.pulling import Pulled

SOURCE, TARGET = "nodes_from", "nodes_to"
SHARDS = ("t_1", "t_2")
LATE = "t_late"
COLUMNS = "(id DECIMAL(12) PRIMARY KEY, v VARCHAR(20))"
CONFIG = {
    "shard_mode": "pessimistic",
    "filter": {"rules": [f"{SOURCE}.t_*", "!n2:*.t_hidden"]},
    "sink": {
        "dispatchers": [
            {
                "matcher": [f"n?:{SOURCE}.*"],
                "target-schema": TARGET,
                "target-table": "t",
                "partition": "index-value",
            }
        ]
    },
}


class Nodes:
    """The logs of two servers, and the one that is made of them."""

    def __init__(self, folder: Path, servers: dict[str, Database]) -> None:
        self.folder, self.servers = folder, servers
        for server in servers.values():
            server.execute(
                f"DROP DATABASE IF EXISTS {SOURCE}",
                f"CREATE DATABASE {SOURCE}",
                *(f"CREATE TABLE {SOURCE}.{t} {COLUMNS}" for t in (*SHARDS, "t_hidden")),
            )
        (one, first), (other, second) = servers.items()
        with Pulled(first, folder / one) as a, Pulled(second, folder / other) as b:
            # Binlogs tell whole seconds: nothing must lie below where the other log begins.
            time.sleep(1.1)
            rng = random.Random(seed())
            for turn in range(6):
                # One behind the other, so that keys of the servers come in turn.
                for number, server in enumerate(servers.values()):
                    server.execute(*self._changes(rng, turn, number), database=SOURCE)
            for pulled in (a, b):
                pulled.caught_up()
            end = max(pulled.writer.state.resolved_ts for pulled in (a, b))
            for pulled in (a, b):
                pulled.until(partial(_resolved, pulled, end))
        self.merged = folder / "merged"
        self.start_ts = self._merge()

    def _changes(self, rng: random.Random, turn: int, number: int) -> Iterator[str]:
        first = 1000 * number + 100 * turn
        for key in range(first, first + 20):
            yield f"INSERT INTO {SHARDS[key % 2]} VALUES ({key}, 'new')"
        yield f"INSERT INTO t_hidden VALUES ({first + 90}, 'hidden')"
        if turn == 2:
            # With its database, and by the default one.
            yield f"CREATE TABLE {f'{SOURCE}.' * number}{LATE} LIKE {SOURCE}.t_1"
        for table in (*SHARDS, *([LATE] if turn > 2 else [])):
            word = f"{turn}-{rng.randrange(9)}"
            yield f"UPDATE {table} SET v = '{word}' WHERE MOD(id, 7) = {rng.randrange(7)}"
            yield f"DELETE FROM {table} WHERE MOD(id, 11) = {rng.randrange(11)}"
        if turn > 2:
            key = first - 200
            yield "BEGIN"
            yield f"DELETE FROM {SHARDS[0]} WHERE id = {key}"
            yield f"DELETE FROM {SHARDS[1]} WHERE id = {key}"
            yield f"INSERT INTO {LATE} VALUES ({key}, 'moved')"
            yield "COMMIT"

    def _merge(self) -> int:
        opened = (closing(ChangeLog.open(self.folder / name)) for name in self.servers)
        with ExitStack() as stack:
            logs = dict(zip(self.servers, map(stack.enter_context, opened), strict=True))
            begin = max(log.state.first_ts for log in logs.values())
            self.merged.mkdir()
            node_logs.save(self.merged, [NodeFolder(n, f"../{n}") for n in logs])
            settings = ChangelogSettings(free_space_reserve_bytes=0, keep_s=0)
            with LogWriter.open(self.merged, settings, SystemClock()) as writer:
                writer.save_snapshot(begin, _united(begin, logs))
                writer.begin(begin, position_of(dict.fromkeys(logs, begin)))
                merging = Merging(writer, [NodeLog(n, log) for n, log in logs.items()], 1 << 27)
                while merging.step():
                    pass
            return begin

    def union(self) -> list[Any]:
        """What all of the shards hold."""
        tables = [f"{SOURCE}.{t}" for t in (*SHARDS, LATE)]
        tables = [f"SELECT * FROM {t}" for t in tables]
        tables += [f"SELECT * FROM {SOURCE}.t_hidden"]
        first, second = self.servers.values()
        rows = first.execute(" UNION ALL ".join(tables))
        return sorted([*rows, *second.execute(" UNION ALL ".join(tables[:-1]))])

    def deliver(self, uri: str, feed: str) -> None:
        """A feed over all of it."""
        jobs = InProcessJobs()
        running = Running(self.merged, uri, CONFIG, jobs, start_ts=self.start_ts, feed=feed)
        try:
            running.done()
        finally:
            running.stop()


def _resolved(pulled: Pulled, ts: int) -> bool:
    return pulled.writer.state.resolved_ts >= ts


def _united(ts: int, logs: dict[str, ChangeLog]) -> dict[str, Any]:
    """The schemas of nodes as one."""
    databases: dict[str, Any] = {}
    texts: list[list[Any]] = []
    for node, log in logs.items():
        snapshot = log.snapshot_at(log.state.first_ts)
        server = snapshot["server"]
        for (schema, name), source in load(snapshot).sources.items():
            assert isinstance(source, CreateText)
            texts.append([qualified(node, schema), name, *source])
        databases |= {qualified(node, s): value for s, value in snapshot["databases"].items()}
    return {"ts": ts, "server": server, "databases": databases, "tables": {}, "texts": texts}


@pytest.fixture(scope="module")
def nodes(
    database: Callable[..., Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    servers = {"n1": database("mariadb-11.4"), "n2": database("mariadb-11.8")}
    yield Nodes(tmp_path_factory.mktemp("nodes"), servers)
    for server in servers.values():
        server.execute(f"DROP DATABASE IF EXISTS {SOURCE}")


@pytest.mark.parametrize("query", ["worker-count=3", "worker-count=3&apply=sql"])
def test_the_target_is_the_union_of_the_nodes(
    nodes: Nodes, mysql: Database, fresh_name: str, query: str
) -> None:
    mysql.execute(
        f"DROP DATABASE IF EXISTS {TARGET}",
        f"CREATE DATABASE {TARGET}",
        f"CREATE TABLE {TARGET}.t {COLUMNS}",
    )
    nodes.deliver(f"{mysql.uri()}/?{query}", fresh_name.replace("_", "-"))
    found = mysql.execute(f"SELECT * FROM {TARGET}.t ORDER BY id")
    assert found == nodes.union()
    assert len(found) > 100
    assert mysql.execute(f"SHOW TABLES FROM {TARGET}") == [("t",)]
    mysql.execute(f"DROP DATABASE {TARGET}")


def test_the_topic_folds_to_the_union_of_the_nodes(
    nodes: Nodes, broker: Broker, topic_prefix: str, fresh_name: str
) -> None:
    uri = f"kafka://{broker.bootstrap}/{topic_prefix}?protocol=canal-json&partition-num=3"
    nodes.deliver(uri, fresh_name.replace("_", "-"))
    rows: dict[int, str] = {}
    places: dict[int, set[int]] = {}
    for message in topics.read(broker.bootstrap, [topic_prefix]):
        assert message.table == f"{TARGET}.t"
        for row in message.body["data"]:
            key = int(row["id"])
            places.setdefault(key, set()).add(message.partition)
            if message.body["type"] == "DELETE":
                del rows[key]
            else:
                assert (key in rows) == (message.body["type"] == "UPDATE")
                rows[key] = row["v"]
    assert sorted(rows.items()) == nodes.union()
    assert {len(there) for there in places.values()} == {1}
