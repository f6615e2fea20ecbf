"""Files that are served, and stock replicas that follow them."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path
from typing import Any

import pymysql
from pydantic import SecretStr

from sink.binlog.serve.login import ReplicaAccess
from sink.binlog.serve.server import BinlogServer
from tests.servers import Database
from tests.servers.tls import Tls
from tests.waiting import until

SECRET = "knows'it"


class Served:
    """A folder that files come into, one after the other, and its server."""

    def __init__(self, made: list[Path], folder: Path, tls: Tls | None) -> None:
        self.made, self.folder, self.tls = made, folder, tls
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.server_cert, tls.server_key)
        self.access = ReplicaAccess("repl", SecretStr(SECRET), context)
        folder.mkdir()
        self.server = self._new(0)

    def _new(self, port: int) -> BinlogServer:
        server = BinlogServer(self.folder, "binlog", self.access, 4711, port=port)
        server.start()
        return server

    def give(self, number: int) -> None:
        """Put so many more files there."""
        for file in self.made[:number]:
            hidden = self.folder / f".{file.name}"
            shutil.copyfile(file, hidden)
            hidden.rename(self.folder / file.name)
        del self.made[:number]

    def restart(self) -> None:
        """End the server, and start another at its port."""
        port = self.server.port
        self.server.close()
        self.server = self._new(port)


class ServedInPlace:
    """A folder that a changefeed writes, and its server; not by TLS."""

    tls: Tls | None = None

    def __init__(self, folder: Path) -> None:
        access = ReplicaAccess("repl", SecretStr(SECRET), None)
        self.server = BinlogServer(folder, "binlog", access, 4711, port=0)
        self.server.start()


def follow(replica: Database, port: int, first: str | None, tls: Tls | None = None) -> None:
    """Have a stock server follow what is served at a port, from a file on or by GTIDs (None)."""
    mariadb = replica.kind == "mariadb"
    word = "MASTER" if mariadb else "SOURCE"
    said = {f"{word}_HOST": "'127.0.0.1'", f"{word}_PORT": port, f"{word}_USER": "'repl'",
            f"{word}_PASSWORD": "'knows''it'", f"{word}_CONNECT_RETRY": 1,
            f"{word}_HEARTBEAT_PERIOD": 1}  # fmt: skip
    if tls is not None:
        said |= {f"{word}_SSL": 1, f"{word}_SSL_CA": f"'{tls.ca}'"}
        said |= {f"{word}_SSL_VERIFY_SERVER_CERT": 1}
    else:
        said |= {f"{word}_SSL": 0, f"{word}_SSL_VERIFY_SERVER_CERT": 0}
    if first is not None:
        said |= {f"{word}_LOG_FILE": f"'{first}'", f"{word}_LOG_POS": 4}
        said |= {"MASTER_USE_GTID": "no"} if mariadb else {"SOURCE_AUTO_POSITION": 0}
    else:
        said |= {"MASTER_USE_GTID": "slave_pos"} if mariadb else {"SOURCE_AUTO_POSITION": 1}
    change = "CHANGE MASTER TO " if mariadb else "CHANGE REPLICATION SOURCE TO "
    told = ", ".join(f"{name}={value}" for name, value in said.items())
    replica.execute(change + told, "START SLAVE" if mariadb else "START REPLICA")


def status_of(replica: Database) -> dict[str, Any]:
    with replica.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW SLAVE STATUS" if replica.kind == "mariadb" else "SHOW REPLICA STATUS")
        found: dict[str, Any] = cursor.fetchone()
        return found


def at_the_end(replica: Database, served: Served | ServedInPlace) -> None:
    """Wait until it has applied all that is there."""
    last = served.server.files()[-1]

    def there() -> bool:
        status = status_of(replica)
        errors = {k: v for k, v in status.items() if k.endswith("_Error") and v}
        fatal = {k: v for k, v in errors.items() if "retr" not in v.lower()}
        assert not fatal, fatal
        name = status.get("Relay_Master_Log_File") or status.get("Relay_Source_Log_File")
        at = status.get("Exec_Master_Log_Pos") or status.get("Exec_Source_Log_Pos")
        # One that ends with ROTATE has brought it to the begin of the next.
        ended = f"{last.stem}.{int(last.suffix[1:]) + 1:06d}", 4
        return (name, int(at or 0)) in ((last.name, last.stat().st_size), ended)

    try:
        until(there, f"{last.name} is applied", 60)
    except AssertionError as e:
        raise AssertionError(f"{e}: {status_of(replica)}") from None
