"""A writer of one table that never stops, while its schema changes under it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pymysql

from tests.servers import Database

# 1146: in a swap of two steps the name is gone for a moment; 1213 and 1205: the tool was first.
_AGAIN = (1146, 1213, 1205)


class Writer:
    """Inserts, updates and deletes rows of ``orders``; ``rows`` is how many statements it did."""

    def __init__(self, database: Database, schema: str, seed: int) -> None:
        self._database, self._schema, self._random = database, schema, Random(seed)
        self._stop = threading.Event()
        self._turn = threading.Lock()
        self._error: BaseException | None = None
        self.rows = 0

    def _statement(self, number: int) -> str:
        kind = self._random.random()
        some = self._random.randrange(1, 2 * number + 10)
        if kind < 0.5:
            return f"INSERT INTO orders (note) VALUES ('row {number}'), ('and one')"
        if kind < 0.85:
            note, most = f"changed by {number}", some + 3
            return f"UPDATE orders SET note = '{note}' WHERE id BETWEEN {some} AND {most}"
        return f"DELETE FROM orders WHERE id = {some}"

    def _run(self) -> None:
        try:
            with self._database.connect(database=self._schema) as connection:
                connection.autocommit(True)
                with connection.cursor() as cursor:
                    while not self._stop.wait(0.01):
                        with self._turn:
                            self._once(cursor)
        except BaseException as error:
            self._error = error

    def _once(self, cursor: Any) -> None:
        try:
            cursor.execute(self._statement(self.rows))
            self.rows += 1
        except pymysql.err.MySQLError as error:
            if error.args[0] not in _AGAIN:
                raise

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Write nothing while the context lasts."""
        with self._turn:
            yield

    @contextmanager
    def running(self) -> Iterator[Writer]:
        """Write while the context lasts."""
        thread = threading.Thread(target=self._run, name="writer")
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join()
        if self._error is not None:
            raise self._error
