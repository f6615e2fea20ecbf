"""A running server whose disk is full, which was stopped for long, whose store is not readable."""

from __future__ import annotations

import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.api.server_process import CdcServer
from tests.server.without_spark import STARTED
from tests.servers.database import Database
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.slow]

_SETTINGS = """
capture-session-ttl = 5.0
[changelog]
free-space-reserve-bytes = 0
[source]
heartbeat-s = 0.2
backoff-max-s = 0.5
[owner]
error-backoff-first = 0.5
error-backoff-max = 1.0
"""
_TTL_S = 5.0
_SCHEMA = "trouble"


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, mariadb: Database, mysql: Database
) -> Iterator[CdcServer]:
    """A server with the changefeed ``good``; beside it one that a newer version has written."""
    folder = tmp_path_factory.mktemp("trouble")
    (folder / "server.toml").write_text(_SETTINGS)
    flags = ("--config", str(folder / "server.toml"))
    made = CdcServer(folder / "data", *flags, module="tests.server.without_spark")
    for database in (mariadb, mysql):
        database.execute(
            f"DROP DATABASE IF EXISTS {_SCHEMA}",
            f"CREATE DATABASE {_SCHEMA}",
            f"CREATE TABLE {_SCHEMA}.t (id INT PRIMARY KEY)",
        )
    started = folder / "started"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(STARTED, str(started))
        yield from _running(made, started, mariadb, mysql)


def _running(
    made: CdcServer, started: Path, mariadb: Database, mysql: Database
) -> Iterator[CdcServer]:
    folder = started.parent
    try:
        made.start(ready=False)
        _starting(made)
        started.touch()
        until(lambda: made.api("GET", "/ready").is_success, "ready", 120)
        made.cli_json("upstream", "create", "-u", "main", "--uri", mariadb.uri())
        config = folder / "good.toml"
        config.write_text(f"filter.rules = ['{_SCHEMA}.*']")
        sink = f"{mysql.uri()}/"
        words = ("changefeed", "create", "-c", "good", "-u", "main", "--sink-uri", sink)
        made.cli_json(*words, "--config", str(config))
        made.stop()
        _write_garbage(made.data_dir)
        yield made.start()
    finally:
        made.end()


def _starting(server: CdcServer) -> None:
    """While Spark starts the server is neither ready nor well, and says why."""
    for path in ("/health", "/ready"):
        answer = server.api("GET", path)
        assert answer.status_code == 503, answer.text
        assert answer.json()["error_code"] == "TG:ErrCaptureNotReady"


def _write_garbage(data_dir: Path) -> None:
    root = "/tidegate/cdc/default/default"
    newer = b'{"id": "newer", "upstream": "main", "sink_uri": "x", "start_ts": 1, "format": 2}'
    values = {f"{root}/changefeed/info/newer": newer, f"{root}/upstream/info/newer": b"garbage"}
    with closing(sqlite3.connect(data_dir / "store" / "meta.db")) as db, db:
        for key, value in values.items():
            db.execute("INSERT INTO kv VALUES (?, ?, 1, 1, 0)", (key, value))


@pytest.fixture
def delivered(mariadb: Database, mysql: Database) -> Callable[[int], None]:
    """Return a function that writes a row and waits until the target has it."""

    def check(key: int) -> None:
        mariadb.execute(f"INSERT INTO {_SCHEMA}.t VALUES ({key})")
        query = f"SELECT 1 FROM {_SCHEMA}.t WHERE id = {key}"
        until(lambda: mysql.execute(query), f"row {key} is delivered", 60)

    return check


def _feed(server: CdcServer) -> Any:
    return server.api("GET", "/changefeeds/good").json()


def test_what_cannot_be_read_is_shown_and_stops_nobody(
    server: CdcServer, delivered: Callable[[int], None]
) -> None:
    delivered(1)
    for path in ("/changefeeds", "/upstreams"):
        items = server.api("GET", path).json()["items"]
        (newer,) = (i for i in items if "newer" in (i.get("id"), i.get("name")))
        assert newer["error"]["code"] == "TG:ErrStoredValueUnreadable", newer
        assert len(items) == 2
    one = server.api("GET", "/changefeeds/newer")
    assert one.json()["error_code"] == "TG:ErrStoredValueUnreadable"
    assert server.api("GET", "/health").is_success
    assert "newer" in server.cli("changefeed", "list").stdout


def test_a_disk_that_is_full_stops_nothing_for_good(
    server: CdcServer, delivered: Callable[[int], None], mariadb: Database, mysql: Database
) -> None:
    assert server.process is not None
    one = psutil.Process(server.process.pid)
    unlimited = one.rlimit(resource.RLIMIT_FSIZE)
    # Each write to a file beyond this fails in this process, as if the disk were full.
    one.rlimit(resource.RLIMIT_FSIZE, (1024, unlimited[1]))
    try:
        mariadb.execute(f"INSERT INTO {_SCHEMA}.t VALUES (2)")
        sick = until(lambda: _unwell(server), "its parts say so", 30)
        assert sick["error_code"] == "TG:ErrCaptureUnhealthy"
        assert "puller main" in sick["error_msg"], sick
        assert not server.api("GET", "/ready").is_success
        assert server.metrics()['tidegate_part_up{part="puller main"}'] == 0
    finally:
        one.rlimit(resource.RLIMIT_FSIZE, unlimited)
    delivered(3)
    rows = f"SELECT id FROM {_SCHEMA}.t ORDER BY id"
    assert mysql.execute(rows) == mariadb.execute(rows)
    until(lambda: server.api("GET", "/health").is_success, "it is well again", 30)
    until(lambda: _feed(server)["state"] == "normal", "its changefeed too", 30)


def _unwell(server: CdcServer) -> Any:
    answer = server.api("GET", "/health")
    return None if answer.is_success else answer.json()


def test_a_stop_beyond_the_lease_ends_nothing(
    server: CdcServer, delivered: Callable[[int], None]
) -> None:
    assert server.process is not None
    before = server.api("GET", "/status").json()
    server.process.send_signal(signal.SIGSTOP)
    # The time itself is what is tested.
    time.sleep(1.5 * _TTL_S)
    server.process.send_signal(signal.SIGCONT)
    delivered(4)
    assert server.api("GET", "/status").json() == before
    assert server.api("GET", "/health").is_success
    assert server.process.poll() is None
