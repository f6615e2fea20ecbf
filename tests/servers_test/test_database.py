"""The harness itself: servers start, survive a kill with their rows, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import psutil
import pymysql
import pytest

from tests import servers
from tests.servers import install, template
from tests.servers.catalogue import SERVERS, TOOL_SOURCES

DATABASES = [name for name, server in SERVERS.items() if server.kind in TOOL_SOURCES]


def _fetched(name: str) -> None:
    try:
        install.fetch(name)
    except servers.Unavailable as error:
        if os.environ.get("CI") == "true" and not SERVERS[name].optional:
            raise
        pytest.skip(str(error))


@pytest.mark.real
@pytest.mark.parametrize("name", DATABASES)
def test_killed_server_comes_back_with_its_rows(name: str) -> None:
    _fetched(name)
    with servers.database(name) as db:
        assert db.name.split("-")[1] == ".".join(map(str, db.version[:2]))
        port, pid = db.port, db.pid
        db.execute("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY, b TEXT)")
        with db.connect() as connection, connection.cursor() as cursor:
            rows = [(n, "ä✓") for n in range(500)]
            cursor.executemany("INSERT INTO shop.a VALUES (%s, %s)", rows)
        db.kill()
        assert not psutil.pid_exists(pid)
        assert not db.running
        db.start()
        assert db.port == port
        assert db.execute("SELECT COUNT(*), MIN(b), MAX(b) FROM shop.a") == [(500, "ä✓", "ä✓")]
        db.restart(options=["--max-connections=33"])
        assert db.execute("SELECT @@max_connections") == [(33,)]
        assert [path.name for path in db.binlogs()] == [f"bin.00000{n}" for n in (1, 2, 3)]
        folder = db.folder
    assert not folder.exists()
    assert not db.running


@pytest.mark.real
@pytest.mark.parametrize("name", DATABASES)
def test_binlog_is_whole_rows_and_readable_by_the_servers_tool(name: str) -> None:
    _fetched(name)
    with servers.database(name) as db:
        variables = dict(db.execute("SHOW GLOBAL VARIABLES"))
        assert variables["binlog_format"] == "ROW"
        assert variables["binlog_row_image"] == "FULL"
        assert variables.get("binlog_row_metadata", "FULL") == "FULL"
        assert variables["character_set_server"] == "utf8mb4"
        assert variables["innodb_flush_log_at_trx_commit"] != "0"
        assert variables.get("gtid_mode", "ON") == "ON"
        db.execute("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY)")
        db.execute("INSERT INTO shop.a VALUES (4711)")
        text = subprocess.run(
            [*db.tool("mysqlbinlog"), "-vv", str(db.binlogs()[-1])],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "@1=4711" in text
        client = [*db.tool("mysql"), f"--socket={db.socket}", "-uroot", "-N"]
        select = [*client, "-e", "SELECT id FROM shop.a"]
        assert subprocess.run(select, capture_output=True, text=True, check=True).stdout == "4711\n"


@pytest.mark.real
@pytest.mark.parametrize("name", DATABASES)
def test_accounts_over_tcp(name: str) -> None:
    _fetched(name)
    with servers.database(name, gtid=False) as db:
        for user in ("root", "tidegate"):
            password = "" if user == "root" else "tidegate"
            with (
                db.connect(host="127.0.0.1", user=user, password=password) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SHOW GRANTS")
                assert (
                    "ALL PRIVILEGES" in str(grants := cursor.fetchall()) or len(str(grants)) > 500
                )
        assert db.uri("tidegate", "p@ss/w") == f"mysql://tidegate:p%40ss%2Fw@127.0.0.1:{db.port}"
        assert db.uri() == f"mysql://root@127.0.0.1:{db.port}"


@pytest.mark.real
@pytest.mark.parametrize("name", ["mariadb-11.4", "mysql-8.0"])
def test_tls_with_verification(name: str) -> None:
    _fetched(name)
    with servers.database(name, tls=True) as db:
        assert db.tls is not None
        with (
            db.connect(host="127.0.0.1", ssl=db.tls.context()) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            assert cursor.fetchall()[0][1]
        with pytest.raises(pymysql.err.OperationalError):
            db.connect(host="127.0.0.1", ssl=ssl.create_default_context())


@pytest.mark.real
def test_a_server_is_initialised_once_and_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    _fetched("mariadb-11.4")
    with servers.database("mariadb-11.4"):
        pass
    initialised: list[object] = []
    monkeypatch.setattr(template, "_initialise", lambda *found: initialised.append(found))
    with servers.database("mariadb-11.4") as db:
        assert db.execute("SELECT 1") == [(1,)]
    assert initialised == []


@pytest.mark.real
def test_folder_keeps_the_data(tmp_path: Path) -> None:
    _fetched("mariadb-11.4")
    with servers.database("mariadb-11.4", folder=tmp_path / ("long" * 20)) as db:
        db.execute("CREATE DATABASE kept")
    with servers.database("mariadb-11.4", folder=tmp_path / ("long" * 20)) as db:
        assert ("kept",) in db.execute("SHOW DATABASES")


_ORPHAN = """
import os, sys, threading
from tests import servers
def start():
    global context, db
    context = servers.database("mariadb-11.4")
    db = context.__enter__()
thread = threading.Thread(target=start)
thread.start()
thread.join()
db.execute("SELECT 1")
print(db.pid, db.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.real
@pytest.mark.parametrize("end", [signal.SIGKILL, None], ids=["killed", "exits"])
def test_server_dies_with_its_parent(end: signal.Signals | None) -> None:
    _fetched("mariadb-11.4")
    parent = subprocess.Popen(
        [sys.executable, "-c", _ORPHAN],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    pid, folder = parent.stdout.readline().split(maxsplit=1)
    server = psutil.Process(int(pid))
    if end is not None:
        parent.send_signal(end)
    parent.stdin.close()
    parent.wait(20)
    _, alive = psutil.wait_procs([server], timeout=20)
    assert not alive
    if end is None:
        assert not Path(folder.strip()).exists()
    else:
        subprocess.run(["rm", "-r", folder.strip()], check=True)
