"""Stock replicas follow the files: by GTID and by place, over restarts, while files grow."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.consumer.same import facts
from tests.servers import Database
from tests.servers.tls import make as make_tls
from tests.sink_binlog.following import SECRET, Served, at_the_end, follow
from tests.sink_binlog.replay import deliver, files_of
from tests.sink_binlog.written import RULES, SCHEMA, Written

pytestmark = pytest.mark.real

Databases = Callable[..., Database]


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
    follow(replica, served.server.port, first, served.tls)
    at_the_end(replica, served)
    served.give(3)
    at_the_end(replica, served)
    served.restart()
    served.give(len(served.made) - 1)
    replica.execute("STOP SLAVE" if replica.kind == "mariadb" else "STOP REPLICA")
    replica.execute("START SLAVE" if replica.kind == "mariadb" else "START REPLICA")
    served.give(1)
    at_the_end(replica, served)
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
         "--user=repl", f"--password={SECRET}", "--read-from-remote-server", "--raw",
         "--to-last-log", f"--result-file={tmp_path / 'copied'}/", files[0].name],
        check=True, timeout=60,
    )  # fmt: skip
    copied = sorted((tmp_path / "copied").iterdir())
    assert [f.name for f in copied] == [f.name for f in files]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(copied, files, strict=True))
