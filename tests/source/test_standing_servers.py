"""The server's history is replaced, or held up, while its dump thread stays attached."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.base.ts import physical_ms
from cdc.coord.messages import UpstreamInfo
from cdc.source.dump import dump_events
from cdc.source.errors import UpstreamReset
from cdc.source.position import UpstreamPosition
from cdc.source.settings import SourceSettings
from tests.servers.database import Database
from tests.source.pulling import Pulled

T = "CREATE TABLE d.t (id INT PRIMARY KEY)"
RESET = {"mysql-9.7": "RESET BINARY LOGS AND GTIDS"}
CLOCK = "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000 AS UNSIGNED)"
FAST = {"heartbeat_s": 0.2, "standing_s": 0.2}


def _clock_ms(db: Database) -> int:
    return int(db.execute(CLOCK)[0][0])


def _another_second(p: Pulled) -> None:
    """Wait until a new file's header would tell it from the one that was read.

    The server has said so, too: what is resolved while it is idle is its answers' time.
    """
    created = p.writer.state.position["created"]
    p.until(lambda: physical_ms(p.writer.state.resolved_ts) // 1000 > created)


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7", "mariadb-11.4"])
@pytest.mark.parametrize("rows_after", [1, 60])
def test_reset_under_an_attached_dump(
    name: str, rows_after: int, database: Callable[..., Database], tmp_path: Path
) -> None:
    """With one row after it, the new history ends at the very offset and GTID of the old one."""
    db = database(name)
    reset = RESET.get(name, "RESET MASTER")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, reset)
    with Pulled(db, tmp_path / "log", **FAST) as p:
        db.execute("INSERT INTO d.t VALUES (1)")
        p.caught_up()
        _another_second(p)
        before = _clock_ms(db)
        p.until(lambda: physical_ms(p.writer.state.resolved_ts) > before)
        db.execute(reset)
        at = _clock_ms(db)
        db.execute(*(f"INSERT INTO d.t VALUES ({2 + i})" for i in range(rows_after)))
        error = p.failed()
        assert isinstance(error, UpstreamReset), error
        assert "create it anew" in error.hint
        assert p.statuses[-1].state == "failed"
        # All that is missing was committed later.
        assert physical_ms(p.writer.state.resolved_ts) <= at
        assert p.rows() == 1


def test_reset_within_the_second_of_the_files_creation(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    """Nothing in file names, sizes, GTIDs or header times tells the histories apart."""
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, "RESET MASTER")
    with Pulled(db, tmp_path / "log", **FAST) as p:
        db.execute("INSERT INTO d.t VALUES (1)")
        p.caught_up()
        db.execute("RESET MASTER", "INSERT INTO d.t VALUES (2)")
        assert isinstance(p.failed(), UpstreamReset)


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_a_reset_replica_is_no_reset(
    name: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T)
    with Pulled(db, tmp_path / "log", **FAST) as p:
        db.execute("INSERT INTO d.t VALUES (1)")
        p.caught_up()
        _another_second(p)
        db.execute("RESET SLAVE", "INSERT INTO d.t VALUES (2)")
        at = _clock_ms(db)
        p.until(lambda: physical_ms(p.writer.state.resolved_ts) > at)
        assert p.rows() == 2
        assert p.error is None


def test_a_server_with_another_id_is_recognised(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    """MariaDB has no uuid: a changed server_id alone is nothing, with another file it is."""
    db = database("mariadb-11.4")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, "FLUSH BINARY LOGS")
    try:
        with Pulled(db, tmp_path / "log", **FAST) as p:
            p.caught_up()
            _another_second(p)
            db.execute("SET GLOBAL server_id = 77", "INSERT INTO d.t VALUES (1)")
            at = _clock_ms(db)
            p.until(lambda: physical_ms(p.writer.state.resolved_ts) > at)
            p.pause()
            db.execute("RESET MASTER", "INSERT INTO d.t VALUES (2)")
            p.resume()
            error = p.failed()
            assert isinstance(error, UpstreamReset), error
            assert "another one, with server_id 77" in str(error)
    finally:
        db.execute("SET GLOBAL server_id = 1")


def test_strict_mode_gtid_errors_are_final(database: Callable[..., Database]) -> None:
    db = database("mariadb-11.4")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, "RESET MASTER")
    db.execute("SET gtid_seq_no = 100", "INSERT INTO d.t VALUES (1)")
    db.execute("SET gtid_seq_no = 200", "INSERT INTO d.t VALUES (2)")
    info = UpstreamInfo(name="u", uri=db.uri(), server_kind="mariadb")
    for gtid in ("0-1-150", "0-1-5000", "0-7-150"):
        with pytest.raises(UpstreamReset, match=gtid):
            list(dump_events(info, UpstreamPosition("", 4, gtid), SourceSettings()))


def test_sent_before_it_is_committed(tmp_path: Path) -> None:
    """Semi-synchronous AFTER_SYNC: a dump has what the server shows to nobody yet."""
    from tests.servers.database import database

    with database("mysql-8.0") as db:
        db.execute(
            "CREATE DATABASE d",
            T,
            "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
            "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
            "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
        )
        with Pulled(db, tmp_path / "log", **FAST) as p:
            p.caught_up()
            db.execute("SET GLOBAL rpl_semi_sync_source_enabled = ON")
            waiting = threading.Thread(target=_insert_one, args=(db,), daemon=True)
            waiting.start()
            p.until(lambda: p.rows() == 1)
            assert not db.execute("SELECT * FROM d.t")
            sent = len(p.statuses)
            db.kill_connections("command LIKE 'Binlog%'")
            p.until(lambda: any(s.state == "connecting" for s in p.statuses[sent:]))
            p.until(lambda: p.statuses[-1].state == "running")
            at = _clock_ms(db)
            p.until(lambda: physical_ms(p.writer.state.resolved_ts) > at)
            db.execute("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            waiting.join(20)
            db.execute("INSERT INTO d.t VALUES (2)")
            p.caught_up()
            assert p.rows() == 2


def _insert_one(db: Database) -> None:
    with db.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO d.t VALUES (1)")
        connection.commit()
