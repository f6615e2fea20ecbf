"""``binlog_serve``: binlog files served to a client by our server, and by the one that wrote them.

The client is one program, ``mysqlbinlog --raw --read-from-remote-server``, which writes what it
gets to memory; both servers have the files in the page cache. Runs are in turns, and what came is
compared with the files byte by byte. Two figures: rows of long transactions, whose events are some
8 KiB, and transactions of a single row, whose events are a tenth of that and less.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import load
from bench.figures import Figure
from bench.settings import Settings
from tests.servers import database
from tests.servers.database import Database

_MEMORY = Path("/dev/shm")
_USER, _PASSWORD = "replica", "for-the-bench"
_ROWS, _TRANSACTIONS = 1_000_000, 250_000


def binlog(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """MB/s of binlog that a client gets, connection included on both sides."""
    loads = {
        "binlog_serve": load.bulk(settings.rows or _ROWS),
        "binlog_serve_single": load.single(settings.rows or _TRANSACTIONS),
    }
    figures, runs = [], {}
    for name, statements in loads.items():
        with database(settings.server, options=["--max-allowed-packet=64M"]) as server:
            server.execute(*load.CREATE)
            load.run(server, statements)
            runs[name] = found = _measure(name, server, settings.runs)
        ours, theirs = (statistics.median(found[side]) for side in ("ours", "server"))
        figures.append(Figure.more(name, ours, "MB/s", settings.server, theirs))
    return figures, runs


def _measure(name: str, server: Database, runs: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"ours": [], "server": []}
    # The server marks the file that it writes to; ours are copies of those that have ended.
    server.execute("FLUSH BINARY LOGS")
    files = server.binlogs()[:-1]
    size = sum(file.stat().st_size for file in files) / 1e6
    with tempfile.TemporaryDirectory(prefix="tidegate-serve-", dir=_place()) as parent:
        folder = Path(parent) / "files"
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder / file.name)
        base = re.sub(r"\.\d+\Z", "", files[0].name)
        with _served(folder, base) as port:
            sides = {"ours": (port, _USER, _PASSWORD), "server": (server.port, "root", "")}
            for run in range(runs):
                for side in sorted(sides, reverse=bool(run % 2)):
                    spent = _copy(server, *sides[side], folder, Path(parent) / "copied")
                    found[side].append(size / spent)
                print(f"{name}: {found['ours'][-1]:,.0f} MB/s, server {found['server'][-1]:,.0f}")
    return found


@contextmanager
def _served(folder: Path, name: str) -> Iterator[int]:
    """Our server, a process of its own; gives its port."""
    secret = folder.parent / "secret"
    secret.write_text(_PASSWORD)
    command = [
        *(sys.executable, "-m", "sink.binlog.serve", str(folder), "--name", name),
        *("--server-id", "4711", "--user", _USER, "--password-file", str(secret)),
        *("--listen", "127.0.0.1:0"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline().rsplit(":", 1)[1])
        finally:
            process.terminate()


def _copy(
    database: Database, port: int, user: str, password: str, files: Path, into: Path
) -> float:
    """Seconds that the database's own program takes to copy all files."""
    into.mkdir()
    first = min(file.name for file in files.iterdir())
    command = [
        *database.tool("mysqlbinlog"),
        *("--raw", "--read-from-remote-server", "--to-last-log", f"--user={user}"),
        *(f"--password={password}", "--host=127.0.0.1", f"--port={port}", "--protocol=tcp"),
        "--skip-ssl" if database.kind == "mariadb" else "--ssl-mode=DISABLED",
        *(f"--result-file={into}/", first),
    ]
    try:
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        spent = time.monotonic() - began
        for file in files.iterdir():
            if not filecmp.cmp(file, into / file.name, shallow=False):
                raise RuntimeError(f"{file.name} came otherwise than it is")
        return spent
    finally:
        shutil.rmtree(into)


def _place() -> Path | None:
    return _MEMORY if _MEMORY.is_dir() else None
