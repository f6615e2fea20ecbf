"""A log of transactions over several tables, with schema changes between them."""

from __future__ import annotations

import re
from pathlib import Path

from tests.consumer.same import facts
from tests.servers import Database
from tests.sink_binlog.replay import printed
from tests.source.pulling import Pulled

SCHEMA, OTHER = "stream", "stream_default"
RULES = [f"{SCHEMA}.*", f"!{SCHEMA}.hidden"]
TABLES = (
    "CREATE TABLE stream.a (id INT PRIMARY KEY, v VARCHAR(40), w DECIMAL(10,3)) CHARSET utf8mb4",
    "CREATE TABLE stream.b (id INT PRIMARY KEY, a INT, j JSON, t TIMESTAMP(3) NULL,"
    " FOREIGN KEY (a) REFERENCES stream.a (id) ON DELETE CASCADE)",
    "CREATE TABLE stream.nokey (n INT, v BLOB)",
    "CREATE TABLE stream.hidden (id INT PRIMARY KEY)",
)


class Written:
    """A log, and what its upstream was at its end; the upstream has lost it since."""

    def __init__(self, db: Database, folder: Path) -> None:
        self.db, self.folder = db, folder
        db.execute(
            f"DROP DATABASE IF EXISTS {SCHEMA}",
            f"DROP DATABASE IF EXISTS {OTHER}",
            f"CREATE DATABASE {OTHER} CHARACTER SET latin1",
        )
        with Pulled(db, folder) as pulled:
            self._load()
            pulled.caught_up()
        log, _ = pulled.runs()
        self.start_ts = log.state.first_ts
        log.close()
        self.facts = facts(db, SCHEMA)
        self.gtids = gtids(db, db.binlogs())
        db.execute(f"DROP DATABASE {SCHEMA}")

    def _load(self) -> None:
        db = self.db
        db.execute(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4", *TABLES, database=OTHER)
        for i in range(150):
            with db.connect(database=OTHER) as connection, connection.cursor() as cursor:
                connection.begin()
                cursor.execute(f"INSERT INTO stream.a (id, v, w) VALUES ({i}, 'é{i}', {i}.5)")
                cursor.execute(f"INSERT INTO stream.hidden VALUES ({i})")
                cursor.execute(
                    f"INSERT INTO stream.b VALUES ({i}, {i}, '{{\"k\": {i}}}', NOW(3)), ({-i - 1},"
                    f" {i}, NULL, NULL)"
                )
                cursor.execute(f"INSERT INTO stream.nokey VALUES ({i % 7}, REPEAT('x', 3000))")
                cursor.execute(f"UPDATE stream.a SET v = CONCAT(v, '!') WHERE id > {i - 3}")
                cursor.execute(f"UPDATE stream.nokey SET n = n + 1 WHERE n < {i % 5}")
                cursor.execute(f"DELETE FROM stream.b WHERE id = {i - 20}")
                connection.commit()
            if i == 50:
                # The database that it runs in is not the one that it changes.
                db.execute(
                    "ALTER TABLE stream.a ADD COLUMN z CHAR(3) DEFAULT 'ö' AFTER id",
                    "CREATE TABLE stream.later (id INT PRIMARY KEY, v TEXT)",
                    "INSERT INTO stream.later VALUES (1, 'x')",
                    database=OTHER,
                )
            if i == 80:
                db.execute("RENAME TABLE later TO renamed", database=SCHEMA)
            if i == 100:
                db.execute("DROP TABLE stream.hidden, stream.renamed", database=OTHER)
                db.execute("CREATE TABLE stream.hidden (id INT PRIMARY KEY)", database=OTHER)
        rows = ", ".join(f"({1000 + i}, 'l', 1, NULL)" for i in range(2000))
        db.execute(f"INSERT INTO stream.a (id, v, w, z) VALUES {rows}", database=SCHEMA)


def gtids(db: Database, files: list[Path]) -> list[str]:
    text = printed(db, files)
    if db.kind == "mariadb":
        return re.findall(r"GTID (\d+-\d+-\d+)", text)
    return re.findall(r"GTID_NEXT= '([0-9a-f-]+:\d+)'", text)
