"""A mixed workload that knows what it committed.

Every row has a column ``ver``: a number that no other change of its table has. INSERT and UPDATE
give a row a new one, DELETE shows the last one; so each message of a change feed can be told from
every other, and what was committed is a list of number ranges. A number is
``worker << 40 | count``. Rows come out of a table of numbers on the server, so the generator itself
costs next to nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pymysql

from bench.workload_tables import NUMBERS, Table, tables

Connect = Callable[[], Any]

WORKER_SHIFT = 40
# Errors of a transaction that must be tried again: deadlock, lock wait.
_VICTIM = (1213, 1205)
# The server has gone, in the middle of an answer or before; and how long it is waited for.
_GONE = (2003, 2006, 2013, 1053, 1927)
_AWAY_S = 120.0
_MARKS = "load_numbers.marks"
_MADE_UP_S = 1.0
# Far enough apart that keys of two workers never meet.
_SPAN = 1_000_000_000
_MOVED = 500_000_000
_ORDERS, _LINES, _CUSTOMERS, _KEPT = 100, 3, 1000, 3000


def first_order(worker: int) -> int:
    """The first order of a worker (they count from 1); all its orders lie below the next one's."""
    return worker * _SPAN


class Committed:
    """Numbers of committed changes: by table and worker, ranges ``[first, end)`` in order."""

    def __init__(self) -> None:
        self.ranges: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self.rows = 0
        self.transactions = 0

    def add(self, worker: int, blocks: list[tuple[str, int, int]], rows: int) -> None:
        """One committed transaction: its blocks ``(table, first, end)``, its row changes."""
        for table, first, end in blocks:
            known = self.ranges[table, worker]
            if known and known[-1][1] == first:
                known[-1] = (known[-1][0], end)
            else:
                known.append((first, end))
        self.rows += rows
        self.transactions += 1

    def count(self, table: str) -> int:
        """How many rows of a table were inserted or updated."""
        return sum(e - f for (t, _), found in self.ranges.items() if t == table for f, e in found)


class Transaction:
    """Statements of one transaction, with the numbers that their rows take."""

    def __init__(self, worker: _Worker) -> None:
        self._worker = worker
        self.blocks: list[tuple[str, int, int]] = []
        self.rows = 0

    def numbers(self, table: str, count: int) -> int:
        """The first of ``count`` numbers for changed rows of ``table``."""
        taken = self._worker.taken
        first = taken[table]
        taken[table] += count
        self.blocks.append((table, first, first + count))
        return self._worker.number << WORKER_SHIFT | first

    def run(self, statement: str, rows: int) -> None:
        """Run a statement that must change exactly ``rows`` rows."""
        changed = self._worker.cursor.execute(statement)
        if changed != rows:
            raise RuntimeError(f"{changed} rows instead of {rows}: {statement[:200]}")
        self.rows += rows


Step = Callable[[Transaction], None]


