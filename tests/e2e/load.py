"""Numbered rows, committed one small transaction after another until told to stop."""

from __future__ import annotations

import threading
from types import TracebackType

from tests.e2e.conftest import Way
from tests.waiting import until

_ROWS = 10
_PAUSE_S = 0.01


class Load:
    """Inserts rows 0, 1, 2 … into table ``t`` of a way while the context lasts."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._error: BaseException | None = None
        self.committed = 0

    def __enter__(self) -> Load:
        self._way.execute("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, v VARCHAR(1000))")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def more(self, rows: int = 200) -> None:
        """Wait until so many more are committed."""
        wanted = self.committed + rows
        until(lambda: self.committed >= wanted or self._error, f"{wanted} rows are committed")

    def _run(self) -> None:
        database, schema = self._way.database, self._way.schema
        try:
            with database.connect(database=schema) as connection, connection.cursor() as cursor:
                while not self._stop.wait(_PAUSE_S):
                    ids = range(self.committed, self.committed + _ROWS)
                    values = ",".join(f"({i}, REPEAT('x', {i % 100}))" for i in ids)
                    cursor.execute(f"INSERT INTO t VALUES {values}")
                    connection.commit()
                    self.committed += _ROWS
        except BaseException as error:
            self._error = error
