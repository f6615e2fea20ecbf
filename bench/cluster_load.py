"""The load of a distributed database: each transaction inserts rows on every node, in two phases.

One session of each node runs all of them, one behind the other, so that no order of a coordinator
is needed: TSOs rise in the order of the statements. The carrier is ``timestamp``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from bench import load
from tests.servers.database import Database

_MARK = 1 << 31
_STEP = 1 << 8
_HEARTBEAT = 1_000  # transactions between two heartbeats
CREATE = (
    "CREATE DATABASE __cdc__",
    "CREATE TABLE __cdc__.__cdc_heartbeat__ (id INT NOT NULL PRIMARY KEY, at BIGINT)",
)


class Clock:
    """TSOs, ``ms << 22`` and a counter, strictly rising."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """A larger one than all before."""
        self._last = max(self._last + _STEP, (time.time_ns() // 1_000_000) << 22)
        return self._last


def table(node: int) -> str:
    """The table of a node, counted from 1; of the form of ``bench.load``."""
    return f"{load.TABLE}{node}"


def branch(node: int, number: int, tso: int, statement: str) -> Iterator[str]:
    """The statements of a transaction's branch on a node."""
    xid = f"'drds-{number:x}@1','G{node}@0000',1"
    seconds, ms = divmod(tso >> 22, 1000)
    thread = _MARK | ms << 21 | (tso & ((1 << 22) - 1)) >> 1
    yield f"XA START {xid}"
    yield statement
    yield f"XA END {xid}"
    yield f"XA PREPARE {xid}"
    yield f"SET timestamp = {seconds}, pseudo_thread_id = {thread}"
    yield f"XA COMMIT {xid}"
    yield "SET timestamp = DEFAULT"


def statements(node: int, tsos: Sequence[int], rows: int) -> Iterator[str]:
    """What a node executes of transactions with these TSOs: ``rows`` each, heartbeats between.

    The first and the last are heartbeats.
    """
    insert = load.INSERT.replace("INTO t ", f"INTO {table(node)} ")
    beat = "REPLACE INTO __cdc__.__cdc_heartbeat__ VALUES (1, {})"
    first = 1
    for i, tso in enumerate(tsos):
        if i % _HEARTBEAT == 0 or i == len(tsos) - 1:
            yield from branch(node, tso, tso, beat.format(tso))
            continue
        values = ",".join(load.row(j) for j in range(first, first + rows))
        yield from branch(node, tso, tso, insert + values)
        first += rows


def run(nodes: Sequence[Database], clock: Clock, transactions: int, rows: int) -> int:
    """Execute so many transactions of ``rows`` on each node; how many rows that are, of all."""
    beats = 2 + transactions // (_HEARTBEAT - 1)
    tsos = [clock.next() for _ in range(transactions + beats)]
    beats = sum(i % _HEARTBEAT == 0 or i == len(tsos) - 1 for i in range(len(tsos)))
    failed: list[BaseException] = []

    def one(number: int, node: Database) -> None:
        try:
            load.run(node, statements(number, tsos, rows))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(nodes, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return (len(tsos) - beats) * rows * len(nodes)


def beat(nodes: Sequence[Database], clock: Clock) -> None:
    """Two heartbeats of all nodes."""
    run(nodes, clock, 0, 0)


def empty(nodes: Sequence[Database]) -> None:
    """Empty the tables without a word in the binlogs."""
    for number, node in enumerate(nodes, 1):
        node.execute("SET sql_log_bin = 0", f"TRUNCATE {load.SCHEMA}.{table(number)}")
