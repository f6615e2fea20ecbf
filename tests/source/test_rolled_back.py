"""Transactions that are rolled back in whole or in part: the log has what the server has."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pymysql
import pytest

from cdc.binlog.events import ROWS_V1, ROWS_V2
from cdc.changelog.index import RunKind
from tests import seeds
from tests.servers.database import Database
from tests.source.pulling import Pulled, ddl_texts, ordered

# i is of InnoDB, m of MyISAM; tr inserts into m what is inserted into i. Temporary tables and
# MyISAM make that the server cannot take rolled-back rows out of the transaction that it logs.
_TRIGGER = "CREATE TRIGGER tr AFTER INSERT ON i FOR EACH ROW INSERT INTO m VALUES (NEW.id)"
_MANY = "INSERT INTO i SELECT seq FROM seq_{}_to_{}"
COMMON: dict[str, Sequence[str]] = {
    "rolled back": ("BEGIN", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (2)", "ROLLBACK"),
    "to a savepoint": (
        "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT a", "INSERT INTO i VALUES (2)",
        "INSERT INTO m VALUES (1)", "INSERT INTO i VALUES (3)", "ROLLBACK TO a",
        "INSERT INTO i VALUES (4)", "COMMIT",
    ),
    "nested, set again, in capitals": (
        "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT a", "INSERT INTO i VALUES (2)",
        "SAVEPOINT b", "INSERT INTO m VALUES (1)", "SAVEPOINT A", "INSERT INTO i VALUES (3)",
        "ROLLBACK TO a", "ROLLBACK TO SAVEPOINT b", "INSERT INTO i VALUES (4)",
        "RELEASE SAVEPOINT b", "SAVEPOINT c", "INSERT INTO i VALUES (5)", "ROLLBACK WORK TO c",
        "INSERT INTO i VALUES (6)", "ROLLBACK TO c", "COMMIT",
    ),
    "all but the savepoint": (
        "BEGIN", "SAVEPOINT a", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (1)",
        "ROLLBACK TO a", "COMMIT",
    ),
    "trigger of two engines": (
        _TRIGGER, "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT `s 1`",
        "INSERT INTO i VALUES (2)", "ROLLBACK TO `s 1`", "INSERT INTO i VALUES (3)", "COMMIT",
        "BEGIN", "INSERT INTO i VALUES (4)", "ROLLBACK",
    ),
    "direct": (
        "SET SESSION binlog_direct_non_transactional_updates = 1", "BEGIN",
        "INSERT INTO i VALUES (1)", "SAVEPOINT a", "INSERT INTO m VALUES (2)",
        "INSERT INTO i VALUES (2)", "ROLLBACK TO a", "COMMIT",
    ),
    "temporary": (
        "BEGIN", "INSERT INTO i VALUES (1)", "CREATE TEMPORARY TABLE x (a INT)", "ROLLBACK",
        "INSERT INTO i VALUES (2)", "BEGIN", "INSERT INTO i VALUES (3)", "SAVEPOINT `a b``c`",
        "DROP TEMPORARY TABLE x", "INSERT INTO i VALUES (4)", "ROLLBACK TO `A B``C`",
        "INSERT INTO i VALUES (5)", "COMMIT",
    ),
    "xa": (
        "XA START 'x'", "INSERT INTO i VALUES (1)", "INSERT INTO m VALUES (1)", "XA END 'x'",
        "XA PREPARE 'x'", "XA ROLLBACK 'x'", "XA START 'x'", "INSERT INTO i VALUES (2)",
        "SAVEPOINT a", "INSERT INTO i VALUES (3)", "INSERT INTO m VALUES (3)", "ROLLBACK TO a",
        "INSERT INTO i VALUES (4)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'",
        "XA START 'x'", "INSERT INTO i VALUES (5)", "INSERT INTO m VALUES (5)", "XA END 'x'",
        "XA ROLLBACK 'x'", "XA START 'x'", "INSERT INTO i VALUES (6)", "SAVEPOINT a",
        "INSERT INTO m VALUES (6)", "INSERT INTO i VALUES (7)", "ROLLBACK TO a",
        "XA END 'x'", "XA COMMIT 'x' ONE PHASE",
    ),
}  # fmt: skip
MARIADB: dict[str, Sequence[str]] = {
    "xa and temporary": (
        "XA START 'x'", "INSERT INTO i VALUES (1)", "CREATE TEMPORARY TABLE x1 (a INT)",
        "XA END 'x'", "XA ROLLBACK 'x'", "XA START 'x'", "INSERT INTO i VALUES (2)",
        "SAVEPOINT a", "INSERT INTO i VALUES (3)", "CREATE TEMPORARY TABLE x2 (a INT)",
        "ROLLBACK TO a", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'",
    ),
    "over segments": (
        "BEGIN", _MANY.format(1, 3000), "SAVEPOINT a", _MANY.format(3001, 6000),
        "INSERT INTO m VALUES (1)", "SAVEPOINT b", _MANY.format(6001, 9000), "ROLLBACK TO a",
        _MANY.format(20001, 23000), "COMMIT", "INSERT INTO i VALUES (30000)", "BEGIN",
        _MANY.format(40001, 49000), "INSERT INTO m VALUES (2)",
        "CREATE TEMPORARY TABLE x3 (a INT)", "ROLLBACK",
    ),
    "quoted otherwise": (
        "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", "BEGIN",
        "INSERT INTO i VALUES (1)", 'SAVEPOINT "a""b"', "INSERT INTO i VALUES (2)",
        "CREATE TEMPORARY TABLE x4 (a INT)", 'ROLLBACK TO "a""b"', "COMMIT",
        "SET SESSION sql_quote_show_create = 0", "BEGIN", "INSERT INTO i VALUES (3)",
        "SAVEPOINT savepoint", "INSERT INTO i VALUES (4)", "DROP TEMPORARY TABLE x4",
        "ROLLBACK TO savepoint", "COMMIT",
    ),
    "one name beyond ASCII": (
        "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT é", "INSERT INTO i VALUES (2)",
        "CREATE TEMPORARY TABLE x5 (a INT)", "ROLLBACK TO é", "COMMIT",
    ),
    "a DROP in a group that ends in ROLLBACK": (
        "INSERT INTO i VALUES (1),(2)",
        "CREATE OR REPLACE TABLE m (a INT PRIMARY KEY) SELECT 1 AS a FROM i",
        "CREATE TABLE m (id INT PRIMARY KEY)",
        "INSERT INTO m VALUES (7)",
    ),
}  # fmt: skip


def _play(db: Database, name: str, steps: Sequence[str]) -> None:
    db.execute(
        f"DROP DATABASE IF EXISTS `{name}`",
        f"CREATE DATABASE `{name}`",
        f"CREATE TABLE `{name}`.i (id INT PRIMARY KEY) ENGINE=InnoDB",
        f"CREATE TABLE `{name}`.m (id INT PRIMARY KEY) ENGINE=MyISAM",
    )
    with db.connect(database=name) as connection, connection.cursor() as cursor:
        for sql in steps:
            try:
                cursor.execute(sql)
            except pymysql.err.MySQLError as error:
                # What MySQL with GTIDs forbids, and the row that CREATE … SELECT has twice.
                if error.args[0] not in (1062, 1785, 4091):
                    raise


def _on_server(db: Database, name: str, table: str) -> list[int]:
    return [int(r[0]) for r in db.execute(f"SELECT id FROM `{name}`.{table} ORDER BY id")]


def _in_log(p: Pulled) -> dict[tuple[str, str], list[int]]:
    """Ids of the inserted rows by table, read from the bytes without the product's decoders."""
    log, runs = p.runs()
    assert ordered(runs)
    log.verify(runs)
    found: dict[tuple[str, str], list[int]] = {}
    for i in np.flatnonzero(runs.kind == RunKind.DML):
        entry = log.tables[int(runs.table[i])]
        ids = found.setdefault((entry.schema, entry.name), [])
        data = log.segment(int(runs.segment[i]))
        at, end = int(runs.offset[i]), int(runs.offset[i] + runs.length[i])
        while at < end:
            length = int.from_bytes(data[at + 9 : at + 13], "little")
            if data[at + 4] in ROWS_V1 | ROWS_V2:
                # post-header, width, bitmap; then a NULL byte and the INT of each row
                first = at + 19 + (8 if data[at + 4] in ROWS_V1 else 10) + 2
                rows = np.frombuffer(bytes(data[first : at + length - 4]), np.uint8).reshape(-1, 5)
                ids += rows[:, 1:].copy().view("<i4").ravel().tolist()
            at += length
    log.close()
    return {table: sorted(ids) for table, ids in found.items()}


