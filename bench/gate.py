"""Holding a replica off while a load is written, and seeing the moment at which it streams."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pymysql

from tests.servers.database import Database

# Server threads that serve a dump have one of these commands.
_DUMPS = ("Binlog Dump", "Binlog Dump GTID")
_GRANTS = {
    "mariadb": "SELECT, RELOAD, REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR, SHOW DATABASES,"
    " LOCK TABLES, PROCESS",
    "mysql": "SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT, SHOW DATABASES, LOCK TABLES",
}


@dataclass(frozen=True)
class Gate:
    """A user of its own for one replica."""

    database: Database
    user: str
    password: str = "bench"

    def create(self) -> None:
        """Create the user; it is open."""
        self.database.execute(
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}'",
            f"GRANT {_GRANTS[self.database.kind]} ON *.* TO '{self.user}'@'%'",
        )

    def close(self) -> None:
        """Refuse new connections of the user and end the present ones."""
        self.database.execute(f"ALTER USER '{self.user}'@'%' ACCOUNT LOCK")
        for number, _ in self._threads():
            try:
                self.database.execute(f"KILL {number}")
            except pymysql.err.OperationalError as error:
                if error.args[0] != 1094:
                    raise

    def open(self, timeout_s: float = 30.0) -> float:
        """Let the user in; returns ``time.monotonic()`` when the server began to send to it."""
        self.database.execute(f"ALTER USER '{self.user}'@'%' ACCOUNT UNLOCK")
        return self.streaming(timeout_s)

    def streaming(self, timeout_s: float = 30.0) -> float:
        """Wait until the server sends to the user; ``time.monotonic()`` of that moment."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            end = time.monotonic() + timeout_s
            while time.monotonic() < end:
                cursor.execute(_PROCESSES, (self.user,))
                if any(command in _DUMPS for _, command in cursor.fetchall()):
                    return time.monotonic()
                time.sleep(0.002)
        raise TimeoutError(f"no replica of user {self.user} came within {timeout_s:.0f} s")

    def _threads(self) -> list[tuple[int, str]]:
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute(_PROCESSES, (self.user,))
            return [(int(number), str(command)) for number, command in cursor.fetchall()]


_PROCESSES = "SELECT id, command FROM information_schema.processlist WHERE user = %s"


def position(database: Database) -> tuple[str, int, str]:
    """File, offset and GTIDs at the end of the server's binlog."""
    if database.kind == "mariadb":
        ((file, pos, *_),) = database.execute("SHOW MASTER STATUS")
        ((gtid,),) = database.execute("SELECT @@gtid_binlog_pos")
    else:
        statement = "SHOW MASTER STATUS" if database.version < (8, 2) else "SHOW BINARY LOG STATUS"
        ((file, pos, *_),) = database.execute(statement)
        ((gtid,),) = database.execute("SELECT @@global.gtid_executed")
    return str(file), int(pos), str(gtid).replace("\n", "")
