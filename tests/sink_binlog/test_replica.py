"""Stock replicas follow the files: by GTID and by place, over restarts, while files grow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from sink.binlog.serve.server import BinlogServer
from tests import servers
from tests.consumer.same import facts
from tests.e2e.capture_process import until
from tests.servers import Database
from tests.sink_binlog.replay import deliver, files_of
from tests.sink_binlog.written import RULES, SCHEMA, Written

pytestmark = pytest.mark.real

_SECRET = "knows'it"


class Served:
    """A folder that files come into, one after the other, and its server."""

    def __init__(self, made: list[Path], folder: Path) -> None:
        self.made, self.folder = made, folder
        folder.mkdir()
        self.server = self._new(0)

    def _new(self, port: int) -> BinlogServer:
        server = BinlogServer(self.folder, "binlog", "repl", SecretStr(_SECRET), 4711, port=port)
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


@pytest.fixture(params=["mariadb", "mysql"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    """Return a log of a server."""
    return Written(request.getfixturevalue(request.param), tmp_path / "log")


@pytest.fixture
def served(written: Written, tmp_path: Path) -> Iterator[Served]:
    """Return its files."""
    uri = f"binlog://{tmp_path / 'out'}?file-size=65536"
    deliver(written.folder, uri, RULES, written.start_ts)
    made = Served(files_of(tmp_path / "out"), tmp_path / "served")
    made.give(4)
    yield made
    made.server.close()


@pytest.fixture
def replica(written: Written) -> Iterator[Database]:
    """Return another server of the same version, with nothing in it."""
    with ExitStack() as stack:
        options = [
            "--server-id=77",
            "--skip-log-bin" if written.db.kind == "mariadb" else "--log-bin=x",
        ]
        yield stack.enter_context(servers.database(written.db.name, options=options))


def _follow(replica: Database, port: int, first: str | None) -> None:
    mariadb = replica.kind == "mariadb"
    word = "MASTER" if mariadb else "SOURCE"
    said = {f"{word}_HOST": "'127.0.0.1'", f"{word}_PORT": port, f"{word}_USER": "'repl'",
            f"{word}_PASSWORD": "'knows''it'", f"{word}_CONNECT_RETRY": 1,
            f"{word}_HEARTBEAT_PERIOD": 1}  # fmt: skip
    if mariadb:
        said |= {"MASTER_SSL": 0, "MASTER_SSL_VERIFY_SERVER_CERT": 0}
    if first is not None:
        said |= {f"{word}_LOG_FILE": f"'{first}'", f"{word}_LOG_POS": 4}
        said |= {"MASTER_USE_GTID": "no"} if mariadb else {"SOURCE_AUTO_POSITION": 0}
    else:
        said |= {"MASTER_USE_GTID": "slave_pos"} if mariadb else {"SOURCE_AUTO_POSITION": 1}
    change = "CHANGE MASTER TO " if mariadb else "CHANGE REPLICATION SOURCE TO "
    told = ", ".join(f"{name}={value}" for name, value in said.items())
    replica.execute(change + told, "START SLAVE" if mariadb else "START REPLICA")


def _status(replica: Database) -> dict[str, Any]:
    with replica.connect() as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW SLAVE STATUS" if replica.kind == "mariadb" else "SHOW REPLICA STATUS")
        found: dict[str, Any] = cursor.fetchone()
        return found


def _at(replica: Database, served: Served) -> None:
    """Wait until it has applied all that is there."""
    last = served.server.files()[-1]

    def there() -> bool:
        status = _status(replica)
        errors = {k: v for k, v in status.items() if k.endswith("_Error") and v}
        fatal = {k: v for k, v in errors.items() if "retr" not in v.lower()}
        assert not fatal, fatal
        name = status.get("Relay_Master_Log_File") or status.get("Relay_Source_Log_File")
        at = status.get("Exec_Master_Log_Pos") or status.get("Exec_Source_Log_Pos")
        # One that ends with ROTATE has brought it to the begin of the next.
        ended = f"{last.stem}.{int(last.suffix[1:]) + 1:06d}", 4
        return (name, int(at or 0)) in ((last.name, last.stat().st_size), ended)

    try:
        until(there, f"{last.name} is applied", 30)
    except AssertionError as e:
        raise AssertionError(f"{e}: {_status(replica)}") from None


def _visible(found: dict[str, Any]) -> dict[str, Any]:
    kept = {what: rows for what, rows in found.items() if what != "rows of hidden"}
    return {w: [r for r in rows if r[:1] != ("hidden",)] for w, rows in kept.items()}


@pytest.mark.parametrize("by", ["gtid", "place"])
def test_a_stock_replica_follows(
    written: Written, served: Served, replica: Database, by: str
) -> None:
    first = served.server.files()[0].name if by == "place" else None
    _follow(replica, served.server.port, first)
    _at(replica, served)
    served.give(3)
    _at(replica, served)
    served.restart()
    served.give(len(served.made) - 1)
    replica.execute("STOP SLAVE" if replica.kind == "mariadb" else "STOP REPLICA")
    replica.execute("START SLAVE" if replica.kind == "mariadb" else "START REPLICA")
    served.give(1)
    _at(replica, served)
    assert _visible(facts(replica, SCHEMA)) == _visible(written.facts)
