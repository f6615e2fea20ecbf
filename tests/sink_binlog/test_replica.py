"""Stock replicas follow the files: by GTID and by place, over restarts, while files grow."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from sink.binlog.serve.login import ReplicaAccess
from sink.binlog.serve.server import BinlogServer
from tests import servers
from tests.consumer.same import facts
from tests.e2e.capture_process import until
from tests.servers import Database
from tests.servers.tls import Tls
from tests.servers.tls import make as make_tls
from tests.sink_binlog.replay import deliver, files_of
from tests.sink_binlog.written import RULES, SCHEMA, Written

pytestmark = pytest.mark.real

_SECRET = "knows'it"

Databases = Callable[..., Database]


class Served:
    """A folder that files come into, one after the other, and its server."""

    def __init__(self, made: list[Path], folder: Path, tls: Tls | None) -> None:
        self.made, self.folder, self.tls = made, folder, tls
        context = None
        if tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(tls.server_cert, tls.server_key)
        self.access = ReplicaAccess("repl", SecretStr(_SECRET), context)
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


@pytest.fixture
def written(request: pytest.FixtureRequest, tmp_path: Path, database: Databases) -> Written:
    """Return a log of the server that is the test's parameter."""
    return Written(database(request.param), tmp_path / "log")


@pytest.fixture
def tls() -> bool:
    """Return whether the files are served by TLS."""
    return False


@pytest.fixture
def served(written: Written, tls: bool, tmp_path: Path) -> Iterator[Served]:
    """Return its files."""
    uri = f"binlog://{tmp_path / 'out'}?file-size=65536"
    deliver(written.folder, uri, RULES, written.start_ts)
    files = make_tls(tmp_path / "tls") if tls else None
    made = Served(files_of(tmp_path / "out"), tmp_path / "served", files)
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


def _follow(replica: Database, served: Served, first: str | None) -> None:
    port, tls = served.server.port, served.tls
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


@pytest.mark.parametrize(
    ("written", "by", "tls"),
    [
        ("mariadb-11.4", "gtid", False),
        ("mariadb-11.8", "place", True),
        ("mysql-8.0", "gtid", False),
        ("mysql-8.0", "place", True),
        ("mysql-9.7", "gtid", True),
        # By the password alone: no key is asked for.
        ("mysql-9.7", "place", False),
    ],
    indirect=["written"],
)
def test_a_stock_replica_follows(
    written: Written, served: Served, replica: Database, by: str
) -> None:
    first = served.server.files()[0].name if by == "place" else None
    _follow(replica, served, first)
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


@pytest.mark.parametrize("written", ["mariadb-11.4", "mysql-8.0", "mysql-9.7"], indirect=True)
def test_the_servers_own_program_copies_the_files(
    written: Written, served: Served, tmp_path: Path
) -> None:
    """``mysqlbinlog --read-from-remote-server --raw``, byte by byte."""
    served.give(len(served.made))
    files = served.server.files()
    (tmp_path / "copied").mkdir()
    subprocess.run(
        [*written.db.tool("mysqlbinlog"), "--host=127.0.0.1", f"--port={served.server.port}",
         "--user=repl", f"--password={_SECRET}", "--read-from-remote-server", "--raw",
         "--to-last-log", f"--result-file={tmp_path / 'copied'}/", files[0].name],
        check=True, timeout=60,
    )  # fmt: skip
    copied = sorted((tmp_path / "copied").iterdir())
    assert [f.name for f in copied] == [f.name for f in files]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(copied, files, strict=True))
