"""Faults around pulling: our process killed, the server crashed, another replica with our id."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc.changelog.reader import ChangeLog
from cdc.changelog.settings import ChangelogSettings
from cdc.source.connection import open_connection
from cdc.source.position import UpstreamPosition
from cdc.source.snapshot import current_position
from cdc.source.stream import BinlogStream, open_stream
from tests.servers import database as started
from tests.servers.database import Database
from tests.servers.proxy import Proxy
from tests.source.pulling import Pulled, file_events
from tests.waiting import PATIENCE

FAMILIES = ["mysql-8.0", "mariadb-11.4"]
T = "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)"


def _wanted(db: Database, p: Pulled) -> list[bytes]:
    files = [f for f in db.binlogs() if f.name >= p.info.start["file"]]
    return [e for f in files for e in file_events(f, p.info.start["pos"] * (f == files[0]))]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_killed_while_pulling_the_log_is_the_same(name: str, tmp_path: Path) -> None:
    with started(name) as db:
        db.execute("CREATE DATABASE d", T)
        p = Pulled(db, tmp_path / "log")
        (tmp_path / "info.json").write_text(p.info.model_dump_json())
        rows = 0
        for round_ in range(3):
            child = subprocess.Popen(
                [sys.executable, "-m", "tests.source.pull_child", str(tmp_path)],
            )
            before = _resolved(tmp_path / "log")
            deadline = time.monotonic() + 40 * PATIENCE
            try:
                while _resolved(tmp_path / "log") < before + (200 << 18):
                    assert child.poll() is None
                    assert time.monotonic() < deadline
                    rows += 50
                    db.execute(
                        "BEGIN",
                        *(
                            f"INSERT INTO d.t VALUES ({rows - i}, REPEAT('r', {1000 * (i % 7)}))"
                            for i in range(50)
                        ),
                        "COMMIT",
                    )
                time.sleep(0.007 * round_)
            finally:
                child.send_signal(signal.SIGKILL)
                child.wait()
        with p:
            p.caught_up()
            assert p.rows() == rows
            assert p.events() == _wanted(db, p)


def _resolved(folder: Path) -> int:
    log = ChangeLog.open(folder)
    try:
        return log.refresh().resolved_ts
    finally:
        log.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_another_replica_with_our_id(name: str, tmp_path: Path) -> None:
    with started(name) as db:
        db.execute("CREATE DATABASE d", T)
        with Pulled(db, tmp_path / "log", heartbeat_s=0.3) as p:
            db.execute("INSERT INTO d.t VALUES (1, '')")
            p.caught_up()
            with db.connect() as connection:
                here = current_position(connection, p.info.server_kind)
            other = _same_id(p, here)
            try:
                p.until(
                    lambda: any(
                        s.error and s.error.code == "TG:ErrServerIdTaken" for s in p.statuses
                    )
                )
                db.execute("INSERT INTO d.t VALUES (2, '')")
                p.caught_up()
                assert p.rows() == 2
                p.until(lambda: p.statuses[-1].state == "running")
                # Under its new id the puller leaves the other one alone.
                assert other.readable(5)
                other.read_into(memoryview(bytearray(1 << 16)))
            finally:
                other.close()


def _same_id(p: Pulled, here: UpstreamPosition) -> BinlogStream:
    connection = open_connection(p.info, p.settings)
    return open_stream(connection, p.info, here, p.settings, attempt=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_transaction_open_at_heartbeats(name: str, tmp_path: Path) -> None:
    with started(name) as db:
        db.execute("CREATE DATABASE d", T)
        with Pulled(db, tmp_path / "log", heartbeat_s=0.1) as p, db.connect() as connection:
            cursor = connection.cursor()
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO d.t VALUES (1, REPEAT('o', 100000))")
            p.caught_up()
            first = p.writer.state.resolved_ts
            p.until(lambda: p.writer.state.resolved_ts > first + (1500 << 18))
            cursor.execute("COMMIT")
            p.caught_up()
            log, runs = p.runs()
            (ts,) = set(runs.commit_ts[runs.kind == 1].tolist())
            # Resolved did not pass it while it was open, though it began long before.
            assert ts > first + (1500 << 18)
            log.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_transaction_that_stalls_on_its_way(name: str, tmp_path: Path) -> None:
    """Half of a transaction's bytes: nothing resolves, whatever time passes."""
    with started(name, options=["--max-allowed-packet=64M"]) as db:
        db.execute("CREATE DATABASE d", T)
        with Proxy(db.port) as proxy:
            uri = db.uri().replace(f":{db.port}", f":{proxy.port}") + "?ssl-mode=disabled"
            with Pulled(db, tmp_path / "log", uri=uri, heartbeat_s=0.1, silence_s=8) as p:
                db.execute("INSERT INTO d.t VALUES (0, '')")
                p.caught_up()
                proxy.stop_after(3_000_000)
                many = (f"INSERT INTO d.t VALUES ({i}, REPEAT('s', 500000))" for i in range(1, 20))
                db.execute("BEGIN", *many, "COMMIT")
                p.until(lambda: proxy.stalled)
                time.sleep(0.5)
                held = p.writer.state.resolved_ts
                time.sleep(2)
                assert p.writer.state.resolved_ts == held
                assert p.rows() == 1
                proxy.go_on()
                p.caught_up()
                assert p.rows() == 20
                log, runs = p.runs()
                assert int(runs.commit_ts[-1]) > held
                log.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_flipped_bit_is_pulled_again(
    name: str, database: Callable[..., Database], tmp_path: Path
) -> None:
    """On the way it heals; where the same event is damaged each time, it is the server's own."""
    db = database(name)
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T)
    with Proxy(db.port) as proxy:
        uri = db.uri().replace(f":{db.port}", f":{proxy.port}") + "?ssl-mode=disabled"
        with Pulled(db, tmp_path / "log", uri=uri, backoff_first_s=0.01) as p:
            db.execute("INSERT INTO d.t VALUES (1, 'before')")
            p.caught_up()
            proxy.flip(b"once-flipped", 1)
            db.execute("INSERT INTO d.t VALUES (2, 'once-flipped')")
            p.caught_up()
            assert p.rows() == 2
            seen = [s.error.code for s in p.statuses if s.error]
            assert seen == ["TG:ErrStreamBroken"]
            proxy.flip(b"ever-flipped", 1000)
            db.execute("INSERT INTO d.t VALUES (3, 'ever-flipped')")
            assert getattr(p.failed(), "code", "") == "TG:ErrEventChecksumBad"
            seen = [s.error.code for s in p.statuses if s.error]
            assert seen == ["TG:ErrStreamBroken"] * 3 + ["TG:ErrEventChecksumBad"]
            assert p.rows() == 2
            p.pause()
            proxy.flip(b"", 0)
            p.resume()
            p.caught_up()
            assert p.rows() == 3


def test_a_transaction_beyond_the_disk_budget_is_refused(
    database: Callable[..., Database], tmp_path: Path
) -> None:
    """It would never end: paused, dropped by the server after an hour, pulled again."""
    db = database("mysql-8.0")
    db.execute("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", T)
    log = {"disk_budget_bytes": 1_000_000, "segment_bytes": 100_000}
    with Proxy(db.port) as proxy:
        uri = db.uri().replace(f":{db.port}", f":{proxy.port}") + "?ssl-mode=disabled"
        with Pulled(db, tmp_path / "log", uri=uri, log=log) as p:
            db.execute("INSERT INTO d.t VALUES (0, '')")
            p.caught_up()
            proxy.stop_after(2_000_000)
            many = (f"INSERT INTO d.t VALUES ({i}, REPEAT('s', 500000))" for i in range(1, 8))
            db.execute("BEGIN", *many, "COMMIT")
            error = p.failed()
            assert getattr(error, "code", "") == "TG:ErrTransactionTooLarge"
            assert p.rows() == 1
            # With room for it, it is pulled as a whole.
            p.pause()
            proxy.go_on()
            p.log_settings = ChangelogSettings()
            p.resume()
            p.caught_up()
            assert p.rows() == 8
