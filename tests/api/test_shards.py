"""An upstream of two real nodes: one log of both, through kills of the server and of a node."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdc.base.nodes import node_of, qualified
from cdc.base.position import Position
from cdc.binlog.query import Query
from cdc.changelog.index import Runs
from cdc.changelog.reader import ChangeLog
from cdc.schema.snapshot import catalog
from tests.api.server_process import CdcServer, without_spark
from tests.servers.database import Database, database
from tests.waiting import until

NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Database]]:
    other = ("--server-id=2",)
    with database("mariadb-11.4") as one, database("mariadb-11.4", options=other) as two:
        found = dict(zip(NODES, (one, two), strict=True))
        for name, db in found.items():
            db.execute(
                "CREATE DATABASE d",
                f"CREATE TABLE d.t (id INT PRIMARY KEY, {name} VARCHAR(9))",
                f"CREATE DATABASE only_{name}",
                f"CREATE TABLE only_{name}.o (id INT)",
                f"INSERT INTO d.t VALUES (0, '{name}')",
            )
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdcServer]:
    with without_spark(tmp_path_factory.mktemp("shards")) as made:
        yield made


def query(server: CdcServer, name: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = server.api("GET", f"/upstreams/{name}").json()
    return found


def count(folder: Path) -> int:
    with closing(ChangeLog.open(folder)) as log:
        return len(with_rows(log))


def with_rows(log: ChangeLog) -> Runs:
    """All runs but those that only say that a transaction is at its end."""
    runs = log.runs(Position(log.state.first_ts), Position(log.state.resolved_ts))
    return runs.take(runs.rows > 0)


def create(server: CdcServer, nodes: dict[str, Database], *more: str) -> None:
    words = [w for n, db in nodes.items() for w in ("--node", f"{n}={db.uri()}")]
    done = server.cli("upstream", "create", "-u", "s", "--kind", "shards", *words, *more)
    assert done.returncode == 0, done.stderr
    assert re.search(r"mariadb 11\.4.*nodes n1, n2$", done.stdout.strip())


class Writers:
    """One writer for each node: rows of rising ids, and now and then a statement."""

    def __init__(self, nodes: dict[str, Database]) -> None:
        self.rows = dict.fromkeys(nodes, 0)
        self.statements: dict[str, list[str]] = {n: [] for n in nodes}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=one) for one in nodes.items()]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, node: str, db: Database) -> None:
        with db.connect() as connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                id = self.rows[node] + 1
                cursor.execute(f"INSERT INTO d.t (id) VALUES ({id})")
                self.rows[node] = id
                time.sleep(0.005)
                if id % 50 == 0:
                    text = f"ALTER TABLE t ADD c{id} INT"
                    connection.select_db("d")
                    cursor.execute(text)
                    self.statements[node].append(text)


Entry = tuple[int, str, str, int]
"""Ts, node, GTID source and sequence."""


def entries(folder: Path) -> list[Entry]:
    """Transactions of the merged log in its order; bytes are compared with the nodes' logs."""
    with closing(ChangeLog.open(folder)) as log:
        runs = with_rows(log)
        log.verify(runs)
        found = []
        logs = {n: ChangeLog.open(folder.parent / "nodes" / n) for n in NODES}
        theirs = {n: with_rows(one) for n, one in logs.items()}
        count = dict.fromkeys(NODES, 0)
        for i in range(len(runs)):
            node = node_of(log.tables[int(runs.table[i])].schema)
            at = count[node]
            count[node] += 1
            own = theirs[node].slice(at, at + 1)
            assert log.event(runs.slice(i, i + 1)) == logs[node].event(own)
            source = log.sources[int(runs.gtid_source[i])]
            assert source == f"{node}:{logs[node].sources[int(own.gtid_source[0])]}"
            found.append((int(runs.commit_ts[i]), node, source, int(runs.gtid_seq[i])))
        for one in logs.values():
            one.close()
    return found


