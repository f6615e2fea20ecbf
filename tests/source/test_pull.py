"""Pulling from real servers: what lies in the log is what the server wrote."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cdc.changelog.writer import LogWriter
from cdc.source.read_ahead import ReadAhead
from tests import seeds
from tests.servers.database import Database
from tests.source.pulling import Pulled, file_events, ordered

SERVERS = ["mysql-8.0", "mariadb-11.4"]


@pytest.fixture(params=SERVERS)
def db(request: pytest.FixtureRequest, database: Callable[..., Database]) -> Database:
    """One server of each family, with an empty schema ``d``."""
    server = database(request.param)
    server.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d")
    return server


def _fill(db: Database) -> None:
    db.execute(
        "CREATE TABLE d.a (id INT PRIMARY KEY, t VARCHAR(300), n DECIMAL(20,5), e ENUM('x','y'))",
        "CREATE TABLE d.b (id INT PRIMARY KEY, c CHAR(20), x BLOB, d DATETIME(3), f DOUBLE)",
        "INSERT INTO d.a VALUES (1,'one',1.5,'x'),(2,NULL,NULL,'y'),(3,REPEAT('z',299),-9,NULL)",
        "INSERT INTO d.b SELECT id, 'c', REPEAT('x', 1000), NOW(3), id / 3 FROM d.a",
        "UPDATE d.a JOIN d.b USING (id) SET a.t = 'joint', b.c = NULL",
        "BEGIN",
        "DELETE FROM d.a WHERE id = 1",
        "SAVEPOINT s",
        "INSERT INTO d.b VALUES (10, 'ten', NULL, NULL, NULL)",
        "COMMIT",
        "DELETE FROM d.b",
    )


def test_log_equals_the_binlog_byte_for_byte(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log") as p:
        _fill(db)
        db.execute("FLUSH BINARY LOGS", "INSERT INTO d.a VALUES (9, 'after', 0, 'x')")
        p.caught_up()
        files = [f for f in db.binlogs() if f.name >= p.info.start["file"]]
        wanted = [e for f in files for e in file_events(f, p.info.start["pos"] * (f == files[0]))]
        assert p.events() == wanted
        log, runs = p.runs()
        assert ordered(runs)
        dml = runs.take(runs.kind == 1)
        # 3 + 3 + (3 + 3) + 1 + 1 + 4 + 1
        assert int(dml.rows.sum()) == 19
        assert {log.tables[int(t)].name for t in dml.table} == {"a", "b"}
        last = dml.take((dml.flags & 1) != 0)
        assert len(np.unique(dml.commit_ts)) == len(last) == len(np.unique(last.commit_ts))
        log.verify(runs)
        log.close()


def test_the_servers_own_tool_reads_our_segments(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log", log={"segment_bytes": 4096}) as p:
        _fill(db)
        p.caught_up()
    segments = sorted((tmp_path / "log").glob("*.binlog"))
    assert len(segments) > 1
    for segment in segments:
        done = subprocess.run(
            [*db.tool("mysqlbinlog"), "-vv", "--verify-binlog-checksum", str(segment)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr


def test_idle_node_resolves(db: Database, tmp_path: Path) -> None:
    with Pulled(db, tmp_path / "log", heartbeat_s=0.2) as p:
        p.until(lambda: p.writer.state.resolved_ts > 1)
        first = p.writer.state.resolved_ts
        p.until(lambda: p.writer.state.resolved_ts > first + (500 << 18), 10)


def test_dump_thread_killed_and_server_killed(tmp_path: Path) -> None:
    from tests.servers.database import database

    for name in SERVERS:
        with database(name) as db, Pulled(db, tmp_path / name) as p:
            db.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)")
            for i in range(3):
                db.execute(f"INSERT INTO d.t VALUES ({i}, REPEAT('k', 100000))")
                p.caught_up()
                assert db.kill_connections("command LIKE 'Binlog%'")
            db.kill()
            db.start()
            db.execute("INSERT INTO d.t VALUES (100, 'after')")
            p.caught_up()
            assert p.rows() == 4


def test_resume_where_the_log_ends(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    with Pulled(db, tmp_path / "log") as p:
        for i in range(4):
            db.execute(f"INSERT INTO d.t VALUES ({i}, REPEAT('k', 1000))")
            p.caught_up()
            p.pause()
            db.execute(f"INSERT INTO d.t VALUES ({i + 100}, 'while away')", "FLUSH BINARY LOGS")
            p.resume()
        p.caught_up()
        assert p.rows() == 8


def test_stopped_and_started_in_a_backlog(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small blocks: the thread reads ahead, and commits are carried out behind."""
    ahead: list[int] = []
    fill = ReadAhead._fill
    monkeypatch.setattr(ReadAhead, "_fill", lambda s, v: ahead.append(1) or fill(s, v))
    behind: list[int] = []
    commit = LogWriter.commit_behind
    monkeypatch.setattr(LogWriter, "commit_behind", lambda s, *a: behind.append(1) or commit(s, *a))
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT)")
    # One of the two over TLS, where a read may end in the middle of a record.
    uri = db.uri() + ("?ssl-mode=required" if db.kind == "mysql" else "")
    small = {"block_bytes": 1 << 14, "blocks": 3, "buffer_bytes": 1 << 15, "group_commit_ms": 1}
    with Pulled(db, tmp_path / "log", uri=uri, **small) as p:
        p.caught_up()
        p.pause()
        for i in range(60):
            values = ",".join(f"({i * 20 + k},REPEAT('{k % 10}',5000))" for k in range(20))
            db.execute(f"INSERT INTO d.t VALUES {values}")
        for _ in range(3):
            before = p.writer.state.commits
            p.resume()
            p.until(lambda before=before: p.writer.state.commits > before + 1)  # type: ignore[misc]
            p.pause()
        p.resume()
        p.caught_up()
        assert p.rows() == 1200
        files = [f for f in db.binlogs() if f.name >= p.info.start["file"]]
        assert p.events() == [
            e for f in files for e in file_events(f, p.info.start["pos"] * (f == files[0]))
        ]
        assert ahead
        assert behind


