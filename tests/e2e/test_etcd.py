"""A capture whose decisions lie in etcd: killed, restarted, with members that die under it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sink.file.reader import messages, tables
from tests import servers
from tests.e2e.capture_process import SETTINGS, CaptureProcess
from tests.servers import Database
from tests.servers.etcd import Etcd
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with servers.etcd(count=3) as made:
        yield made


def _capture(folder: Path, address: str) -> CaptureProcess:
    return CaptureProcess(folder, settings=f'store = "{address}"\n{SETTINGS}')


def _delivered(root: Path) -> Counter[str]:
    """How often each key was delivered."""
    rows = (json.loads(m) for folder in tables(root) for m in messages(folder))
    return Counter(row["data"][0]["id"] for row in rows if not row["isDdl"])


def test_rows_are_delivered_once_whoever_dies(
    etcd: Etcd, mariadb: Database, schema_name: str, tmp_path: Path
) -> None:
    mariadb.execute(f"CREATE DATABASE {schema_name}")
    mariadb.execute("CREATE TABLE t (id INT PRIMARY KEY)", database=schema_name)
    root = tmp_path / "out"
    capture = _capture(tmp_path / "capture", f"{etcd.address}/here")
    stop = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not stop.wait(0.005):
            mariadb.execute(f"INSERT INTO t VALUES ({written})", database=schema_name)
            written += 1

    writer = threading.Thread(target=write)

    def goes_on() -> None:
        before = sum(_delivered(root).values()) if root.exists() else 0
        until(lambda: root.exists() and sum(_delivered(root).values()) > before + 50, "rows", 60)

    try:
        capture.start()
        capture.register("main", mariadb.uri())
        sink = f"file://{root}?protocol=canal-json&flush-interval=100ms"
        capture.create("feed", "main", sink, [f"{schema_name}.*"])
        writer.start()
        goes_on()
        leader = etcd.leader()
        leader.kill()
        goes_on()
        etcd.restart(leader)
        capture.kill()
        # Its session would last ten seconds; who works in its folder knows that it is dead.
        capture.start()
        goes_on()
        stop.set()
        writer.join()
        capture.wait_checkpoint("feed")
        assert not list((capture.data_dir / "store").glob("*")), "nothing of it lies here"
    finally:
        stop.set()
        writer.join() if writer.is_alive() else None
        capture.close()
    assert _delivered(root) == Counter(str(n) for n in range(written))


def test_an_address_that_is_none_is_refused_without_what_it_hides(
    etcd: Etcd, tmp_path: Path
) -> None:
    refused = _serve(tmp_path / "capture", f"{etcd.address}/other?tls=S3cret")
    assert refused.returncode == 1
    assert "TG:ErrStoreAddressInvalid" in refused.stderr
    assert "S3cret" not in refused.stderr


def _serve(folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cdc.cli.entry", "server", "--data-dir", str(folder)]
    command += ["--addr", "127.0.0.1:0", "--pd", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