def test_one_log_of_two_nodes(server: CdcServer, nodes: dict[str, Database]) -> None:
    create(server, nodes)
    folder = server.data_dir / "log" / "s" / "0"
    with Writers(nodes) as writers:
        until(lambda: count(folder) > 100, "some is merged")
        server.stop(signal.SIGKILL)
        seen = entries(folder)
        server.start()
    last = sum(writers.rows.values())
    until(lambda: query(server)["error"] or count(folder) >= last, "all is merged")
    assert query(server)["error"] is None
    found = entries(folder)
    # What was read before a kill is where it was.
    assert found[: len(seen)] == seen
    ts = [one[0] for one in found]
    assert ts == sorted(set(ts))
    for node in NODES:
        sequence = [one[3] for one in found if one[1] == node]
        assert len(sequence) == writers.rows[node]
        assert sequence == sorted(set(sequence))
    # Transactions of both lie between each other, as they were made.
    changes = sum(a[1] != b[1] for a, b in pairwise(found))
    assert changes > 20

    with closing(ChangeLog.open(folder)) as log:
        texts: dict[str, list[str]] = {n: [] for n in NODES}
        for _, event in log.statements(log.state.first_ts, log.state.resolved_ts):
            said = Query.parse(event[19:-4])
            node = node_of(said.schema)
            assert said.schema == qualified(node, "d")
            texts[node].append(said.sql)
        assert texts == writers.statements
        first = catalog(log.snapshot_at(log.state.first_ts))
        assert sorted(first.databases) >= sorted(
            [qualified("n1", "d"), qualified("n2", "d"), qualified("n1", "only_n1")]
        )
        for node in NODES:
            table = first.table(qualified(node, "d"), "t")
            assert table is not None
            assert [c.name for c in table.columns][:2] == ["id", node]

    until(lambda: query(server)["state"] == "running", "both are pulled")
    shown = server.cli_json("upstream", "query", "-u", "s")
    assert (shown["kind"], shown["state"], shown["uri"]) == ("shards", "running", "")
    assert [n["name"] for n in shown["nodes"]] == list(NODES)
    assert all(n["state"] == "running" for n in shown["nodes"])
    assert 's.n1"' in "".join(n for n in server.metrics() if "upstream_up" in n)

    # A node that is down holds the rest, visibly, and nothing of the others is lost.
    nodes["n2"].stop()
    until(lambda: query(server)["waits_for"] == "n2", "it waits for the node")
    held = query(server)
    assert held["state"] in ("retrying", "connecting")
    assert server.metrics()['tidegate_upstream_held_seconds{upstream="s"}'] > 1
    assert held["error"]["code"] == "TG:ErrUpstreamGone"
    nodes["n1"].execute("INSERT INTO d.t (id) VALUES (1000000)")
    time.sleep(0.5)
    assert entries(folder) == found
    nodes["n2"].start()
    until(lambda: count(folder) == last + 1, "it goes on")
    assert entries(folder)[:-1] == found
    until(lambda: query(server)["state"] == "running", "both are pulled again")

    assert server.cli("upstream", "remove", "-u", "s").returncode == 0
    assert not folder.parent.exists()
    assert server.cli_json("upstream", "list") == []


