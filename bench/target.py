"""A database that follows another one: its rows are looked at by plain SQL, and judged at the end.

Nothing here knows Tidegate. It works for the tables of :mod:`bench.workload`.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable
from typing import Any

from bench.applied import applied
from bench.fold import Row, Verdict, compare, selected
from bench.looker import AWAY, Looker
from bench.workload import Committed, Connect, Workload, first_order
from bench.workload_tables import Table
from tests.servers.database import Database

# Orders that do not come although later ones did: they were inserted and deleted between two looks.
_GIVE_UP_S = 2.0
_SAME_POLL_S = 0.5


class Watcher(Looker):
    """Looks every ``every_s`` seconds which new orders the target shows, until ``close``.

    ``times`` and ``lags``: for each order (one of its lines; they are never updated) the Unix time
    at which it was first seen, and how long before that the client sent its statement, both in
    seconds. A lag is too long by up to one look, never too short. A server that is away is
    connected to again.
    """

    def __init__(self, connect: Connect, load: Workload, every_s: float = 0.02) -> None:
        self.times = array("d")
        self.lags = array("d")
        bases = [first_order(w) for w in range(1, load.workers + 1)]
        self._low = [base - 1 for base in bases]
        self._ends = [first_order(w) for w in range(2, load.workers + 2)]
        self._moved = [time.monotonic()] * len(bases)
        self._seen: set[int] = set()
        self._table = f"{load.schema}.order_lines"
        super().__init__(connect, every_s)

    @property
    def newest(self) -> float:
        """Unix time at which the newest order seen was sent; 0 before the first."""
        return self.times[-1] - self.lags[-1] if self.lags else 0.0

    def look(self, cursor: Any) -> None:
        """Take what orders there are that were not seen before."""
        cursor.execute(self._statement())
        rows = cursor.fetchall()
        self._take(rows, time.time())

    def _statement(self) -> str:
        return " UNION ALL ".join(
            f"(SELECT {n}, order_id, at_us FROM {self._table}"
            f" WHERE order_id > {low} AND order_id < {end} AND line = 0)"
            for n, (low, end) in enumerate(zip(self._low, self._ends, strict=True))
        )

    def _take(self, rows: Iterable[tuple[int, int, int]], now: float) -> None:
        above: dict[int, list[int]] = {}
        for worker, order, at_us in rows:
            above.setdefault(worker, []).append(order)
            if order not in self._seen:
                self._seen.add(order)
                self.times.append(now)
                self.lags.append(now - at_us / 1e6)
        for worker, orders in above.items():
            low, orders = self._low[worker], sorted(orders)
            if orders[0] > low + 1 and time.monotonic() - self._moved[worker] > _GIVE_UP_S:
                low = orders[0] - 1
            for order in orders:
                if order != low + 1:
                    break
                self._seen.discard(order)
                low = order
            if low != self._low[worker]:
                self._low[worker], self._moved[worker] = low, time.monotonic()


def wait_same(
    upstream: Connect, target: Connect, load: Workload, timeout_s: float
) -> tuple[bool, float]:
    """Wait until counts and newest changes of all tables are the same on both (quiet) sides.

    Returns whether they are, and the Unix time at which it was seen. This only says when to judge.
    """
    wanted = _outline(upstream, load)
    deadline = time.monotonic() + timeout_s
    while (found := _outline(target, load)) != wanted and time.monotonic() < deadline:
        time.sleep(_SAME_POLL_S)
    return found == wanted, time.time()


def _outline(connect: Connect, load: Workload) -> list[tuple[int, ...]]:
    found = []
    try:
        with connect() as connection, connection.cursor() as cursor:
            for table in load.tables:
                cursor.execute(
                    "SELECT COUNT(*), SUM(ver), BIT_XOR(ver), SUM(at_us)"
                    f" FROM {load.schema}.{table.name}"
                )
                found.append(tuple(int(v or 0) for v in cursor.fetchone()))
    except AWAY:
        return []
    return found


def judge_target(
    upstream: Connect, target: Database, committed: Committed, load: Workload
) -> Verdict:
    """Every value of every table on both sides, and every change in the target's own binlog.

    ``disordered`` stays 0: rows out of order do not apply, or leave other values behind.
    """
    changes = applied(target, load.schema, load.tables)
    results = []
    for table in load.tables:
        rows = {tuple(row[c] for c in table.key): row for row in _rows(target.connect, load, table)}
        results.append(compare(table, _rows(upstream, load, table), rows))
    return Verdict(
        results,
        lost=changes.seen.missing(committed),
        duplicated=len(changes.duplicated),
        disordered=0,
        uncommitted=changes.seen.uncommitted(committed),
        examples=changes.duplicated[:5],
    )


def _rows(connect: Connect, load: Workload, table: Table) -> Iterable[Row]:
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00', NAMES utf8mb4")
        yield from selected(cursor, load.schema, table)