@pytest.mark.parametrize(
    ("server", "gtid"),
    [("mariadb-11.4", True), ("mysql-8.0", False), ("mysql-5.6", False)],
)
def test_the_log_has_the_rows_that_the_server_has(
    server: str, gtid: bool, database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database(server) if gtid else database(server, gtid=False)
    scenarios = {**COMMON, **(MARIADB if db.kind == "mariadb" else {})}
    with Pulled(db, tmp_path / "log", log={"segment_bytes": 1 << 14}) as p:
        for name, steps in scenarios.items():
            _play(db, name, steps)
        p.caught_up()
        found = _in_log(p)
        for name in scenarios:
            for table in ("i", "m"):
                assert found.get((name, table), []) == _on_server(db, name, table), (name, table)
        # The position went on over what was given up.
        p.pause()
        db.execute("INSERT INTO `xa`.i VALUES (99)")
        p.resume()
        p.caught_up()
        assert _in_log(p)["xa", "i"] == _on_server(db, "xa", "i")


def test_a_drop_that_no_rollback_undoes_stays(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    """MariaDB writes the DROP of a failed CREATE OR REPLACE … SELECT into a group of ROLLBACK."""
    db = database("mariadb-11.4")
    with Pulled(db, tmp_path / "log") as p:
        _play(db, "dropped", MARIADB["a DROP in a group that ends in ROLLBACK"])
        p.caught_up()
        drops = [s for s in ddl_texts(p) if "DROP TABLE IF EXISTS `dropped`.`m`" in s]
        assert len(drops) == 1, ddl_texts(p)


def test_random_transactions_leave_what_the_server_has(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    """Savepoints of few names, set and left in any order, in transactions that log all of it."""
    db = database("mariadb-11.4")
    rng = random.Random(seeds.seed())
    db.execute(
        "DROP DATABASE IF EXISTS random",
        "CREATE DATABASE random",
        "CREATE TABLE random.i (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE TABLE random.m (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=MyISAM",
    )
    with (
        Pulled(db, tmp_path / "log", log={"segment_bytes": 4096}) as p,
        db.connect(database="random") as connection,
        connection.cursor() as cursor,
    ):
        for _ in range(40):
            cursor.execute("BEGIN")
            points: list[str] = []
            for _ in range(rng.randrange(1, 14)):
                step = rng.randrange(6)
                if step == 0:
                    name = rng.choice(["a", "B", "`c d`", "`e``f`"])
                    points = [n for n in points if n != name] + [name]
                    cursor.execute(f"SAVEPOINT {rng.choice([name, name.upper()])}")
                elif step == 1 and points:
                    at = rng.randrange(len(points))
                    cursor.execute(f"ROLLBACK TO {points[at]}")
                    del points[at + 1 :]
                elif step == 2 and points:
                    at = rng.randrange(len(points))
                    cursor.execute(f"RELEASE SAVEPOINT {points[at]}")
                    del points[at:]
                elif step == 3:
                    cursor.execute("CREATE OR REPLACE TEMPORARY TABLE x (a INT)")
                elif step == 4:
                    cursor.execute("INSERT INTO m VALUES ()")
                else:
                    rows = ", ".join(["()"] * rng.randrange(1, 90))
                    cursor.execute(f"INSERT INTO i VALUES {rows}")
            cursor.execute(rng.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        p.caught_up()
        found = _in_log(p)
        for table in ("i", "m"):
            assert found.get(("random", table), []) == _on_server(db, "random", table), table


def test_names_that_a_collation_may_hold_for_one_are_refused(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database("mariadb-11.4")
    with Pulled(db, tmp_path / "log") as p:
        steps = (
            "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT e", "INSERT INTO i VALUES (2)",
            "SAVEPOINT é", "INSERT INTO i VALUES (3)", "CREATE TEMPORARY TABLE x6 (a INT)",
            "ROLLBACK TO e", "COMMIT",
        )  # fmt: skip
        _play(db, "collated", steps)
        # To the server they are one name.
        assert _on_server(db, "collated", "i") == [1, 2]
        error = p.failed()
        assert getattr(error, "code", "") == "TG:ErrRollbackUndecided"
        assert "savepoints" in str(error)
