"""What was delivered of a bank on several nodes: no state of it may look torn."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.cluster.coordinator import ACCOUNTS, START, DistributedDatabase
from tests.e2e.topics import Message
from tests.servers.database import Database

Account = tuple[int, int]  # id, balance

TARGET = "bank_whole"
SPREAD = 1000
CONFIG = f"""
shard-mode = "pessimistic"
[filter]
rules = ["*.*"]
[[sink.dispatchers]]
matcher = ["bank.accounts_*"]
target-schema = "{TARGET}"
target-table = "accounts"
partition = "index-value"
"""


def whole(nodes: int) -> int:
    """All the money that there is."""
    return nodes * ACCOUNTS * START


def money(nodes: Sequence[Database]) -> list[Account]:
    """All accounts, on whichever node, by id."""
    found: list[tuple[object, ...]] = []
    for n, node in enumerate(nodes):
        found += node.execute(f"SELECT id, balance FROM bank.accounts_{n}")
    return sorted((int(str(id)), int(str(balance))) for id, balance in found)


def make_target(target: Database, accounts: Sequence[Account]) -> None:
    """One table for the accounts of all nodes, as they are before anything is delivered."""
    rows = ", ".join(map(str, accounts))
    target.execute(
        f"CREATE DATABASE {TARGET}",
        f"CREATE TABLE {TARGET}.accounts (id INT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)",
        f"INSERT INTO {TARGET}.accounts VALUES {rows}",
    )


class Reader:
    """Adds up the target's money, again and again; ``sums``: how often it was how much."""

    def __init__(self, target: Database) -> None:
        self.sums: dict[int, int] = defaultdict(int)
        self._target = target
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        with self._target.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(0.01):
                cursor.execute(f"SELECT SUM(balance) FROM {TARGET}.accounts")
                self.sums[int(cursor.fetchone()[0])] += 1


@dataclass
class Verdict:
    """Of a topic that was replayed, commit ts by commit ts.

    ``torn``: behind how many of them money was missing. ``misplaced``: rows that were not what the
    row before had left: lost, repeated or in another order. ``distributed``: of several nodes.
    """

    transactions: int = 0
    distributed: int = 0
    torn: int = 0
    misplaced: int = 0
    balances: dict[int, int] = field(default_factory=dict)


def replay(cluster: DistributedDatabase, messages: Iterable[Message]) -> Verdict:
    """Judge all messages of a topic, of whatever partition."""
    nodes = range(cluster.banks)
    ids = [cluster.account(n, i) for n in nodes for i in range(ACCOUNTS)]
    found = Verdict(balances=dict.fromkeys(ids, START))
    transactions: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for message in messages:
        if message.body["type"] == "TIDB_WATERMARK":
            continue
        assert message.body["type"] == "UPDATE"
        ts = message.body["_tidb"]["commitTs"]
        for new, old in zip(message.body["data"], message.body["old"], strict=True):
            transactions[ts].append((int(new["id"]), int(old["balance"]), int(new["balance"])))
    for ts in sorted(transactions):
        moved = transactions[ts]
        found.transactions += 1
        found.distributed += len({id // cluster.spread for id, _, _ in moved}) > 1
        for id, before, after in moved:
            found.misplaced += found.balances[id] != before
            found.balances[id] = after
        found.torn += sum(found.balances.values()) != whole(len(nodes))
    return found
