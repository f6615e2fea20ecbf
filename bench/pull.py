"""``pull``: server to change log with index, against the server's own program for copies."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

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
        found: dict[str, list[float]] = {"ours": [], "tool": []}
        for _ in range(settings.runs):
            found["tool"].append(size / _tool(database, file))
            found["ours"].append(size / _ours(place, file))
            print(f"pull: {found['ours'][-1]:,.0f} MB/s, tool {found['tool'][-1]:,.0f} MB/s")
        name = f"{'mariadb-binlog' if database.kind == 'mariadb' else 'mysqlbinlog'} --raw"
        mine, theirs = statistics.median(found["ours"]), statistics.median(found["tool"])
        return [Figure.more("pull", mine, "MB/s", name, theirs)], {"pull": found}


def _tool(database: Database, file: str) -> float:
    folder, _ = process.data_folder(None, "pull")
    try:
        command = [
            *database.tool("mysqlbinlog"),
            *("--raw", "--read-from-remote-server", "--to-last-log", "--user=root"),
            *(f"--socket={database.socket}", f"--result-file={folder}/", file),
        ]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        return time.monotonic() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ours(place: Ground, file: str) -> float:
    folder, _ = process.data_folder(None, "pull")
    try:
        return _pull(place.database, folder, file)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
