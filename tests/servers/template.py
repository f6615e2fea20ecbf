"""Initialised data folders, made once for each server and copied from then on."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pymysql
import pymysql.connections

from tests.servers import cache, process
from tests.servers.errors import StartFailed
from tests.servers.install import Installed
from tests.servers.options import fast, no_tls

USER = PASSWORD = "tidegate"

_MARIADB_PARTS = (
    "system_tables",
    "performance_tables",
    "system_tables_data",
    "maria_add_gis_sp_bootstrap",
    "sys_schema",
)
_ACCOUNTS = (
    "DELETE FROM mysql.user WHERE user = ''",
    "FLUSH PRIVILEGES",
    "CREATE USER 'root'@'127.0.0.1'",
    "GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION",
    f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
    f"GRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%' WITH GRANT OPTION",
    "FLUSH PRIVILEGES",
)
_RECIPE = "1" + "".join(_ACCOUNTS)


def as_root() -> list[str]:
    """Return the option that lets a server run when we are root."""
    return ["--user=root"] if os.getuid() == 0 else []


def environment(server: Installed) -> dict[str, str]:
    """Return what a server's environment has beyond ours."""
    return {"LD_LIBRARY_PATH": server.libraries} if server.libraries else {}


def make_data(server: Installed, data: Path) -> None:
    """Put an initialised data folder at ``data`` (not there yet), a copy of the template."""
    recipe = hashlib.sha256(_RECIPE.encode()).hexdigest()[:8]
    name = f"{server.name}-{server.base.name}-{recipe}"
    template = cache.entry(cache.root() / "templates" / name, lambda folder: _build(server, folder))
    subprocess.run(
        ["cp", "-a", "--reflink=auto", "--sparse=auto", str(template / "data"), str(data)],
        check=True,
    )
    # A MySQL server takes its identity from this file, and makes a new one without it.
    (data / "auto.cnf").unlink(missing_ok=True)


def _build(server: Installed, folder: Path) -> None:
    # The template is built at a short path: a socket's path has at most 107 bytes.
    work, _ = process.data_folder(None, "init")
    try:
        data = work / "data"
        _initialise(server, data, work)
        _create_accounts(server, data, work)
        for name in ("auto.cnf", "bin.index"):
            (data / name).unlink(missing_ok=True)
        shutil.copytree(data, folder / "data", symlinks=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _initialise(server: Installed, data: Path, work: Path) -> None:
    command = [*server.server_command(), f"--datadir={data}", f"--tmpdir={work}", *as_root()]
    sql = None
    if server.kind == "mariadb":
        # What mariadb-install-db does, whose inner server could not be run by another loader.
        data.mkdir()
        sql = "CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
        sql += "\n".join(_start_sql(server.share, part) for part in _MARIADB_PARTS)
        command += ["--bootstrap", "--log-warnings=0", "--enforce-storage-engine="]
        command += ["--max-allowed-packet=8M", "--net-buffer-length=16K"]
        command += ["--innodb-log-file-size=16M", "--debug-no-sync", "--innodb-use-native-aio=0"]
    elif server.version >= (8, 0):
        command += ["--initialize-insecure", "--skip-log-bin", "--mysqlx=OFF"]
        command += ["--innodb-use-native-aio=0", "--innodb-redo-log-capacity=16M"]
        command += ["--innodb-doublewrite=0"]
    elif server.version >= (5, 7):
        command += ["--initialize-insecure", "--skip-log-bin", "--innodb-use-native-aio=0"]
    else:
        data.mkdir()
        command = [str(server.base / "scripts/mysql_install_db"), "--no-defaults"]
        command += [f"--basedir={server.base}", f"--datadir={data}", *as_root()]
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, **environment(server)},
        input=sql,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StartFailed(
            f"{server.name}: init failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )


def _start_sql(share: Path, part: str) -> str:
    for name in (f"mariadb_{part}.sql", f"mysql_{part}.sql", f"{part}.sql"):
        if (share / name).exists():
            return (share / name).read_text(errors="surrogateescape")
    return ""


def _create_accounts(server: Installed, data: Path, work: Path) -> None:
    socket, log = work / "s", work / "log"
    command = [*server.server_command(), f"--datadir={data}", f"--tmpdir={work}", *as_root()]
    command += [f"--socket={socket}", "--skip-networking", "--skip-log-bin", f"--log-error={log}"]
    child = process.spawn(
        [*command, *fast(server), *no_tls(server)],
        cwd=work,
        log=work / "out",
        env=environment(server),
    )
    connections: list[pymysql.connections.Connection] = []

    def connected() -> bool:
        try:
            connection = pymysql.connect(unix_socket=str(socket), user="root", ssl_disabled=True)
            connections.append(connection)
        except pymysql.err.OperationalError:
            return False
        return True

    process.wait_until(connected, child, 120, log, f"{server.name} (init)")
    with connections[0] as connection, connection.cursor() as cursor:
        cursor.execute("SELECT user, host FROM mysql.user WHERE user = 'root'")
        for _, host in cursor.fetchall():
            if host != "localhost":
                cursor.execute("DROP USER %s@%s", ("root", host))
        for statement in _ACCOUNTS:
            if not (server.kind == "mariadb" and statement.startswith("DELETE")):
                cursor.execute(statement)
                continue
            cursor.execute("SELECT host FROM mysql.user WHERE user = ''")
            for (host,) in cursor.fetchall():
                cursor.execute("DROP USER ''@%s", (host,))
    begun = time.monotonic()
    child.terminate()
    process.wait_gone(child, 60, server.name)
    if child.returncode or time.monotonic() - begun > 60:
        raise StartFailed(f"{server.name}: init did not end well:\n{process.tail(log)}")
