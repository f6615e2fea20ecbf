"""Rows of which a changefeed's filter lets some pass, and a writer that knows which.

Every change is named by its kind, ``id`` and ``n``, which no other change has; so what must come is
a count of names, made by the same rule as the filter's, in Python.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.servers.database import Connection
from tests.soak.bank import GONE
from tests.soak.ddl_load import DELETE, INSERT, UPDATE, Change
from tests.soak.load_thread import LoadThread

SCHEMA, TABLE = "picks", "picks.p"
FILTER = {
    "rules": [f"{SCHEMA}.*", f"!{SCHEMA}.never*"],
    "event-filters": [
        {
            "matcher": [TABLE],
            "ignore-insert-value-expr": "k % 3 = 0 OR note LIKE 'no%'",
            "ignore-update-new-value-expr": "k % 3 = 0 OR note LIKE 'no%'",
            "ignore-delete-value-expr": "k % 3 = 0 OR note LIKE 'no%'",
        }
    ],
}
_TABLES = (
    f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4",
    f"CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, k INT NOT NULL,"
    " note VARCHAR(20) NOT NULL, v DOUBLE)",
    f"CREATE TABLE {SCHEMA}.never (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)",
)
_NOTES = ("yes", "no", "not", "maybe", "")
_KEPT = 300
_AWAY_S = 120.0


def make_tables(connect: Callable[[], Connection]) -> None:
    """Make the tables, empty."""
    with connect() as connection, connection.cursor() as cursor:
        for statement in _TABLES:
            cursor.execute(statement)


class Picks(LoadThread):
    """One connection that changes rows about ``rate`` times a second, until ``stop``.

    ``made``: changes that pass the filter; ``hidden``: how many do not.
    """

    def __init__(self, connect: Callable[[], Connection], rate: float, seed: int) -> None:
        super().__init__("picks")
        self.made: Counter[Change] = Counter()
        self.hidden = 0
        self._connect = connect
        self._rate = rate
        self._random = random.Random(f"picks {seed}")
        self._rows: dict[int, tuple[int, bool]] = {}
        self._next = 0
        self._cursor: Any = None

    def _run(self) -> None:
        self._cursor = self._connect().cursor()
        began, done = time.monotonic(), 0
        while not self._stopping.is_set():
            self._change()
            done += 1
            self._keep_pace(began, done / self._rate)

    def _change(self) -> None:
        self._next += 1
        n = self._next
        dice = self._random.random()
        if dice < 0.5 or len(self._rows) < 10:
            k, note = self._random.randrange(100), self._random.choice(_NOTES)
            passes = k % 3 != 0 and not note.startswith("no")
            statement = f"INSERT INTO {TABLE} VALUES ({n}, {n}, {k}, '{note}', {n} / 7)"
            if self._done(statement, f"id = {n}", present=True):
                self._rows[n] = (n, passes)
                self._note(INSERT, n, n, passes)
        elif dice < 0.75 and len(self._rows) < _KEPT:
            key = self._random.choice(list(self._rows))
            passes = self._rows[key][1]
            statement = f"UPDATE {TABLE} SET n = {n}, v = -{n} WHERE id = {key}"
            if self._done(statement, f"id = {key} AND n = {n}", present=True):
                self._rows[key] = (n, passes)
                self._note(UPDATE, key, n, passes)
        else:
            key = self._random.choice(list(self._rows))
            last, passes = self._rows[key]
            if self._done(f"DELETE FROM {TABLE} WHERE id = {key}", f"id = {key}", present=False):
                del self._rows[key]
                self._note(DELETE, key, last, passes)
        if n % 5 == 0:
            self._done(f"INSERT INTO {SCHEMA}.never VALUES ({n}, {n})", "1 = 0", present=True)

    def _note(self, kind: str, key: int, n: int, passes: bool) -> None:
        if passes:
            self.made[kind, key, n] += 1
        else:
            self.hidden += 1

    def _done(self, statement: str, where: str, *, present: bool) -> bool:
        """Run a statement; of a server that was killed, ask whether it has it."""
        try:
            self._cursor.execute(statement)
            return True
        except GONE:
            deadline = time.monotonic() + _AWAY_S
            while True:
                try:
                    self._cursor = self._connect().cursor()
                    self._cursor.execute(f"SELECT COUNT(*) FROM {TABLE} WHERE {where}")
                    return bool(self._cursor.fetchone()[0]) == present
                except GONE:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
