"""A history of schema changes and rows, upstream and as steps of a topic."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from cdc.schema.session import Session
from sink.codec.canal.settings import CanalSettings
from tests import servers
from tests.consumer.made_topic import Placing, Step, by_key, steps, written

PARTITIONS = 3
WITH = CanalSettings(enable_tidb_extension=True)
HISTORY = [
    "CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20) DEFAULT 'x', u INT)",
    "CREATE TABLE b (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, d DECIMAL(9,2), t TIMESTAMP NULL)",
    "CREATE TABLE kinds (id BIGINT PRIMARY KEY, e ENUM('p','q'), s SET('a','b'), y VARBINARY(9),"
    " f FLOAT, g DOUBLE, w TEXT, l VARCHAR(20) CHARACTER SET latin1, bits BIT(9), at DATETIME(3),"
    " c INT AS (id + 1) STORED, h INT AS (id * 2) VIRTUAL)",
    "INSERT INTO a VALUES (1, 'one', 10), (2, 'two', 20), (3, 'it''s', NULL)",
    "INSERT INTO b (d, t) VALUES (1.5, '2026-01-01 00:00:01'), (NULL, NULL)",
    "INSERT INTO kinds (id, e, s, y, f, g, w, l, bits, at) VALUES"
    " (1, 'q', 'a,b', x'00ff5c27', 1.5e10, -2.5e-3, 'wörld \\\\ ''q''', 'ä', 300,"
    " '2026-02-03 04:05:06.789'), (2, NULL, '', '', 0, 0, '', '', 0, NULL)",
    "ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7 AFTER id, ADD KEY k (u)",
    "INSERT INTO a VALUES (4, 44, 'four', 40)",
    "UPDATE a SET n = n + 1 WHERE id < 3",
    "UPDATE kinds SET w = REPEAT('z', 300), y = x'01' WHERE id = 2",
    "RENAME TABLE a TO spare, b TO a, spare TO b",
    "INSERT INTO a (d) VALUES (9.99)",
    "UPDATE b SET id = id + 100 WHERE id IN (1, 2)",
    "ALTER TABLE b RENAME COLUMN v TO u2, DROP COLUMN n",
    "INSERT INTO b (id, u2, u) VALUES (5, 'five', 50)",
    "CREATE TABLE gone (x INT)",
    "INSERT INTO gone VALUES (1), (1), (2)",
    "DELETE FROM gone WHERE x = 2",
    "CREATE INDEX later ON b (u2)",
    "TRUNCATE TABLE kinds",
    "INSERT INTO kinds (id, e) VALUES (7, 'p')",
    "ALTER TABLE kinds DROP COLUMN w, MODIFY y VARBINARY(30), CONVERT TO CHARACTER SET utf8mb4",
    "INSERT INTO kinds (id, l) VALUES (8, 'lång')",
    "CREATE TABLE parts (id INT PRIMARY KEY) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))",
    "INSERT INTO parts VALUES (1), (11)",
    "ALTER TABLE parts DROP PARTITION p0",
    "INSERT INTO parts VALUES (12)",
    "DROP TABLE gone",
    "CREATE TABLE gone (other CHAR(3) PRIMARY KEY)",
    "INSERT INTO gone VALUES ('new')",
    "ALTER DATABASE CHARACTER SET latin1",
    "CREATE TABLE late (id INT PRIMARY KEY, v VARCHAR(5))",
    "INSERT INTO late VALUES (1, 'ö')",
    "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    """CREATE TABLE "odd" (id INT PRIMARY KEY, v VARCHAR(9) DEFAULT 'a\\b')""",
    'INSERT INTO "odd" (id) VALUES (1)',
]


@dataclass(frozen=True)
class History:
    """A schema of the upstream, and the binlog of all that happened in it."""

    schema: str
    binlog: bytes

    @classmethod
    def of(cls, server: servers.Database, statements: Sequence[str]) -> History:
        schema = f"rebuilt_{random.randrange(1 << 30):x}"
        return cls(schema, written(server, schema, statements))

    def steps(self, settings: CanalSettings = WITH, placing: Placing = by_key) -> list[Step]:
        base = Session(mariadb=True, version=(11, 4, 0))
        return list(steps(self.binlog, base, settings, PARTITIONS, placing))