def test_a_node_is_reached_by_another_password(
    server: CdcServer, nodes: dict[str, Database]
) -> None:
    words: list[str] = []
    for name, db in nodes.items():
        db.execute(
            "CREATE USER p@'%' IDENTIFIED BY 'one'",
            "GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO p@'%'",
        )
        words += ["--node", f"{name}={db.uri('p', 'one')}"]
    made = server.cli("upstream", "create", "-u", "p", "--kind", "shards", *words)
    assert made.returncode == 0, made.stderr
    nodes["n2"].execute(
        "SET PASSWORD FOR p@'%' = PASSWORD('two')",
        "KILL USER p",
        "INSERT INTO d.t (id) VALUES (-1)",
    )
    until(lambda: query(server, "p")["nodes"][1]["state"] == "failed", "the password is refused")
    changed = {"nodes": [{"name": "n2", "password": "two"}]}
    swapped = [{"name": n, "uri": nodes[o].uri("p", w)} for n, o, w in (
        ("n1", "n2", "two"), ("n2", "n1", "one"),
    )]  # fmt: skip
    refused = server.api("PUT", "/upstreams/p", {"nodes": swapped})
    assert refused.json()["error_code"] == "TG:ErrUpstreamOtherServer"
    assert server.api("PUT", "/upstreams/p", changed).is_success
    folder = server.data_dir / "log" / "p" / "0"
    until(lambda: count(folder) == 1, "what came meanwhile is merged")
    (entry,) = server.api("GET", "/audit?object=upstream p").json()["items"][-1:]
    assert entry["outcome"] == "ok"
    assert list(entry["after"]) == ["nodes.n2.uri"]
    assert "two" not in str(entry)
    assert server.cli("upstream", "remove", "-u", "p").returncode == 0


def test_starts_of_nodes(server: CdcServer, nodes: dict[str, Database]) -> None:
    """What a node holds from its own start on is all there."""
    db = nodes["n1"]
    db.execute("CREATE TABLE IF NOT EXISTS d.old (id INT)")
    start = str(db.execute("SELECT @@gtid_binlog_pos")[0][0])
    time.sleep(0.01)
    for i in range(5):
        db.execute(f"INSERT INTO d.old VALUES ({i})")
    create(server, nodes, "--node-start", f"n1={start}")
    db.execute("INSERT INTO d.old VALUES (5)")
    folder = server.data_dir / "log" / "s" / "0"
    until(lambda: count(folder) == 6, "all is merged")
    assert [one[1] for one in entries(folder)] == ["n1"] * 6


def test_what_is_refused_by_name(
    server: CdcServer, nodes: dict[str, Database], mysql: Database
) -> None:
    def node(name: str, db: Database) -> dict[str, str]:
        return {"name": name, "uri": db.uri()}

    one, two = nodes.values()
    shards: dict[str, Any] = {"kind": "shards"}
    cluster = {"kind": "cluster", "nodes": [node("a", one), node("b", two)]}
    for body, code in (
        ({}, "TG:ErrNodesInvalid"),
        (shards, "TG:ErrNodesInvalid"),
        (shards | {"uri": one.uri(), "nodes": [node("a", two)]}, "TG:ErrNodesInvalid"),
        ({"nodes": [node("a", one)]}, "TG:ErrNodesInvalid"),
        (shards | {"nodes": [node("a", one), node("b", one)]}, "TG:ErrNodesInvalid"),
        (shards | {"nodes": [node("a", one), node("a", two)]}, "TG:ErrNodesInvalid"),
        (shards | {"nodes": [node("A", one)]}, "TG:ErrNodesInvalid"),
        (shards | {"nodes": [node("a", one)], "carrier": "gtid"}, "TG:ErrNodesInvalid"),
        ({"kind": "cluster", "uri": one.uri()}, "TG:ErrNodesInvalid"),
        (cluster | {"carrier": "pigeon"}, "TG:ErrNodesInvalid"),
        # No MariaDB writes it.
        (cluster | {"carrier": "original-timestamp"}, "TG:ErrNodesInvalid"),
        (shards | {"nodes": [node("a", one), node("b", mysql)]}, "TG:ErrNodesUnlike"),
    ):
        answer = server.api("POST", "/upstreams", {"name": "r"} | body)
        assert answer.status_code == 400, body
        assert answer.json()["error_code"] == code, body
        assert not (server.data_dir / "log" / "r").exists()
    for words in (
        ("--node", f"mysql://x:hunter2@{one.port}"),
        ("--node", f"a={one.uri()}", "--node-start", "b=now"),
    ):
        done = server.cli("upstream", "create", "-u", "r", "--kind", "shards", *words)
        assert done.returncode == 1
        assert "TG:ErrNodeOptionInvalid" in done.stderr
        assert "hunter2" not in done.stderr