def test_history_replaced_or_purged_is_never_a_silent_gap(tmp_path: Path) -> None:
    from tests.servers.database import database

    for name in SERVERS:
        with database(name) as db:
            db.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
            with Pulled(db, tmp_path / f"{name}-purge") as p:
                p.caught_up()
                p.pause()
                db.execute("INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
                newest = db.binlogs()[-1].name

                def purged(newest: str = newest, db: Database = db) -> bool:
                    # The server keeps what a dump thread reads until it notices that we left.
                    db.kill_connections("command LIKE 'Binlog%'")
                    db.execute(f"PURGE BINARY LOGS TO '{newest}'")
                    return db.binlogs()[0].name == newest

                p.until(purged)
                p.resume()
                assert getattr(p.failed(), "code", "") == "TG:ErrBinlogPurged"
            with Pulled(db, tmp_path / f"{name}-reset") as p:
                db.execute("INSERT INTO d.t VALUES (2)")
                p.caught_up()
                p.pause()
                # The new history has the same numbers, and more of them.
                db.execute("RESET MASTER", *(f"INSERT INTO d.t VALUES ({i})" for i in range(5, 60)))
                p.resume()
                assert getattr(p.failed(), "code", "") == "TG:ErrUpstreamReset"


def test_events_larger_than_a_packet(tmp_path: Path) -> None:
    from tests.servers.database import database

    for name in SERVERS:
        with (
            database(name, options=["--max-allowed-packet=64M"]) as db,
            Pulled(db, tmp_path / name) as p,
        ):
            db.execute(
                "CREATE DATABASE d",
                "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)",
                "INSERT INTO d.t VALUES (1, REPEAT('y', 20000000))",
                "UPDATE d.t SET id = 2",
            )
            p.caught_up()
            assert p.rows() == 2


def test_upstream_without_checksums(db: Database, tmp_path: Path) -> None:
    db.execute("SET GLOBAL binlog_checksum = 'NONE'")
    try:
        with Pulled(db, tmp_path / "log") as p:
            _fill(db)
            p.caught_up()
            db.execute(
                "SET GLOBAL binlog_checksum = 'CRC32'", "INSERT INTO d.a VALUES (7,'',0,'x')"
            )
            p.caught_up()
            assert p.rows() == 19
    finally:
        db.execute("SET GLOBAL binlog_checksum = 'CRC32'")


def test_checksums_switched_while_pulling(db: Database, tmp_path: Path) -> None:
    """The file that says that its events end otherwise comes in one block with rows behind it."""
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    with Pulled(db, tmp_path / "log") as p:
        p.caught_up()
        p.pause()
        try:
            for i, algorithm in enumerate(["NONE", "CRC32", "NONE", "NONE", "CRC32"]):
                db.execute(
                    f"SET GLOBAL binlog_checksum = '{algorithm}'",
                    f"INSERT INTO d.t VALUES ({i})",
                    "FLUSH BINARY LOGS",
                    f"INSERT INTO d.t VALUES ({i + 100})",
                )
            p.resume()
            p.caught_up()
            for i, algorithm in enumerate(["NONE", "CRC32", "NONE"]):
                db.execute(
                    f"SET GLOBAL binlog_checksum = '{algorithm}'",
                    f"INSERT INTO d.t VALUES ({i + 200})",
                )
                p.caught_up()
        finally:
            db.execute("SET GLOBAL binlog_checksum = 'CRC32'")
        db.execute("INSERT INTO d.t VALUES (300)")
        p.caught_up()
        assert [(p.rows(),)] == db.execute("SELECT COUNT(*) FROM d.t")


def test_compressed_upstream(tmp_path: Path) -> None:
    from tests.servers.database import database

    options = {
        "mysql-8.0": ["--binlog-transaction-compression=ON"],
        "mariadb-11.4": ["--log-bin-compress=ON", "--log-bin-compress-min-len=10"],
    }
    for name, chosen in options.items():
        with database(name, options=chosen) as db, Pulled(db, tmp_path / name) as p:
            db.execute("CREATE DATABASE d")
            _fill(db)
            p.caught_up()
            assert p.rows() == 18
            kinds = {e[4] for e in p.events()}
            assert not kinds & {40, *range(165, 172)}
            log, runs = p.runs()
            assert ordered(runs)
            log.close()
            # MariaDB's events within a transaction do not say where they end: what they grow by
            # when they are inflated must not be counted.
            events = db.execute("SHOW BINLOG EVENTS")
            assert p.writer.state.position["pos"] == events[-1][4]
            assert runs.upstream_pos.max() <= events[-1][4]


def test_xa_across_a_restart_of_the_puller(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    with Pulled(db, tmp_path / "log") as p:
        for xid, row in (("a", 1), ("b", 2), ("c", 3)):
            with db.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"XA START '{xid}'")
                cursor.execute(f"INSERT INTO d.t VALUES ({row})")
                cursor.execute(f"XA END '{xid}'")
                one = " ONE PHASE" if xid == "c" else ""
                cursor.execute(f"XA COMMIT 'c'{one}" if one else f"XA PREPARE '{xid}'")
        p.caught_up()
        assert p.rows() == 1
        p.pause()
        p.resume()
        db.execute("XA COMMIT 'a'", "XA ROLLBACK 'b'", "INSERT INTO d.t VALUES (9)")
        p.caught_up()
        assert p.rows() == 3
        log, runs = p.runs()
        dml = runs.take(runs.kind == 1)
        assert len(np.unique(dml.commit_ts)) == 3
        log.close()


def test_xids_that_are_used_again_and_again(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, x INT)")
    chosen = random.Random(seeds.seed())
    sessions = [db.connect() for _ in range(5)]
    prepared: dict[int, int] = {}
    wanted: list[int] = []
    try:
        with Pulled(db, tmp_path / "log") as p:
            # All of it is walked at once.
            p.pause()
            for step in range(160):
                n = chosen.randrange(5)
                with sessions[n].cursor() as cursor:
                    xid = f"'again','{n}',7"
                    if n not in prepared:
                        prepared[n] = step % 4 + 1
                        cursor.execute(f"XA START {xid}")
                        rows = ",".join([f"({step})"] * prepared[n])
                        cursor.execute(f"INSERT INTO d.t (x) VALUES {rows}")
                        cursor.execute(f"XA END {xid}")
                        cursor.execute(f"XA PREPARE {xid}")
                    elif chosen.random() < 0.7:
                        cursor.execute(f"XA COMMIT {xid}")
                        wanted.append(prepared.pop(n))
                    else:
                        cursor.execute(f"XA ROLLBACK {xid}")
                        prepared.pop(n)
            p.resume()
            p.caught_up()
            log, runs = p.runs()
            log.verify(runs)
            dml = runs.take(runs.kind == 1)
            _, transaction = np.unique(dml.commit_ts, return_inverse=True)
            assert np.bincount(transaction, dml.rows).astype(int).tolist() == wanted
            assert sorted(one.xid for one in p.writer.pinned()) == sorted(
                f"X'{b'again'.hex()}',X'3{n}',7" for n in prepared
            )
            log.close()
    finally:
        # What stays prepared keeps the tables of a server that others use.
        for n, session in enumerate(sessions):
            with session, session.cursor() as cursor:
                if n in prepared:
                    cursor.execute(f"XA ROLLBACK 'again','{n}',7")


def test_statements_that_are_not_rows_stop(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE d.t (id INT PRIMARY KEY)")
    with Pulled(db, tmp_path / "log") as p:
        db.execute("SET SESSION binlog_format = 'STATEMENT'", "INSERT INTO d.t VALUES (1)")
        error = p.failed()
        assert getattr(error, "code", "") == "TG:ErrStatementFormat"
        assert "binlog_format" in str(error)
