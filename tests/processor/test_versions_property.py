"""Schema changes and rows in random order: each row is decoded as it was upstream.

More seeds: ``TIDEGATE_HISTORIES=20``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cdc.source.statements import History, LoggedDdl
from tests.e2e import topics
from tests.processor.shaped import ShapedLog, as_seen, commit_ts, go, rows_of
from tests.servers import Broker, Database

# With what servers say of columns in the binlog if they are asked to, and what without.
SERVERS = [("mariadb-11.4", "FULL"), ("mysql-8.0", "MINIMAL")]
SEEDS = range(int(os.environ.get("TIDEGATE_HISTORIES", "1")))
CHANGES = 50
FORGOTTEN = ("add column", "rename column", "rename table")


@dataclass(frozen=True)
class Delivered:
    """A log, and what a feed from its begin has made of it."""

    seed: int
    log: ShapedLog
    messages: list[topics.Message]
    stopped: list[Any]

    def matters(self, words: str) -> LoggedDdl | None:
        """The first statement with ``words`` that rows of one of its tables depend on."""
        rows = rows_of(self.messages)
        for one in self.log.statements:
            if words not in " ".join(one.sql.lower().split()):
                continue
            wait = next(w for w in self.log.waits if w.ts == one.ts)
            later = (w.ts for w in self.log.waits if w.ts > one.ts and w.meets(wait))
            end = min(later, default=self.log.end_ts)
            ours = (b for (t, _), b in rows.items() if t in (wait.tables or ()))
            if any(one.ts < commit_ts(body) < end for bodies in ours for body in bodies):
                return one
        return None


@pytest.fixture(
    scope="module",
    params=[(*server, seed) for server in SERVERS for seed in SEEDS],
    ids=lambda p: f"{p[0]}-{p[2]}",
)
def delivered(
    request: pytest.FixtureRequest,
    database: Callable[..., Database],
    broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Delivered:
    name, metadata, seed = request.param
    server = database(name)
    ((before,),) = server.execute("SELECT @@global.binlog_row_metadata")
    server.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        folder = tmp_path_factory.mktemp("shaped") / "log"
        log = ShapedLog(folder, server, seed, CHANGES)
    finally:
        server.execute(f"SET GLOBAL binlog_row_metadata = {before}")
    topic = f"versions-{name}-{seed}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    return _deliver(seed, log, broker, topic)


def _deliver(seed: int, log: ShapedLog, broker: Broker, topic: str, start_ts: int = 0) -> Delivered:
    start_ts = start_ts or log.start_ts
    pending = log.changes(start_ts)
    running = log.run(broker, topic, pending, start_ts=start_ts)
    try:
        go(running, pending)
        stopped = running.reports[-1].stopped_tables
    finally:
        running.stop()
    return Delivered(seed, log, topics.read(broker.bootstrap, [topic]), stopped)


def test_each_row_decodes_as_it_was_upstream(delivered: Delivered) -> None:
    log = delivered.log
    assert delivered.stopped == []
    assert len(log.waits) >= CHANGES
    found = as_seen(delivered.messages)
    assert found.keys() == log.seen.keys()
    for table, rows in log.seen.items():
        assert found[table] == rows, table


@pytest.mark.parametrize("words", FORGOTTEN)
def test_a_forgotten_statement_is_found(
    delivered: Delivered,
    broker: Broker,
    topic_prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
) -> None:
    """The negative control: wrong versions make a table stop, or rows that were never upstream."""
    forgotten = delivered.matters(words)
    if forgotten is None:
        # The first history has one of each; any other may do without.
        assert delivered.seed
        pytest.skip("nothing depends on such a statement")
    ts = forgotten.ts

    class Forgetful(History):
        """One that has not seen a statement."""

        def _follow(self, s: LoggedDdl) -> LoggedDdl:
            return s if s.ts == ts else super()._follow(s)

    monkeypatch.setattr("processor.catalog.History", Forgetful)
    start_ts = ts - 1
    wrong = _deliver(delivered.seed, delivered.log, broker, topic_prefix, start_ts)
    if not wrong.stopped:
        assert as_seen(wrong.messages) != as_seen(_above(delivered.messages, start_ts))


def _above(messages: list[topics.Message], start_ts: int) -> list[topics.Message]:
    return [m for m in messages if m.body.get("_tidb", {}).get("commitTs", 0) > start_ts]
