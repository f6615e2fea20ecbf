"""Schema changes at a steady pace, as an ETL and a deployment make them, with rows between them.

Tables that stay get and lose a column; others are made, filled and dropped; each round also has one
XA transaction. All of it is equal at the target in the end, or something was lost.
"""

from __future__ import annotations

import time
from typing import Any

from bench.workload import Connect
from tests.soak.load_thread import LoadThread

SCHEMA = "churn"
_TABLES = 8
_COLUMNS = 24


class Churn(LoadThread):
    """About ``per_min`` schema changes a minute on a connection of its own."""

    def __init__(self, connect: Connect, per_min: float) -> None:
        super().__init__("churn")
        self.changes = 0
        self.rows = 0
        self._connect = connect
        self._every_s = 60 / per_min

    def _run(self) -> None:
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {SCHEMA}")
            began, at = time.monotonic(), 0
            while not self._stopping.is_set():
                self._round(cursor, at)
                at += 1
                self._keep_pace(began, self.changes * self._every_s)

    def _round(self, cursor: Any, at: int) -> None:
        """Four schema changes: a column comes and an older one goes, a table comes and goes."""
        name = f"kept_{at % _TABLES}"
        self._change(cursor, f"ALTER TABLE {name} ADD COLUMN added_{at} INT DEFAULT 7")
        self._write(cursor, name, at * 4)
        self._change(cursor, f"CREATE TABLE staged_{at} LIKE plain")
        self._write(cursor, f"staged_{at}", at * 4 + 1)
        self._change(cursor, f"ALTER TABLE {name} DROP COLUMN added_{at}")
        self._write(cursor, name, at * 4 + 2)
        self._change(cursor, f"DROP TABLE staged_{at}")
        xid = f"'churn-{at}'"
        cursor.execute(f"XA START {xid}")
        self._write(cursor, name, at * 4 + 3)
        for word in ("END", "PREPARE", "COMMIT"):
            cursor.execute(f"XA {word} {xid}")

    def _change(self, cursor: Any, statement: str) -> None:
        cursor.execute(statement)
        self.changes += 1

    def _write(self, cursor: Any, table: str, key: int) -> None:
        cursor.execute(f"INSERT INTO {table} (id, v) VALUES ({key}, 'row {key}')")
        cursor.execute(f"DELETE FROM {table} WHERE id < {key - 400}")
        self.rows += 1


def make_tables(connect: Connect) -> None:
    """The tables that stay, and the model of those that come and go."""
    more = "".join(f", c{n} VARCHAR(60) DEFAULT 'column {n}'" for n in range(_COLUMNS))
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {SCHEMA}")
        for name in (*(f"kept_{n}" for n in range(_TABLES)), "plain"):
            cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(40){more})")


def different(upstream: Connect, target: Connect) -> list[str]:
    """Tables of the schema that are not the same on both sides, by what the servers say."""
    ours, theirs = _tables(upstream), _tables(target)
    return sorted(n for n in ours.keys() | theirs.keys() if ours.get(n) != theirs.get(n))


def _tables(connect: Connect) -> dict[str, Any]:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW TABLES FROM {SCHEMA}")
        found = {}
        for (name,) in cursor.fetchall():
            cursor.execute(f"SELECT * FROM {SCHEMA}.{name} ORDER BY id")
            found[str(name)] = ([c[0] for c in cursor.description], cursor.fetchall())
        return found
