"""Captures of one cluster: when the one that delivers is gone, another goes on.

With its disk or without: the log is made anew, and every row is delivered once all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from cdc.base.clock import SystemClock
from cdc.base.ts import compose
from sink.file.reader import messages, tables
from tests.e2e.beside import WritesBeside
from tests.e2e.capture_process import SETTINGS, CaptureProcess
from tests.seeds import drawn
from tests.servers import Database
from tests.servers.etcd import Etcd
from tests.waiting import until

pytestmark = pytest.mark.real
# As it comes: one of 5 s may end by itself where two cores start a second capture.
_TTL_S = 10


class Load(WritesBeside):
    """Writes rows, some of them in long statements or large transactions."""

    def __init__(self, server: Database, schema: str) -> None:
        super().__init__(server)
        self.changed = 0
        self._schema = schema

    def _write(self) -> None:
        many = 50 if self.written % 7 == 0 else 1
        values = ", ".join(f"({self.written + i}, 0)" for i in range(many))
        self._server.execute(f"INSERT INTO t VALUES {values}", database=self._schema)
        self.written += many
        if self.written % 5 == 0:
            # Its time in the binlog is when it began, long before it ends.
            self.changed += 1
            self._server.execute(
                f"UPDATE t SET v = {self.changed} WHERE id = 0 AND SLEEP(0.3) = 0",
                database=self._schema,
            )
        if self.written % 11 == 0:
            self._server.execute(
                f"CREATE TABLE IF NOT EXISTS u{self.written} (id INT PRIMARY KEY)",
                database=self._schema,
            )


def captures_of(etcd: Etcd, folder: Path, name: str) -> list[CaptureProcess]:
    settings = f'store = "{etcd.address}/{name}"\ncapture-session-ttl = {_TTL_S}\n{SETTINGS}'
    settings += "[changelog]\nanchor-s = 1.0\n"
    return [CaptureProcess(folder / str(i), settings=settings) for i in range(2)]


def delivered(root: Path) -> Counter[tuple[str, str]]:
    """How often each row with each value was delivered."""
    found: Counter[tuple[str, str]] = Counter()
    if not root.exists():
        return found
    for folder in tables(root):
        for message in messages(folder):
            row = json.loads(message)
            if not row["isDdl"]:
                found[row["data"][0]["id"], row["data"][0].get("v", "")] += 1
    return found


def _owner(captures: list[CaptureProcess]) -> CaptureProcess | None:
    for capture in captures:
        try:
            if capture.running and capture.api("GET", "/ready").status_code == 200:
                return capture
        except OSError:
            continue
        except Exception as e:  # an answer that was cut off is none
            if "httpx" not in type(e).__module__ and "httpcore" not in type(e).__module__:
                raise
    return None


@pytest.mark.parametrize("how", drawn(["disk", "frozen", "resigns"]))
def test_another_capture_goes_on(
    etcd: Etcd, mariadb: Database, schema_name: str, tmp_path: Path, how: str
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    mariadb.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema_name)
    root = tmp_path / "out"
    captures = captures_of(etcd, tmp_path, f"{how}-{schema_name}")
    first, second = captures
    load = Load(mariadb, schema_name)

    def goes_on(rows: int = 100) -> None:
        before = sum(delivered(root).values())
        until(lambda: sum(delivered(root).values()) > before + rows, f"{rows} rows more", 60)

    try:
        first.start()
        first.register("main", mariadb.uri())
        sink = f"file://{root}?protocol=canal-json&flush-interval=100ms"
        first.create("feed", "main", sink, [f"{schema_name}.*"])
        second.start()
        assert _owner(captures) is first
        # It is forwarded to the capture that has the log.
        assert second.api("GET", "/changefeeds/feed/synced").status_code == 200
        load.start()
        goes_on()
        if how == "frozen":
            os.kill(first.pid, signal.SIGSTOP)
        elif how == "disk":
            first.kill_with_its_disk()
        else:
            done = first.cli("owner", "resign")
            assert done.returncode == 0, done.stderr
        until(lambda: _owner([second]), "the other one is the owner")
        goes_on()
        if how == "disk":
            # And back again: the folder that it left has nothing.
            first.start()
            second.kill()
            until(lambda: _owner([first]), "the first one is the owner again")
            goes_on()
        elif how == "frozen":
            # What it thought it was to write must not be there, and it finds out by itself.
            os.kill(first.pid, signal.SIGCONT)
        if how != "disk":
            until(lambda: len(second.ask("GET", "/captures")["items"]) == 2, "it stands by")
            assert first.running
            goes_on()
        if how == "resigns":
            _drain(second)
            until(lambda: _owner([first]), "the first one is the owner again")
            goes_on()
        load.stop()
        (second if how == "frozen" else first).wait_checkpoint("feed")
    finally:
        load.stop()
        for capture in captures:
            capture.close()
    _check(root, load)


def _drain(owner: CaptureProcess) -> None:
    """It hands over, and stands by as one that is to own nothing."""
    unknown = owner.cli("capture", "drain", "nobody")
    assert "TG:ErrCaptureNotExist" in unknown.stderr
    before = owner.pid
    done = owner.cli("capture", "drain", owner.ask("GET", "/status")["id"])
    assert done.returncode == 0, done.stderr
    assert "tables to hand over" in done.stdout

    def stands_by() -> bool:
        try:
            found = owner.ask("GET", "/captures")["items"]
        except httpx.HTTPError:
            return False
        return sorted((c["is_owner"], c["is_drained"]) for c in found) == [
            (False, True),
            (True, False),
        ]

    until(stands_by, "it is drained, and the other one is the owner")
    assert owner.running
    assert owner.pid == before


def test_a_data_directory_of_before(mariadb: Database, schema_name: str, tmp_path: Path) -> None:
    """Restored from a copy that is older than what was delivered, store and log."""
    with _goes_on_complete(mariadb, schema_name, tmp_path) as capture:
        assert capture.interrupt() == 0
        # Spark's JVM removes files of its own there until it has ended, too.
        until(lambda: not capture.family(), "the JVM has ended")
        shutil.copytree(capture.data_dir, tmp_path / "copy")
        capture.start()
        _more_rows(tmp_path)
        capture.kill_with_its_disk()
        shutil.copytree(tmp_path / "copy", capture.data_dir)


def test_a_backup_of_a_running_server(mariadb: Database, schema_name: str, tmp_path: Path) -> None:
    """All is lost but a backup, which is older than what was delivered and than schema changes."""
    backup = tmp_path / "backup"
    with _goes_on_complete(mariadb, schema_name, tmp_path) as capture:
        _cdc("backup", "--data-dir", str(capture.data_dir), "--output", str(backup))
        mariadb.execute("CREATE TABLE later (id INT PRIMARY KEY)", database=schema_name)
        _more_rows(tmp_path)
        capture.kill_with_its_disk()
        _cdc("restore", str(backup), "--data-dir", str(capture.data_dir))


@contextmanager
def _goes_on_complete(db: Database, schema: str, folder: Path) -> Iterator[CaptureProcess]:
    """A capture that delivers under load, and is left ended; started again, it loses nothing."""
    db.execute(f"CREATE DATABASE {schema}")
    db.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", database=schema)
    root, capture = folder / "out", CaptureProcess(folder)
    load = Load(db, schema)
    try:
        capture.start()
        capture.register("main", db.uri())
        sink = f"file://{root}?protocol=canal-json&flush-interval=100ms"
        capture.create("feed", "main", sink, [f"{schema}.*"])
        load.start()
        until(lambda: sum(delivered(root).values()) > 100, "rows")
        yield capture
        capture.start()
        load.stop()
        end = compose(SystemClock().now_ms())
        # The server begins anew in between, with a new JVM.
        until(lambda: _has_delivered(capture, end), "the rest is delivered", 180)
    finally:
        load.stop()
        capture.close()
    _check(root, load)


def _more_rows(folder: Path) -> None:
    before = sum(delivered(folder / "out").values())
    until(lambda: sum(delivered(folder / "out").values()) > before + 300, "more rows")


def _cdc(*words: str) -> None:
    command = [sys.executable, "-m", "cdc.cli.entry", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _has_delivered(capture: CaptureProcess, ts: int) -> bool:
    # It begins anew where it finds that its log is an older copy, and does not answer meanwhile.
    with suppress(httpx.TransportError):
        answer = capture.api("GET", "/changefeeds/feed")
        return answer.is_success and answer.json()["checkpoint_ts"] >= ts
    return False


def _check(root: Path, load: Load) -> None:
    found = delivered(root)
    wanted = Counter((str(n), "0") for n in range(load.written))
    wanted.update(("0", str(n + 1)) for n in range(load.changed))
    assert found - wanted == Counter(), "delivered twice"
    assert wanted - found == Counter(), "lost"
