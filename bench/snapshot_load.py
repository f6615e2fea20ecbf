"""Five tables with rows that are there already, and changes of them that never end.

One has no key, one is never touched; in the others rows are updated and deleted, and move to other
keys.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.servers import Database

SCHEMA = "shop"
# Of each table: its form, the value of row i, and its share of all rows.
TABLES: dict[str, tuple[str, Callable[[int], str], float]] = {
    "accounts": (
        "(id BIGINT PRIMARY KEY, owner VARCHAR(60), balance DECIMAL(20,4))",
        lambda i: f"({i}, 'owner {i}', {i}.25)",
        0.4,
    ),
    "names": (
        "(name VARCHAR(40) COLLATE utf8mb4_general_ci PRIMARY KEY, n BIGINT)",
        lambda i: f"('name {i}', {i})",
        0.25,
    ),
    "visits": (
        "(day INT UNSIGNED, visitor INT, pages INT, PRIMARY KEY (day, visitor))",
        lambda i: f"({i % 365}, {i}, 1)",
        0.2,
    ),
    "words": ("(word VARCHAR(30), n INT)", lambda i: f"('word {i % 50}', {i % 7})", 0.1),
    "still": ("(id INT PRIMARY KEY, v TEXT)", lambda i: f"({i}, 'never touched')", 0.05),
}
_BATCH = 5000


def fill(upstream: Database, rows: int, first: int = 0) -> int:
    """Make the tables with so many rows in all; how many the largest has.

    ``first``: the number of the first row of each, which its key is made of.
    """
    upstream.execute(f"CREATE DATABASE {SCHEMA}")
    most = 0
    for table, (form, row, share) in TABLES.items():
        count = int(rows * share)
        most = max(most, count)
        upstream.execute(f"CREATE TABLE {table} {form}", database=SCHEMA)
        for low in range(0, count, _BATCH):
            some = ", ".join(row(first + i) for i in range(low, min(low + _BATCH, count)))
            upstream.execute(f"INSERT INTO {table} VALUES {some}", database=SCHEMA)
    return most


@dataclass
class Load:
    """Changes of all tables but one, all the time while the context lasts; it may begin again.

    ``most``: so many rows the largest table has had, the first of them with the number ``first``.
    ``kinds``: rows by what was done with them. ``wide``: so many an UPDATE of ``accounts`` changes.
    """

    upstream: Database
    most: int
    seed: int
    first: int = 0
    wide: int = 4
    made: int = 0
    failed: BaseException | None = None
    kinds: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        """How long it has gone on, or went on until it ended."""
        return (self._ended_s or time.monotonic()) - self._began_s

    def __enter__(self) -> Load:
        self._began_s, self._ended_s = time.monotonic(), 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._ended_s = time.monotonic()

    def _run(self) -> None:
        rng = random.Random(self.seed)
        try:
            with self.upstream.connect(database=SCHEMA) as one, one.cursor() as cursor:
                while not self._stop.wait(0.003):
                    for kind, sql in self._some(rng):
                        self.kinds[kind] += cursor.execute(sql)
                    one.commit()
                    self.made += 1
        except Exception as error:
            self.failed = error

    def _some(self, rng: random.Random) -> Iterator[tuple[str, str]]:
        i = self.first + rng.randrange(self.most)
        new = self.first + self.most + self.made
        yield "deleted", f"DELETE FROM accounts WHERE id = {i}"
        yield "inserted", f"INSERT INTO accounts (id, owner, balance) VALUES ({new}, 'new', 1)"
        last = i + self.wide - 1
        yield "updated", f"UPDATE accounts SET balance = {new} WHERE id BETWEEN {i} AND {last}"
        yield "moved", f"UPDATE IGNORE accounts SET id = {i + 1} WHERE id = {i + 2}"
        yield "moved", f"UPDATE IGNORE names SET name = UPPER(name) WHERE name = 'name {i}'"
        yield "deleted", f"DELETE FROM names WHERE name = 'NAME {i + 7}'"
        yield "updated", f"UPDATE visits SET pages = pages + 1 WHERE day = {i % 365} LIMIT 2"
        yield "deleted", f"DELETE FROM visits WHERE day = {(i + 1) % 365} LIMIT 1"
        # Where no key is, each change has its moment.
        if self.made % 100 == 0:
            yield "deleted", f"DELETE FROM words WHERE word = 'word {i % 50}' LIMIT 1"
            yield "inserted", f"INSERT INTO words VALUES ('word {i % 50}', {i % 7})"