class _Worker:
    """One connection and the keys that belong to it."""

    def __init__(self, load: Workload, number: int) -> None:
        self.load = load
        self.number = number
        self.taken: Counter[str] = Counter()
        self.base = first_order(number)
        self.orders = [self.base, self.base]
        self.tags = self.base
        self.types = self.base
        self.round = 0
        self.cursor: Any = None
        self.mark = 0
        self._connection: Any = None

    def run(self) -> None:
        """Rounds of transactions until the workload is stopped, at the wanted rate."""
        self._connect()
        try:
            self.commit(self._customers)
            rate, began, done = self.load.rate, time.monotonic(), 0
            while not self.load.stopping.is_set():
                if rate != self.load.rate:
                    rate, began, done = self.load.rate, time.monotonic(), 0
                for step in (self._buy, self._ship, self._rekey, self._types, self._expire):
                    done += self.commit(step)
                done += self._singles()
                self._roll_back()
                self.round += 1
                ahead = done / rate - (time.monotonic() - began)
                if ahead > 0:
                    self.load.stopping.wait(ahead)
                began -= min(0.0, ahead + _MADE_UP_S)
        finally:
            self._connection.close()

    def _connect(self) -> None:
        self._connection = self.load.connect()
        self.cursor = self._connection.cursor()
        self.cursor.execute(f"USE {self.load.schema}")
        self.cursor.execute("SET SESSION time_zone = '+00:00', sql_mode = ''")
        self.cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def commit(self, step: Step) -> int:
        """Commit one transaction; its row changes. A deadlock's victim is tried again.

        Of a server that was killed the mark says whether it has committed before.
        """
        orders, tags, types = list(self.orders), self.tags, self.types
        while True:
            # A step moves these on; one that did not commit begins where it began.
            self.orders, self.tags, self.types = list(orders), tags, types
            t = Transaction(self)
            try:
                self.cursor.execute("BEGIN")
                step(t)
                if self.load.marked:
                    self.cursor.execute(
                        f"REPLACE INTO {_MARKS} VALUES ({self.number}, {self.mark + 1})"
                    )
                self.cursor.execute("COMMIT")
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError) as error:
                if self.load.marked and error.args[0] in (*_GONE, 0):
                    if not self._holds():
                        continue
                elif error.args[0] not in _VICTIM:
                    raise
                else:
                    self.cursor.execute("ROLLBACK")
                    continue
            self.mark += 1
            with self.load.lock:
                self.load.committed.add(self.number, t.blocks, t.rows)
            return t.rows

    def _holds(self) -> bool:
        """Connect to the server, which has gone, and see whether it has our last transaction."""
        deadline = time.monotonic() + _AWAY_S
        while True:
            try:
                self._connect()
                self.cursor.execute(f"SELECT n FROM {_MARKS} WHERE worker = {self.number}")
                found = self.cursor.fetchone()
                return bool(found) and int(found[0]) > self.mark
            except (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _insert(self, t: Transaction, table: str, columns: str, values: str, count: int) -> None:
        """``values`` is over ``n`` in [0, count); ``ver`` and ``at_us`` are added."""
        v = t.numbers(table, count)
        t.run(
            f"INSERT INTO {table} ({columns}, ver, at_us) SELECT {values}, {v} + n, {_now()} "
            f"FROM {NUMBERS} WHERE n < {count}",
            count,
        )

    def _update(self, t: Transaction, table: str, key: str, what: str, lo: int, count: int) -> None:
        v = t.numbers(table, count)
        # The server assigns from left to right, so ``ver`` comes before a change of its key.
        t.run(
            f"UPDATE {table} SET ver = {v} + {key} - {lo}, {what}, at_us = {_now()} "
            f"WHERE {key} BETWEEN {lo} AND {lo + count - 1}",
            count,
        )

    def _customers(self, t: Transaction) -> None:
        values = f"{self.base} + n, CONCAT('customer ', n, ' “é😀”'), n / 8"
        self._insert(t, "customers", "id, name, balance", values, _CUSTOMERS)

    def _buy(self, t: Transaction) -> None:
        lo = self.orders[1]
        values = f"{lo} + n, {self.base} + n, 'new', n * 1.25, NOW(6)"
        self._insert(t, "orders", "id, customer_id, status, total, placed", values, _ORDERS)
        values = f"{lo} + n DIV {_LINES}, n MOD {_LINES}, CONCAT('sku-', n * 7919), n MOD 9 + 1"
        self._insert(t, "order_lines", "order_id, line, sku, quantity", values, _ORDERS * _LINES)
        at = self.base + self.round * 50 % _CUSTOMERS
        self._update(t, "customers", "id", "balance = balance + 0.01", at, 50)
        self.orders[1] = lo + _ORDERS

    def _ship(self, t: Transaction) -> None:
        lo = max(self.orders[0], self.orders[1] - 150)
        what = f"status = ELT(1 + {self.round} MOD 3, 'paid', 'sent', 'back'), note = NULL"
        self._update(t, "orders", "id", what, lo, self.orders[1] - lo)

    def _rekey(self, t: Transaction) -> None:
        lo, count = self.tags, 40
        self._insert(t, "tags", "tag, num", f"CONCAT('new-', {lo} + n), {lo} + n", count)
        what = f"tag = CONCAT('r{self.round}-', num)"
        self._update(t, "tags", "num", what, lo, count)
        if lo - self.base >= 20 * count:
            old = lo - 20 * count
            t.run(f"DELETE FROM tags WHERE num BETWEEN {old} AND {old + count - 1}", count)
        self.tags += count

    def _types(self, t: Transaction) -> None:
        lo, count = self.types, 24
        table = self.load.all_types
        columns = ", ".join(c.name for c in table.filled)
        values = ", ".join(c.value.format(n=f"({lo % _SPAN} + n)") for c in table.filled)
        self._insert(t, table.name, f"id, {columns}", f"{lo} + n, {values}", count)
        what = ", ".join(
            f"{c.name} = {c.value.format(n=f'(id MOD 1000 + {self.round})')}" for c in table.filled
        )
        self._update(t, table.name, "id", what, lo, count // 2)
        self._update(t, table.name, "id", f"id = id + {_MOVED}", lo, count // 4)
        t.run(f"DELETE FROM {table.name} WHERE id BETWEEN {lo + 8} AND {lo + 11}", 4)
        self.types += count

    def _expire(self, t: Transaction) -> None:
        lo, end = self.orders
        if end - lo <= _KEPT:
            return
        last = lo + _ORDERS - 1
        t.run(f"DELETE FROM order_lines WHERE order_id BETWEEN {lo} AND {last}", _ORDERS * _LINES)
        t.run(f"DELETE FROM orders WHERE id BETWEEN {lo} AND {last}", _ORDERS)
        self.orders[0] = lo + _ORDERS

    def _singles(self) -> int:
        """Single-row transactions: insert, two updates, one of them of the key, and a delete."""
        steps: tuple[Step, ...] = (
            lambda t: self._insert(t, "tags", "tag, num", f"'one-{num}', {num}", 1),
            lambda t: self._update(t, "tags", "num", "note = 'changed'", num, 1),
            lambda t: self._update(t, "tags", "num", f"tag = 'two-{num}'", num, 1),
            lambda t: t.run(f"DELETE FROM tags WHERE num = {num}", 1),
        )
        num = self.tags
        return sum(self.commit(step) for _ in range(3) for step in steps)

    def _roll_back(self) -> None:
        """Numbers taken here are never committed, so they must not appear downstream."""
        try:
            with suppress(pymysql.err.OperationalError):
                t = Transaction(self)
                self.cursor.execute("BEGIN")
                values = f"CONCAT('never-{self.number}-', n), {self.base} - 1 - n"
                self._insert(t, "tags", "tag, num", values, 20)
            self.cursor.execute("ROLLBACK")
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
            if not self.load.marked:
                raise
            self._holds()


class Workload:
    """Several connections that change the tables of ``schema`` at about ``rows_per_s``.

    What a slow server has kept them from is made up for, but no more than a second of it.

    ``connect`` makes a new autocommit connection (pymysql); ``family`` is ``mariadb`` or
    ``mysql``. Use: ``prepare`` (before the upstream is registered), ``start``, ``stop``; then
    ``committed`` says what there is to find downstream. ``stop`` raises what went wrong. With
    ``marked`` it lives through the server's end, by a mark in each transaction; ``without`` are
    columns of ``all_types`` to leave out.
    """

    def __init__(
        self,
        connect: Connect,
        family: str,
        *,
        schema: str = "shop",
        workers: int = 4,
        rows_per_s: float = 20_000,
        marked: bool = False,
        without: tuple[str, ...] = (),
    ) -> None:
        self.connect = connect
        self.marked = marked
        self.schema = schema
        self.workers = workers
        self.tables: tuple[Table, ...] = tables(family, without)
        self.all_types = next(t for t in self.tables if t.name == "all_types")
        self.rate = rows_per_s / workers
        self.committed = Committed()
        self.stopping = threading.Event()
        self.lock = threading.Lock()
        self._failed: list[BaseException] = []
        self._began = 0.0
        workers_of = [_Worker(self, number) for number in range(1, workers + 1)]
        self._threads = [
            threading.Thread(target=self._guarded, args=(w,), name=f"load-{w.number}", daemon=True)
            for w in workers_of
        ]

    @property
    def rules(self) -> list[str]:
        """``filter.rules`` that match the tables of the workload only."""
        return [f"{self.schema}.*"]

    def prepare(self) -> None:
        """Make the tables, empty, and the table of numbers in a schema of its own."""
        with self.connect() as connection, connection.cursor() as cursor:
            home = NUMBERS.split(".")[0]
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {home}")
            cursor.execute(f"CREATE TABLE IF NOT EXISTS {NUMBERS} (n INT PRIMARY KEY)")
            values = ",".join(f"({n})" for n in range(_CUSTOMERS))
            cursor.execute(f"REPLACE INTO {NUMBERS} VALUES {values}")
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {_MARKS} (worker INT PRIMARY KEY, n BIGINT)"
            )
        self.make_tables(self.connect)

    def make_tables(self, connect: Connect) -> None:
        """Make the tables, empty, on a server of the same family: here, or at a target."""
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.schema} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {self.schema}")
            for table in self.tables:
                cursor.execute(table.ddl)

    def start(self) -> None:
        """Begin; returns at once."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def hold(self) -> float:
        """Go on at the rate that was held since the start, where that is below what is wanted.

        Rows a second. A machine that was kept from more by what is measured has no more to do when
        that is gone.
        """
        with self.lock:
            held = self.committed.rows / (time.monotonic() - self._began)
        self.rate = min(self.rate, held / self.workers)
        return self.rate * self.workers

    def stop(self) -> Committed:
        """End after the transactions under way; what was committed."""
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]
        return self.committed

    def _guarded(self, worker: _Worker) -> None:
        try:
            worker.run()
        except BaseException as error:
            self._failed.append(error)
            self.stopping.set()


def _now() -> int:
    return time.time_ns() // 1000
