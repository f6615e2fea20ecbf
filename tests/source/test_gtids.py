"""Positions of every kind: tagged GTIDs, several domains, none at all; starts in the past."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.base.errors import TidegateError
from cdc.binlog.gtid_set import GtidSet, MariadbGtidPosition
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamInfo
from cdc.source.registration import register
from cdc.source.settings import SourceSettings
from tests import servers
from tests.servers.database import Database, database
from tests.source.pulling import CLOCK, Pulled, file_events
from tests.waiting import PATIENCE

T = "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)"


def _equal_to_the_binlog(db: Database, p: Pulled) -> None:
    files = [f for f in db.binlogs() if f.name >= p.info.start["file"]]
    wanted = [e for f in files for e in file_events(f, p.info.start["pos"] * (f == files[0]))]
    assert p.events() == wanted


def test_tagged_gtids(database: Callable[..., Database], tmp_path: Path) -> None:
    db = database("mysql-9.7")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T)
    with Pulled(db, tmp_path / "log") as p:
        for i in range(3):
            with db.connect() as connection, connection.cursor() as cursor:
                for n, tag in enumerate(("", "orders", "stock")):
                    cursor.execute(f"SET gtid_next = 'AUTOMATIC{':' if tag else ''}{tag}'")
                    cursor.execute(f"INSERT INTO d.t VALUES ({10 * i + n}, '{tag}')")
            p.caught_up()
            p.pause()
            db.execute(
                "SET gtid_next = 'AUTOMATIC:away'", f"INSERT INTO d.t VALUES ({100 + i}, 'x')"
            )
            p.resume()
        p.caught_up()
        assert p.rows() == 12
        _equal_to_the_binlog(db, p)
        executed = str(db.execute("SELECT @@global.gtid_executed")[0][0])
        assert "orders" in executed
        reached = GtidSet.parse(p.writer.state.position["gtid"])
        assert reached.subtract(GtidSet.parse(executed)) == GtidSet()
        assert not GtidSet.parse(executed).subtract(reached)
        log, runs = p.runs()
        sources = {log.sources[int(s)].partition(":")[2] for s in runs.gtid_source if s >= 0}
        assert sources == {"", "orders", "stock", "away"}
        log.close()


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.4"])
def test_several_domains(database: Callable[..., Database], tmp_path: Path, name: str) -> None:
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T)
    with Pulled(db, tmp_path / "log") as p:
        for i in range(4):
            for domain in (0, 7, 3):
                db.execute(
                    f"SET gtid_domain_id = {domain}, server_id = {1 + domain + i % 2}",
                    f"INSERT INTO d.t VALUES ({100 * domain + i}, 'x')",
                )
            p.caught_up()
            p.pause()
            db.execute("SET gtid_domain_id = 3", f"INSERT INTO d.t VALUES ({1000 + i}, 'away')")
            if i == 1:
                db.execute("FLUSH BINARY LOGS")
            p.resume()
        p.caught_up()
        assert p.rows() == 16
        _equal_to_the_binlog(db, p)
        current = MariadbGtidPosition.parse(str(db.execute("SELECT @@gtid_binlog_pos")[0][0]))
        reached = MariadbGtidPosition.parse(p.writer.state.position["gtid"])
        assert {d: g.sequence for d, g in reached.domains.items()} == {
            d: g.sequence for d, g in current.domains.items()
        }
        assert set(reached.domains) == {0, 3, 7}


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7", "mysql-5.6", "mysql-5.7"])
def test_without_gtids(name: str, tmp_path: Path) -> None:
    try:
        # 9.7 has them on unless told otherwise.
        off = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
        context = database(name, gtid=False, options=off)
        db = context.__enter__()
    except servers.Unavailable as error:
        pytest.skip(str(error))
    try:
        db.execute("CREATE DATABASE d", T)
        with Pulled(db, tmp_path / "log") as p:
            assert p.info.start["gtid"] is None
            for i in range(3):
                db.execute(f"INSERT INTO d.t VALUES ({i}, REPEAT('k', 1000))")
                p.caught_up()
                db.kill_connections("command LIKE 'Binlog%'")
                db.execute(f"INSERT INTO d.t VALUES ({i + 10}, 'k')", "FLUSH LOGS")
                p.caught_up()
                p.pause()
                db.execute(f"INSERT INTO d.t VALUES ({i + 100}, 'while away')", "FLUSH LOGS")
                p.resume()
            db.execute("BEGIN", "UPDATE d.t SET v = 'y'", "DELETE FROM d.t WHERE id = 0", "COMMIT")
            p.caught_up()
            assert p.rows() == 9 + 9 + 1
            _equal_to_the_binlog(db, p)
    finally:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9.7", "mariadb-11.4"])
def test_start_at_a_gtid_set(database: Callable[..., Database], tmp_path: Path, name: str) -> None:
    db = database(name)
    ask = "@@gtid_binlog_pos" if db.kind == "mariadb" else "@@global.gtid_executed"
    # A DDL before the start is no matter, though it lies in a file that the server holds.
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, "INSERT INTO d.t VALUES (1,'')")
    start = str(db.execute(f"SELECT {ask}")[0][0]).replace("\n", "")
    db.execute(
        "INSERT INTO d.t VALUES (2,'')", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (3,'')"
    )
    with Pulled(db, tmp_path / "log", start=start) as p:
        p.caught_up()
        assert p.rows() == 2
        db.execute("INSERT INTO d.t VALUES (4,'')")
        p.caught_up()
        assert p.rows() == 3


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_starts_that_cannot_be_served(name: str, tmp_path: Path) -> None:
    with database(name) as db:
        mariadb = db.kind == "mariadb"
        ask = "@@gtid_binlog_pos" if mariadb else "@@global.gtid_executed"
        db.execute("CREATE DATABASE d", T)
        old = str(db.execute(f"SELECT {ask}")[0][0])
        db.execute("INSERT INTO d.t VALUES (1,'')", "FLUSH BINARY LOGS")
        if mariadb:
            db.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
        deadline = time.monotonic() + 20 * PATIENCE
        while len(db.binlogs()) > 1:
            # MariaDB keeps a file until its engine has passed it.
            assert time.monotonic() < deadline
            db.execute(f"PURGE BINARY LOGS TO '{db.binlogs()[-1].name}'")
            time.sleep(0.05)
        file = db.binlogs()[-1].name
        uuid = "" if mariadb else str(db.execute("SELECT @@server_uuid")[0][0])
        invalid, purged = "TG:ErrUpstreamStartInvalid", "TG:ErrBinlogPurged"
        cases = {
            old: purged,
            "0-1-999999" if mariadb else f"{uuid}:1-999999": invalid,
            "0-1-x" if mariadb else f"{uuid}:1-x": invalid,
            f"{file}:99999999": invalid,
            f"{file}:5": invalid,
            "bin.999999:4": invalid,
            "bin.000001:4": purged,
            "2001-01-01": purged,
            "2001-99-01": invalid,
            "2999-01-01": invalid,
            "yesterday": invalid,
        }
        asked = UpstreamInfo(name="u", uri=db.uri())
        for i, (start, code) in enumerate(cases.items()):
            with (
                LogWriter.open(tmp_path / str(i), Pulled.LOG, CLOCK) as writer,
                pytest.raises(TidegateError) as refused,
            ):
                register(asked, writer, SourceSettings(), CLOCK, start)
            assert refused.value.code == code, (start, refused.value)
            assert refused.value.hint


@pytest.mark.parametrize("name", ["mysql-8.0", "mariadb-11.4"])
def test_start_inside_a_file(database: Callable[..., Database], tmp_path: Path, name: str) -> None:
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T, "INSERT INTO d.t VALUES (1,'')")
    file, pos = db.execute("SHOW MASTER STATUS")[0][:2]
    db.execute(
        "INSERT INTO d.t VALUES (2,'')", "FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (3,'')"
    )
    with Pulled(db, tmp_path / "log", start=f"{file}:{pos}") as p:
        p.caught_up()
        assert p.rows() == 2
        _equal_to_the_binlog(db, p)
