"""Statements in the stream: what is behind comments, and ALTERs of two phases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from cdc.base.ts import MAX_TS
from cdc.binlog.table_map import TableMap
from cdc.source.ddl_scan import has_ddl_between
from cdc.source.settings import SourceSettings
from cdc.source.snapshot import current_position
from cdc.source.statements import History
from tests.servers.database import Database
from tests.source.pulling import Pulled, ddl_texts

_TRUNCATES = (
    "/*Migration 7*/ TRUNCATE TABLE d.t",
    "/*MASTER*/ /**/ -- c\n# c\nTRUNCATE TABLE d.t",
    "/*!50001 TRUNCATE TABLE d.t */",
    "/*!50001 */ TRUNCATE TABLE d.t",
    "/*!*/ TRUNCATE TABLE d.t",
    "/*!50001 /*M*/ */ TRUNCATE TABLE d.t",
)
_TRUNCATES_OF_MARIADB = (
    "/*M!100000 TRUNCATE TABLE d.t */",
    "/*M! */ TRUNCATE TABLE d.t",
    "SET STATEMENT sort_buffer_size = 100000 FOR TRUNCATE TABLE d.t",
)
_DELETES = ("/*MyApp*/ DELETE FROM d.t", "/*!50001 */ DELETE FROM d.t")
_DELETES_OF_MARIADB = (
    "ANALYZE DELETE FROM d.t",
    "SET STATEMENT sort_buffer_size = 100000 FOR /*M*/ DELETE FROM d.t",
)


def test_schema_changes_behind_comments_are_seen(db: Database, tmp_path: Path) -> None:
    wanted = _TRUNCATES + (_TRUNCATES_OF_MARIADB if db.kind == "mariadb" else ())
    with Pulled(db, tmp_path / "log") as p:
        for sql in wanted:
            with db.connect() as connection:
                before = current_position(connection, db.kind)
                db.execute("INSERT INTO d.t VALUES (1)", sql)
                assert db.execute("SELECT COUNT(*) FROM d.t") == [(0,)], sql
                after = current_position(connection, db.kind)
            # The check of a schema snapshot reads the binlog by itself.
            assert has_ddl_between(p.info, before, after, SourceSettings()), sql
        p.caught_up()
        assert ddl_texts(p) == list(wanted)


def test_changed_rows_behind_comments_stop(db: Database, tmp_path: Path) -> None:
    wanted = _DELETES + (_DELETES_OF_MARIADB if db.kind == "mariadb" else ())
    for i, sql in enumerate(wanted):
        with Pulled(db, tmp_path / str(i)) as p:
            db.execute("INSERT INTO d.t VALUES (1)", "SET SESSION binlog_format = 'STATEMENT'", sql)
            assert db.execute("SELECT COUNT(*) FROM d.t") == [(0,)], sql
            error = p.failed()
            assert getattr(error, "code", "") == "TG:ErrStatementFormat", sql


@pytest.mark.parametrize("server", ["mariadb-11.4", "mariadb-11.8"])
def test_an_alter_in_two_phases_happens_once_and_at_its_end(
    server: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database(server)
    db.execute(
        "DROP DATABASE IF EXISTS d",
        "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "USE d",
        "INSERT INTO t SELECT seq, seq FROM seq_1_to_50000",
    )
    two = "SET SESSION binlog_alter_two_phase = 1"
    done = [
        "ALTER TABLE d.t ADD COLUMN a INT",
        "CREATE INDEX k ON d.t (a)",
        "/*Migration 7*/ ALTER TABLE d.t MODIFY v BIGINT, ALGORITHM=COPY",
        "DROP INDEX k ON d.t",
        "ALTER TABLE d.t ADD COLUMN c INT NOT NULL DEFAULT 1, FORCE, ALGORITHM=INPLACE, LOCK=NONE",
    ]
    with Pulled(db, tmp_path / "log") as p:
        for sql in done[:-1]:
            db.execute(two, sql, "INSERT INTO d.t (id) SELECT MAX(id) + 1 FROM d.t")
        with pytest.raises(pymysql.err.MySQLError):
            db.execute(two, "ALTER TABLE d.t MODIFY v TINYINT NOT NULL")
        # Rows of the same table, of the shape before, between the two phases of the last one.
        altering = threading.Thread(target=db.execute, args=(two, done[-1]))
        altering.start()
        while altering.is_alive():
            db.execute("UPDATE d.t SET a = COALESCE(a, 0) + 1 WHERE id = 1")
        altering.join()
        db.execute("INSERT INTO d.t (id) SELECT MAX(id) + 1 FROM d.t")
        p.caught_up()
        assert ddl_texts(p) == done
        log, runs = p.runs()
        history = History(log, p.writer.state.first_ts)
        history.refresh(MAX_TS)
        table = history.versions.table("d", "t", MAX_TS)
        assert table is not None
        columns = db.execute(
            "SELECT column_name, column_type FROM information_schema.columns"
            " WHERE table_schema = 'd' AND table_name = 't' ORDER BY ordinal_position"
        )
        assert [c.name for c in table.columns] == [str(name) for name, _ in columns]
        # Each row has as many columns as its table had at its ts.
        for i in range(len(runs)):
            if runs.kind[i] == 1:
                at = history.versions.table("d", "t", int(runs.commit_ts[i]))
                stored = TableMap.parse(log.tables[int(runs.table[i])].map_body)
                assert at is not None
                assert len(at.columns) == stored.columns
        log.close()
