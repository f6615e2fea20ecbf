"""Large windows of a changefeed are delivered by the workers of several captures, exactly once."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.e2e import topics
from tests.e2e.beside import WritesBeside
from tests.e2e.capture_process import CaptureProcess
from tests.e2e.counting import exactly_in
from tests.servers import Broker, Database
from tests.servers.etcd import Etcd
from tests.servers.process import send
from tests.sink_mysql.replay import content, same_schema
from tests.waiting import until

pytestmark = pytest.mark.real

_TTL_S = 5
_ACROSS = {"scheduler": {"enable-table-across-nodes": True}}
# A worker here, and windows that are worth another one.
_SETTINGS = """
capture-session-ttl = {ttl}
[owner]
error-backoff-first = 0.5
error-backoff-max = 2.0
[source]
silence-s = 5.0
[processor]
min-interval-s = 0.2
single-task-bytes = 1024
spark-start-after-s = 0
"""


class Load(WritesBeside):
    """Writes numbered rows into one table, some in each transaction."""

    def __init__(self, server: Database, schema: str) -> None:
        super().__init__(server)
        self._schema = schema

    def _write(self) -> None:
        values = ", ".join(f"({self.written + i})" for i in range(20))
        self._server.execute(f"INSERT INTO t VALUES {values}", database=self._schema)
        self.written += 20


@dataclass(frozen=True)
class Pair:
    """Two captures of a cluster, a worker each, and a table that is written to."""

    captures: list[CaptureProcess]
    load: Load
    feed: str

    def lent(self) -> tuple[CaptureProcess, CaptureProcess]:
        """Wait until the capture that does not plan has run some more tasks; it is the second."""
        plans, lends = until(self.roles, "one capture plans, and the other one answers", 60)
        counts: list[int] = []

        def some_more() -> bool:
            now = _tasks(lends)
            if now < (counts or [0])[-1]:
                # It has begun anew.
                counts.clear()
            counts.append(now)
            return counts[-1] - counts[0] > 3

        until(some_more, "tasks are lent", 60)
        return plans, lends

    def roles(self) -> tuple[CaptureProcess, CaptureProcess] | None:
        """Who plans the changefeed, and the other one, if both are there."""
        one, other = self.captures
        if self.plans(one) and _answers(other):
            return one, other
        return (other, one) if self.plans(other) and _answers(one) else None

    def plans(self, capture: CaptureProcess) -> bool:
        """Whether a capture plans the changefeed."""
        try:
            me = capture.ask("GET", "/status")["id"]
            return me in [task["capture_id"] for task in capture.feed(self.feed)["task_status"]]
        except httpx.HTTPError:
            return False


def _answers(capture: CaptureProcess) -> bool:
    """Whether it answers; one whose session has ended begins anew, and does not for a moment."""
    try:
        return capture.api("GET", "/status").is_success
    except httpx.HTTPError:
        return False


def _assigned(planner: CaptureProcess, table: str) -> str | None:
    """Where the processor of a changefeed was told to have a table of this name delivered."""
    entries = planner.ask("GET", "/unsafe/metadata")["items"]
    placed = [json.loads(e["value"])["placed"] for e in entries if "/task/assignment/" in e["key"]]
    found = [c for tables in placed for name, c in tables.items() if name.endswith(f".{table}")]
    return found[0] if found else None


def _tasks(capture: CaptureProcess) -> int:
    """How many tasks a capture has run for others; none where it does not answer."""
    try:
        text = httpx.get(f"{capture.url}/metrics", trust_env=False, timeout=60).text
    except httpx.HTTPError:
        return 0
    found = re.search(r"^tidegate_lent_tasks_total (\S+)$", text, re.MULTILINE)
    return int(float(found[1])) if found else 0


@pytest.fixture
def pair(etcd: Etcd, mariadb: Database, schema_name: str, tmp_path: Path) -> Iterator[Pair]:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    mariadb.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=schema_name)
    text = f'store = "{etcd.address}/{schema_name}"{_SETTINGS.format(ttl=_TTL_S)}'
    captures = [
        CaptureProcess(tmp_path / str(i), master="local[1]", settings=text) for i in range(2)
    ]
    load = Load(mariadb, schema_name)
    try:
        for capture in captures:
            capture.start(ready=False)
        for capture in captures:
            capture.await_ready()
        captures[0].register("main", mariadb.uri())
        yield Pair(captures, load, schema_name.replace("_", "-"))
    finally:
        load.stop()
        for capture in captures:
            capture.close()


def test_exactly_once_whoever_dies(pair: Pair, schema_name: str, broker: Broker) -> None:
    sink = f"kafka://{broker.bootstrap}/{schema_name}?protocol=canal-json&partition-num=4"
    rule = {"matcher": ["*.*"], "partition": "index-value"}
    config = {"sink": {"dispatchers": [rule]}, **_ACROSS}
    pair.captures[0].create(pair.feed, "main", sink, [f"{schema_name}.*"], config)
    pair.load.start()
    planner, lender = pair.lent()
    # Its workers die in the middle of a window, or wait for one; its capture lives.
    for worker in lender.workers():
        worker.kill()
    pair.lent()
    lender.kill()
    planner.wait_checkpoint(pair.feed)
    lender.start()
    planner, lender = pair.lent()
    # Past its lease, so what it has under way is delivered by others before it wakes.
    family = lender.family()
    for process in family:
        # A short one says how to start Spark.
        with suppress(ProcessLookupError):
            send(process.pid, signal.SIGSTOP)
    planner.wait_checkpoint(pair.feed)
    for process in family:
        with suppress(ProcessLookupError):
            send(process.pid, signal.SIGCONT)
    until(lambda: "beginning anew" in lender.text(), "it knows that it was given up", 60)
    planner, lender = pair.lent()
    planner.kill()
    until(lambda: pair.plans(lender), "the other one plans", 60)
    lender.wait_checkpoint(pair.feed)
    planner.start()
    planner, _ = pair.lent()
    pair.load.stop()
    planner.wait_checkpoint(pair.feed)
    exactly_in(topics.read(broker.bootstrap, [schema_name]), pair.load.written)


def test_a_database_gets_rows_of_both(
    pair: Pair, schema_name: str, mariadb: Database, mysql: Database
) -> None:
    same_schema(mariadb, mysql, schema_name)
    sink = f"mysql://root@127.0.0.1:{mysql.port}/?worker-count=4"
    pair.captures[0].create(pair.feed, "main", sink, [f"{schema_name}.*"], _ACROSS)
    pair.load.start()
    _, lender = pair.lent()
    for worker in lender.workers():
        worker.kill()
    planner, _ = pair.lent()
    pair.load.stop()
    planner.wait_checkpoint(pair.feed)
    assert len(content(mysql, schema_name)["t"]) == pair.load.written
    assert content(mysql, schema_name) == content(mariadb, schema_name)


def test_a_table_is_delivered_where_it_was_moved_to(
    pair: Pair, schema_name: str, mariadb: Database, broker: Broker
) -> None:
    mariadb.execute("CREATE TABLE u (id INT PRIMARY KEY)", database=schema_name)
    sink = f"kafka://{broker.bootstrap}/{schema_name}?protocol=canal-json"
    rule = {"matcher": ["*.*"], "topic": "{schema}_{table}"}
    config = {"sink": {"dispatchers": [rule]}, **_ACROSS}
    first = pair.captures[0]
    first.create(pair.feed, "main", sink, [f"{schema_name}.*"], config)
    planner, lender = until(pair.roles, "one capture plans, and the other one answers", 60)
    ids = {capture: capture.ask("GET", "/status")["id"] for capture in pair.captures}
    written = {"t": 0, "u": 0}

    def lent(table: str) -> bool:
        """Whether a row, alone in its window, was delivered by the one that does not plan."""
        before = _tasks(lender)
        mariadb.execute(f"INSERT INTO {table} VALUES ({written[table]})", database=schema_name)
        written[table] += 1
        planner.wait_checkpoint(pair.feed)
        return _tasks(lender) > before

    def move(table: str, capture: str, *more: str) -> str:
        words = f"changefeed move-table -c {pair.feed} -t {table} -d {capture}".split()
        done = planner.cli(*words, *more)
        assert done.returncode == 0, done.stderr
        wanted = None if capture == "any" else capture
        until(lambda: _assigned(planner, "t") == wanted, "the owner has told the processor")
        return done.stdout

    assert not lent("t")
    assert not lent("u")
    assert ids[lender] in move(f"{schema_name}.t", ids[lender])
    assert lent("t")
    assert not lent("u")
    shown = planner.feed(pair.feed)["placed_tables"]
    assert shown == [{"table": f"{schema_name}.t", "capture_id": ids[lender]}]
    # As TiCDC's scripts do, by its id: it came first.
    number = min(planner.ask("GET", f"/processors/{pair.feed}/{ids[planner]}")["table_ids"])
    move(str(number), ids[planner], "--mode", "0", "--wait")
    words = f"changefeed move-table -c {pair.feed} -t {number} -d {ids[lender]} --mode 1".split()
    assert "TG:ErrAPIInvalidParam" in planner.cli(*words).stderr
    assert not lent("t")
    move(f"{schema_name}.t", ids[lender])
    assert lent("t")
    lender.kill()
    for _ in range(3):
        assert not lent("t")
    lender.start()
    move(f"{schema_name}.t", "any")
    assert not lent("t")
    assert planner.feed(pair.feed)["placed_tables"] == []
    for table, count in written.items():
        exactly_in(topics.read(broker.bootstrap, [f"{schema_name}_{table}"]), count)
