"""``pull``: server to change log with index, against the server's own program for copies.

Two figures, runs of both sides in turn: ``pull`` writes to the temporary folder's disk,
``pull_memory_disk`` to memory, where only the work counts. Both sides speak TCP without TLS. Ours
also checks each event's CRC, counts rows into an index, and syncs the log to the disk before its
clock stops; the peer writes the bytes and syncs nothing.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from bench import gate, load
from bench.figures import Figure
from bench.ground import Ground, ground
from bench.settings import Settings
from cdc.base.clock import SystemClock
from cdc.changelog.settings import ChangelogSettings
from cdc.changelog.writer import LogWriter
from cdc.coord.messages import UpstreamInfo
from cdc.source.position import UpstreamPosition
from cdc.source.puller import Puller
from cdc.source.registration import register
from cdc.source.settings import SourceSettings
from tests.servers import process
from tests.servers.database import Database

_CLOCK = SystemClock()
_LIMIT_S = 120.0
_MEMORY = Path("/dev/shm")


def pull(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """MB/s of binlog, connection included on both sides; ours is durable at the end."""
    # The peer would get the statements' text as well, which neither replica nor we ask for.
    options = [] if settings.server.startswith("mysql") else ["--binlog-annotate-row-events=OFF"]
    with ground(settings.server, options) as place:
        database = place.database
        database.execute("FLUSH BINARY LOGS")
        file, _, _ = gate.position(database)
        load.run(database, load.bulk(settings.rows or 1_000_000))
        size = sum(p.stat().st_size for p in database.binlogs() if p.name >= file) / 1e6
        # Kernels are loaded and modules imported before the clock runs, as in a running capture.
        _ours(place, file, None)
        places = {"pull": None} | ({"pull_memory_disk": _MEMORY} if _MEMORY.is_dir() else {})
        found: dict[str, dict[str, list[float]]] = {n: {"tool": [], "ours": []} for n in places}
        for _ in range(settings.runs):
            for name, parent in places.items():
                tool, ours = size / _tool(database, file, parent), size / _ours(place, file, parent)
                found[name]["tool"].append(tool)
                found[name]["ours"].append(ours)
                print(f"{name}: {ours:,.0f} MB/s, tool {tool:,.0f} MB/s")
        peer = f"{'mariadb-binlog' if database.kind == 'mariadb' else 'mysqlbinlog'} --raw"
        figures = []
        for name, runs in found.items():
            mine, theirs = statistics.median(runs["ours"]), statistics.median(runs["tool"])
            figures.append(Figure.more(name, mine, "MB/s", peer, theirs))
        return figures, dict(found)


@contextmanager
def _folder(parent: Path | None) -> Iterator[Path]:
    """A new folder on the disk or, below ``parent``, in memory; removed at the end."""
    if parent is None:
        folder, _ = process.data_folder(None, "pull")
    else:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-pull-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tool(database: Database, file: str, parent: Path | None) -> float:
    with _folder(parent) as folder:
        command = [
            *database.tool("mysqlbinlog"),
            *("--raw", "--read-from-remote-server", "--to-last-log", "--user=root"),
            *("--host=127.0.0.1", f"--port={database.port}", "--protocol=tcp"),
            "--skip-ssl" if database.kind == "mariadb" else "--ssl-mode=DISABLED",
            *(f"--result-file={folder}/", file),
        ]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        return time.monotonic() - began


def _ours(place: Ground, file: str, parent: Path | None) -> float:
    with _folder(parent) as folder:
        return _pull(place.database, folder, file)


def _end_dumps(database: Database) -> None:
    """The server holds a replica up for 0.1 s while it ends a dump of the same one before it."""
    end = time.monotonic() + _LIMIT_S
    while dumps := database.execute(
        "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    ):
        if time.monotonic() > end:
            raise RuntimeError("a dump thread does not end")
        for (number,) in dumps:
            with suppress(pymysql.err.OperationalError):
                database.execute(f"KILL {number}")
        time.sleep(0.01)


def _pull(database: Database, folder: Path, file: str) -> float:
    settings = SourceSettings()
    start = f"{file}:4"
    asked = UpstreamInfo(name="u", uri=database.uri(), ca=None)
    end_file, end_offset, gtid = gate.position(database)
    end = UpstreamPosition(end_file, end_offset, gtid or None)
    failed: list[BaseException] = []
    stop = threading.Event()
    with LogWriter.open(folder, ChangelogSettings(), _CLOCK) as writer:
        info = register(asked, writer, settings, _CLOCK, start)
        puller = Puller(info, writer, settings, _CLOCK, lambda _status: None)

        def run() -> None:
            try:
                puller.run(stop)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        _end_dumps(database)
        began = time.monotonic()
        thread.start()
        try:
            while not _covers(writer, end, info.server_kind):
                if failed or time.monotonic() - began > _LIMIT_S:
                    raise RuntimeError(f"pulling: {failed or 'too slow'}")
                time.sleep(0.002)
            return time.monotonic() - began
        finally:
            stop.set()
            thread.join()


def _covers(writer: LogWriter, end: UpstreamPosition, kind: str) -> bool:
    return UpstreamPosition.from_dict(writer.state.position).covers(end, kind)
