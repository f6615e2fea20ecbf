"""Changes of the tables of a shard group, on every server, each with keys of its own."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pymysql

from tests.seeds import seed
from tests.servers import Database

# 1213 and 1205: a schema change was first.
_AGAIN = (1213, 1205)


class ShardLoad:
    """Inserts, updates and deletes of ``(id, v)`` while the context lasts.

    ``inserted`` are the keys, each inserted once; an update adds 1 to ``v``. ``changed``
    counts the rows by what happened to them. ``first``: the least key.
    """

    def __init__(
        self,
        nodes: Mapping[str, Database],
        schema: str,
        tables: Sequence[str],
        pause_s: float = 0.003,
        first: int = 0,
    ) -> None:
        self.inserted: set[int] = set()
        self.changed: Counter[str] = Counter()
        self._schema, self._tables, self._pause_s = schema, tables, pause_s
        self._stop, self._counting = threading.Event(), threading.Lock()
        self._turns = [threading.Lock() for _ in nodes]
        self._threads = [
            threading.Thread(target=self._write, args=(node, first + number * 1_000_000, turn))
            for number, (node, turn) in enumerate(zip(nodes.values(), self._turns, strict=True))
        ]

    def __enter__(self) -> ShardLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Change nothing while this context lasts."""
        with ExitStack() as stack:
            for turn in self._turns:
                stack.enter_context(turn)
            yield

    def _write(self, node: Database, first: int, turn: threading.Lock) -> None:
        rng, key = random.Random(f"{seed()} {first}"), first
        with node.connect() as connection, connection.cursor() as cursor:
            while not self._stop.wait(self._pause_s):
                key += 1
                table = f"{self._schema}.{rng.choice(self._tables)}"
                older = rng.randrange(first, key + 1)
                with turn:
                    if self._done(
                        cursor, f"INSERT INTO {table} (id, v) VALUES ({key}, 0)", "INSERT"
                    ):
                        self.inserted.add(key)
                    self._done(cursor, f"UPDATE {table} SET v = v + 1 WHERE id = {older}", "UPDATE")
                    if key % 7 == 0:
                        self._done(cursor, f"DELETE FROM {table} WHERE id = {older}", "DELETE")

    def _done(self, cursor: Any, statement: str, what: str) -> bool:
        try:
            rows = cursor.execute(statement)
        except pymysql.err.MySQLError as error:
            if error.args[0] not in _AGAIN:
                raise
            return False
        with self._counting:
            self.changed[what] += rows
        return True
