"""Transfers between accounts, and a reader to whom no state of the target may look torn.

With ``transaction-atomicity=global`` every state that a reader of the target can see is a state
that the upstream had: money is neither made nor lost, no transfer is there in part. And since the
ledger is written in the same transactions, a position means one state: it must not show two.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymysql

from bench.looker import Looker
from cdc.base.position import Position
from tests.servers.database import Connection
from tests.soak.load_thread import LoadThread

Connect = Callable[[], Connection]

SCHEMA = "bank"
ACCOUNTS, EACH = 64, 1000
GONE = (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError)
_AWAY_S = 120.0
_KEPT = 200
_TABLES = (
    f"CREATE DATABASE {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
    f"CREATE TABLE {SCHEMA}.transfers (id BIGINT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL,"
    " amount BIGINT NOT NULL, at_us BIGINT NOT NULL)",
)


def make_tables(connect: Connect) -> None:
    """Make the tables, empty."""
    with connect() as connection, connection.cursor() as cursor:
        for statement in _TABLES:
            cursor.execute(statement)


class Bank(LoadThread):
    """One connection that moves money about ``rate`` times a second, until ``stop``."""

    def __init__(self, connect: Connect, rate: float, seed: int) -> None:
        super().__init__("bank")
        self.transfers = 0
        self._connect = connect
        self._rate = rate
        self._random = random.Random(seed)

    def start(self) -> None:
        """Open the accounts in one transaction, then transfer."""
        with self._connect() as connection, connection.cursor() as cursor:
            values = ",".join(f"({n}, {EACH})" for n in range(ACCOUNTS))
            cursor.execute(f"INSERT INTO {SCHEMA}.accounts VALUES {values}")
        super().start()

    def _run(self) -> None:
        cursor = self._open()
        began = time.monotonic()
        while not self._stopping.is_set():
            try:
                transfer(cursor, self.transfers + 1, self._random)
                self.transfers += 1
            except GONE:
                # Killed, perhaps behind the COMMIT: what the server has tells.
                cursor = self._reopened()
                cursor.execute("SELECT COALESCE(MAX(id), 0) FROM transfers")
                self.transfers = int(cursor.fetchone()[0])
            self._keep_pace(began, self.transfers / self._rate)

    def _open(self) -> Any:
        cursor = self._connect().cursor()
        cursor.execute(f"USE {SCHEMA}")
        return cursor

    def _reopened(self) -> Any:
        deadline = time.monotonic() + _AWAY_S
        while True:
            try:
                return self._open()
            except GONE:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def transfer(cursor: Any, number: int, chosen: random.Random) -> None:
    """One transaction: two accounts, a new transfer, an old one forgotten."""
    a, b = chosen.sample(range(ACCOUNTS), 2)
    amount = chosen.randrange(1, 50)
    cursor.execute("BEGIN")
    cursor.execute(f"UPDATE accounts SET balance = balance - {amount} WHERE id = {a}")
    cursor.execute(f"UPDATE accounts SET balance = balance + {amount} WHERE id = {b}")
    now = time.time_ns() // 1000
    cursor.execute(f"INSERT INTO transfers VALUES ({number}, {a}, {b}, {amount}, {now})")
    cursor.execute(f"DELETE FROM transfers WHERE id = {number - _KEPT}")
    cursor.execute("COMMIT")


@dataclass(frozen=True)
class State:
    """What one snapshot of the target shows; ``position`` is the ledger's, None before the first.

    ``first`` and ``last`` are the oldest and the newest transfer, ``count`` how many there are.
    """

    accounts: int = 0
    total: int = 0
    first: int = 0
    last: int = 0
    count: int = 0
    position: Position | None = None


class Checker:
    """Takes states in the order in which they were read; ``faults`` says what cannot have been."""

    def __init__(self) -> None:
        self.states = 0
        self.faults: list[str] = []
        self._before = State()

    def see(self, state: State) -> None:
        """Judge a state by itself, and against the one before."""
        self.states += 1
        before, self._before = self._before, state
        if state.accounts not in (0, ACCOUNTS):
            self._fault(f"{state.accounts} of {ACCOUNTS} accounts are open", state)
        if state.total != state.accounts * EACH:
            self._fault(f"the sum is {state.total}, not {state.accounts * EACH}", state)
        whole = state.last - state.first + 1 if state.last else 0
        if state.count != min(state.last, _KEPT) or state.count != whole:
            self._fault("transfers are missing, or old ones are still there", state)
        if state.last < before.last:
            self._fault(f"it went back: transfer {before.last} was there", state)
        if state.position is None or before.position is None:
            if before.position is not None:
                self._fault("the ledger has forgotten its position", state)
        elif state.position < before.position:
            self._fault(f"the ledger went back from {before.position}", state)
        elif state.position == before.position and state.last != before.last:
            self._fault(f"the same position showed transfer {before.last}", state)

    def _fault(self, what: str, state: State) -> None:
        self.faults.append(f"{what}: {state}")


_STATE = f"""SELECT
  (SELECT COUNT(*) FROM {SCHEMA}.accounts), (SELECT SUM(balance) FROM {SCHEMA}.accounts),
  (SELECT MIN(id) FROM {SCHEMA}.transfers), (SELECT MAX(id) FROM {SCHEMA}.transfers),
  (SELECT COUNT(*) FROM {SCHEMA}.transfers)"""
_LEDGER = "SELECT ts, `row` FROM tidegate.ledger WHERE changefeed = %s"
_NEWEST = f"SELECT at_us FROM {SCHEMA}.transfers ORDER BY id DESC LIMIT 1"


def read_state(cursor: Any, feed: str) -> tuple[State, float]:
    """One consistent snapshot; and the Unix time at which its newest transfer was made."""
    cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    cursor.execute(_STATE)
    numbers = [int(v or 0) for v in cursor.fetchone()]
    cursor.execute(_LEDGER, (feed,))
    found = [r for r in cursor.fetchall() if r[0] is not None]
    cursor.execute(_NEWEST)
    newest = cursor.fetchone()
    cursor.execute("COMMIT")
    position = Position(int(found[0][0]), int(found[0][1])) if found else None
    return State(*numbers, position), newest[0] / 1e6 if newest else 0.0


class Reader(Looker):
    """Reads the target every ``every_s`` seconds into ``checker``, until ``close``."""

    def __init__(self, connect: Connect, feed: str, every_s: float = 0.02) -> None:
        self.checker = Checker()
        self.newest = 0.0
        self._feed = feed
        super().__init__(connect, every_s)

    def look(self, cursor: Any) -> None:
        """Read one state."""
        state, self.newest = read_state(cursor, self._feed)
        self.checker.see(state)
