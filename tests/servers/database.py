"""A throw-away MySQL or MariaDB server."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql
import pymysql.connections

from tests.servers import install, options, process, template, tls
from tests.servers.errors import StartFailed

_NO_SUCH_THREAD = 1094

Connection = pymysql.connections.Connection


class Database:
    """One server process with its data; `database` makes and ends it."""

    def __init__(
        self,
        name: str,
        chosen: Sequence[str],
        *,
        gtid: bool,
        with_tls: bool,
        folder: Path | str | None,
    ) -> None:
        self.installed = install.fetch(name)
        self.name = name
        self.kind = self.installed.kind
        self.version = self.installed.version
        self.version_text = self.installed.version_text
        self.options = list(chosen)
        self.gtid = gtid
        self.folder, self._ours = process.data_folder(folder, name)
        self.datadir = self.folder / "data"
        self.log = self.folder / "error.log"
        self.socket = self._short(self.folder / "sock")
        self.tls = tls.make(self.folder / "tls") if with_tls else None
        self.port = process.free_port()
        self._process: subprocess.Popen[bytes] | None = None
        process.register(self)

    def _short(self, path: Path) -> Path:
        """Return ``path``, or one in a new short folder: a socket's path has at most 107 bytes."""
        self._socket_folder: Path | None = None
        if len(str(path)) < 90:
            return path
        self._socket_folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
        return self._socket_folder / "sock"

    @property
    def pid(self) -> int:
        """Return the process id of the running server."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the server process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server on its data (made from the template if there is none)."""
        if self.running:
            return
        if not self.datadir.exists():
            template.make_data(self.installed, self.datadir)
        for _ in range(5):
            try:
                self._start()
                return
            except StartFailed as error:
                text = str(error)
                if "Bind on TCP/IP" not in text and "Address already in use" not in text:
                    raise
                self.port = process.free_port()
        raise StartFailed(f"{self.name}: five ports in a row were taken")

    def _start(self) -> None:
        server = self.installed
        for name in (str(self.socket), f"{self.socket}.lock"):
            Path(name).unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
        command = [
            *server.server_command(),
            f"--datadir={self.datadir}",
            f"--tmpdir={self.folder}",
            f"--socket={self.socket}",
            f"--pid-file={self.folder / 'pid'}",
            f"--log-error={self.log}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--character-set-server=utf8mb4",
            *template.as_root(),
            *options.fast(server),
            *options.replication(server, self.gtid),
            *(self.tls.options() if self.tls else options.no_tls(server)),
            *self.options,
        ]
        self._process = process.spawn(
            command,
            cwd=self.folder,
            log=self.folder / "out.log",
            env=template.environment(server),
            signals=False,
        )
        process.wait_until(self._answers, self._process, 120, self.log, self.name)

    def _answers(self) -> bool:
        try:
            with self.connect():
                return True
        except pymysql.err.OperationalError as error:
            if error.args[0] in (2003, 2006, 2013):
                return False
            raise

    def connect(self, **settings: Any) -> Connection:
        """Return a connection: root over the socket, autocommit, utf8mb4, unless told otherwise.

        ``host=`` given makes it TCP; all of `pymysql.connect`'s settings are taken.
        """
        # A socket needs no TLS, and PyMySQL would read all of the system's authorities each time.
        socket = {"unix_socket": str(self.socket), "ssl_disabled": True}
        place = {} if "host" in settings else socket
        defaults = {"user": "root", "password": "", "charset": "utf8mb4", "autocommit": True}
        return pymysql.connect(**{"port": self.port, **place, **defaults, **settings})

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements one after another; return the rows of the last."""
        with self.connect(database=database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def kill_connections(self, which: str) -> int:
        """Kill connections by a condition on the process list; how many there were.

        One that ends by itself meanwhile is none to kill.
        """
        killed = 0
        for (number,) in self.execute(
            f"SELECT id FROM information_schema.processlist WHERE {which}"
        ):
            try:
                self.execute(f"KILL {number}")
            except pymysql.err.Error as error:
                if error.args[0] != _NO_SUCH_THREAD:
                    raise
            else:
                killed += 1
        return killed

    def uri(self, user: str = "root", password: str = "") -> str:
        """Return ``mysql://user:password@127.0.0.1:port``."""
        secret = f":{quote(password, safe='')}" if password else ""
        return f"mysql://{quote(user, safe='')}{secret}@127.0.0.1:{self.port}"

    def binlogs(self) -> list[Path]:
        """Return the binlog files that the server holds, oldest first."""
        index = next(self.datadir.glob("*.index"))
        return [(self.datadir / line).resolve() for line in index.read_text().split()]

    def tool(self, name: str) -> list[str]:
        """Return the start of a command line for a client program; the caller adds to it.

        ``name`` is ``mysqlbinlog``, ``mariadb-binlog``, ``mysql``, ``mariadb``, ``mysqldump`` or
        ``mariadb-dump``; either spelling gives the program for this server. ``--no-defaults`` is
        in it, and for MariaDB without TLS ``--skip-ssl``, as its clients insist on TLS since 11.4.
        """
        stem = name.removeprefix("mariadb-").removeprefix("mysql").removeprefix("mariadb")
        if self.kind == "mariadb":
            names = [f"mariadb-{stem}" if stem else "mariadb", f"mysql{stem}"]
        else:
            names = [f"mysql{stem}"]
        owner, command = install.find_tool(self.kind, self.installed, *names)
        if owner.libraries:
            command = ["env", f"LD_LIBRARY_PATH={owner.libraries}", *command]
        no_tls = options.no_tls(self.installed) if self.tls is None else []
        return [*command, "--no-defaults", *no_tls]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server process (SIGSTOP, SIGCONT ...)."""
        process.send(self.pid, number)

    def kill(self) -> None:
        """End the server as a crash does, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30) -> None:
        """Shut the server down cleanly; its data stays until `close`."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            process.wait_gone(self._process, seconds, self.name)

    def restart(self, options: Sequence[str] | None = None) -> None:
        """Stop if running, and start on the same data and port, with new options if given."""
        self.stop()
        if options is not None:
            self.options = list(options)
        self.start()

    def close(self) -> None:
        """Kill the server and remove its data, unless the folder was the caller's."""
        if self._ours:
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.stop()
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)


@contextmanager
def database(
    name: str,
    *,
    options: Sequence[str] = (),
    gtid: bool = True,
    tls: bool = False,
    folder: Path | str | None = None,
) -> Iterator[Database]:
    """Run the server called ``name`` (see the catalogue) while the context lasts.

    ``options`` come last on its command line and so win. ``tls`` gives it a certificate for
    127.0.0.1 from a CA of its own (``db.tls``). ``folder`` keeps the data: a server started there
    again finds it. Raises `Unavailable` if the server cannot be had, `StartFailed` if it ends.
    """
    server = Database(name, options, gtid=gtid, with_tls=tls, folder=folder)
    try:
        server.start()
        yield server
    finally:
        server.close()
