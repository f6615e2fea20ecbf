"""Schema changes that the demo makes while the load runs, with rows before and behind each."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.workload import Connect
from bench.workload_tables import NUMBERS

# Tables beside those of the load; they are there when the changefeeds begin.
TABLES = (
    "CREATE TABLE reviews (id INT AUTO_INCREMENT PRIMARY KEY, product VARCHAR(20) NOT NULL,"
    " stars TINYINT NOT NULL, text VARCHAR(100))",
    "CREATE TABLE prices (sku VARCHAR(20) PRIMARY KEY, price DECIMAL(8,2) NOT NULL)",
    "CREATE TABLE prices_next (id INT PRIMARY KEY, sku VARCHAR(20) NOT NULL, price DECIMAL(10,4),"
    " valid DATE)",
    "CREATE TABLE baskets (id INT PRIMARY KEY, item VARCHAR(20) NOT NULL)",
    "CREATE TABLE visits (day INT NOT NULL, visitor INT NOT NULL, pages INT NOT NULL,"
    " PRIMARY KEY (day, visitor)) PARTITION BY RANGE (day) (PARTITION p0 VALUES LESS THAN (100),"
    " PARTITION p1 VALUES LESS THAN (200), PARTITION p2 VALUES LESS THAN (300))",
)


def _rows(table: str, columns: str, values: str, count: int) -> str:
    return (
        f"INSERT INTO {table} ({columns}) SELECT {values} FROM {NUMBERS} WHERE n < {count}"
        " ORDER BY n"
    )


FIRST = (
    _rows("reviews", "product, stars, text", "CONCAT('p', n), 1 + n MOD 5, 'gut'", 200),
    _rows("prices", "sku, price", "CONCAT('sku-', n), n / 4", 300),
    _rows("prices_next", "id, sku, price", "n, CONCAT('sku-', n), n / 3", 300),
    _rows("baskets", "id, item", "n, CONCAT('item ', n)", 250),
    _rows("visits", "day, visitor, pages", "n, n * 7, n MOD 9", 300),
)


@dataclass(frozen=True)
class Step:
    """A schema change, and statements that come at once behind it."""

    statement: str
    behind: tuple[str, ...] = ()


STEPS = (
    Step(
        "ALTER TABLE reviews ADD COLUMN likes INT NOT NULL DEFAULT 1 AFTER stars",
        (
            _rows("reviews", "product, stars, likes", "CONCAT('q', n), 1 + n MOD 5, n", 100),
            "UPDATE reviews SET likes = likes + 1 WHERE id MOD 3 = 0",
        ),
    ),
    Step("ALTER TABLE customers ADD COLUMN vip TINYINT NOT NULL DEFAULT 0"),
    Step(
        "CREATE TABLE coupons (code VARCHAR(20) PRIMARY KEY, percent TINYINT NOT NULL)",
        (_rows("coupons", "code, percent", "CONCAT('c', n), n MOD 50", 120),),
    ),
    Step(
        "ALTER TABLE reviews RENAME COLUMN text TO body",
        ("UPDATE reviews SET body = CONCAT(COALESCE(body, ''), ' – é😀') WHERE id MOD 2 = 0",),
    ),
    Step(
        "RENAME TABLE prices TO spare, prices_next TO prices, spare TO prices_next",
        (
            _rows("prices", "id, sku, valid", "1000 + n, CONCAT('new-', n), '2026-11-30'", 100),
            _rows("prices_next", "sku, price", "CONCAT('old-', n), 1", 100),
            "UPDATE prices SET price = 2.5 WHERE id < 50",
        ),
    ),
    Step("TRUNCATE TABLE baskets", (_rows("baskets", "id, item", "n, 'again'", 40),)),
    Step(
        "ALTER TABLE visits ADD PARTITION (PARTITION p3 VALUES LESS THAN (400))",
        (_rows("visits", "day, visitor, pages", "300 + n, n, 1", 100),),
    ),
    Step(
        "ALTER TABLE visits DROP PARTITION p0",
        ("UPDATE visits SET pages = pages + 1 WHERE day >= 250",),
    ),
    Step("ALTER TABLE customers RENAME COLUMN vip TO tier"),
    Step(
        "ALTER TABLE reviews DROP COLUMN likes",
        (_rows("reviews", "product, stars, body", "CONCAT('r', n), 1 + n MOD 5, ''", 100),),
    ),
    Step("DROP TABLE coupons"),
    Step(
        "CREATE TABLE coupons (id INT PRIMARY KEY, code CHAR(9), note TEXT)",
        (_rows("coupons", "id, code", "n, CONCAT('d', n)", 80),),
    ),
    Step("ALTER TABLE customers DROP COLUMN tier"),
)


class Changes:
    """Takes the steps one after another, evenly over ``seconds``, in a thread of its own."""

    def __init__(self, connect: Connect, schema: str, steps: Sequence[Step] = STEPS) -> None:
        self._connect, self._schema, self._steps = connect, schema, steps
        self._failed: list[BaseException] = []
        self._thread: threading.Thread | None = None

    def prepare(self, *servers: Connect) -> None:
        """Make the tables beside those of the load, empty."""
        for connect in servers:
            with connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"USE {self._schema}")
                for statement in TABLES:
                    cursor.execute(statement)

    def start(self, seconds: float) -> None:
        """Begin; returns at once."""
        self._thread = threading.Thread(target=self._guarded, args=(seconds,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until all are made; raises what went wrong."""
        assert self._thread is not None
        self._thread.join()
        if self._failed:
            raise self._failed[0]

    def _guarded(self, seconds: float) -> None:
        try:
            self._run(seconds)
        except BaseException as error:
            self._failed.append(error)

    def _run(self, seconds: float) -> None:
        began, every = time.monotonic(), seconds / (len(self._steps) + 1)
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {self._schema}")
            for statement in FIRST:
                cursor.execute(statement)
            for number, step in enumerate(self._steps, 1):
                time.sleep(max(0.0, began + number * every - time.monotonic()))
                for statement in (step.statement, *step.behind):
                    cursor.execute(statement)
