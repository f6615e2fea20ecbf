"""Random rows and schema changes of all kinds, by writers that know each change they made.

Every table begins with ``id``, which no other row ever has, and ``n``, which no other change has;
so ``(kind, id, n)`` names a change of a row wherever it is seen. All else of a table changes.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pymysql

from tests.servers.database import Connection

SCHEMA = "shape"
INSERT, UPDATE, DELETE = "INSERT", "UPDATE", "DELETE"
Change = tuple[str, int, int]
"""Kind, ``id`` and the new ``n`` (DELETE: the last)."""

_HEAD = "id BIGINT NOT NULL, n BIGINT NOT NULL"
_TYPES = (
    "INT", "BIGINT UNSIGNED", "VARCHAR(40)", "VARCHAR(90) CHARACTER SET latin1", "DECIMAL(10,2)",
    "DATETIME(3)", "TEXT", "DOUBLE", "ENUM('p','q','r')", "VARBINARY(20)", "SMALLINT", "YEAR",
)  # fmt: skip
_VALUES = {
    "enum": ("'p'", "'q'", "'r'"),
    "datetime": ("'2026-01-02 03:04:05.678'", "'1999-12-31 23:59:59.999'"),
    "year": ("1999", "2026"),
    "varbinary": ("x'00ff27'", "''", "'abc'"),
    "varchar": ("'ä'", "'it''s'", "'plain'", "''"),
    "text": ("REPEAT('long ', 50)", "'short'"),
}
_FK = "FOREIGN KEY (r) REFERENCES"
_SPREAD = 10**9
_LARGEST_BATCH = 12
_LOOK_S = 0.5
# Refused by the server, as the model does not know all: nothing has happened then.
_REFUSALS = (pymysql.err.OperationalError, pymysql.err.ProgrammingError, pymysql.err.InternalError)


class Writer:
    """One connection that owns some tables; ``number`` keeps its ids apart from others'."""

    def __init__(self, connect: Callable[..., Connection], number: int, seed: int) -> None:
        self.made: Counter[Change] = Counter()
        self.kinds: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.newest = 0.0
        self._connect = connect
        self._number = number
        self._random = random.Random(f"{seed} {number}")
        self._next = number * _SPREAD
        self._rows: dict[str, dict[int, int]] = {}
        self._columns: dict[str, list[tuple[str, str]]] = {}
        self._bounds: dict[str, list[int]] = {}
        self._cursor: Any = None
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._guarded, name=f"writer-{number}", daemon=True)

    def open(self, tables: int) -> None:
        """Make the tables, each with some rows."""
        self._connection = self._connect(database=SCHEMA)
        self._cursor = self._connection.cursor()
        w = self._number
        for i in range(tables - 4):
            self._create(f"t{w}_{i}")
        self._create(f"nokey{w}", key="")
        self._partitioned(f"parts{w}")
        self._create(f"parent{w}")
        self._do(
            f"CREATE TABLE child{w} ({_HEAD}, r BIGINT, PRIMARY KEY (id),"
            f" CONSTRAINT fk{w} {_FK} parent{w} (id))"
        )
        self._look(f"child{w}")
        for table in list(self._rows):
            self._insert(table)

    def start(self, pause_s: float, go: threading.Event) -> None:
        """Go on until ``stop``, with a pause behind each statement, and while ``go`` is set."""
        self._pause_s, self._go = pause_s, go
        self._thread.start()

    def stop(self) -> None:
        """End after the statement under way; raises what went wrong."""
        self._stopping.set()
        self._thread.join()
        self._connection.close()
        self.check()

    def check(self) -> None:
        """Raise what has gone wrong, if anything has."""
        if self._failed:
            raise self._failed[0]

    def step(self) -> None:
        """One statement, or a few that belong together."""
        table = self._random.choice(list(self._rows))
        dice = self._random.random()
        if dice < 0.45:
            self._insert(table)
        elif dice < 0.70:
            self._update(table)
        elif dice < 0.78:
            self._delete(table)
        else:
            self._change(table)
        self.newest = time.time()

    def _guarded(self) -> None:
        try:
            while not self._stopping.wait(self._pause_s):
                if self._go.wait(_LOOK_S):
                    self.step()
        except BaseException as error:
            self._failed.append(error)

    # --- rows ---------------------------------------------------------------------------------

    def _fresh(self) -> int:
        self._next += 1
        return self._next

    def _value(self, table: str, name: str, kind: str) -> str:
        if name == "b":
            return str(self._random.randrange(0, self._bounds[table][-1]))
        if name == "r":
            parents = self._rows[f"parent{self._number}"]
            return str(self._random.choice(list(parents))) if parents else "NULL"
        known = _VALUES.get(kind)
        return self._random.choice(known) if known else str(self._random.randrange(1000))

    def _insert(self, table: str) -> None:
        given = [(n, k) for n, k in self._columns[table] if n not in ("id", "n")]
        given = [g for g in given if g[0] in ("b", "r") or self._random.random() < 0.8]
        rows, made = [], []
        if table.startswith("parts") and self._bounds[table][0] > 0:
            low = self._bounds[table][0]
        else:
            low = 0
        for _ in range(self._random.randint(1, _LARGEST_BATCH)):
            key, n = self._fresh(), self._fresh()
            values = [self._value(table, *g) for g in given]
            if low and "b" in dict(given):
                at = [g[0] for g in given].index("b")
                values[at] = str(self._random.randrange(low, self._bounds[table][-1]))
            rows.append(f"({', '.join([str(key), str(n), *values])})")
            made.append((key, n))
        names = ", ".join(["id", "n", *(g[0] for g in given)])
        self._do(f"INSERT INTO {table} ({names}) VALUES {', '.join(rows)}")
        for key, n in made:
            self._rows[table][key] = n
            self.made[INSERT, key, n] += 1

    def _some(self, table: str) -> list[int]:
        rows = list(self._rows[table])
        return self._random.sample(rows, min(len(rows), self._random.randint(1, _LARGEST_BATCH)))

    def _update(self, table: str) -> None:
        keys = self._some(table)
        if not keys:
            return
        others = [c for c in self._columns[table] if c[0] not in ("id", "n", "b", "r")]
        n = self._fresh()
        sets = [f"n = {n}"]
        if others:
            name, kind = self._random.choice(others)
            sets.append(f"{name} = {self._value(table, name, kind)}")
        self._do(f"UPDATE {table} SET {', '.join(sets)} WHERE id IN ({_listed(keys)})")
        for key in keys:
            self._rows[table][key] = n
            self.made[UPDATE, key, n] += 1

    def _delete(self, table: str) -> None:
        if table.startswith("parent"):
            return
        keys = self._some(table)
        if keys:
            self._do(f"DELETE FROM {table} WHERE id IN ({_listed(keys)})")
            for key in keys:
                self.made[DELETE, key, self._rows[table].pop(key)] += 1

    # --- schema -------------------------------------------------------------------------------

    def _change(self, table: str) -> None:
        kind = self._random.choice(_KINDS)
        try:
            done = getattr(self, f"_{kind}")(table)
        except _REFUSALS as error:
            self.refused[f"{kind}: {error.args[0]}"] += 1
            self._look(table)
            return
        if done is not False:
            self.kinds[kind] += 1

    def _create(self, table: str, key: str = ", PRIMARY KEY (id)") -> None:
        more = "".join(f", c{self._fresh()} {t}" for t in self._random.sample(_TYPES, 2))
        self._do(f"CREATE TABLE {table} ({_HEAD}{more}{key})")
        self._look(table)

    def _partitioned(self, table: str) -> None:
        parts = ", ".join(f"PARTITION p{b} VALUES LESS THAN ({b})" for b in (10, 20, 30))
        self._do(
            f"CREATE TABLE {table} ({_HEAD}, b INT NOT NULL, v VARCHAR(20), PRIMARY KEY (id, b))"
            f" PARTITION BY RANGE (b) ({parts})"
        )
        self._bounds[table] = [0, 10, 20, 30]
        self._look(table)

    def _free(self, table: str) -> list[tuple[str, str]]:
        """Columns that may be changed and dropped."""
        return [c for c in self._columns[table] if c[0] not in ("id", "n", "b", "r")]

    def _plain(self) -> list[str]:
        return [t for t in self._rows if t.startswith("t")]

    def _add_column(self, table: str) -> None:
        kind = self._random.choice(_TYPES)
        place = self._random.choice(["", " AFTER n"])
        null = self._random.choice(["", " NULL"])
        if kind in ("INT", "SMALLINT", "DOUBLE", "DECIMAL(10,2)", "BIGINT UNSIGNED"):
            null = self._random.choice([" NOT NULL DEFAULT 7", " DEFAULT 3", ""])
        self._do(f"ALTER TABLE {table} ADD COLUMN c{self._fresh()} {kind}{null}{place}")
        self._look(table)

    def _drop_column(self, table: str) -> bool | None:
        if not (free := self._free(table)):
            return False
        self._do(f"ALTER TABLE {table} DROP COLUMN {self._random.choice(free)[0]}")
        self._look(table)
        return None

    def _rename_column(self, table: str) -> bool | None:
        if not (free := self._free(table)):
            return False
        old = self._random.choice(free)[0]
        self._do(f"ALTER TABLE {table} RENAME COLUMN {old} TO c{self._fresh()}")
        self._look(table)
        return None

    def _swap_columns(self, table: str) -> bool | None:
        if len(free := self._free(table)) < 2:
            return False
        (a, _), (b, _) = self._random.sample(free, 2)
        self._do(f"ALTER TABLE {table} RENAME COLUMN {a} TO {b}, RENAME COLUMN {b} TO {a}")
        self._look(table)
        return None

    def _widen(self, table: str) -> bool | None:
        wider = {"int": "BIGINT", "smallint": "INT", "varchar": "VARCHAR(300)", "text": "LONGTEXT"}
        if not (free := [c for c in self._free(table) if c[1] in wider]):
            return False
        name, kind = self._random.choice(free)
        place = self._random.choice(["", " AFTER id", " AFTER n"]).replace("AFTER id", "AFTER n")
        self._do(f"ALTER TABLE {table} MODIFY {name} {wider[kind]}{place}")
        self._look(table)
        return None

    def _several(self, table: str) -> None:
        a, b = self._fresh(), self._fresh()
        self._do(
            f"ALTER TABLE {table} ADD COLUMN c{a} INT DEFAULT 1,"
            f" ADD COLUMN c{b} VARCHAR(9) AFTER n, ADD KEY k{a} (c{a}), COMMENT 'of {a}'"
        )
        self._look(table)

    def _index(self, table: str) -> bool | None:
        free = [c for c in self._free(table) if c[1] not in ("text", "longtext", "varchar")]
        if not free:
            return False
        name = f"i{self._fresh()}"
        self._do(f"CREATE INDEX {name} ON {table} ({self._random.choice(free)[0]}, n)")
        if self._random.random() < 0.5:
            self._do(f"ALTER TABLE {table} RENAME INDEX {name} TO {name}x")
        else:
            self._do(f"DROP INDEX {name} ON {table}")
        return None

    def _charset(self, table: str) -> None:
        charset = self._random.choice(["utf8mb4", "utf8mb4 COLLATE utf8mb4_bin"])
        self._do(f"ALTER TABLE {table} CONVERT TO CHARACTER SET {charset}")
        self._look(table)

    def _truncate(self, table: str) -> bool | None:
        if table.startswith("parent"):
            return False
        self._do(f"TRUNCATE TABLE {table}")
        self._look(table)
        return None

    def _rename(self, table: str) -> bool | None:
        if table not in self._plain():
            return False
        new = f"t{self._number}_{self._fresh()}"
        self._do(f"RENAME TABLE {table} TO {new}")
        self._forget(table)
        self._look(new)
        return None

    def _swap(self, table: str) -> bool | None:
        others = [t for t in self._plain() if t != table]
        if table not in self._plain() or not others:
            return False
        other = self._random.choice(others)
        self._do(f"RENAME TABLE {table} TO s{self._number}, {other} TO {table},"
                 f" s{self._number} TO {other}")  # fmt: skip
        self._look(table)
        self._look(other)
        return None

    def _recreate(self, table: str) -> bool | None:
        if table not in self._plain():
            return False
        self._do(f"DROP TABLE {table}")
        self._forget(table)
        self._create(table)
        self._insert(table)
        return None

    def _like(self, table: str) -> bool | None:
        plain = self._plain()
        if table not in plain or len(plain) < 2:
            return False
        new = f"t{self._number}_{self._fresh()}"
        self._do(f"CREATE TABLE {new} LIKE {table}")
        self._look(new)
        self._insert(new)
        gone = self._random.choice([t for t in plain if t != table])
        self._do(f"DROP TABLE IF EXISTS {gone}")
        self._forget(gone)
        return None

    def _partition(self, table: str) -> None:
        table = f"parts{self._number}"
        bounds = self._bounds[table]
        if len(bounds) > 3 and self._random.random() < 0.5:
            gone = bounds[1]
            word = self._random.choice(["DROP", "TRUNCATE"])
            self._do(f"ALTER TABLE {table} {word} PARTITION p{gone}")
            if word == "DROP":
                del bounds[0]
        else:
            new = bounds[-1] + 10
            self._do(
                f"ALTER TABLE {table} ADD PARTITION (PARTITION p{new} VALUES LESS THAN ({new}))"
            )
            bounds.append(new)
        self._look(table)

    def _foreign_key(self, table: str) -> None:
        w = self._number
        self._do(f"ALTER TABLE child{w} DROP FOREIGN KEY fk{w}")
        self._insert(f"parent{w}")
        self._insert(f"child{w}")
        self._do(f"ALTER TABLE child{w} ADD CONSTRAINT fk{w} {_FK} parent{w} (id)")

    def _database(self, table: str) -> None:
        name = f"{SCHEMA}_x{self._number}"
        self._do(f"CREATE DATABASE {name} CHARACTER SET latin1")
        self._do(f"CREATE TABLE {name}.t ({_HEAD}, v VARCHAR(9), PRIMARY KEY (id))")
        key, n = self._fresh(), self._fresh()
        self._do(f"INSERT INTO {name}.t VALUES ({key}, {n}, 'x')")
        self.made[INSERT, key, n] += 1
        if self._random.random() < 0.5:
            self._do(f"ALTER DATABASE {name} CHARACTER SET utf8mb4")
        self._do(f"DROP DATABASE {name}")

    # --- what the server has ------------------------------------------------------------------

    def _do(self, statement: str) -> None:
        self._cursor.execute(statement)

    def _forget(self, table: str) -> None:
        del self._rows[table]
        del self._columns[table]

    def _look(self, table: str) -> None:
        """Take the columns and rows as the server now has them."""
        self._do(
            "SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS WHERE"
            f" TABLE_SCHEMA = '{SCHEMA}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
        )
        self._columns[table] = [(str(n), str(k)) for n, k in self._cursor.fetchall()]
        self._do(f"SELECT id, n FROM {table}")
        self._rows[table] = dict(self._cursor.fetchall())


_KINDS = (
    *("add_column",) * 3, *("drop_column",) * 2, *("rename_column",) * 2, "swap_columns", "widen",
    "several", "index", "charset", "truncate", "rename", *("swap",) * 2, "recreate", "like",
    *("partition",) * 2, "foreign_key", "database",
)  # fmt: skip


def _listed(keys: list[int]) -> str:
    return ", ".join(map(str, keys))
