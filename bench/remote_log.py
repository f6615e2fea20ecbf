"""``remote_log``: a worker that reads a log from the capture, beside one that maps its files.

Both plan all runs and check the CRC of every event, as a window does. The endpoint is a process of
its own, on this machine: what a network adds is not in it. The copy is empty before each run.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.settings import Settings
from cdc.base.position import END, START
from cdc.changelog.reader import ChangeLog
from cdc.changelog.remote.access import LogAccess
from tests.changelog.logs import dml, open_log
from tests.changelog.serving import mirrored, serving
from tests.servers import tls

_ROWS = 2_000_000
_AT_ONCE = 400
# About what a row of kafka_bulk takes in the log.
_ROW_BYTES = 226
LEAST = 200.0


def remote_log(settings: Settings) -> tuple[list[Figure], dict[str, Any]]:
    """MB of the log per second, by plain HTTP and by TLS."""
    rates: dict[str, list[float]] = {"local": [], "http": [], "tls": [], "cached": []}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TIDEGATE_TMP")) as name:
        folder, cache = Path(name) / "log/bench/0", Path(name) / "cache"
        folder.mkdir(parents=True)
        _fill(folder, settings.rows or _ROWS)
        made = tls.make(Path(name) / "tls")
        with _served(folder, None) as plain, _served(folder, made) as secure:
            sides: dict[str, Callable[[], ChangeLog]] = {
                "local": lambda: ChangeLog.open(folder),
                "tls": lambda: mirrored(secure, folder, cache),
                "http": lambda: mirrored(plain, folder, cache),
                "cached": lambda: mirrored(plain, folder, cache),
            }
            _read(sides["local"])
            for _ in range(settings.runs):
                for side, opened in sides.items():
                    if side != "cached":
                        shutil.rmtree(cache, ignore_errors=True)
                    rates[side].append(_read(opened))
                    print(f"remote_log {side}: {rates[side][-1]:,.0f} MB/s")
    middle = {side: statistics.median(found) for side, found in rates.items()}
    local = middle["local"]
    figures = [
        Figure.more("remote_log", middle["http"], "MB/s", "local", local),
        Figure.more("remote_log_least", middle["http"], "MB/s", "target", LEAST),
        Figure.more("remote_log_tls", middle["tls"], "MB/s", "local", local),
        Figure.more("remote_log_cached", middle["cached"], "MB/s", "local", local),
    ]
    return figures, {"remote_log": {"mb_per_s": rates}}


def _fill(folder: Path, rows: int) -> None:
    with open_log(folder, segment_bytes=128 << 20) as writer:
        for ts in range(1, rows // _AT_ONCE + 1):
            dml(writer, ts, [(0, _AT_ONCE)], tag=b"x" * (_ROW_BYTES * _AT_ONCE))
            if ts % 100 == 0:
                writer.commit(ts, {})
        writer.commit(rows // _AT_ONCE, {})


def _read(opened: Callable[[], ChangeLog]) -> float:
    began = time.perf_counter()
    with closing(opened()) as log:
        runs = log.runs(START, END)
        log.verify(runs)
    return float(runs.length.sum() / 1e6 / (time.perf_counter() - began))


@contextmanager
def _served(folder: Path, certificates: tls.Tls | None) -> Iterator[LogAccess]:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(folder, certificates, theirs), daemon=True)
    server.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        server.join()


def _serve(folder: Path, certificates: tls.Tls | None, pipe: Connection) -> None:
    with serving(folder.parents[1], certificates) as endpoint:
        pipe.send(endpoint.access(folder))
        pipe.recv()
